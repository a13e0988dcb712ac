import { job } from "holdfast";
import { expect, it } from "vitest";
import { z } from "zod";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const mail = job({ type: "mail", input: z.any(), queue: "mail", run: () => {} });

inBrowser("the Overview", () => {
  it("resumes all queues, with undo", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [mail], role: "operator" });
    await hf.enqueue(mail, {});
    await hf.pause();
    await open("/");
    await page.getByRole("button", { name: "Resume all" }).click();
    await page.getByText("Nothing needs attention.").waitFor();
    expect(await hf.isPaused()).toBe(false);
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("All queues are paused.").waitFor();
    expect(await hf.isPaused()).toBe(true);
  });

  it("asks the server less than once in two seconds besides its stream", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [mail], ownPage: true });
    await hf.enqueue(mail, {});
    await page.clock.install();
    // Without the stream, whose cost has its own tests.
    await page.route("**/api/admin/events", () => {});
    await open("/");
    await page.getByText("Nothing needs attention.").waitFor();
    await page.waitForLoadState("load");
    const ages: (string | undefined)[] = [];
    page.on("request", (request) => void ages.push(request.headers()["cache-control"]));
    const seconds = 60;
    for (let second = 0; second < seconds; second++) await page.clock.runFor(1_000);
    await expect.poll(() => ages.length).toBeGreaterThan(15);
    expect(ages.length).toBeLessThanOrEqual(seconds / 2);
    // Open pages share what they load again: a server reads it once for all of them.
    expect(new Set(ages)).toEqual(new Set(["max-age=10", "max-age=20", "max-age=5"]));
  });
});
