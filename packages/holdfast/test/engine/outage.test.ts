import type { EngineContext, HeldLease } from "#src/engine/context.js";
import { Emitter } from "#src/engine/events/events.js";
import { publishOutcome } from "#src/engine/events/publish.js";
import { Settler } from "#src/engine/worker/settler.js";
import type { Outcome, SettleResult, Store } from "#src/store.js";
import { DiskFullError, HoldfastError, job, StoreUnavailableError } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { deferred, eventsOf, scene, type Deferred } from "./scene.js";

const gone = new StoreUnavailableError("the database is restarting");

describe("an outage of the store", () => {
  it("outcomes are settled when the store is back; no job runs twice", async () => {
    const gates: Deferred<void>[] = [];
    let runs = 0;
    const type = job({
      type: "t",
      async run() {
        runs++;
        const gate = deferred();
        gates.push(gate);
        await gate.promise;
        return { done: true };
      },
    });
    const { hf, clock, store, job: read, lines } = await scene({ jobs: [type] });
    const [outages, backs] = [eventsOf(hf, "outage"), eventsOf(hf, "outageEnded")];
    hf.work();
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) ids.push((await hf.enqueue(type)).id);
    await clock.advance("1s");

    const back = store.fail(gone, "settle", "claim", "extend");
    for (const gate of gates) gate.resolve();
    await clock.advance("9s");
    expect(outages.map(({ doing }) => doing)).toContain("settle");
    expect(lines.some((line) => line.level === "warn")).toBe(true);
    for (const id of ids) expect((await read(id)).state).toBe("running");
    back();
    await clock.advance("2s");
    for (const id of ids)
      expect(await read(id)).toMatchObject({ state: "completed", attempt: 1, output: { done: true } });
    expect(backs.map(({ doing }) => doing)).toContain("settle");
    expect(runs).toBe(4);
  });

  it("claims pause while outcomes cannot be settled", async () => {
    const ran: number[] = [];
    const type = job({ type: "t", input: z.object({ n: z.number() }), run: ({ input }) => void ran.push(input.n) });
    const { hf, clock, store } = await scene({ jobs: [type] });
    hf.work({ concurrency: 1 });
    const back = store.fail(gone, "settle");
    await hf.enqueue(type, { n: 1 });
    await clock.settle();
    expect(ran).toEqual([1]);
    store.forget();
    await hf.enqueue(type, { n: 2 });
    await clock.advance("10s");
    expect(store.count("claim")).toBe(0);
    expect(ran).toEqual([1]);
    back();
    await clock.advance("3s");
    expect(ran).toEqual([1, 2]);
    expect((await hf.stats()).states.completed).toBe(2);
  });

  it("failed claims are retried with growing delays and one event", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf, clock, store, lines } = await scene({ jobs: [type] });
    hf.work();
    await clock.settle();
    const [outages, backs] = [eventsOf(hf, "outage"), eventsOf(hf, "outageEnded")];
    const back = store.fail(gone, "claim");
    store.forget();
    await clock.advance("10s");
    expect(store.count("claim")).toBeGreaterThanOrEqual(10);
    expect(store.count("claim")).toBeLessThanOrEqual(20);
    expect(outages).toEqual([{ doing: "claim", error: gone }]);
    back();
    await clock.advance("1s");
    expect(backs).toEqual([{ doing: "claim" }]);
    expect(lines).toMatchObject([
      { level: "warn", message: "a store call failed; retrying" },
      { level: "warn", fields: { doing: "claim" }, message: "the store is available again" },
    ]);
    const { id } = await hf.enqueue(type);
    await clock.settle();
    expect((await hf.get(id))?.state).toBe("completed");
  });

  it("an outage is logged once, again while it lasts, and at its end", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf, clock, store, lines } = await scene({ jobs: [type] });
    hf.work();
    await clock.settle();
    const back = store.fail(gone, "claim", "heartbeat", "dueSchedules", "tryAcquireDuty", "settle");
    await clock.advance("50s");
    expect(lines).toHaveLength(1);
    await clock.advance("40s");
    expect(lines).toHaveLength(2);
    back();
    await clock.advance("30s");
    expect(lines.map(({ message }) => message)).toEqual([
      "a store call failed; retrying",
      "a store call failed; retrying",
      "the store is available again",
    ]);
  });

  it("a full disk is an outage too", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf, clock, store } = await scene({ jobs: [type] });
    hf.work();
    const back = store.fail(new DiskFullError(), "settle");
    const { id } = await hf.enqueue(type);
    await clock.advance("5s");
    back();
    await clock.advance("3s");
    expect((await hf.get(id))?.state).toBe("completed");
  });

  it("an outcome that misses its lease is lost; the job runs again", async () => {
    let runs = 0;
    const type = job({ type: "t", run: () => void runs++ });
    const { hf, clock, store, job: read, lines } = await scene({ jobs: [type] });
    const lost = eventsOf(hf, "lost");
    hf.work();
    const back = store.fail(gone, "settle");
    const { id } = await hf.enqueue(type);
    await clock.advance("29s");
    expect(lost).toEqual([]);
    await clock.advance("3s");
    expect(lost.map((event) => event.id)).toEqual([id]);
    expect(lines.map((line) => line.message)).toContain("the lease expired before the outcome was recorded");
    back();
    await clock.advance("5s");
    expect(runs).toBe(2);
    expect((await read(id)).state).toBe("completed");
  });

  it("at most 10,000 outcomes are kept in memory", async () => {
    const clock = fakeClock();
    const settled: string[] = [];
    let up = false;
    const store = {
      settle: (outcomes: readonly Outcome[]): Promise<SettleResult[]> => {
        if (!up) return Promise.reject(gone);
        settled.push(...outcomes.map((outcome) => outcome.id));
        return Promise.resolve(outcomes.map(() => "applied"));
      },
    } as unknown as Store;
    const settler = new Settler(store, clock, new Emitter(() => {}));
    const results: unknown[] = [];
    for (let n = 0; n < 10_005; n++) {
      settler.add({ id: String(n) } as Outcome, 30_000, (result) => void (results[n] = result));
    }
    await clock.advance("5s");
    expect(settler.size).toBe(10_000);
    expect(settler.healthy).toBe(false);
    expect(results.slice(10_000)).toEqual(Array.from({ length: 5 }, () => "dropped"));
    up = true;
    await clock.advance("2s");
    expect(settler.size).toBe(0);
    expect(settler.healthy).toBe(true);
    expect(settled).toEqual(Array.from({ length: 10_000 }, (_, n) => String(n)));
  });

  it("a dropped outcome has its own log message", () => {
    const warnings: string[] = [];
    const events = new Emitter(() => {});
    const lost: unknown[] = [];
    events.on("lost", (event) => void lost.push(event));
    const logger = { warn: (_fields: object, message: string) => void warnings.push(message) };
    const lease = { job: { id: "a", type: "t", queue: "default", attempt: 1 }, worker: "w", trace: null };
    publishOutcome(
      { events, logger } as unknown as EngineContext,
      lease as unknown as HeldLease,
      { to: "completed" } as Outcome,
      "dropped",
    );
    expect(lost).toHaveLength(1);
    expect(warnings).toEqual([
      "too many outcomes wait for the store, so this one was dropped; the job runs again when its lease expires",
    ]);
  });

  it("a flush waits for all failed batches, in order", async () => {
    const clock = fakeClock();
    const failures: (() => void)[] = [];
    const settled: string[] = [];
    let up = false;
    const settle = (outcomes: readonly Outcome[]): Promise<SettleResult[]> => {
      if (!up) return new Promise((_resolve, reject) => failures.push(() => reject(gone)));
      settled.push(...outcomes.map((outcome) => outcome.id));
      return Promise.resolve(outcomes.map(() => "applied"));
    };
    const settler = new Settler({ settle } as unknown as Store, clock, new Emitter(() => {}));
    const add = async (id: string): Promise<void> => {
      settler.add({ id } as Outcome, 30_000, () => {});
      await clock.settle();
    };
    await add("first");
    let flushed = false;
    const flushing = settler.idle().then(() => (flushed = true));
    await add("second");
    await add("third");
    for (const fail of failures) {
      fail();
      await clock.settle();
    }
    expect(flushed).toBe(false);
    up = true;
    await clock.advance("5s");
    await flushing;
    expect(settled).toEqual(["first", "second", "third"]);
  });

  it("a refused outcome fails alone: that job is dead", async () => {
    const gate = deferred();
    const type = job({
      type: "t",
      input: z.object({ n: z.number() }),
      run: ({ input }) => gate.promise.then(() => input),
    });
    const { hf, clock, store } = await scene({ jobs: [type] });
    const poison = new Proxy(store.store, {
      get(target, property) {
        if (property !== "settle") return Reflect.get(target, property) as unknown;
        return (outcomes: readonly Outcome[]) =>
          outcomes.some((outcome) => outcome.output === '{"n":3}')
            ? Promise.reject(new HoldfastError("STORE_ERROR", "value refused"))
            : target.settle(outcomes);
      },
    });
    const { holdfast } = await import("holdfast");
    const client = await holdfast({ store: poison, jobs: [type], clock, logger: false });
    client.work({ concurrency: 10 });
    for (let n = 0; n < 6; n++) await client.enqueue(type, { n });
    await clock.settle();
    gate.resolve();
    await clock.settle();
    const { jobs } = await hf.list();
    // The list is newest first.
    expect(jobs.map(({ state }) => state).toReversed()).toEqual([
      "completed",
      "completed",
      "completed",
      "dead",
      "completed",
      "completed",
    ]);
    expect(jobs.find((found) => found.state === "dead")?.error).toMatchObject({ code: "STORE_ERROR" });
    await client.close();
  });

  it("C-10 stop waits for the store and settles all outcomes", async () => {
    const type = job({ type: "t", run: () => ({ ok: true }) });
    const { hf, clock, store, job: read } = await scene({ jobs: [type] });
    const worker = hf.work();
    const back = store.fail(gone, "settle");
    const { id } = await hf.enqueue(type);
    await clock.settle();
    let stopped = false;
    const stopping = worker.stop().then(() => (stopped = true));
    await clock.advance("5s");
    expect(stopped).toBe(false);
    back();
    await clock.advance("3s");
    await stopping;
    expect((await read(id)).state).toBe("completed");
  });

  it("a failed start mark is written when the store is back", async () => {
    const gate = deferred();
    const type = job({ type: "t", run: () => gate.promise });
    const { hf, clock, store, job: read } = await scene({ jobs: [type] });
    hf.work();
    const back = store.fail(gone, "start");
    const { id } = await hf.enqueue(type);
    await clock.advance("1s");
    expect((await read(id)).state).toBe("claimed");
    back();
    await clock.advance("1s");
    expect((await read(id)).state).toBe("running");
    gate.resolve();
  });
});
