import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { job, type Holdfast } from "holdfast";
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { z } from "zod";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const mail = job({ type: "email.welcome", input: z.any(), queue: "mail", run: () => "sent" });
const receipt = job({ type: "email.receipt", input: z.any(), queue: "mail", run: () => "sent" });
const sync = job({
  type: "gmail.sync",
  input: z.any(),
  queue: "sync",
  retry: { maxAttempts: 1 },
  run: () => {
    throw new Error("503 backendError: The service is currently unavailable");
  },
});
const jobs = [mail, receipt, sync];

/** Dead jobs. */
async function addDead(hf: Holdfast, count: number, user = "u-1"): Promise<void> {
  const inputs = Array.from({ length: count }, (_, at) => ({ at }));
  await hf.enqueueMany(sync, inputs, { user });
  await hf.drain();
}

const rows = (page: Page): ReturnType<Page["locator"]> => page.locator("tr.job");
const field = (page: Page): ReturnType<Page["locator"]> => page.getByRole("combobox", { name: "Filter jobs" });
const tab = (page: Page, name: RegExp): ReturnType<Page["locator"]> =>
  page.getByRole("group", { name: "State" }).getByRole("button", { name });
/** The result of an operation. */
const done = (page: Page, text: string): ReturnType<Page["locator"]> =>
  page.getByRole("region", { name: "Operations" }).getByText(text);

