import { job, type Holdfast } from "holdfast";
import { adminClient } from "holdfast/admin";
import type { Locator, Page } from "playwright-core";
import { expect, it } from "vitest";
import { inBrowser, openDashboard, useBrowser, type Role } from "./scene.js";

useBrowser();

const sync = job({
  type: "gmail.sync",
  queue: "mail",
  retry: { maxAttempts: 1 },
  run: () => {
    throw new Error("503 backendError");
  },
});
const report = job({ type: "report", queue: "reports", run: () => "done" });

interface Ids {
  dead: string;
  later: string;
  worker: string;
  fingerprint: string;
  token: string;
}

const ROLES = ["user", "viewer", "operator", "admin"] as const;
const OWN: readonly Role[] = ["user", "operator", "admin"];
const OPERATORS: readonly Role[] = ["operator", "admin"];
const ADMINS: readonly Role[] = ["admin"];

interface Control {
  name: string;
  roles: readonly Role[];
  find: (page: Page) => Locator;
  /** What it asks the server for. */
  call: (ids: Ids) => readonly [method: string, path: string, body?: object];
}

interface View {
  path: (ids: Ids) => string;
  /** Who may see the view. */
  roles: readonly Role[];
  ready: string;
  /** Done before the controls are looked for. */
  prepare?: (page: Page) => Promise<unknown>;
  controls: readonly Control[];
}

const button = (name: string | RegExp) => (page: Page) =>
  page.getByRole("button", typeof name === "string" ? { name, exact: true } : { name });
const within = (area: string, name: string) => (page: Page) => page.locator(area).getByRole("button", { name });
const item = (name: string) => (page: Page) => page.getByRole("menuitem", { name });
const link = (name: string) => (page: Page) => page.locator(".side nav a", { hasText: name });

const openMenu = async (page: Page): Promise<void> => {
  const menu = button("More actions")(page);
  if ((await menu.count()) > 0) await menu.click();
};

const selectFirst = async (page: Page): Promise<void> => {
  const box = page.locator("tr.job").getByRole("checkbox");
  if ((await box.count()) > 0) await box.first().check();
};

const VIEWERS: readonly Role[] = ["viewer", "operator", "admin"];

