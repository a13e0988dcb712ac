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

  it("finds the next of many, and those that are not listed", async () => {
    const { page, hf, open, show } = await openDashboard();
    const { store } = engineOf(hf);
    const soon = Date.now() + 600_000;
    for (let at = 0; at < 1_010; at++) {
      const name = `nightly-${String(at).padStart(4, "0")}`;
      // Names in the order of the list, next runs in the opposite one.
      await store.putSchedule(newSchedule({ name, nextRunAt: soon + (2_000 - at) * 1_000 }), null);
    }
    await open("/");
    const card = page.locator("section", { has: page.getByRole("heading", { name: "Next schedules" }) });
    await card.getByText("of the first 1,000 by name").waitFor();
    expect(
      await card
        .getByRole("link", { name: /^nightly-/ })
        .first()
        .textContent(),
    ).toBe("nightly-0999");
    await show("/schedules");
    await page.getByText("The first 1,000 schedules; the filter finds the others").waitFor();
    await page.getByLabel("Filter schedules").fill("Mail 1005");
    await page.getByRole("link", { name: "nightly-1005" }).waitFor();
    expect(await page.getByRole("switch").count()).toBe(1);
    await page.getByLabel("Filter schedules").fill("1010");
    await page.getByText("No schedule matches").waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search" }).fill("schedule 1008");
    await page.getByRole("option", { name: /Schedule nightly-1008/ }).waitFor();
  });

  it("shows the runs that it missed while it was paused", async () => {
    const { page, hf } = await openSchedules("/schedules");
    hf.work();
    const row = page.getByRole("row", { name: /nightly/ });
    await row.getByText("none yet").waitFor();
    await page.getByRole("button", { name: "Live" }).click();
    await page.getByRole("button", { name: "Paused" }).waitFor();
    const { id } = await hf.schedules.runNow("nightly");
    await hf.result(id);
    await page.getByRole("button", { name: "Paused" }).click();
    await row.getByRole("img", { name: "Last 1 runs: 1 completed" }).waitFor();
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
