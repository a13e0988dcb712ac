import { job } from "holdfast";
import { expect, it } from "vitest";
import { z } from "zod";
import {
  announced,
  inBrowser,
  openDashboard,
  signal,
  useBrowser,
  type Dashboard,
  type DashboardOptions,
} from "./scene.js";

useBrowser();

const report = job({ type: "report", queue: "reports", run: () => "done" });
const close = job({
  type: "invoice.close",
  input: z.object({ months: z.number() }),
  retry: { maxAttempts: 1 },
  run: () => {
    throw new Error("the ledger is locked");
  },
});

async function openSchedules(path: string, options: DashboardOptions = {}): Promise<Dashboard> {
  const scene = await openDashboard({ jobs: [report, close], ...options });
  const { hf } = scene;
  await hf.schedule("nightly", { job: report, cron: "30 2 * * MON-FRI", timezone: "Europe/Berlin" });
  await hf.schedule("us sales/tax", {
    job: close,
    cron: "30 2 * * SUN#2",
    timezone: "America/New_York",
    input: { months: 1 },
  });
  await scene.open(path);
  return scene;
}

inBrowser("schedules", () => {
  it("keeps the old value while a change is pending", async () => {
    const { page } = await openSchedules("/schedules");
    const toggle = page.getByRole("switch", { name: "nightly is enabled" });
    const release = signal();
    await page.route("**/disable", async (route) => {
      await release.promise;
      await route.continue();
    });
    await toggle.click();
    await page.locator('.toggle[aria-busy="true"]').waitFor();
    expect(await toggle.getAttribute("aria-checked")).toBe("true");
    release.resolve();
    await page.locator('.toggle[aria-label="nightly is enabled"][aria-checked="false"]').waitFor();
  });

  it("shows the runs of the latest timing only", async () => {
    const { page } = await openSchedules("/schedules?new=1");
    const runs = page.locator(".runs-t tbody tr").first();
    await runs.waitFor();
    const release = signal();
    const slow = signal();
    await page.route("**/schedules/preview", async (route) => {
      const { cron } = route.request().postDataJSON() as { cron: string };
      if (cron !== "1 1 1 1 *") return route.continue();
      slow.resolve();
      await release.promise;
      await route.continue().catch(() => {});
    });
    await page.getByLabel("Runs").fill("1 1 1 1 *");
    await slow.promise;
    await page.getByLabel("Runs").fill("0 12 24 12 *");
    await page.locator(".runs-t").getByText("24 Dec").first().waitFor();
    const late = page.waitForResponse("**/schedules/preview");
    release.resolve();
    await late;
    expect(await page.locator(".runs-t").textContent()).not.toContain("1 Jan");
  });

  it("changes a pattern to an interval", async () => {
    const { page, hf } = await openSchedules("/schedules?edit=nightly");
    await page.getByRole("button", { name: "Interval" }).click();
    await page.getByLabel("Runs").fill("20m");
    await page.getByRole("button", { name: "Save changes" }).click();
    await announced(page, "Saved nightly.");
    expect(await hf.schedules.get("nightly")).toMatchObject({ cron: null, everyMs: 1_200_000 });
  });
});
