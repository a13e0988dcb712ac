import { job, type Holdfast } from "holdfast";
import { expect, it } from "vitest";
import { z } from "zod";
import { skippedWords } from "../src/views/jobs/skipped-words.js";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const sync = job({
  type: "gmail.sync",
  input: z.any(),
  retry: { maxAttempts: 1 },
  run: () => fail("503 backendError"),
});
const other = job({ type: "other", input: z.any(), retry: { maxAttempts: 1 }, run: () => fail("no template") });

function fail(message: string): never {
  throw new Error(message);
}

async function addDead(hf: Holdfast, count: number): Promise<void> {
  await hf.enqueueMany(
    sync,
    Array.from({ length: count }, () => ({})),
  );
  await hf.drain();
}

inBrowser("the dialog of a bulk change", () => {
  it("retries ten first, then asks again", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [sync], role: "operator" });
    await addDead(hf, 60);
    await open("/jobs?q=state:dead");
    await page.locator("tr.job").first().waitFor();
    await page.keyboard.press("a");
    await page.getByRole("button", { name: "Select all 60 matching" }).click();
    await page.keyboard.press("r");
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("radio", { name: "First" }).check();
    await dialog.getByRole("button", { name: "Retry 10 jobs" }).click();
    await dialog.getByText("10 jobs retried. See how they do, then go on.").waitFor();
    expect((await hf.stats()).states).toMatchObject({ pending: 10, dead: 50 });
    await dialog.getByRole("button", { name: "Retry 50 jobs" }).click();
    await page.locator(".ops").getByText("50 jobs retried.").waitFor();
    expect((await hf.stats()).states).toMatchObject({ pending: 60, dead: 0 });
  });

  it("starts a change at a rate, and shows when it ends", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [sync], role: "operator" });
    await addDead(hf, 60);
    await open("/jobs?q=state:dead");
    await page.locator("tr.job").first().waitFor();
    await page.keyboard.press("a");
    await page.getByRole("button", { name: "Select all 60 matching" }).click();
    await page.keyboard.press("r");
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Jobs a second").fill("0.5");
    await dialog.getByText(/ends about \d\d:\d\d/).waitFor();
    await dialog.getByRole("button", { name: "Retry 60 jobs" }).click();
    const panel = page.getByRole("region", { name: "Operations" });
    await panel.getByText("at 0.5 a second").waitFor();
    await panel.getByRole("button", { name: "Stop" }).click();
    await panel.getByText(/^Stopped\./).waitFor();
    expect((await hf.stats()).states.dead).toBeGreaterThan(50);
  });

  it("leads to its entries of the audit log", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [sync], role: "admin" });
    await addDead(hf, 2);
    await open("/queues");
    await page.getByRole("button", { name: "Pause all" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Pause all" }).click();
    await page.getByText("All queues are paused").first().waitFor();
    await open("/jobs?q=state:dead");
    await page.locator("tr.job").nth(1).waitFor();
    await page.keyboard.press("a");
    await page.keyboard.press("r");
    await page.getByRole("dialog").getByRole("button", { name: "Retry 2 jobs" }).click();
    await page.locator(".ops").getByText("2 jobs retried.").waitFor();
    await page.locator(".ops").getByRole("link", { name: "Audit" }).click();
    const rows = page.locator("tbody tr");
    await rows.filter({ hasText: "jobs.retryMany" }).waitFor();
    await rows.filter({ hasText: "operation.retry" }).waitFor();
    expect(await rows.count()).toBe(2);
    expect(await page.getByLabel("Who").inputValue()).toBe("token:admin");
  });

  it("says before and after what is skipped", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [sync, other], role: "operator" });
    const { id } = await hf.enqueue(sync, {}, { unique: "k" });
    await hf.drain();
    await addDead(hf, 2);
    await hf.enqueue(sync, {}, { unique: "k", delay: "1h" });
    await open("/jobs?q=type:gmail.sync");
    await page.locator("tr.job").first().waitFor();
    await page.keyboard.press("a");
    await page.keyboard.press("r");
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Retry 3 jobs" }).click();
    await page.locator(".ops").getByText("2 jobs retried. 1 skipped: another job holds the unique key.").waitFor();
    expect((await hf.get(id))?.state).toBe("dead");
  });

  it("filters by the text of errors", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [sync, other] });
    await addDead(hf, 2);
    await hf.enqueue(other, {});
    await hf.drain();
    await open('/jobs?q=error:"BACKENDerror"');
    await page.locator("tr.job").nth(1).waitFor();
    expect(await page.locator("tr.job").count()).toBe(2);
    expect(await page.locator("tr.job").getByText("other").count()).toBe(0);
  });
});

it("has words for why jobs are skipped", () => {
  expect(skippedWords({})).toBe("");
  expect(skippedWords({ finished: 2, "key-held": 1_006 })).toBe(
    "1,006 skipped: another job holds the unique key; 2 skipped: finished",
  );
  expect(skippedWords({ constructor: 1 })).toBe("1 skipped: constructor");
});
