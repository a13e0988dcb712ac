import { job, type Holdfast } from "holdfast";
import { expect, it } from "vitest";
import { z } from "zod";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

let isBroken = true;
const sync = job({
  type: "gmail.sync",
  input: z.any(),
  queue: "sync",
  retry: { maxAttempts: 1 },
  run() {
    if (isBroken) throw new Error("503 backendError <img src=x onerror=alert(1)>");
  },
});
const render = job({
  type: "invoice.render",
  input: z.any(),
  retry: { maxAttempts: 3, backoff: { base: 600_000, max: 600_000 } },
  run() {
    throw new TypeError("no template");
  },
});

async function failed(hf: Holdfast): Promise<void> {
  isBroken = true;
  for (let nth = 0; nth < 12; nth++) await hf.enqueue(sync, {}, { user: `u-${nth}` });
  for (let nth = 0; nth < 2; nth++) await hf.enqueue(render, {});
  for (let nth = 0; nth < 14; nth++) await hf.runNext();
}

inBrowser("Failures", () => {
  it("delete jobs for admins and cancel those that wait", async () => {
    const { page, open, hf } = await openDashboard({ jobs: [sync, render] });
    await failed(hf);
    const groups = await hf.errorGroups();
    const of = (type: string): string => groups.find((group) => group.type === type)?.fingerprint ?? "";
    await open(`/failures?open=${of("gmail.sync")}`);
    await page.getByRole("button", { name: "Delete…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete 12 jobs" }).click();
    await page.getByText("12 jobs deleted.").first().waitFor();
    await page.getByText("none now").waitFor();
    await open(`/failures?open=${of("invoice.render")}`);
    await page.getByRole("button", { name: "Cancel 2…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel 2 jobs" }).click();
    await page.getByText("2 jobs cancelled.").first().waitFor();
    expect((await hf.stats()).states).toMatchObject({ dead: 0, cancelled: 2 });
  });
});
