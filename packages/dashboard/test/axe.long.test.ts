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
});
