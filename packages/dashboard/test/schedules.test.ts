import { job } from "holdfast";
import { expect, it } from "vitest";
import { z } from "zod";
import { engineOf } from "../../holdfast/dist/engine/client/holdfast.js";
import { newSchedule } from "../../holdfast/dist/testing/exercise-store/schedule-builders.js";
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
  it("keeps all digits of a stored input", async () => {
    const { page, hf, open } = await openDashboard();
    const input = '{"order":9007199254740993871,"price":0.1000000000000000055}';
    await engineOf(hf).store.putSchedule(newSchedule({ name: "orders", input }), null);
    await open("/schedules/orders");
    await page.locator("pre", { hasText: '"order": 9007199254740993871' }).waitFor();
    await page.getByRole("button", { name: "Edit…" }).click();
    const field = page.getByLabel("Input");
    expect(JSON.stringify(await field.inputValue())).toBe(
      JSON.stringify('{\n  "order": 9007199254740993871,\n  "price": 0.1000000000000000055\n}'),
    );
    await field.fill('{"order":9007199254740993872}');
    await page.getByRole("button", { name: "Save changes" }).click();
    await page.getByText("9007199254740993872 has more digits than a number in JavaScript.").waitFor();
    // Other fields can be changed, and the input stays.
    await field.fill('{\n  "order": 9007199254740993871,\n  "price": 0.1000000000000000055\n}');
    await page.getByText("More settings").click();
    await page.getByLabel("Priority").fill("7");
    await page.getByRole("button", { name: "Save changes" }).click();
    await announced(page, "Saved orders.");
    expect(await engineOf(hf).store.getSchedule("orders")).toMatchObject({ priority: 7, input });
  });

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
