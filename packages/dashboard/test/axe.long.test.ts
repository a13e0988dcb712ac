import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { job } from "holdfast";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { z } from "zod";
import { inBrowser, openDashboard, useBrowser, type Dashboard } from "./scene.js";

useBrowser();

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface AxeResult {
  violations: { id: string; impact: string | null; nodes: { html: string }[] }[];
}

/** What axe finds to be serious or critical. */
async function seriousIssues(page: Page): Promise<string[]> {
  // Evaluated by the protocol of the browser, which the content security policy of the page does not concern.
  await page.evaluate(AXE);
  const { violations } = (await page.evaluate("axe.run()")) as AxeResult;
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes[0]?.html.slice(0, 200)}`);
}

const fails = job({
  type: "mail.send",
  queue: "mail",
  input: z.object({ text: z.string() }),
  retry: { maxAttempts: 1 },
  run: ({ input }) => {
    throw new Error(input.text);
  },
});
const works = job({ type: "stock.count", run: () => ({ counted: 3 }) });

/** One of each thing that views show. */
async function fill({ hf }: Pick<Dashboard, "hf">): Promise<string> {
  await hf.schedule("nightly", { job: works, cron: "0 3 * * *", timezone: "Europe/Berlin" });
  await hf.enqueue(works);
  const { id } = await hf.enqueue(fails, { text: "mailbox unavailable" }, { user: "u-1", tags: ["eu"] });
  await hf.drain();
  await hf.enqueue(works, undefined, { delay: "1h" });
  hf.work({ queues: ["default"] });
  return id;
}

const VIEWS = [
  ["/", "main h2"],
  ["/jobs", "main tbody tr"],
  ["/jobs?q=state:dead", "main tbody tr"],
  ["/jobs/:id", "main h2"],
  ["/failures", "main button[aria-expanded]"],
  ["/schedules", "main tbody tr"],
  ["/schedules/nightly", "main h2"],
  ["/schedules?edit=nightly", "dialog[open] form"],
  ["/queues", "main tbody tr"],
  ["/workers", "main tbody tr"],
  ["/audit", "main table, main .empty"],
  ["/tokens", "main tbody tr"],
  ["/tokens?new=1", "dialog[open] form"],
] as const;

/** A view, and what is pressed one after the other until a dialog or menu is open. */
const DIALOGS: readonly (readonly [path: string, opener: readonly string[]])[] = [
  ["/jobs?q=state:dead", ["tr.job input", ".bulk button:has-text('Retry…')"]],
  ["/jobs?q=state:dead", ["tr.job input", ".bulk button:has-text('Delete…')"]],
  ["/jobs?q=state:pending", ["tr.job input", ".bulk button:has-text('Change time…')"]],
  ["/jobs/:id", ["button:has-text('Edit and rerun…')"]],
  ["/jobs/:id", ["button[aria-label='More actions']"]],
  ["/jobs/:id", ["button[aria-label='More actions']", "[role=menuitem]:has-text('Delete…')"]],
  ["/failures", ["main button[aria-expanded]", ".f-panel button:has-text('Retry…')"]],
  ["/schedules/nightly", ["button:has-text('Delete…')"]],
  ["/queues", ["button:has-text('Pause all…')"]],
  ["/tokens", ["button[aria-label^='Revoke']"]],
];

/** Not on phones. */
const WIDE_DIALOGS: typeof DIALOGS = [
  ["/jobs", ["button:has-text('Views')"]],
  ["/jobs", ["button:has-text('Export')"]],
];

inBrowser.each(["light", "dark"] as const)("axe, %s", (colorScheme) => {
  it.each([1_440, 375])("finds no serious issue in any view at %i px", { timeout: 180_000 }, async (width) => {
    const scene = await openDashboard({ jobs: [fails, works], role: "admin", colorScheme, width });
    const { page, open } = scene;
    await page.emulateMedia({ reducedMotion: "reduce", colorScheme });
    const id = await fill(scene);
    const found: Record<string, string[]> = {};
    const check = async (name: string): Promise<void> => {
      const issues = await seriousIssues(page);
      if (issues.length > 0) found[name] = issues;
    };
    for (const [path, ready] of VIEWS) {
      await open(path.replace(":id", id));
      await page.locator(ready).first().waitFor();
      await check(path);
    }
    await open("/jobs");
    await page.locator("main tbody tr").first().waitFor();
    for (const key of ["Control+k", "?"]) {
      await page.keyboard.press(key);
      await page.locator("dialog[open]").waitFor();
      await check(key);
      await page.keyboard.press("Escape");
      await page.locator("dialog[open]").waitFor({ state: "detached" });
    }
    await page.getByRole("button", { name: "Enqueue" }).click();
    await page.locator("dialog[open]").waitFor();
    await page.getByLabel("Type", { exact: true }).fill("mail.send");
    await page.keyboard.press("Tab");
    await check("enqueue");
    await page.keyboard.press("Escape");
    for (const [path, opener] of width > 720 ? [...DIALOGS, ...WIDE_DIALOGS] : DIALOGS) {
      await open(path.replace(":id", id));
      for (const name of opener) await page.locator(name).first().click();
      await page.locator("dialog[open], :popover-open").first().waitFor();
      await check(`${path} ${opener.at(-1)}`);
    }
    expect(found).toEqual({});
  });

  it("finds no serious issue without data, without a match and with warnings", { timeout: 120_000 }, async () => {
    const { page, open, show, hf } = await openDashboard({ jobs: [fails, works], role: "admin", colorScheme });
    const found: Record<string, string[]> = {};
    const check = async (name: string): Promise<void> => {
      const issues = await seriousIssues(page);
      if (issues.length > 0) found[name] = issues;
    };
    await open("/");
    await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
    await check("/");
    for (const [path, text] of [
      ["/jobs", "No jobs yet"],
      ["/failures", /^No/],
      ["/schedules", "No schedules yet"],
      ["/queues", /queue/i],
      ["/workers", "No worker is running"],
      ["/audit?actor=unknown", "No entry matches"],
    ] as const) {
      await show(path);
      await page.locator("main .empty, main .none").getByText(text).first().waitFor();
      await check(`${path} without data`);
    }
    await hf.enqueueMany(
      fails,
      Array.from({ length: 12 }, () => ({ text: "mailbox unavailable" })),
    );
    await hf.drain();
    await hf.schedule("nightly", { job: works, cron: "0 3 * * *" });
    await hf.enqueue(works);
    await hf.pause();
    for (const [path, ready] of [
      ["/", ".alerts li"],
      ["/jobs?q=state:running", "main .empty"],
      ["/jobs?q=nonsense:x", "main tbody tr"],
      ["/schedules?q=none", "main .empty"],
      ["/schedules?new=1", "dialog[open] form"],
      ["/queues", "main .note"],
      ["/failures/unknown", "main p"],
    ] as const) {
      await open(path);
      await page.locator(ready).first().waitFor();
      await check(path);
    }
    expect(found).toEqual({});
  });

  it("finds no serious issue in bulk changes", { timeout: 120_000 }, async () => {
    const { page, open, hf } = await openDashboard({ jobs: [fails, works], role: "admin", colorScheme });
    await hf.enqueueMany(
      works,
      Array.from({ length: 60 }, () => undefined),
      { delay: "1h" },
    );
    const found: Record<string, string[]> = {};
    await open("/jobs?q=state:pending");
    await page.locator("tr.job").first().waitFor();
    await page.keyboard.press("a");
    await page.getByRole("button", { name: "Select all 60 matching" }).click();
    for (const name of ["Cancel…", "Change time…", "Priority…", "Delete…"]) {
      await page.getByRole("toolbar").getByRole("button", { name }).click();
      await page.getByRole("dialog").getByText("60 jobs").first().waitFor();
      found[name] = await seriousIssues(page);
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    }
    await page.getByRole("toolbar").getByRole("button", { name: "Cancel…" }).click();
    await page.getByRole("dialog").getByLabel("Jobs a second").fill("1");
    await page.getByRole("dialog").getByRole("button", { name: "Cancel 60 jobs" }).click();
    await page.locator(".ops").getByText("at 1 a second").waitFor();
    found["operation"] = await seriousIssues(page);
    expect(Object.values(found).flat()).toEqual([]);
  });

  it("finds no serious issue for a user, signed out, offline and expired", { timeout: 120_000 }, async () => {
    const { page, open, hf, context, signIn } = await openDashboard({
      jobs: [fails, works],
      role: "user",
      user: "ada",
      colorScheme,
      ownPage: true,
      expected: /401|ERR_INTERNET_DISCONNECTED|Failed to fetch/,
    });
    const found: Record<string, string[]> = {};
    const { id } = await hf.enqueue(fails, { text: "mailbox unavailable" }, { user: "ada" });
    await hf.drain();
    await open("/jobs");
    await page.locator("tr.job").waitFor();
    found["user"] = await seriousIssues(page);
    await open(`/jobs/${id}`);
    await page.locator(".job-h").waitFor();
    found["job of a user"] = await seriousIssues(page);
    await context.setOffline(true);
    await page.getByRole("link", { name: "Jobs", exact: true }).first().click();
    await page.getByRole("alert").getByText("No connection to the server.").waitFor();
    found["offline"] = await seriousIssues(page);
    await context.setOffline(false);
    await page.getByRole("alert").getByRole("button", { name: "Try now" }).click();
    await page.getByRole("alert").waitFor({ state: "detached" });
    await context.clearCookies();
    await page.reload();
    await page.getByLabel("API token").waitFor();
    found["sign-in page"] = await seriousIssues(page);
    await signIn("operator");
    await open("/jobs");
    await page.locator("tr.job").waitFor();
    await context.clearCookies();
    await page.getByRole("button", { name: /^pending/ }).click();
    await page.getByText("Your session has expired.").first().waitFor();
    found["expired"] = await seriousIssues(page);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("dialog").waitFor();
    found["session dialog"] = await seriousIssues(page);
    expect(Object.values(found).flat()).toEqual([]);
  });
});
