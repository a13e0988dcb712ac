import { job, type Holdfast } from "holdfast";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

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

async function fill(hf: Holdfast): Promise<{ dead: string }> {
  await hf.enqueueMany(sync, [undefined, undefined, undefined]);
  await hf.drain();
  await hf.enqueue(report, undefined, { delay: "2h" });
  await hf.schedule("nightly", { job: report, cron: "0 3 * * *" });
  hf.work({ queues: ["none"] });
  const { jobs } = await hf.list({ state: "dead", limit: 1 });
  return { dead: jobs[0]?.id ?? "" };
}

/** The keyboard's focus. */
interface Focus {
  /** The number of the control; null: it has none. */
  at: string | null;
  text: string;
  isInDialog: boolean;
  isVisible: boolean;
}

/** Numbers all controls that can be used, as they stand in the page. */
function numberControls(page: Page, area: string): Promise<string[]> {
  return page.evaluate((selector) => {
    const controls = [
      ...document.querySelectorAll<HTMLElement>(`${selector} :is(a[href], button, input, select, textarea, summary)`),
    ].filter((each) => each.checkVisibility() && each.tabIndex >= 0 && !each.matches(":disabled, [popover] *"));
    return controls.map((each, at) => {
      each.dataset["at"] = String(at);
      return each.outerHTML.slice(0, 120);
    });
  }, area);
}

function focusOf(page: Page): Promise<Focus> {
  return page.evaluate(() => {
    const { activeElement: found } = document;
    // Of a checkbox in a table, it is around the box; of a field with a button, around both.
    const places = [found, found?.parentElement].flatMap((each) =>
      each instanceof HTMLElement ? [getComputedStyle(each), getComputedStyle(each, "::before")] : [],
    );
    const hasRing = places.some(({ outlineStyle, outlineWidth }) => outlineStyle !== "none" && outlineWidth !== "0px");
    return {
      at: found instanceof HTMLElement ? (found.dataset["at"] ?? null) : null,
      text: found?.outerHTML.slice(0, 120) ?? "",
      isInDialog: found?.closest("dialog[open]") !== null,
      isVisible: hasRing,
    };
  });
}

const VIEWS = [
  ["/", "main h2"],
  ["/jobs", "tr.job"],
  ["/jobs/:id", ".job-h"],
  ["/failures", "main button[aria-expanded]"],
  ["/schedules", "main tbody tr"],
  ["/schedules/nightly", ".schedule-h"],
  ["/queues", "main tbody tr"],
  ["/workers", "main tbody tr"],
  ["/audit", "main table, main .empty"],
  ["/tokens", "main tbody tr"],
] as const;

inBrowser("the keyboard", () => {
  it.each(VIEWS)(
    "reaches every control of %s with Tab, and shows where it is",
    { timeout: 60_000 },
    async (path, ready) => {
      const { page, open, hf } = await openDashboard({ jobs: [sync, report], role: "admin" });
      const { dead } = await fill(hf);
      await open(path.replace(":id", dead));
      await page.locator(ready).first().waitFor();
      // Rows that change meanwhile would be new controls.
      await page.keyboard.press("p");
      const controls = await numberControls(page, "body");
      const reached = new Set<string>();
      const invisible: string[] = [];
      // Fields of times have a stop for each of their parts.
      for (let presses = 0; presses < controls.length + 30 && reached.size < controls.length; presses++) {
        await page.keyboard.press("Tab");
        const { at, text, isVisible } = await focusOf(page);
        if (at === null) continue;
        reached.add(at);
        if (!isVisible) invisible.push(text);
      }
      expect(controls.filter((_, at) => !reached.has(String(at)))).toEqual([]);
      expect(invisible).toEqual([]);
    },
  );

  it("opens every view with the palette", { timeout: 60_000 }, async () => {
    const { page, open } = await openDashboard({ jobs: [sync, report], role: "admin" });
    await open("/jobs");
    for (const title of ["Overview", "Failures", "Schedules", "Queues", "Workers", "Audit log", "API tokens", "Jobs"]) {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "Search or jump to" }).fill(title);
      await page.getByRole("option", { name: title }).first().waitFor();
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: title, level: 1 }).waitFor();
    }
  });

  /** The view, what opens the dialog, and the key for it; the name of the dialog. */
  it.each([
    ["/jobs", "button:has-text('Enqueue')", "Enter", "Enqueue a job"],
    ["/jobs", "button.find", "Enter", "Search or jump to"],
    ["/jobs", ".side-foot button:last-child", "Enter", "Account"],
    ["/jobs", "button:has-text('Views')", "?", "Keyboard"],
    ["/jobs/:id", ".job-h button:has-text('Edit and rerun')", "Enter", /./],
    ["/schedules", "button:has-text('New schedule')", "Enter", "New schedule"],
    ["/schedules/nightly", "button:has-text('Edit…')", "Enter", "Edit nightly"],
    ["/schedules/nightly", "button:has-text('Delete…')", "Enter", "Delete schedule"],
    ["/queues", "button:has-text('Pause all')", "Enter", /./],
    ["/tokens", "button:has-text('New token')", "Enter", "New API token"],
    ["/tokens", "button[aria-label^='Revoke']", "Enter", /./],
  ])("keeps the focus in the dialog: %s, %s", { timeout: 60_000 }, async (path, opener, key, name) => {
    const { page, open, hf } = await openDashboard({ jobs: [sync, report], role: "admin" });
    const { dead } = await fill(hf);
    await open(path.replace(":id", dead));
    const button = page.locator(opener).first();
    await button.focus();
    await page.keyboard.press(key);
    const dialog = page.getByRole("dialog", { name });
    await dialog.waitFor();
    await expect.poll(async () => (await focusOf(page)).isInDialog).toBe(true);
    const count = (await numberControls(page, "dialog[open]")).length;
    const reached = new Set<string>();
    for (const step of ["Tab", "Shift+Tab"]) {
      for (let presses = 0; presses < count + 3; presses++) {
        await page.keyboard.press(step);
        const { at, text, isInDialog } = await focusOf(page);
        // After the last control, the browser's own come.
        if (!isInDialog) expect(text).toMatch(/^<body/);
        if (at !== null) reached.add(at);
      }
    }
    expect(reached.size).toBe(count);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    expect(await button.evaluate((each) => each === document.activeElement)).toBe(true);
  });

  it("moves, selects and retries in the list of jobs", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [sync, report], role: "operator" });
    await fill(hf);
    await open("/jobs?q=state:dead");
    await page.locator("tr.job").nth(2).waitFor();
    await page.keyboard.press("/");
    expect(await page.evaluate(() => document.activeElement?.getAttribute("aria-label"))).toBe("Filter jobs");
    // A letter in the field is a letter.
    await page.keyboard.press("j");
    expect(await page.getByRole("combobox", { name: "Filter jobs" }).inputValue()).toBe("j");
    await page.keyboard.press("Backspace");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    for (const key of ["j", "x", "j", "j", "k", "x"]) await page.keyboard.press(key);
    await page.getByRole("toolbar").getByText("2 selected").waitFor();
    await page.keyboard.press("r");
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Retry 2 jobs" }).focus();
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    await expect.poll(async () => (await hf.stats()).states.dead).toBe(1);
    expect(new URL(page.url()).searchParams.get("q")).toBe("state:dead");
    await page.keyboard.press("k");
    await page.locator("tr.cursor").waitFor();
  });
});
