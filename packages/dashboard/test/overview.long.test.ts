import { job } from "holdfast";
import { expect, it } from "vitest";
import { z } from "zod";
import { engineOf } from "../../holdfast/dist/engine/client/holdfast.js";
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

  it("costs the store less than a call a second besides its stream", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [mail], ownPage: true });
    await hf.enqueue(mail, {});
    await page.clock.install();
    // Without the stream, whose cost has its own tests.
    await page.route("**/api/admin/events", () => {});
    await open("/");
    await page.getByText("Nothing needs attention.").waitFor();
    await page.waitForLoadState("load");
    const { store } = engineOf(hf);
    let calls = 0;
    for (const name of [
      "stats",
      "queues",
      "workers",
      "list",
      "skip",
      "history",
      "errorGroups",
      "listSchedules",
      "listAudit",
    ]) {
      const call = (store as unknown as Record<string, (...given: unknown[]) => unknown>)[name];
      if (call === undefined) continue;
      Object.assign(store, { [name]: (...given: unknown[]) => (calls++, call.apply(store, given)) });
    }
    const seconds = 60;
    for (let second = 0; second < seconds; second++) await page.clock.runFor(1_000);
    await expect.poll(() => calls).toBeGreaterThan(10);
    expect(calls).toBeLessThanOrEqual(seconds);
  });
});
