import { job } from "holdfast";
import { expect, it } from "vitest";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const long = job({
  type: "data.export.customer-invoices.of-all-regions.v2",
  queue: "exports-of-the-european-region-with-a-long-name",
  run: () => {},
});

inBrowser("the layout", () => {
  it.each([1_440, 1_280, 1_182])("has space for long names at %i px", async (width) => {
    const { page, open, hf } = await openDashboard({ jobs: [long], width });
    await hf.schedule("monthly-export-of-all-customer-invoices-and-credit-notes", {
      job: long,
      cron: "30 2 * * MON-FRI",
      timezone: "America/Argentina/ComodRivadavia",
    });
    await hf.enqueue(long, undefined, { user: "user-with-a-long-name-4711", delay: "1h" });
    for (const view of ["jobs", "schedules", "queues"]) {
      await open(`/${view}`);
      await page.locator("main tbody tr").first().waitFor();
      const hidden = await page.locator(".table-wrap").evaluate((table) => table.scrollWidth - table.clientWidth);
      expect([view, hidden]).toEqual([view, 0]);
    }
  });

  it.each([1_440, 375])("keeps the buttons of a tall dialog on the screen at %i px", async (width) => {
    const { page, open } = await openDashboard({ width, height: 600 });
    await open("/schedules?new=1");
    const button = page.getByRole("dialog").getByRole("button", { name: "Create schedule" });
    await button.waitFor();
    const { y, height } = (await button.boundingBox()) ?? { y: 600, height: 0 };
    expect(y + height).toBeLessThanOrEqual(600);
  });
});
