import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { job } from "holdfast";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { z } from "zod";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const MARKUP = '<script>window.wasRun = true</script><img src=x onerror="window.wasRun = true">';
/** Strings that must never act: markup, links, marks that change the direction, control characters, and very long. */
const HOSTILE = [
  MARKUP,
  "javascript:window.wasRun=true",
  "\u202Eright to left \u2067isolated",
  "\u001B[31mred\u001B[0m \u001B]8;;https://example.com\u0007link\u001B]8;;\u0007",
  "0123456789".repeat(10_000),
] as const;

/** Names are short and have no control characters. */
const nameOf = (text: string): string => text.replaceAll(/\p{Cc}/gu, "").slice(0, 60);

const fails = job({
  type: nameOf(MARKUP),
  queue: nameOf(MARKUP),
  input: z.object({ text: z.string() }),
  retry: { maxAttempts: 1 },
  run({ input, log }) {
    log(input.text.slice(0, 1_000));
    throw new Error(input.text, { cause: new Error(input.text) });
  },
});

/** What is wrong on the page: elements that text has become, scripts that ran, links elsewhere, and lines that are too wide. */
function faultsOf(page: Page): Promise<object> {
  return page.evaluate(() => ({
    wasRun: "wasRun" in window,
    elements: document.querySelectorAll("body script, img, iframe, object, embed, a[href^='javascript:' i]").length,
    handlers: document.querySelectorAll("[onerror], [onclick], [onload]").length,
    links: [...document.querySelectorAll("a")].filter((link) => link.origin !== location.origin).length,
    isWide: document.documentElement.scrollWidth > innerWidth,
  }));
}
const NONE = { wasRun: false, elements: 0, handlers: 0, links: 0, isWide: false };

inBrowser("hostile text", () => {
  it.each([1_440, 375])("is only text in every view at %i px", { timeout: 180_000 }, async (width) => {
    const { page, open, hf } = await openDashboard({ jobs: [fails], role: "admin", width, expected: /status of 400/ });
    const ids: string[] = [];
    for (const text of HOSTILE) {
      const name = nameOf(text);
      const { id } = await hf.enqueue(fails, { text }, { user: name, tags: [name], unique: { key: name } });
      ids.push(id);
      await hf.enqueueNamed(`${name}.other`, { [name]: text }, { queue: name, user: name, delay: "1h" });
      await hf.schedule(name, { job: fails, cron: "0 3 * * *", input: { text: text.slice(0, 1_000) } });
      await hf.tokens.create({ name, role: "user", user: name });
    }
    await hf.drain();
    for (const text of HOSTILE) await hf.pause(nameOf(text));
    hf.work();
    const views: (readonly [string, string])[] = [
      ["/", "main h2"],
      ["/jobs", "tr.job"],
      ...ids.map((id) => [`/jobs/${id}`, ".job-h"] as const),
      ["/failures", "main button[aria-expanded]"],
      ["/schedules", "main tbody tr"],
      ...HOSTILE.map((text) => [`/schedules/${encodeURIComponent(nameOf(text))}`, ".schedule-h"] as const),
      [`/schedules?edit=${encodeURIComponent(nameOf(MARKUP))}`, "dialog[open] form"],
      ["/queues", "main tbody tr"],
      ["/workers", "main tbody tr"],
      ["/audit", "main table, main .empty"],
      ["/tokens", "main tbody tr"],
      [`/jobs?q=${encodeURIComponent(`user:"${MARKUP}" ${MARKUP}`)}`, "main .note, main tr.job, main .empty"],
      [`/jobs/${encodeURIComponent(MARKUP)}`, "main .empty"],
    ];
    const found: Record<string, object> = {};
    for (const [path, ready] of views) {
      await open(path);
      await page.locator(ready).first().waitFor();
      const closed = page.locator("main button[aria-expanded=false]");
      if ((await closed.count()) > 0) await closed.first().click();
      found[path] = await faultsOf(page);
    }
    expect(found).toEqual(Object.fromEntries(views.map(([path]) => [path, NONE])));
  });

  it("is only text in the palette, messages, dialogs and exports", { timeout: 60_000 }, async () => {
    const { page, open, hf } = await openDashboard({ jobs: [fails], role: "admin" });
    const name = nameOf(MARKUP);
    const { id } = await hf.enqueue(fails, { text: MARKUP }, { user: name, tags: ["=1+1"] });
    await hf.drain();
    await hf.schedule(name, { job: fails, cron: "0 3 * * *", input: { text: "=1+1" } });
    await open("/schedules");
    await page.getByRole("switch").click();
    await page.locator(".toast").getByText(`Disabled ${name}.`).waitFor();
    expect(await faultsOf(page)).toEqual(NONE);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search or jump to" }).fill("<script");
    await page
      .getByRole("option", { name: `Schedule ${name}` })
      .first()
      .waitFor();
    expect(await faultsOf(page)).toEqual(NONE);
    await page.keyboard.press("Escape");

    await open("/jobs?q=state:dead");
    await page.locator("tr.job input").click();
    await page.keyboard.press("r");
    await page.getByRole("dialog").waitFor();
    expect(await faultsOf(page)).toEqual(NONE);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Export" }).click();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("menuitem", { name: /CSV/ }).first().click(),
    ]);
    const file = join(tmpdir(), `${randomUUID()}.csv`);
    await download.saveAs(file);
    const csv = await readFile(file, "utf8");
    expect(csv).toContain(id);
    // Nothing that a spreadsheet would compute.
    expect(csv).not.toMatch(/(?:^|,)"?[=+@\t-]/m);

    await open(`/jobs/${id}`);
    await page.getByRole("button", { name: "Edit and rerun…" }).click();
    await page.getByRole("dialog").waitFor();
    expect(await faultsOf(page)).toEqual(NONE);
  });
});