inBrowser("the list of jobs", () => {
  it("asks for the jobs before everything else, and once for their counts", async () => {
    const { page, open, hf, url } = await openDashboard({ jobs });
    await hf.enqueue(mail, { to: "ada" });
    const asked: string[] = [];
    page.on("request", (request) => {
      const path = request.url().slice(`${url}/api/admin/`.length);
      if (request.url().startsWith(`${url}/api/admin/`)) asked.push(path);
    });
    await open("/jobs");
    await tab(page, /pending 1/).waitFor();
    const ofView = asked.filter((path) => !["session", "events"].includes(path));
    expect(ofView[0]).toBe("jobs?limit=50&order=newest");
    expect(asked.filter((path) => path.startsWith("jobs/")).length).toBeLessThanOrEqual(1);
    expect(asked.filter((path) => path === "operations").length).toBeLessThanOrEqual(1);
  });

  it("shows jobs without a layout while it renders", async () => {
    const { page, open, hf } = await openDashboard({ jobs, ownPage: true });
    await hf.enqueue(mail, { to: "ada" });
    await page.addInitScript(() => {
      const property = Object.getOwnPropertyDescriptor(HTMLElement.prototype, "offsetLeft");
      Object.defineProperty(HTMLElement.prototype, "offsetLeft", {
        get(this: HTMLElement): unknown {
          document.documentElement.dataset["layouts"] = "read";
          return property?.get?.call(this);
        },
      });
    });
    await open("/jobs");
    await rows(page).first().waitFor();
    const read = page.locator("[data-layouts]");
    expect(await read.count()).toBe(0);
    await field(page).focus();
    await read.waitFor({ state: "attached" });
  });

  it("shows jobs newest first, and opens one", async () => {
    const { page, open, hf, url } = await openDashboard({ jobs });
    await addDead(hf, 1);
    const { id } = await hf.enqueue(mail, { to: "ada" }, { user: "ada", delay: "2h" });
    await open("/jobs");
    await rows(page).nth(1).waitFor();
    const [first, second] = await rows(page).allInnerTexts();
    expect(first).toMatch(/pending\s+email\.welcome\s+….{8}\s+mail\s+ada\s+0 \/ 4\s+.*due in 2 h/s);
    expect(second).toMatch(/dead\s+gmail\.sync.*u-1\s+503 backendError.*1 \/ 1.*died/s);
    // The whole row, not only its link.
    await rows(page).first().locator("td.num").first().click();
    await page.waitForURL(`${url}/jobs/${id}`);
    await page.goBack();
    // The row that was opened is still the current one.
    await page.locator(`tr.cursor[data-id="${id}"]`).waitFor();
    await page.keyboard.press("j");
    await page.locator("tr.cursor").getByText("gmail.sync").first().waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/jobs\/.+/);
  });

  it("filters by what is typed, suggested and chosen", async () => {
    const { page, open, hf } = await openDashboard({ jobs });
    await addDead(hf, 2);
    await hf.enqueue(mail, {}, { delay: "1h" });
    await hf.enqueue(receipt, {}, { delay: "1h", user: "Ada L" });
    await open("/jobs");
    await rows(page).nth(3).waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("gma");
    await page.getByRole("option", { name: /type:gmail\.sync/ }).waitFor();
    await page.keyboard.press("Enter");
    await expect.poll(() => rows(page).count()).toBe(2);
    expect(new URL(page.url()).searchParams.get("q")).toBe("type:gmail.sync");
    // Backspace edits the token.
    await page.keyboard.press("Backspace");
    expect(await field(page).inputValue()).toBe("type:gmail.sync");
    // The beginning of a name is completed.
    await field(page).fill("type:rec");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Remove type:email.receipt" }).waitFor();
    await page.keyboard.press("Backspace");
    await field(page).fill("type:email.*");
    await page.keyboard.press("Enter");
    await rows(page).getByText("email.receipt").waitFor();
    await expect.poll(() => rows(page).count()).toBe(2);
    await page.keyboard.type('user:"Ada L" ');
    await expect.poll(() => rows(page).count()).toBe(1);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await tab(page, /^dead/).click();
    await page.getByRole("heading", { name: "No job matches", exact: true }).waitFor();
    await page.goBack();
    await rows(page).first().waitFor();
    expect(new URL(page.url()).searchParams.get("q")).toBe('type:email.* user:"Ada L"');
    await page.reload();
    await rows(page).first().waitFor();
    expect(await rows(page).count()).toBe(1);
    await page.getByRole("button", { name: 'Remove user:"Ada L"' }).click();
    await expect.poll(() => rows(page).count()).toBe(2);
  });

  it("keeps its filter while a job is opened and loaded again", async () => {
    const { page, open, show, hf } = await openDashboard({ jobs });
    await addDead(hf, 2);
    const list = "/jobs?q=state%3Adead&order=oldest";
    const isBack = async (): Promise<void> => {
      await page.waitForURL((url) => url.pathname + url.search === list);
      await rows(page).nth(1).waitFor();
    };
    await open(list);
    for (const back of ["crumb", "Escape"]) {
      await rows(page).first().getByRole("link").click();
      await page.locator(".job-h").waitFor();
      await page.reload();
      await page.locator(".job-h").waitFor();
      if (back === "Escape") await page.keyboard.press("Escape");
      else await page.locator("header.top").getByRole("link", { name: "Jobs" }).click();
      await isBack();
    }
    // A job that was not opened from a list leads to all jobs.
    const [dead] = (await hf.list()).jobs;
    await show(`/jobs/${dead?.id}`);
    await page.locator("header.top").getByRole("link", { name: "Jobs" }).click();
    await page.waitForURL(/\/jobs$/);
  });

  it("says at a token why it is not used", async () => {
    const { page, open, hf } = await openDashboard({ jobs });
    await addDead(hf, 60);
    await open("/jobs?q=state:dead+worker:503");
    await rows(page).first().waitFor();
    await page.getByText("worker:503 is not used. The server cannot filter by worker yet").waitFor();
    // More jobs would match than were meant.
    await page.keyboard.press("a");
    await page.getByRole("toolbar").waitFor();
    expect(await page.getByText(/Select all/).count()).toBe(0);
  });

  it("counts states as the filter says", async () => {
    const { page, open, hf } = await openDashboard({ jobs });
    await addDead(hf, 3);
    await hf.enqueue(mail, {}, { delay: "1h", user: "ada" });
    await open("/jobs");
    await tab(page, /^All 4$/).waitFor();
    await tab(page, /^dead 3$/).waitFor();
    await open("/jobs?q=user:ada");
    await tab(page, /^All 1$/).waitFor();
    await tab(page, /^dead 0$/).waitFor();
    await tab(page, /^pending 1$/).waitFor();
  });

  it("changes rows in place, and gathers new ones", async () => {
    const { page, open, hf } = await openDashboard({ jobs });
    const { id } = await hf.enqueue(mail, {}, { delay: "1h" });
    await open("/jobs?q=state:pending");
    await rows(page).first().waitFor();
    const row = page.locator(`tr[data-id="${id}"]`);
    await hf.promote(id);
    await hf.drain();
    await row.getByText("completed").first().waitFor();
    // It no longer matches, and stays.
    expect(await row.getAttribute("class")).toContain("stale");
    await hf.enqueue(receipt, {}, { delay: "1h" });
    const chip = page.getByRole("button", { name: "1 new" });
    await chip.waitFor();
    expect(await rows(page).count()).toBe(1);
    await page.keyboard.press(".");
    await rows(page).getByText("email.receipt").waitFor();
    expect(await rows(page).count()).toBe(1);
    expect(await chip.count()).toBe(0);
  });

  it("changes nothing while it is paused", async () => {
    const { page, open, hf } = await openDashboard({ jobs });
    await hf.enqueue(mail, {}, { delay: "1h" });
    await open("/jobs");
    await rows(page).first().waitFor();
    await page.getByTitle("Pause live updates (p)").click();
    await page.getByTitle("Resume live updates (p)").waitFor();
    const { id } = await hf.enqueue(receipt, {}, { delay: "1h" });
    // A round trip after the enqueue.
    await hf.get(id);
    expect(await page.getByRole("button", { name: /new$/ }).count()).toBe(0);
    await page.keyboard.press("p");
    await page.getByRole("button", { name: "1 new" }).waitFor();
  });

  it("retries all that match, and keeps the filter", async () => {
    const { page, open, hf } = await openDashboard({ jobs, role: "admin" });
    await addDead(hf, 120);
    await open("/jobs?q=state:dead+user:u-1");
    await tab(page, /^dead 120$/).waitFor();
    await rows(page).first().getByRole("checkbox").click();
    await rows(page)
      .nth(4)
      .getByRole("checkbox")
      .click({ modifiers: ["Shift"] });
    await page.getByText("5 jobs are selected.").waitFor();
    await page.getByRole("button", { name: "Select all 120 matching" }).click();
    await page.keyboard.press("r");
    const dialog = page.getByRole("dialog", { name: "Retry 120 jobs" });
    await dialog.getByText("120 jobs match").waitFor();
    await dialog.getByRole("button", { name: "Retry 120 jobs" }).click();
    await done(page, "120 jobs retried.").waitFor();
    expect((await hf.stats()).states).toMatchObject({ pending: 120, dead: 0 });
    expect(new URL(page.url()).searchParams.get("q")).toBe("state:dead user:u-1");
    expect(await page.getByRole("toolbar").count()).toBe(0);
    await tab(page, /^pending 120$/).waitFor();
    const { entries } = await hf.audit.list();
    expect(entries[0]).toMatchObject({ action: "operation.retry", count: 120 });
  });

  it("skips jobs in other states, and says so", async () => {
    const { page, open, hf } = await openDashboard({ jobs });
    await addDead(hf, 1);
    const { id } = await hf.enqueue(mail, {}, { delay: "1h" });
    await open("/jobs");
    await rows(page).nth(1).waitFor();
    await page.keyboard.press("a");
    await page.getByRole("button", { name: "Priority…" }).click();
    const dialog = page.getByRole("dialog", { name: "Change the priority of 1 job" });
    await dialog.getByText("Skipped: 1 dead. Only pending and failed jobs can be chosen").waitFor();
    await dialog.getByLabel("New priority").fill("7");
    await page.keyboard.press("Enter");
    await done(page, "1 job changed.").waitFor();
    expect((await hf.get(id))?.priority).toBe(7);
    await page.keyboard.press("a");
    await page.getByRole("button", { name: "Change time…" }).click();
    await page.getByRole("radio", { name: "After" }).check();
    await page.getByLabel("Delay").fill("3h");
    await page.keyboard.press("Enter");
    await done(page, "1 job changed.").nth(1).waitFor();
    expect((await hf.get(id))?.runAt.getTime()).toBeGreaterThan(Date.now() + 2 * 3_600_000);
  });

  it("asks for the number before it deletes many", async () => {
    const { page, open, hf } = await openDashboard({ jobs });
    await addDead(hf, 1_001);
    await open("/jobs?q=state:dead");
    await rows(page).first().waitFor();
    await page.keyboard.press("a");
    await page.getByRole("button", { name: "Select all 1,001 matching" }).click();
    await page.getByRole("button", { name: "Delete…" }).click();
    const button = page.getByRole("dialog").getByRole("button", { name: "Delete 1,001 jobs" });
    await page.getByLabel("Type 1,001 to delete them").fill("1000");
    expect(await button.getAttribute("aria-disabled")).toBe("true");
    await page.getByLabel("Type 1,001 to delete them").fill("1,001");
    await button.click();
    await done(page, "1,001 jobs deleted.").waitFor();
    expect((await hf.stats()).states.dead).toBe(0);
  });

  it("shows each role what it may do", async () => {
    const { page, open, hf, url, context } = await openDashboard({ jobs, role: "viewer" });
    await addDead(hf, 1);
    await open("/jobs");
    await rows(page).first().waitFor();
    expect(await page.getByRole("checkbox").count()).toBe(0);
    const { token } = await hf.tokens.create({ name: "op", role: "operator" });
    await context.request.post(`${url}/api/admin/session`, { data: { token }, headers: { origin: url } });
    await page.reload();
    await rows(page).first().getByRole("checkbox").click();
    await page.getByRole("toolbar").getByRole("button", { name: "Retry…" }).waitFor();
    expect(await page.getByRole("button", { name: "Delete…" }).count()).toBe(0);
  });

  it("lets users retry their own jobs one by one", async () => {
    const { page, open, hf } = await openDashboard({ jobs, role: "user", user: "ada" });
    await addDead(hf, 60, "ada");
    await addDead(hf, 1, "eve");
    await open("/jobs");
    await tab(page, /^All 60$/).waitFor();
    await rows(page).first().getByRole("checkbox").click();
    await rows(page)
      .nth(2)
      .getByRole("checkbox")
      .click({ modifiers: ["Shift"] });
    expect(await page.getByText(/Select all/).count()).toBe(0);
    await page.keyboard.press("r");
    await page.getByRole("dialog").getByRole("button", { name: "Retry 3 jobs" }).click();
    await page.getByText("3 jobs retried.").first().waitFor();
    expect((await hf.stats()).states).toMatchObject({ pending: 3, dead: 58 });
  });

  it("goes on with a search until it has found", async () => {
    const { page, open, hf } = await openDashboard({ jobs });
    await hf.enqueueMany(mail, [{ order: { id: "o-17" } }], { delay: "1h" });
    await hf.enqueueMany(
      mail,
      Array.from({ length: 1_500 }, (_, at) => ({ order: { id: `x-${at}` } })),
      { delay: "1h" },
    );
    await open("/jobs?q=input.order.id:o-17");
    await rows(page).first().waitFor();
    expect(await rows(page).count()).toBe(1);
    await open("/jobs?q=input.order.id:o-18");
    await page.getByRole("heading", { name: "No job matches", exact: true }).waitFor();
    await page.getByRole("button", { name: "Clear the filter" }).click();
    await rows(page).nth(1).waitFor();
  });

  it("loads more while it is scrolled, with few rows in the page", async () => {
    const { page, open, hf } = await openDashboard({ jobs });
    const inputs = Array.from({ length: 420 }, (_, at) => ({ at }));
    await hf.enqueueMany(mail, inputs, { delay: "1h" });
    await open("/jobs");
    await rows(page).first().waitFor();
    expect(await rows(page).count()).toBe(50);
    const all = page.getByText("420 jobs", { exact: true });
    // It grows by a page at a time.
    for (let count = 50; count < 420; count += 50) {
      await page.mouse.wheel(0, 4_000);
      await page.locator(`table.jobs[aria-rowcount="${Math.min(420, count + 50) + 1}"]`).waitFor();
    }
    await all.waitFor();
    await page.mouse.wheel(0, 20_000);
    await page.locator('tr.job[aria-rowindex="421"]').waitFor();
    expect(await page.locator("table.jobs").getAttribute("aria-rowcount")).toBe("421");
    expect(await rows(page).count()).toBeLessThanOrEqual(200);
    expect(await rows(page).last().getAttribute("aria-rowindex")).toBe("421");
  });

  it("shows what jobs contain as text", async () => {
    const evil = job({
      type: "<img src=x onerror=alert(1)>",
      input: z.any(),
      queue: "\u202Eq",
      retry: { maxAttempts: 1 },
      run: () => {
        throw new Error(`\u001B[31m<script>alert(1)</script>\u001B[0m ${"x".repeat(100_000)}`);
      },
    });
    const { page, open, hf } = await openDashboard({ jobs: [evil] });
    await hf.enqueue(evil, {}, { user: "javascript:alert(1)" });
    await hf.drain();
    await open("/jobs");
    await rows(page).first().waitFor();
    expect(await rows(page).locator("a.strong").innerText()).toBe(evil.type);
    await rows(page).getByText("javascript:alert(1)").waitFor();
    const error = await rows(page).locator("td.fill").innerText();
    expect(error).toMatch(/^<script>alert\(1\)<\/script> x+…$/);
    expect(error.length).toBeLessThan(400);
    expect(await page.locator("main img, main script").count()).toBe(0);
  });

  it("exports what is shown, or all that matches", async () => {
    const { page, open, hf } = await openDashboard({ jobs });
    await addDead(hf, 220);
    await hf.enqueue(mail, {}, { delay: "1h" });
    await open("/jobs?q=state:dead");
    await rows(page).first().waitFor();
    const save = async (nth: number): Promise<string> => {
      await page.getByRole("button", { name: "Export" }).click();
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("menuitem").nth(nth).click(),
      ]);
      const parts = await (await download.createReadStream()).toArray();
      return `${download.suggestedFilename()}\n${parts.join("")}`;
    };
    const [name, ...lines] = (await save(1)).trim().split(/\r?\n/);
    expect(name).toMatch(/^jobs-.*\.csv$/);
    expect(lines).toHaveLength(51);
    const all = await save(2);
    expect(JSON.parse(all.slice(all.indexOf("\n")))).toHaveLength(220);
  });

  it("keeps filters by name", async () => {
    const { page, open, hf } = await openDashboard({ jobs });
    await addDead(hf, 2);
    await open("/jobs?q=state:dead");
    await rows(page).first().waitFor();
    await page.getByRole("button", { name: "Views" }).click();
    await page.getByRole("menuitem", { name: "Save this filter…" }).click();
    await page.getByLabel("Name").fill("My dead");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Clear", exact: true }).click();
    await page.getByRole("button", { name: "Views" }).click();
    await page.getByRole("menuitem", { name: "My dead state:dead" }).click();
    await page.getByRole("button", { name: "Remove state:dead" }).waitFor();
  });

  it("says that there are no jobs, until there is one", async () => {
    const { page, open, hf } = await openDashboard({ jobs });
    await open("/jobs");
    await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
    await hf.enqueue(mail, {}, { delay: "1h" });
    await rows(page).first().waitFor();
  });

  for (const colorScheme of ["light", "dark"] as const) {
    it(`has no serious accessibility issue in ${colorScheme}`, async () => {
      const { page, open, hf } = await openDashboard({ jobs, colorScheme });
      await addDead(hf, 3);
      await hf.enqueue(mail, {}, { delay: "1h" });
      await open("/jobs?q=-state:running+worker:x");
      await rows(page).first().waitFor();
      expect(await seriousIssues(page)).toEqual([]);
      await page.keyboard.press("a");
      await page.getByRole("button", { name: "Delete…" }).click();
      await page.getByRole("dialog").getByText("4 jobs are selected").waitFor();
      expect(await seriousIssues(page)).toEqual([]);
      await page.keyboard.press("Escape");
      await page.setViewportSize({ width: 375, height: 800 });
      await field(page).click();
      await page.getByRole("option").first().waitFor();
      expect(await seriousIssues(page)).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(375);
    });
  }
});

const axe = createRequire(import.meta.url).resolve("axe-core");

async function seriousIssues(page: Page): Promise<string[]> {
  await page.evaluate(await readFile(axe, "utf8"));
  const violations = (await page.evaluate("axe.run('main')")) as {
    violations: { id: string; impact: string; nodes: { html: string }[] }[];
  };
  return violations.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join("\n")}`);
}
