import { check, ms, until, type Scene, type Story } from "../scene.js";
import { tablesWith } from "../stored.js";

export const passwordReset: Story = {
  title: "Ada forgets her password",
  async run(scene) {
    const { site, vendors, api, ada } = scene;
    // While the queue is paused, its job can be looked at.
    await api.queues.pause({ queue: "mail" });
    const known = await request(scene, ada.email);
    check(known.status === 202, `The request for a reset failed with status ${known.status}.`);
    const { jobs } = await api.jobs.list({ type: ["email.send"], state: ["pending"] });
    check(jobs.length === 1, `There are ${jobs.length} mails that wait, and not 1.`);
    const unknown = await request(scene, "eve@example.com");
    check(unknown.status === known.status && unknown.body === known.body, "An unknown address gets another response.");
    const { count } = await api.jobs.count({ type: ["email.send"], state: ["pending"] });
    check(count === 1, "A request for an unknown address enqueued a mail.");

    const start = performance.now();
    await api.queues.resume({ queue: "mail" });
    const mail = await vendors.inbox.next(({ subject }) => subject === "Reset your password");
    const arrived = performance.now() - start;
    const jobId = jobs[0]?.id ?? "";
    await until(async () => (await api.jobs.get({ id: jobId })).state === "completed", "The job is not completed.");
    const link = /https?:\/\/\S+/.exec(mail.text)?.[0] ?? "";
    const token = new URL(link).searchParams.get("token") ?? "";
    check(token.length > 20 && tablesWith(site.db, [token]).length === 0, "The token is stored.");
    scene.secrets.add(token);

    await changePassword(scene, link, token);
    return [
      `Requested in ${ms(known.ms)}: one job waits. For an unknown address: the same response, no job.`,
      `Her mail arrived in ${ms(arrived)}; no table holds the token. It worked once, and signed her out elsewhere.`,
    ];
  },
};

async function request({ site }: Scene, email: string): Promise<{ status: number; body: string; ms: number }> {
  const start = performance.now();
  const response = await fetch(`${site.url}/api/v1/auth/password-reset/request`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email }),
  });
  return { status: response.status, body: await response.text(), ms: performance.now() - start };
}

/** With the link, in another browser. */
async function changePassword({ ada, person, secrets }: Scene, link: string, token: string): Promise<void> {
  const { browser, password } = person("Ada");
  secrets.add(password);
  check((await browser.open(link)).status === 200, "The link of the mail does not work.");
  const changed = await browser.send("/password/reset", { token, password });
  check(changed.url.includes("/account"), "The new password was not accepted.");
  const again = await browser.send("/password/reset", { token, password });
  check(again.status === 410, `The token worked twice, with status ${again.status}.`);
  const before = await ada.browser.open("/account");
  check(before.url.endsWith("/sign-in"), "The session from before the reset is still valid.");
  ada.password = password;
  const signedIn = await ada.browser.send("/sign-in", { email: ada.email, password });
  check(signedIn.url.endsWith("/account"), "Ada cannot sign in with her new password.");
}
