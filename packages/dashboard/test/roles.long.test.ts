import { job, type Holdfast } from "holdfast";
import { adminClient } from "holdfast/admin";
import type { Locator, Page } from "playwright-core";
import { expect, it } from "vitest";
import { engineOf } from "../../holdfast/dist/engine/client/holdfast.js";
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
  /** It waits now. */
  due: string;
  worker: string;
  fingerprint: string;
  token: string;
  operation: string;
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
  /** Done before the view is opened. */
  setUp?: (hf: Holdfast) => Promise<unknown>;
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

const drain = async (hf: Holdfast, isOn: boolean): Promise<unknown> =>
  engineOf(hf).store.drainWorker((await hf.workers())[0]?.id ?? "", isOn);

const dialog = (page: Page): Locator => page.getByRole("dialog");
const option = (name: string | RegExp) => (page: Page) => page.getByRole("option", { name });

/** A dialog that a URL opens. */
const dialogAt = (path: View["path"], users: readonly Role[], call: Control["call"]): View => ({
  path,
  roles: users === ADMINS ? ADMINS : VIEWERS,
  ready: "main .fg, main tbody tr",
  // It is opened when what it is about is loaded.
  prepare: (page) => page.waitForLoadState("networkidle"),
  controls: [{ name: "dialog", roles: users, find: dialog, call }],
});

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
        find: (page) => page.locator(".f-panel").getByRole("button", { name: /^Retry(?! some)/ }),
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
    path: () => "/schedules?of=changed",
    roles: VIEWERS,
    ready: "main tbody tr",
    setUp: (hf) => hf.schedules.update("nightly", { priority: 7 }),
    prepare: async (page) => {
      const menu = button("Actions for nightly")(page);
      if ((await menu.count()) > 0) await menu.click();
    },
    controls: [
      {
        name: "Run now in the row",
        roles: OPERATORS,
        find: within("main tbody", "Run now"),
        call: () => ["POST", "/schedules/nightly/run"],
      },
      {
        name: "Reset to code",
        roles: OPERATORS,
        find: item("Reset to code…"),
        call: () => ["POST", "/schedules/nightly/reset"],
      },
    ],
  },
  dialogAt(
    () => "/schedules?new=1",
    OPERATORS,
    () => ["POST", "/schedules", { name: "x", job: "report", every: "1h" }],
  ),
  dialogAt(
    () => "/schedules?edit=nightly",
    OPERATORS,
    () => ["PUT", "/schedules/nightly", { every: "2h" }],
  ),
  dialogAt(
    () => "/schedules?reset=nightly",
    OPERATORS,
    () => ["POST", "/schedules/nightly/reset"],
  ),
  dialogAt(
    () => "/schedules?delete=nightly",
    OPERATORS,
    () => ["DELETE", "/schedules/nightly"],
  ),
  dialogAt(
    ({ fingerprint }) => `/failures?open=${fingerprint}&do=retry`,
    OPERATORS,
    ({ fingerprint }) => ["POST", "/jobs/retry", { filter: { fingerprint } }],
  ),
  dialogAt(
    () => "/tokens?new=1",
    ADMINS,
    () => ["POST", "/tokens", { name: "mine", role: "admin" }],
  ),
  dialogAt(
    ({ token }) => `/tokens?revoke=${token}`,
    ADMINS,
    ({ token }) => ["DELETE", `/tokens/${token}`],
  ),
  {
    path: () => "/jobs?q=state:dead&of=palette",
    roles: ROLES,
    ready: "tr.job",
    prepare: async (page) => {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "Search or jump to" }).fill(">");
      await option("Sign out")(page).waitFor();
    },
    controls: [
      {
        name: "New schedule in the palette",
        roles: OPERATORS,
        find: option("New schedule…"),
        call: () => ["POST", "/schedules", { name: "hourly", job: "report", every: "1h" }],
      },
      {
        name: "Run in the palette",
        roles: OPERATORS,
        find: option("Run nightly now"),
        call: () => ["POST", "/schedules/nightly/run"],
      },
      {
        name: "Edit in the palette",
        roles: OPERATORS,
        find: option("Edit schedule nightly…"),
        call: () => ["PUT", "/schedules/nightly", { every: "2h" }],
      },
      {
        name: "New token in the palette",
        roles: ADMINS,
        find: option("New API token…"),
        call: () => ["POST", "/tokens", { name: "mine", role: "admin" }],
      },
    ],
  },
  {
    path: () => "/jobs?q=state:dead&of=operation",
    roles: ROLES,
    ready: "tr.job",
    prepare: (page) => page.waitForLoadState("networkidle"),
    controls: [
      {
        name: "Stop an operation",
        roles: OPERATORS,
        find: within(".ops", "Stop"),
        call: ({ operation }) => ["POST", `/operations/${operation}/stop`],
      },
      {
        name: "Audit of an operation",
        roles: ADMINS,
        find: (page) => page.locator(".ops").getByRole("link", { name: "Audit" }),
        call: () => ["GET", "/audit"],
      },
    ],
  },
  {
    path: ({ fingerprint }) => `/failures?open=${fingerprint}&of=retrying`,
    roles: VIEWERS,
    ready: ".fg-x",
    controls: [
      {
        name: "Retry some first",
        roles: OPERATORS,
        find: within(".f-panel", "Retry some first…"),
        call: ({ fingerprint }) => ["POST", "/jobs/retry", { filter: { fingerprint }, limit: 10 }],
      },
      {
        name: "Cancel those that wait",
        roles: OPERATORS,
        find: (page) => page.locator(".f-panel").getByRole("button", { name: /^Cancel \d/ }),
        call: ({ fingerprint }) => ["POST", "/jobs/cancel", { filter: { fingerprint } }],
      },
    ],
  },
  {
    path: () => "/",
    roles: VIEWERS,
    ready: ".alerts li",
    setUp: (hf) => hf.pause(),
    controls: [
      { name: "Resume all", roles: OPERATORS, find: within(".alerts", "Resume all"), call: () => ["POST", "/resume"] },
      {
        name: "Retry dead jobs",
        roles: OPERATORS,
        find: (page) => page.locator(".alerts").getByText("Retry…"),
        call: ({ fingerprint }) => ["POST", "/jobs/retry", { filter: { fingerprint } }],
      },
    ],
  },
  {
    path: ({ due }) => `/jobs/${due}`,
    roles: ROLES,
    ready: ".why .lead",
    controls: [
      { name: "Resume all", roles: OPERATORS, find: within(".why", "Resume all"), call: () => ["POST", "/resume"] },
      {
        name: "Queues",
        roles: VIEWERS,
        find: (page) => page.locator(".why").getByRole("link", { name: "Queues" }),
        call: () => ["GET", "/queues"],
      },
    ],
  },
  {
    path: ({ later }) => `/jobs/${later}?of=why`,
    roles: ROLES,
    ready: ".why .lead",
    // One by one, with its own banner and its own button.
    setUp: async (hf) => {
      await hf.resume();
      await hf.pause("mail");
    },
    controls: [
      {
        name: "Run now of the reason",
        roles: OPERATORS,
        find: within(".why", "Run now"),
        call: ({ later }) => ["POST", `/jobs/${later}/promote`],
      },
    ],
  },
  {
    path: () => "/queues?of=banner",
    roles: VIEWERS,
    ready: "main .note",
    controls: [
      {
        name: "Resume of the banner",
        roles: OPERATORS,
        find: (page) => page.locator("main .note").getByRole("button", { name: "Resume" }),
        call: () => ["POST", "/queues/mail/resume"],
      },
    ],
  },
  {
    path: () => "/workers?of=draining",
    roles: VIEWERS,
    ready: "main .drains",
    setUp: async (hf) => {
      await hf.resume("mail");
      await drain(hf, true);
    },
    controls: [
      {
        name: "Resume a worker",
        roles: OPERATORS,
        find: button(/^Resume /),
        call: ({ worker }) => ["POST", `/workers/${encodeURIComponent(worker)}/resume`],
      },
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
    setUp: (hf) => drain(hf, false),
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

/** Jobs of the user "ada", a group of errors, a slow operation, a schedule, a worker that takes none of the jobs, and a token. */
async function fill(hf: Holdfast, url: string): Promise<Ids> {
  const dead = await hf.enqueue(sync, undefined, { user: "ada" });
  // Enough for a warning and for a trial, and one that waits for its next attempt.
  await hf.enqueueMany(
    sync,
    Array.from({ length: 12 }, () => undefined),
  );
  await hf.enqueue(sync, undefined, { maxAttempts: 3 });
  await hf.drain();
  const later = await hf.enqueue(sync, undefined, { user: "ada", delay: "2h" });
  const due = await hf.enqueue(sync, undefined, { user: "ada" });
  await hf.enqueueMany(
    report,
    Array.from({ length: 20 }, () => undefined),
    { delay: "5h" },
  );
  await hf.schedule("nightly", { job: report, cron: "0 3 * * *" });
  const worker = hf.work({ queues: ["none"] });
  const { id: token } = await hf.tokens.create({ name: "other", role: "viewer" });
  const operator = await hf.tokens.create({ name: "operator", role: "operator" });
  const client = adminClient({ url, token: operator.token });
  const { groups } = await client.errors.list();
  const fingerprint = groups[0]?.fingerprint ?? "";
  const { id: operation } = await client.jobs.cancelMany({ filter: { type: ["report"] }, rate: 0.1 });
  return { dead: dead.id, later: later.id, due: due.id, worker: worker.id, fingerprint, token, operation };
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
      for (const { path, roles, ready, setUp, prepare, controls } of VIEWS) {
        await setUp?.(hf);
        await open(path(ids));
        const isSeen = roles.includes(role);
        if (isSeen) await page.locator(ready).first().waitFor();
        else {
          // The start page leads the role user to its jobs.
          const refusal = page.getByText("This page does not exist, or your role may not see it.");
          await (path(ids) === "/" ? page.locator("tr.job").first() : refusal).waitFor();
        }
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