/** Every control that changes something, or shows what not everyone may see. */
const VIEWS: readonly View[] = [
  {
    path: () => "/jobs?q=state:dead",
    roles: ROLES,
    ready: "tr.job",
    prepare: selectFirst,
    controls: [
      {
        name: "Enqueue",
        roles: OPERATORS,
        find: within(".top", "Enqueue"),
        call: () => ["POST", "/jobs", { type: "report" }],
      },
      {
        name: "Retry the selected",
        roles: OWN,
        find: within("[role=toolbar]", "Retry…"),
        call: ({ dead }) => ["POST", `/jobs/${dead}/retry`],
      },
      {
        name: "Delete the selected",
        roles: ADMINS,
        find: within("[role=toolbar]", "Delete…"),
        call: () => ["POST", "/jobs/delete", { state: ["dead"] }],
      },
      { name: "Audit log", roles: ADMINS, find: link("Audit log"), call: () => ["GET", "/audit"] },
      { name: "API tokens", roles: ADMINS, find: link("API tokens"), call: () => ["GET", "/tokens"] },
      { name: "Queues", roles: VIEWERS, find: link("Queues"), call: () => ["GET", "/queues"] },
      { name: "Workers", roles: VIEWERS, find: link("Workers"), call: () => ["GET", "/workers"] },
      { name: "Schedules", roles: VIEWERS, find: link("Schedules"), call: () => ["GET", "/schedules"] },
      { name: "Failures", roles: VIEWERS, find: link("Failures"), call: () => ["GET", "/errors"] },
      { name: "Overview", roles: VIEWERS, find: link("Overview"), call: () => ["GET", "/jobs/stats"] },
    ],
  },
  {
    path: () => "/jobs?q=state:pending",
    roles: ROLES,
    ready: "tr.job",
    prepare: selectFirst,
    controls: [
      {
        name: "Cancel the selected",
        roles: OWN,
        find: within("[role=toolbar]", "Cancel…"),
        call: ({ later }) => ["POST", `/jobs/${later}/cancel`],
      },
      {
        name: "Change the priority",
        roles: OPERATORS,
        find: within("[role=toolbar]", "Priority…"),
        call: () => ["POST", "/jobs/update", { state: ["pending"], priority: 5 }],
      },
      {
        name: "Change the time",
        roles: OPERATORS,
        find: within("[role=toolbar]", "Change time…"),
        call: () => ["POST", "/jobs/promote", { state: ["pending"] }],
      },
    ],
  },
  {
    path: ({ later }) => `/jobs/${later}`,
    roles: ROLES,
    ready: ".job-h",
    prepare: openMenu,
    controls: [
      {
        name: "Run now",
        roles: OPERATORS,
        find: button(/^Run now/),
        call: ({ later }) => ["POST", `/jobs/${later}/promote`],
      },
      {
        name: "Edit",
        roles: OPERATORS,
        find: button("Edit…"),
        call: ({ later }) => ["PATCH", `/jobs/${later}`, { priority: 5 }],
      },
      {
        name: "Cancel",
        roles: OWN,
        find: item("Cancel the job…"),
        call: ({ later }) => ["POST", `/jobs/${later}/cancel`],
      },
      {
        name: "Delete",
        roles: ADMINS,
        find: item("Delete…"),
        call: ({ later }) => ["DELETE", `/jobs/${later}`],
      },
    ],
  },
  {
    path: ({ dead }) => `/jobs/${dead}`,
    roles: ROLES,
    ready: ".job-h",
    prepare: openMenu,
    controls: [
      { name: "Retry", roles: OWN, find: button(/^Retry/), call: ({ dead }) => ["POST", `/jobs/${dead}/retry`] },
      {
        name: "Edit and rerun",
        roles: OPERATORS,
        find: button("Edit and rerun…"),
        call: ({ dead }) => ["POST", `/jobs/${dead}/rerun`, { input: {} }],
      },
      {
        name: "Rerun",
        roles: OPERATORS,
        find: item("Rerun with the same input"),
        call: ({ dead }) => ["POST", `/jobs/${dead}/rerun`],
      },
    ],
  },
  {
    path: ({ fingerprint }) => `/failures?open=${fingerprint}`,
    roles: VIEWERS,
    ready: "main button[aria-expanded=true]",
    controls: [
      {
        name: "Retry the group",
        roles: OPERATORS,
        find: within(".f-panel", "Retry…"),
        call: ({ fingerprint }) => ["POST", "/jobs/retry", { fingerprint }],
      },
      {
        name: "Delete the group",
        roles: ADMINS,
        find: within(".f-panel", "Delete…"),
        call: ({ fingerprint }) => ["POST", "/jobs/delete", { fingerprint }],
      },
    ],
  },
  {
    path: () => "/schedules",
    roles: VIEWERS,
    ready: "main tbody tr",
    controls: [
      {
        name: "New schedule",
        roles: OPERATORS,
        find: button("New schedule"),
        call: () => ["POST", "/schedules", { name: "hourly", type: "report", every: "1h" }],
      },
      {
        name: "Enable",
        roles: OPERATORS,
        find: (page) => page.getByRole("switch"),
        call: () => ["POST", "/schedules/nightly/disable"],
      },
    ],
  },
  {
    path: () => "/schedules/nightly",
    roles: VIEWERS,
    ready: ".schedule-h",
    controls: [
      { name: "Run now", roles: OPERATORS, find: button("Run now"), call: () => ["POST", "/schedules/nightly/run"] },
      {
        name: "Edit",
        roles: OPERATORS,
        find: button("Edit…"),
        call: () => ["PUT", "/schedules/nightly", { every: "2h" }],
      },
      { name: "Delete", roles: OPERATORS, find: button("Delete…"), call: () => ["DELETE", "/schedules/nightly"] },
    ],
  },
  {
    path: () => "/queues",
    roles: VIEWERS,
    ready: "main tbody tr",
    controls: [
      { name: "Pause", roles: OPERATORS, find: button("Pause mail"), call: () => ["POST", "/queues/mail/pause"] },
      { name: "Pause all", roles: OPERATORS, find: button(/^Pause all/), call: () => ["POST", "/pause"] },
    ],
  },
  {
    path: () => "/workers",
    roles: VIEWERS,
    ready: "main tbody tr",
    controls: [
      {
        name: "Drain",
        roles: OPERATORS,
        find: button(/^Drain/),
        call: ({ worker }) => ["POST", `/workers/${encodeURIComponent(worker)}/drain`],
      },
    ],
  },
  { path: () => "/audit", roles: ADMINS, ready: "main table, main .empty", controls: [] },
  {
    path: () => "/tokens",
    roles: ADMINS,
    ready: "main tbody tr",
    controls: [
      {
        name: "New token",
        roles: ADMINS,
        find: button("New token"),
        call: () => ["POST", "/tokens", { name: "mine", role: "admin" }],
      },
      {
        name: "Revoke",
        roles: ADMINS,
        find: button("Revoke other"),
        call: ({ token }) => ["DELETE", `/tokens/${token}`],
      },
    ],
  },
];

