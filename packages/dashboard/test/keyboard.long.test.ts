import { job, type Holdfast } from "holdfast";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { inBrowser, openDashboard, useBrowser, type Dashboard } from "./scene.js";

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

/** Moves the focus with Tab until it is on a control with these words. */
async function tabTo(page: Page, words: RegExp, area = "body"): Promise<void> {
  for (let presses = 0; presses < 80; presses++) {
    const found = await page.evaluate((selector) => {
      const { activeElement: at } = document;
      return at !== null && at !== document.body && at.closest(selector) !== null
        ? `${at.getAttribute("aria-label") ?? ""} ${at.textContent} ${(at as HTMLInputElement).labels?.[0]?.textContent ?? ""}`
        : "";
    }, area);
    if (words.test(found)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`Tab does not reach ${String(words)}`);
}

inBrowser("by the keyboard alone, an operator", () => {
  /** The list of waiting jobs, with two selected. */
  async function openSelected(): Promise<Pick<Dashboard, "page" | "hf">> {
    const { page, open, hf } = await openDashboard({ jobs: [sync, report], role: "admin" });
    await hf.enqueueMany(report, [undefined, undefined, undefined], { delay: "2h" });
    await open("/jobs?q=state:pending");
    await page.locator("tr.job").nth(2).waitFor();
    for (const key of ["j", "x", "j", "X"]) await page.keyboard.press(key);
    await page.getByRole("toolbar").getByText("2 selected").waitFor();
    return { page, hf };
  }
  const press = async (page: Page, words: RegExp, area = "body"): Promise<void> => {
    await tabTo(page, words, area);
    await page.keyboard.press("Enter");
  };
  const DIALOG = "dialog[open]";
  const done = (page: Page, text: string): Promise<void> => page.locator(".ops").getByText(text).waitFor();

  it("selects a range, and cancels it", async () => {
    const { page, hf } = await openSelected();
    await press(page, /^\W*Cancel…/, "[role=toolbar]");
    await press(page, /Cancel 2 jobs/, DIALOG);
    await done(page, "2 jobs cancelled.");
    expect((await hf.stats()).states).toMatchObject({ cancelled: 2, pending: 1 });
  });

  it("deletes jobs", async () => {
    const { page, hf } = await openSelected();
    await press(page, /Delete…/, "[role=toolbar]");
    await press(page, /Delete 2 jobs/, DIALOG);
    await done(page, "2 jobs deleted.");
    expect((await hf.stats()).states.pending).toBe(1);
  });

  it("changes priorities", async () => {
    const { page, hf } = await openSelected();
    await press(page, /Priority…/, "[role=toolbar]");
    await tabTo(page, /New priority/, DIALOG);
    await page.keyboard.press("Control+a");
    await page.keyboard.type("7");
    await page.getByRole("dialog").getByText("2 jobs", { exact: true }).waitFor();
    await page.keyboard.press("Enter");
    await done(page, "2 jobs changed.");
    expect((await hf.list({ priority: 7 })).jobs).toHaveLength(2);
  });

  it("changes times", async () => {
    const { page, hf } = await openSelected();
    await press(page, /Change time…/, "[role=toolbar]");
    await tabTo(page, /Delay, such as/, DIALOG);
    await page.keyboard.press("Control+a");
    await page.keyboard.type("5d");
    await page.getByRole("dialog").getByText("2 jobs", { exact: true }).waitFor();
    await page.keyboard.press("Enter");
    await done(page, "2 jobs changed.");
    const days = (await hf.list()).jobs.map(({ runAt }) => Math.round((runAt.getTime() - Date.now()) / 86_400_000));
    expect(days.filter((each) => each === 5)).toHaveLength(2);
  });

  it("exports what is shown", async () => {
    const { page } = await openSelected();
    await page.keyboard.press("Escape");
    await press(page, /Export/);
    // The menu takes the focus after it has opened.
    await page.locator("[role=menuitem]:focus").waitFor();
    const saved = page.waitForEvent("download");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    expect((await saved).suggestedFilename()).toMatch(/^jobs-.*\.csv$/);
  });

  it("goes through jobs, edits one and comes back", async () => {
    const { page, hf } = await openSelected();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Enter");
    await page.locator(".job-h").waitFor();
    const { pathname: second } = new URL(page.url());
    await page.keyboard.press("k");
    await page.waitForURL((url) => url.pathname !== second);
    await page.locator(".job-h").waitFor();
    await page.keyboard.press("j");
    await page.waitForURL((url) => url.pathname === second);
    await page.getByRole("heading", { name: /It is due in/ }).waitFor();
    await page.keyboard.press("e");
    await tabTo(page, /Priority/, DIALOG);
    await page.keyboard.press("Control+a");
    await page.keyboard.type("9");
    await page.keyboard.press("Enter");
    await page.locator(".toast", { hasText: "The job is changed." }).waitFor();
    expect((await hf.get(second.split("/").at(-1) as never))?.priority).toBe(9);
    await page.keyboard.press("Escape");
    await page.waitForURL((url) => url.search === "?q=state:pending");
  });

  it("switches a schedule and the theme", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [sync, report], role: "operator" });
    await fill(hf);
    await open("/schedules");
    await page.getByRole("switch").waitFor();
    await tabTo(page, /nightly is enabled/);
    await page.keyboard.press("Space");
    await page.getByRole("switch", { checked: false }).waitFor();
    expect((await hf.schedules.get("nightly"))?.enabled).toBe(false);
    const theme = (): Promise<string | null> => page.evaluate(() => document.documentElement.dataset["theme"] ?? null);
    for (const next of ["light", "dark", null]) {
      await page.keyboard.press("t");
      expect(await theme()).toBe(next);
    }
  });
});

inBrowser("by mouse, an operator", () => {
  it("selects with Shift, and lets jobs run at a date", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [sync, report], role: "operator" });
    await hf.enqueueMany(report, [undefined, undefined, undefined, undefined], { delay: "2h" });
    await open("/jobs?q=state:pending");
    const boxes = page.locator("tr.job").getByRole("checkbox");
    await boxes.nth(3).waitFor();
    await boxes.nth(0).click();
    await boxes.nth(2).click({ modifiers: ["Shift"] });
    await page.getByRole("toolbar").getByText("3 selected").waitFor();
    expect(await boxes.nth(1).isChecked()).toBe(true);
    await page.getByRole("toolbar").getByRole("button", { name: "Change time…" }).click();
    const dialog = page.getByRole("dialog");
    // The browser is in Berlin.
    await dialog.getByLabel("Date and time").fill("2031-01-15T13:30");
    await dialog.getByRole("button", { name: "Change the time of 3 jobs" }).click();
    const card = page.locator(".ops");
    await card.getByText("3 jobs changed.").waitFor();
    const times = (await hf.list()).jobs.map(({ runAt }) => runAt.toISOString());
    expect(times.filter((time) => time === "2031-01-15T12:30:00.000Z")).toHaveLength(3);
    await card.getByRole("button", { name: "Dismiss" }).click();
    await card.waitFor({ state: "detached" });
  });
});
