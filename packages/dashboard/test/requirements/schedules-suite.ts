import { job } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { expect, it } from "vitest";
import { z } from "zod";
import {
  announced,
  inBrowser,
  openDashboard,
  type Dashboard,
  type DashboardOptions,
  useBrowser,
  type bothStores,
} from "../scene.js";

const report = job({ type: "report", queue: "reports", run: () => "done" });
const close = job({
  type: "invoice.close",
  input: z.object({ months: z.number() }),
  retry: { maxAttempts: 1 },
  run: () => {
    throw new Error("the ledger is locked");
  },
});

async function openSchedules(store: string, path: string, options: DashboardOptions = {}): Promise<Dashboard> {
  const scene = await openDashboard({ store, jobs: [report, close], ...options });
  const { hf } = scene;
  await hf.schedule("nightly", { job: report, cron: "30 2 * * MON-FRI", timezone: "Europe/Berlin" });
  await hf.schedule("us sales/tax", {
    job: close,
    cron: "30 2 * * SUN#2",
    timezone: "America/New_York",
    input: { months: 1 },
  });
  hf.work();
  await scene.open(path);
  return scene;
}

/** Runs on SQLite with `npm test`, and on PostgreSQL with `npm run test:all`. */
export function schedulesOn(stores: ReturnType<typeof bothStores>): void {
  useBrowser();

  inBrowser.each(stores)("schedules on %s", (_name, store) => {
    it("C-19 lists timing, next run and last outcome", async () => {
      const { page, hf } = await openSchedules(store(), "/schedules");
      const row = page.getByRole("row", { name: /us sales\/tax/ });
      await row.locator("small").getByText("At 02:30, on the second Sunday of every month").waitFor();
      await row.getByText("America/New_York").waitFor();
      await row.getByText("never").waitFor();
      await row.getByText("none yet").waitFor();
      await page
        .getByRole("row", { name: /nightly/ })
        .locator("small")
        .getByText("At 02:30, Monday to Friday")
        .waitFor();
      expect(await row.locator("time").last().getAttribute("datetime")).toBe(
        (await hf.schedules.get("us sales/tax"))?.nextRunAt?.toISOString(),
      );
      // A run appears by the event stream, with its outcome.
      await hf.schedules.runNow("us sales/tax");
      await row.getByText("dead", { exact: true }).waitFor();
      await row.getByRole("img", { name: "Last 1 runs: 1 dead" }).waitFor();
    });

    it("C-19 disables and enables with Undo", async () => {
      const { page, hf } = await openSchedules(store(), "/schedules", { role: "operator" });
      const toggle = page.getByRole("switch", { name: "nightly is enabled" });
      await toggle.click();
      await announced(page, "Disabled nightly.");
      await page
        .getByRole("row", { name: /nightly/ })
        .getByText("off", { exact: true })
        .waitFor();
      expect((await hf.schedules.get("nightly"))?.enabled).toBe(false);
      await page.getByRole("button", { name: "Undo" }).click();
      await announced(page, "Enabled nightly, from its next slot.");
      expect((await hf.schedules.get("nightly"))?.enabled).toBe(true);
    });

    it("C-19 lets a viewer read, not change", async () => {
      const { page } = await openSchedules(store(), "/schedules", { role: "viewer" });
      await page.getByRole("link", { name: "nightly" }).waitFor();
      expect(await page.getByRole("switch").count()).toBe(0);
      expect(await page.getByRole("button", { name: /New schedule|Run now|Actions for/ }).count()).toBe(0);
      await page.goto(`${page.url()}?edit=nightly`);
      await page.getByRole("link", { name: "nightly" }).waitFor();
      expect(await page.getByRole("dialog").count()).toBe(0);
    });

    it("C-19 creates a schedule with live feedback", async () => {
      const { page, hf } = await openSchedules(store(), "/schedules", { expected: /400/ });
      await page.getByRole("button", { name: "New schedule" }).click();
      const dialog = page.getByRole("dialog", { name: "New schedule" });
      await dialog.getByLabel("Name").fill("closing");
      await dialog.getByLabel("Job type").fill("invoice.close");
      await dialog.getByLabel("Time zone").fill("America/New_York");
      await dialog.getByLabel("Runs").fill("0 25 * * *");
      await dialog.getByText(/The hour field|the hour field "25" has "25"/).waitFor();
      expect(await dialog.getByLabel("Runs").getAttribute("aria-invalid")).toBe("true");
      await dialog.getByLabel("Runs").fill("30 2 * * SUN#2");
      await dialog.getByText("At 02:30, on the second Sunday of every month").waitFor();
      // A header and the next five runs.
      await dialog.getByRole("row").nth(5).waitFor();
      expect(await dialog.getByRole("columnheader").allTextContents()).toEqual(["Day", "New York", "Berlin (you)"]);
      await dialog.getByLabel("Input").fill('{ "months": "1" }');
      await dialog.getByRole("button", { name: "Create schedule" }).click();
      await dialog.getByText("months: expected number, received string.").waitFor();
      await dialog.getByText("1 field to correct").waitFor();
      expect(await dialog.getByLabel("Input").getAttribute("aria-invalid")).toBe("true");
      await dialog.getByLabel("Input").fill('{ "months": 1 }');
      await dialog.getByText("More settings").click();
      await dialog.getByLabel("Tags").fill("tax, us");
      await dialog.getByRole("button", { name: "Create schedule" }).click();
      await announced(page, "Created closing.");
      await page.getByRole("link", { name: "closing" }).waitFor();
      expect(await hf.schedules.get("closing")).toMatchObject({
        cron: "30 2 * * SUN#2",
        timezone: "America/New_York",
        input: { months: 1 },
        tags: ["tax", "us"],
      });
    });

    it("C-19 says when a time does not exist", async () => {
      const clock = fakeClock(new Date("2027-03-26T12:00:00Z"));
      const { page } = await openSchedules(store(), "/schedules?new=1", { client: { clock } });
      await page.getByLabel("Time zone").fill("Europe/Berlin");
      await page.getByLabel("Runs").fill("30 2 * * *");
      await page.getByText("02:30 does not exist, so this slot runs at 03:00, once.").waitFor();
    });

    it("C-19 saves only what was changed, and resets to code", async () => {
      const { page, hf } = await openSchedules(store(), "/schedules/nightly");
      await page.getByRole("button", { name: "Edit…" }).click();
      await page.getByLabel("Runs").fill("45 3 * * *");
      await page.getByRole("button", { name: "Save changes" }).click();
      await announced(page, "Saved nightly.");
      expect(await hf.schedules.get("nightly")).toMatchObject({ cron: "45 3 * * *", changed: ["cron"] });
      await page.getByText("code, changed").waitFor();
      await page.getByRole("button", { name: "Reset to code…" }).click();
      await page.getByRole("button", { name: "Reset schedule" }).click();
      await announced(page, "Reset nightly to its definition in code.");
      expect((await hf.schedules.get("nightly"))?.cron).toBe("30 2 * * MON-FRI");
    });

    it("C-19 deletes after its name was typed", async () => {
      const { page, hf } = await openSchedules(store(), "/schedules");
      await page.getByRole("button", { name: "Actions for us sales/tax" }).click();
      await page.getByRole("menuitem", { name: "Delete…" }).click();
      const dialog = page.getByRole("dialog", { name: "Delete schedule" });
      const button = dialog.getByRole("button", { name: "Delete schedule" });
      await dialog.getByLabel(/to confirm/).fill("us sales");
      expect(await button.getAttribute("aria-disabled")).toBe("true");
      await dialog.getByLabel(/to confirm/).fill("us sales/tax");
      await button.click();
      await announced(page, "Deleted us sales/tax.");
      expect(await hf.schedules.get("us sales/tax")).toBeNull();
    });

    it("C-19 shows one schedule with its slots and jobs", async () => {
      const { page, hf, url } = await openSchedules(store(), "/schedules");
      await page.getByRole("link", { name: "us sales/tax" }).click();
      await page.getByText("No slot so far").waitFor();
      expect(page.url()).toBe(`${url}/schedules/us%20sales%2Ftax`);
      await page.getByRole("button", { name: "Run now" }).click();
      await announced(page, "Enqueued a job of us sales/tax.");
      const row = page.locator("tbody tr").filter({ hasText: "the ledger is locked" });
      await row.getByText("dead").waitFor();
      const { jobs } = await hf.list({ schedule: "us sales/tax" });
      expect(await row.getByRole("link").first().getAttribute("href")).toBe(`/jobs/${jobs[0]?.id}`);
      expect(await page.getByRole("link", { name: "All jobs" }).getAttribute("href")).toContain(
        "schedule%3A%22us+sales%2Ftax%22",
      );
      await page.getByRole("columnheader", { name: "New York" }).waitFor();
    });
  });
}
