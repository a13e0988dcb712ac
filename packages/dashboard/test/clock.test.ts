import { job } from "holdfast";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { serverNow, setServerTime } from "../src/app/now.js";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const HOUR_MS = 3_600_000;
const mail = job({ type: "email.welcome", run: () => "sent" });

/** Sets the clock of the browser wrong. It goes on. */
async function setClock(page: Page, byMs: number): Promise<void> {
  await page.clock.install({ time: Date.now() + byMs });
}

inBrowser("a browser whose clock is wrong", () => {
  it.each([
    ["an hour ahead", HOUR_MS],
    ["an hour behind", -HOUR_MS],
  ])("sees live workers and true ages, %s", async (_how, byMs) => {
    const { page, open, show, hf } = await openDashboard({ jobs: [mail], ownPage: true });
    hf.work();
    const { id } = await hf.enqueue(mail);
    await hf.result(id);
    await setClock(page, byMs);
    await open("/");
    await page.getByText("Nothing needs attention.").waitFor();
    await page.getByText("1 worker live").waitFor();
    await show("/workers");
    await page.getByText("1 live", { exact: true }).waitFor();
    await show("/jobs?q=created:<10m");
    const row = page.getByRole("row").filter({ hasText: "email.welcome" });
    await row.waitFor();
    expect(await row.locator("time").first().textContent()).toMatch(/^(?:now|\d+ s ago)$/);
  });

  it("deletes no job that was enqueued after the selection", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [mail], ownPage: true });
    await hf.enqueueMany(
      mail,
      Array.from({ length: 60 }, () => undefined),
    );
    await setClock(page, HOUR_MS);
    await open("/jobs?q=state:pending");
    await page.locator("tr.job").first().waitFor();
    await page.keyboard.press("a");
    await page.getByRole("button", { name: "Select all 60 matching" }).click();
    const { id } = await hf.enqueue(mail);
    await page.getByRole("toolbar").getByRole("button", { name: "Delete…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete 60 jobs" }).click();
    await page.locator(".ops").getByText("60 jobs deleted.").waitFor();
    expect((await hf.list()).jobs.map((left) => left.id)).toEqual([id]);
  });
});

describe("the time of the server", () => {
  it("is kept while it is possible, and corrected when it is not", () => {
    const about = (ms: number): number => Math.round((serverNow() - Date.now() - ms) / 100);
    // Sent 400 ms ago: both clocks may be equal.
    setServerTime(Date.now() - 200, Date.now() - 400);
    expect(about(0)).toBe(0);
    setServerTime(Date.now() + HOUR_MS, Date.now() - 400);
    expect(about(HOUR_MS)).toBe(0);
    setServerTime(Date.now() + HOUR_MS - 300, Date.now() - 400);
    expect(about(HOUR_MS)).toBe(0);
    // A response without the header.
    setServerTime(0, Date.now());
    expect(about(HOUR_MS)).toBe(0);
    setServerTime(Date.now(), Date.now() - 400);
    expect(about(400)).toBe(0);
  });
});
