import { DASHBOARD } from "../../site/admin.js";
import { check, settled, until, type Story } from "../scene.js";

export const adminEndpoint: Story = {
  title: "A monitor reads the state of the queue",
  async run(scene) {
    const { site, vendors, api, ada } = scene;
    const forget = (email: string): Promise<unknown> => ada.browser.send("/password/forgot", { email });
    await settled(scene);
    vendors.inbox.fail(451);
    await forget("bob@example.com");
    await until(async () => (await api.summary()).stats.failed === 1, "No job failed.");
    await api.queues.pause({ queue: "mail" });
    await Promise.all([forget("patron1@example.com"), forget("patron2@example.com")]);
    const { stats, recentFailures } = await api.summary();
    vendors.inbox.recover();
    await api.queues.resume({ queue: "mail" });
    for (const { id, state } of recentFailures) if (state === "failed") await api.jobs.promote({ id });
    const { pending, failed } = stats;
    check(pending === 2 && failed === 1, `The endpoint reports ${pending} pending and ${failed} failed jobs.`);
    const { status } = await fetch(`${site.url}/api/v1/admin/jobs`);
    check(status === 401, `Without a token the endpoint responds with ${status}.`);
    await settled(scene);
    return [
      "Three members forgot their passwords, one while the mail server failed.",
      "GET /api/v1/admin/jobs reports 2 pending and 1 failed. Without a token: 401.",
    ];
  },
};

export const dashboard: Story = {
  title: "Staff open the dashboard",
  async run({ api, editor, ada, staffLink, person }) {
    const page = await editor.open(`${DASHBOARD}/`);
    check(page.status === 200 && page.text.includes(`${DASHBOARD}/assets/`), "The dashboard is not served.");
    const { jobs } = await api.jobs.list({ type: ["email.send"], limit: 1 });
    const detail = `${DASHBOARD}/api/admin/jobs/${jobs[0]?.id ?? ""}`;
    const seen = await editor.open(detail);
    check(seen.status === 200 && seen.text.includes("[redacted]"), "The dashboard shows the data of a mail.");
    const refused = await ada.browser.open(detail);
    check(refused.status === 401, `A member who is not staff gets ${refused.status}.`);
    check((await ada.browser.open("/staff/newsletters")).status === 404, "A member sees the pages of the editor.");
    const again = await person("Mallory").browser.send(staffLink);
    check(again.status === 410, `The sign-in link worked twice, with status ${again.status}.`);
    return ["The editor sees jobs, with mail data redacted; a member gets 401. The sign-in link worked once."];
  },
};
