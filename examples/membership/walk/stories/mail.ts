import { check, ms, signUp, until, type Scene, type Story } from "../scene.js";

export const mailRetries: Story = {
  title: "The mail server is down",
  async run(scene) {
    const { vendors, api, person } = scene;
    vendors.inbox.fail(451);
    const bob = person("Bob");
    const took = await signUp(bob);
    const id = await until(async () => {
      const { jobs } = await api.jobs.list({ type: ["email.send"], state: ["failed"] });
      return jobs[0]?.id;
    }, "The mail did not fail.");

    const delays: number[] = [];
    for (let attempt = 1; attempt <= 4; attempt++) {
      const job = await afterAttempt(scene, id, attempt);
      if (job.state === "dead") break;
      delays.push(Math.round((Date.parse(job.runAt) - Date.parse(job.error?.at ?? "")) / 1_000));
      await api.jobs.promote({ id });
    }
    check(delays.join() === "30,60,120", `The retries were after ${delays.join(", ")} s.`);
    const { recentFailures } = await api.summary();
    check(
      recentFailures.some((each) => each.id === id),
      "The admin endpoint does not list the dead job.",
    );

    vendors.inbox.recover();
    await api.jobs.retry({ id });
    await vendors.inbox.next(({ to }) => to.includes(bob.email));
    return [
      `Bob still signed up in ${ms(took)}. His mail was retried after ${delays.join(", ")} s (run early here), then dead.`,
      "The mail server works again, and an operator retried the job: the mail arrived.",
    ];
  },
};

async function afterAttempt({ api }: Scene, id: string, attempt: number): ReturnType<typeof api.jobs.get> {
  return until(async () => {
    const job = await api.jobs.get({ id });
    return job.attempts.length === attempt && (job.state === "failed" || job.state === "dead") ? job : null;
  }, `Attempt ${attempt} of the mail did not end.`);
}
