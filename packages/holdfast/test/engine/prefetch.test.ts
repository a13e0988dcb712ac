import { Prefetch } from "#src/engine/worker/prefetch.js";
import type { ClaimRequest } from "#src/store.js";
import { job, type JobType, type NoInput } from "holdfast";
import { describe, expect, it } from "vitest";
import { deferred, eventsOf, scene, type Scene, type WatchedStore } from "./scene.js";

function limits(store: WatchedStore): number[] {
  return store.calls("claim").map(([request]) => (request as ClaimRequest).limit);
}

/** Twenty quick jobs make the worker prefetch. Then a slow job blocks quick ones that were prefetched behind it. */
async function heldBehindSlow(
  on: Scene,
  quick: JobType<NoInput, unknown>,
  slow: JobType<NoInput, unknown>,
): Promise<{ held: string[] }> {
  const { hf, clock } = on;
  for (let n = 0; n < 20; n++) await hf.enqueue(quick);
  hf.work({ concurrency: 1 });
  await clock.settle();
  await hf.pause("default");
  await hf.enqueue(slow);
  const held: string[] = [];
  for (let n = 0; n < 5; n++) held.push((await hf.enqueue(quick)).id);
  await hf.resume("default");
  await clock.settle();
  return { held };
}

describe("prefetch", () => {
  it("slow jobs are not prefetched", async () => {
    const slow = job({ type: "slow", run: () => new Promise<void>((resolve) => void clock.after(100, resolve)) });
    const { hf, clock, store } = await scene({ jobs: [slow] });
    await hf.enqueueMany(slow, Array.from({ length: 30 }));
    const worker = hf.work({ concurrency: 2 });
    for (let step = 0; step < 60; step++) {
      await clock.advance(50);
      const { claimed, running } = (await hf.stats()).states;
      expect(claimed + running).toBeLessThanOrEqual(2);
      expect(worker.running).toBeLessThanOrEqual(2);
    }
    expect(Math.max(...limits(store))).toBe(2);
    expect((await hf.stats()).states.completed).toBeGreaterThan(20);
  });

  it("a few claims serve hundreds of quick jobs", async () => {
    const quick = job({ type: "quick", run: () => {} });
    const { hf, clock, store } = await scene({ jobs: [quick] });
    await hf.enqueueMany(quick, Array.from({ length: 2_000 }));
    hf.work({ concurrency: 4 });
    await clock.advance("3s");
    expect((await hf.stats()).states.completed).toBe(2_000);
    expect(limits(store)[0]).toBe(4);
    expect(Math.max(...limits(store))).toBe(500);
    // Three of them are polls of the empty queue.
    expect(limits(store).length).toBeLessThan(20);
  });

  it("prefetched jobs behind a slow handler are released after a second", async () => {
    const gate = deferred();
    const ran: string[] = [];
    const quick = job({ type: "quick", run: ({ job: own }) => void ran.push(own.id) });
    const slow = job({ type: "slow", run: () => gate.promise });
    const on = await scene({ jobs: [quick, slow] });
    const released = eventsOf(on.hf, "released");
    const { held } = await heldBehindSlow(on, quick, slow);
    for (const id of held) expect(await on.job(id)).toMatchObject({ state: "claimed", attempt: 1 });

    await on.clock.advance("1s");
    expect(released.map(({ id }) => id)).toEqual(held);
    for (const id of held) expect(await on.job(id)).toMatchObject({ state: "pending", attempt: 0 });
    ran.length = 0;
    (await on.another({ jobs: [quick, slow] })).work();
    await on.clock.settle();
    expect(ran).toEqual(held);
    gate.resolve();
  });

  it("released jobs are not prefetched again by the busy worker", async () => {
    const gate = deferred();
    const quick = job({ type: "quick", run: () => {} });
    const slow = job({ type: "slow", run: () => gate.promise });
    const on = await scene({ jobs: [quick, slow] });
    const { held } = await heldBehindSlow(on, quick, slow);
    await on.clock.advance("1s");
    on.store.forget();
    await on.clock.advance("30s");
    expect(on.store.count("claim")).toBe(0);
    gate.resolve();
    await on.clock.settle();
    for (const id of held) expect(await on.job(id)).toMatchObject({ state: "completed", attempt: 1 });
  });

  it("about 50 ms of work is prefetched; one slow run reduces it", () => {
    const prefetch = new Prefetch();
    expect(prefetch.target(4)).toBe(0);
    prefetch.recordDuration(1);
    expect(prefetch.target(4)).toBe(200);
    prefetch.recordDuration(400);
    expect(prefetch.target(4)).toBe(0);
    for (let n = 0; n < 20; n++) prefetch.recordDuration(1);
    expect(prefetch.target(4)).toBe(0);
    for (let n = 0; n < 200; n++) prefetch.recordDuration(1);
    expect(prefetch.target(4)).toBeGreaterThan(100);
    for (let n = 0; n < 500; n++) prefetch.recordDuration(0);
    expect(prefetch.target(1_000)).toBe(1_000);
  });
});
