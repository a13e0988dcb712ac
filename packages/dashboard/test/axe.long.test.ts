import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { job } from "holdfast";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { z } from "zod";
import { inBrowser, openDashboard, useBrowser, type Dashboard } from "./scene.js";

useBrowser();

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Strings that must never act: markup, links, marks that change the direction, control characters, and very long. */
const FOREIGN = [
  '<script>window.wasRun = true</script><img src=x onerror="window.wasRun = true">',
  "javascript:window.wasRun=true",
  "\u202Eright to left \u2067isolated",
  "\u001B[31mred\u001B[0m \u001B]8;;https://example.com\u0007link\u001B]8;;\u0007",
  "0123456789".repeat(10_000),
] as const;

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

inBrowser.each(["light", "dark"] as const)("axe, %s", (colorScheme) => {
  it.each([1_440, 375])("finds no serious issue in any view at %i px", { timeout: 180_000 }, async (width) => {
    const scene = await openDashboard({ jobs: [fails, works], role: "admin", colorScheme, width });
    const { page, open } = scene;
    await page.emulateMedia({ reducedMotion: "reduce", colorScheme });
    const id = await fill(scene);
    const found: Record<string, string[]> = {};
    for (const [path, ready] of VIEWS) {
      await open(path.replace(":id", id));
      await page.locator(ready).first().waitFor();
      const issues = await seriousIssues(page);
      if (issues.length > 0) found[path] = issues;
    }
    await open("/jobs");
    await page.locator("main tbody tr").first().waitFor();
    for (const key of ["Control+k", "?"]) {
      await page.keyboard.press(key);
      await page.locator("dialog[open]").waitFor();
      const issues = await seriousIssues(page);
      if (issues.length > 0) found[key] = issues;
      await page.keyboard.press("Escape");
      await page.locator("dialog[open]").waitFor({ state: "detached" });
    }
    await page.getByRole("button", { name: "Enqueue" }).click();
    await page.locator("dialog[open]").waitFor();
    const issues = await seriousIssues(page);
    if (issues.length > 0) found["enqueue"] = issues;
    expect(found).toEqual({});
  });
});

inBrowser("text of jobs", () => {
  it("is only text in every view", { timeout: 120_000 }, async () => {
    const { page, open, hf } = await openDashboard({ jobs: [fails], width: 1_024 });
    const ids: string[] = [];
    for (const text of FOREIGN) {
      const short = nameOf(text);
      const { id } = await hf.enqueue(fails, { text }, { user: short, tags: [short] });
      ids.push(id);
      await hf.enqueueNamed("mail.other", { [short]: text }, { queue: nameOf(text) });
    }
    await hf.drain();
    for (const [path, ready] of [
      ["/", "main h2"],
      ["/jobs", "main tbody tr"],
      ...ids.map((id) => [`/jobs/${id}`, "main h2"] as const),
      ["/failures", "main button[aria-expanded]"],
      ["/queues", "main tbody tr"],
    ] as const) {
      await open(path);
      await page.locator(ready).first().waitFor();
      const wrong = await page.evaluate(() => ({
        wasRun: "wasRun" in window,
        scripts: document.querySelectorAll("main script, main img, main iframe, main object").length,
        links: [...document.querySelectorAll("a")].filter((link) => !/^https?:$/.test(link.protocol)).length,
        isWide: document.documentElement.scrollWidth > innerWidth,
      }));
      expect({ path, ...wrong }).toEqual({ path, wasRun: false, scripts: 0, links: 0, isWide: false });
    }
    await open(`/jobs/${ids[0]}`);
    await page.getByText("<script>window.wasRun").first().waitFor();
  });
});

/** Names of queues, users and tags are short and have no control characters. */
function nameOf(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, "").slice(0, 60);
}
