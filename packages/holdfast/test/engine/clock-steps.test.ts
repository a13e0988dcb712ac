import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { deferred, eventsOf, scene } from "./scene.js";

const HOUR = 3_600_000;

describe("a wall clock that is changed while jobs run", () => {
  it("forward: the worker extends its leases first, so no job runs twice", async () => {
    const gate = deferred();
    let running = 0;
    let most = 0;
    const long = job({
      type: "long",
      async run() {
        most = Math.max(most, ++running);
        await gate.promise;
        running--;
        return { ok: true };
      },
    });
    const { hf, clock, job: read } = await scene({ jobs: [long] });
    const once = await hf.enqueue(long, undefined, { maxAttempts: 1 });
    const often = await hf.enqueue(long);
    hf.work({ concurrency: 10 });
    await clock.advance("5s");
    clock.setWall(clock.now() + HOUR);
    await clock.advance("40s");
    expect(most).toBe(2);
    gate.resolve();
    await clock.advance("1s");
    for (const { id } of [once, often]) {
      expect(await read(id)).toMatchObject({ state: "completed", attempt: 1, fence: 1, output: { ok: true } });
    }
  });

  it("forward: a job claimed again by its own worker continues under the new lease", async () => {
    const gate = deferred();
    let ran = 0;
    const long = job({
      type: "long",
      async run() {
        ran++;
        await gate.promise;
      },
    });
    const { hf, clock, store, job: read } = await scene({ jobs: [long] });
    const lost = eventsOf(hf, "lost");
    const { id } = await hf.enqueue(long, undefined, { maxAttempts: 1 });
    hf.work({ concurrency: 10 });
    await clock.advance("5s");
    // The leases cannot be extended in time: the next claim takes the job from its own worker.
    const back = store.fail(new Error("not now"), "extend");
    clock.setWall(clock.now() + HOUR);
    await clock.advance("2s");
    back();
    expect(await read(id)).toMatchObject({ fence: 2, state: "running" });
    gate.resolve();
    await clock.advance("1s");
    expect(await read(id)).toMatchObject({ state: "completed", attempt: 1 });
    expect([ran, lost.length]).toEqual([1, 0]);
  });

  it("back: due jobs stay due, and leases of crashed workers expire", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    await hf.maintain();
    await clock.advance("1m");
    const leased = await hf.enqueue(type, undefined, { priority: 1 });
    for (const lease of await hf.claim()) await lease.start();
    const waiting = await hf.enqueue(type);
    const later = await hf.enqueue(type, undefined, { delay: "2h" });
    await hf.maintain();
    clock.setWall(clock.now() - HOUR);
    await clock.advance("1s");
    expect(await hf.drain()).toBe(0);
    await hf.maintain();
    expect(await hf.drain()).toBe(1);
    await clock.advance("30s");
    expect(await hf.drain()).toBe(1);
    for (const { id } of [leased, waiting]) expect((await read(id)).state).toBe("completed");
    // A future job keeps its time.
    expect((await read(later.id)).state).toBe("pending");
  });
});
