import { check, ms, until, type Scene, type Story } from "../scene.js";

export const newsletter: Story = {
  title: "The editor sends a newsletter",
  async run(scene) {
    const { site, vendors, editor, ada, staffLink } = scene;
    const signedIn = await editor.send(staffLink);
    check(signedIn.url.endsWith("/staff/newsletters"), "The sign-in link of the editor does not work.");
    const id = await create(scene, "Spring", "The evenings are getting longer.\n\nRead outside!");
    const preview = await editor.open(`/staff/newsletters/${id}/preview`);
    check(preview.text.includes("<p>Read outside!</p>"), "The preview does not show the text.");

    await schedule(scene, id, 3_600_000);
    const first = await onlyRun(scene, id);
    await editor.send(`/staff/runs/${first.id}/move`, { at: field(7_200_000) });
    const moved = await onlyRun(scene, id);
    const later = Math.round((moved.scheduledFor.getTime() - first.scheduledFor.getTime()) / 60_000);
    check(later === 60, `The run was moved by ${later} minutes, and not by 60.`);
    await editor.send(`/staff/runs/${first.id}/cancel`);
    check((await onlyRun(scene, id)).status === "cancelled", "The run was not cancelled.");

    const subscribers = [...site.members.subscribers()].map(({ email }) => email);
    const start = performance.now();
    await editor.send(`/staff/newsletters/${id}/runs`, { at: "" });
    const counts = await until(async () => {
      const { text } = await editor.open(`/staff/newsletters/${id}`);
      const [recipients, sent, queued, failed] = countsIn(text);
      return recipients === sent && queued === 0 ? { sent, failed } : null;
    }, "The newsletter was not sent to all.");
    const took = performance.now() - start;
    const mails = vendors.inbox.mails.filter(({ subject }) => subject === "Spring");
    const recipients = mails.flatMap(({ to }) => to);
    check(recipients.toSorted().join() === subscribers.toSorted().join(), "Not every subscriber got one mail.");
    await unsubscribe(scene, mails.find(({ to }) => to.includes(ada.email))?.headers ?? {});
    return [
      `Previewed, scheduled, moved by ${later} minutes, cancelled; then sent to ${counts.sent} subscribers in ${ms(took)}, one mail each.`,
      "Ada's mail program unsubscribed her with one click, without her cookie.",
    ];
  },
};

export const overdueNewsletter: Story = {
  title: "The job of a newsletter is lost",
  async run(scene) {
    const { vendors, api, editor } = scene;
    const id = await create(scene, "Summer", "Read in the shade.");
    await schedule(scene, id, 1_500);
    const run = await onlyRun(scene, id);
    await api.jobs.remove({ id: run.jobId });
    await until(() => run.scheduledFor.getTime() < Date.now(), "The time of the run did not come.");
    check((await onlyRun(scene, id)).status === "scheduled", "The run was sent without its job.");
    const page = await editor.send("/staff/newsletters/dispatch-due");
    check(page.text.includes("without a job: 1."), "The page does not say that it found the run.");
    await until(async () => (await onlyRun(scene, id)).status === "sent", "The run was not sent.");
    const again = await editor.send("/staff/newsletters/dispatch-due");
    check(again.text.includes("without a job: 0."), "The run was sent again.");
    await vendors.inbox.next(({ subject }) => subject === "Summer");
    return [
      "An operator deleted it. “Send what is overdue” found the run and sent it; pressed again, it found nothing.",
    ];
  },
};

async function create({ editor }: Scene, subject: string, textBody: string): Promise<string> {
  const page = await editor.send("/staff/newsletters", { subject, textBody });
  const [, id] = /\/staff\/newsletters\/([\w-]{36})$/.exec(page.url) ?? [];
  check(page.status === 200 && id !== undefined, "The editor could not create a newsletter.");
  return id;
}

async function schedule({ editor }: Scene, id: string, delayMs: number): Promise<void> {
  const page = await editor.send(`/staff/newsletters/${id}/runs`, { at: field(delayMs) });
  check(page.text.includes("scheduled</span>"), "The page does not show the scheduled run.");
}

async function onlyRun({ site }: Scene, id: string): ReturnType<typeof site.news.schedule> {
  const [run] = await site.news.runs(id);
  check(run !== undefined, "The newsletter has no send run.");
  return run;
}

/** A time as a browser sends it. */
function field(delayMs: number): string {
  return new Date(Date.now() + delayMs).toISOString().slice(0, 23);
}

/** Recipients, sent, queued and failed, as the page shows them. */
function countsIn(page: string): number[] {
  return [...page.matchAll(/<dd>(\d+|…)<\/dd>/g)].slice(0, 4).map(([, count]) => Number(count));
}

/** As a mail program does (RFC 8058). */
async function unsubscribe({ site, ada }: Scene, headers: Readonly<Record<string, string>>): Promise<void> {
  const url = headers["list-unsubscribe"]?.replaceAll(/[<>]/g, "") ?? "";
  check(headers["list-unsubscribe-post"] === "List-Unsubscribe=One-Click", "The mail has no one-click header.");
  const body = new URLSearchParams({ "List-Unsubscribe": "One-Click" });
  const { status } = await fetch(url, { method: "POST", body });
  check(status === 200 && site.members.byEmail(ada.email)?.newsletter === false, "Ada is still subscribed.");
}