/** Jobs of the user "ada", a schedule, a worker that takes none of the jobs, and a token. */
async function fill(hf: Holdfast, url: string): Promise<Ids> {
  const dead = await hf.enqueue(sync, undefined, { user: "ada" });
  await hf.drain();
  const later = await hf.enqueue(sync, undefined, { user: "ada", delay: "2h" });
  await hf.schedule("nightly", { job: report, cron: "0 3 * * *" });
  const worker = hf.work({ queues: ["none"] });
  const { id: token } = await hf.tokens.create({ name: "other", role: "viewer" });
  const operator = await hf.tokens.create({ name: "operator", role: "operator" });
  const { groups } = await adminClient({ url, token: operator.token }).errors.list();
  const fingerprint = groups[0]?.fingerprint ?? "";
  return { dead: dead.id, later: later.id, worker: worker.id, fingerprint, token };
}

inBrowser("each control", () => {
  it.each(ROLES)(
    "is shown to %s if the role may use it, and else refused by the server",
    { timeout: 120_000 },
    async (role) => {
      const { page, hf, open, url, context } = await openDashboard({
        jobs: [sync, report],
        role,
        ...(role === "user" && { user: "ada" }),
      });
      const ids = await fill(hf, url);
      const shown: Record<string, boolean> = {};
      const expected: Record<string, boolean> = {};
      const refused: Record<string, number> = {};
      for (const { path, roles, ready, prepare, controls } of VIEWS) {
        await open(path(ids));
        const isSeen = roles.includes(role);
        if (isSeen) await page.locator(ready).first().waitFor();
        else await page.getByText("This page does not exist, or your role may not see it.").waitFor();
        if (isSeen) await prepare?.(page);
        for (const { name, roles: users, find, call } of controls) {
          const key = `${path(ids)} ${name}`;
          expected[key] = users.includes(role);
          if (expected[key]) await find(page).first().waitFor();
          shown[key] = (await find(page).count()) > 0;
          if (expected[key]) continue;
          const [method, target, body] = call(ids);
          const response = await context.request.fetch(`${url}/api/admin${target}`, {
            method,
            headers: { origin: url },
            ...(body !== undefined && { data: body }),
          });
          if (response.status() !== 403) refused[key] = response.status();
        }
      }
      expect(shown).toEqual(expected);
      // Those that the server did not refuse.
      expect(refused).toEqual({});
    },
  );
});
