import { job } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import { jobsByWorker, livenessOf } from "../src/views/workers/liveness.js";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

/** A job type whose jobs run until they are released. */
function blocking() {
  let release = (): void => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  onTestFinished(() => release());
  const type = job({
    type: "video.encode",
    queue: "media",
    run: async ({ progress }) => {
      progress(0.41, "2,050 of 5,000 frames");
      await released;
    },
  });
  return { type, release: () => release() };
}

inBrowser("workers", () => {
  it("show what each one runs now", async () => {
    const { type, release } = blocking();
    const { page, hf, open, url } = await openDashboard({ jobs: [type] });
    const { id } = await hf.enqueue(type, undefined, { user: "u-1" });
    const worker = hf.work({ concurrency: 4, queues: ["media"] });
    await open("/workers");
    const row = page.getByRole("row", { name: /pid/ });
    await row.getByText("1 of 4").waitFor();
    await page.getByText("1 live").waitFor();
    await row.getByRole("button", { expanded: false }).click();
    expect(page.url()).toContain(`${url}/workers?open=`);
    await page.getByText("41% · 2,050 of 5,000 frames").waitFor();
    expect(await page.getByRole("link", { name: "video.encode" }).getAttribute("href")).toBe(`/jobs/${id}`);
    release();
    await page.getByText("It runs no job now.").waitFor();
    await row.getByText("0 of 4").waitFor();
    await worker.stop();
  });

  it("drain and resume, with Undo", async () => {
    const { type } = blocking();
    const { page, hf, open } = await openDashboard({ jobs: [type], role: "operator" });
    const worker = hf.work();
    await open("/workers");
    const isDraining = async () => (await hf.workers()).find(({ id }) => id === worker.id)?.draining;
    await page.getByRole("button", { name: /^Drain/ }).click();
    await page.getByText("draining").first().waitFor();
    expect(await isDraining()).toBe(true);
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByRole("button", { name: /^Drain/ }).waitFor();
    expect(await isDraining()).toBe(false);
    await worker.stop();
  });

  it("offer no draining to a viewer", async () => {
    const { type } = blocking();
    const { page, hf, open } = await openDashboard({ jobs: [type], role: "viewer" });
    const worker = hf.work();
    await open("/workers");
    await page.getByText("1 live").waitFor();
    expect(await page.getByRole("button", { name: /^Drain/ }).count()).toBe(0);
    await worker.stop();
  });

  it("say that none is running", async () => {
    const { page, open } = await openDashboard();
    await open("/workers");
    await page.getByText("No worker is running").waitFor();
  });

  it("stay in a list of those that ended", async () => {
    const { type } = blocking();
    const { page, hf, open } = await openDashboard({ jobs: [type] });
    const worker = hf.work();
    await worker.stop();
    await open("/workers");
    await page.getByRole("heading", { name: "Ended in the last hour" }).waitFor();
    await page.getByText("stopped", { exact: true }).waitFor();
  });
});

describe("liveness of workers", () => {
  const now = Date.parse("2026-11-18T12:00:00Z");
  const seen = (agoMs: number, left = false) => livenessOf({ left, seenAt: new Date(now - agoMs).toISOString() }, now);

  it("counts a worker as missing after a minute of silence", () => {
    expect([seen(0), seen(60_000), seen(60_001), seen(0, true), seen(99_999, true)]).toEqual([
      "live",
      "live",
      "missing",
      "stopped",
      "stopped",
    ]);
  });

  it("groups active jobs, running ones first", () => {
    const make = (id: string, state: string, worker: string | null, startedAt: string | null) =>
      ({ id, state, worker, startedAt, claimedAt: "2026-11-18T11:00:00Z", updatedAt: "" }) as never;
    const groups = jobsByWorker([
      make("a", "claimed", "w", null),
      make("b", "running", "w", "2026-11-18T11:30:00Z"),
      make("c", "running", "w", "2026-11-18T11:20:00Z"),
      make("d", "completed", "w", null),
      make("e", "running", null, null),
    ]);
    expect([...groups].map(([worker, jobs]) => [worker, jobs.map(({ id }) => id)])).toEqual([["w", ["c", "b", "a"]]]);
  });
});
