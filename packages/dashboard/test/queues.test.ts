import { job } from "holdfast";
import type { StatsResult } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { queueRows } from "../src/views/queues/queue-rows.js";
import { inBrowser, openDashboard, useBrowser } from "./scene.js";

useBrowser();

const mail = job({ type: "mail.send", queue: "mail", run: () => "sent" });

inBrowser("queues", () => {
  it("shows counts, and that no worker takes a queue", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [mail] });
    for (let count = 0; count < 3; count++) await hf.enqueue(mail, undefined);
    await open("/queues");
    const row = page.getByRole("row", { name: /mail\.send/ });
    await row.getByText("no worker", { exact: true }).waitFor();
    const waiting = row.getByRole("link", { name: "3", exact: true });
    expect(await waiting.getAttribute("href")).toBe("/jobs?q=queue%3Amail+state%3Apending");
  });

  it("pauses and resumes with Undo", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [mail], role: "operator" });
    await hf.enqueue(mail, undefined);
    await open("/queues");
    await page.getByRole("button", { name: "Pause mail" }).click();
    await page.locator(".toast").getByText("Paused mail. Running jobs continue.").waitFor();
    await page
      .locator(".note")
      .getByText(/is paused by (token:)?operator since .* 1 job waits\./)
      .waitFor();
    await page.locator(".toast").getByRole("button", { name: "Undo" }).click();
    await page.locator(".toast").getByText("Resumed mail.").waitFor();
    await page.getByRole("button", { name: "Pause mail" }).waitFor();
    expect(await page.locator(".note").count()).toBe(0);
  });

  it("pauses all queues after a question", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [mail] });
    await hf.enqueue(mail, undefined);
    await open("/queues");
    await page.getByRole("button", { name: "Pause all…" }).click();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Pause all…" }).click();
    await page.getByRole("button", { name: "Pause all queues" }).click();
    await page.getByText("All queues are paused.").waitFor();
    await page.getByRole("button", { name: "Resume all…" }).click();
    await page.getByRole("button", { name: "Resume all queues" }).click();
    await page.getByRole("button", { name: "Pause all…" }).waitFor();
  });

  it("has no buttons for a viewer", async () => {
    const { page, hf, open } = await openDashboard({ jobs: [mail], role: "viewer" });
    await hf.enqueue(mail, undefined);
    await open("/queues");
    await page.getByRole("link", { name: "mail", exact: true }).waitFor();
    expect(await page.getByRole("button", { name: /Pause (mail|all)/ }).count()).toBe(0);
  });
});

describe("rows of queues", () => {
  const now = Date.parse("2026-11-18T12:00:00Z");
  const worker = {
    id: "w",
    types: ["a"],
    running: 0,
    host: "h",
    pid: 1,
    left: false,
    draining: false,
    version: null,
    jobs: [],
    startedAt: "",
    seenAt: new Date(now).toISOString(),
  };
  const queue = (name: string) => ({ queue: name, paused: false, pausedAt: null, pausedBy: null, priorities: [0, 10] });
  const base = { queues: [queue("b"), queue("a")], stats: null, history: undefined, workers: [], now };

  it("are sorted by name, with priorities from the highest", () => {
    expect(queueRows(base).map((row) => [row.queue, row.priorities])).toEqual([
      ["a", [10, 0]],
      ["b", [10, 0]],
    ]);
  });

  it("count the capacity of live workers that take them", () => {
    const workers = [
      { ...worker, queues: ["a"], concurrency: 4 },
      { ...worker, queues: null, concurrency: 8 },
      { ...worker, queues: ["a"], concurrency: 16, left: true },
      { ...worker, queues: ["a"], concurrency: 32, seenAt: new Date(now - 61_000).toISOString() },
    ];
    expect(queueRows({ ...base, workers }).map((row) => [row.capacity, row.isShared])).toEqual([
      [12, true],
      [8, true],
    ]);
    const only = [{ ...worker, queues: ["a"], concurrency: 4 }];
    expect(queueRows({ ...base, workers: only }).map((row) => [row.capacity, row.isShared])).toEqual([
      [4, false],
      [0, false],
    ]);
  });

  it("take rates from the last whole minute", () => {
    const point = (minutes: number, completed: number) => ({
      at: new Date(now - minutes * 60_000).toISOString(),
      enqueued: 0,
      completed,
      failed: 0,
      dead: 0,
      cancelled: 0,
      wait: { p50: 1, p95: minutes, p99: 9 },
      run: null,
      waiting: null,
      leased: null,
      oldestDueMs: 9,
    });
    const rowOf = (points: ReturnType<typeof point>[]) =>
      queueRows({ ...base, history: { resolution: "minute", from: "", to: "", series: [{ name: "a", points }] } })[0];
    expect(rowOf([point(3, 60), point(2, 120), point(0, 6_000)])).toMatchObject({
      finished: [60, 120],
      perSecond: 2,
      waitP95: 2,
    });
    expect(rowOf([point(30, 60), point(29, 0)])).toMatchObject({ perSecond: 0, waitP95: null });
  });

  it("take the oldest due job from the counts", () => {
    const stats = { queues: {}, counts: [], oldestDue: [{ queue: "b", dueMs: 7 }] } as unknown as StatsResult;
    expect(queueRows({ ...base, stats }).map(({ oldestDueMs }) => oldestDueMs)).toEqual([null, 7]);
  });
});
