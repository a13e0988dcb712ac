import { job, LeaseLostError, StoreUnavailableError } from "holdfast";
import { describe, expect, it } from "vitest";
import { deferred, eventsOf, scene, untilAborted, watch } from "./scene.js";

const STALE = "Job timed out (stale claim)";
const LEASE_EXPIRED = `${STALE}: its lease expired, because its worker crashed or could not reach the store`;

describe("leases", () => {
  it("C-02 the lease of a long job is extended at every third", async () => {
    const gate = deferred();
    let runs = 0;
    const long = job({
      type: "long",
      run() {
        runs++;
        return gate.promise;
      },
    });
    const { hf, clock, store, another, job: read } = await scene({ jobs: [long] });
    hf.work({ lease: "30s" });
    const { id } = await hf.enqueue(long);
    await clock.settle();
    const startedAt = clock.now();
    expect((await read(id)).dueAt?.getTime()).toBe(startedAt + 30_000);
    // A second worker waits for the job.
    (await another({ jobs: [long] })).work();

    await clock.advance("9s");
    expect(store.count("extend")).toBe(0);
    await clock.advance("1s");
    expect(store.count("extend")).toBe(1);
    expect((await read(id)).dueAt?.getTime()).toBe(startedAt + 40_000);
    await clock.advance("10m");
    expect(runs).toBe(1);
    gate.resolve();
    await clock.settle();
    expect(await read(id)).toMatchObject({ state: "completed", attempt: 1, dueAt: null });
  });

  it("all leases of a worker are extended in one call", async () => {
    const gate = deferred();
    const long = job({ type: "long", run: () => gate.promise });
    const { hf, clock, store } = await scene({ jobs: [long] });
    hf.work({ concurrency: 20 });
    for (let n = 0; n < 20; n++) await hf.enqueue(long);
    await clock.advance("10s");
    expect(store.calls("extend").map(([leases]) => (leases as unknown[]).length)).toEqual([20]);
    gate.resolve();
  });

  it("a lost lease aborts the signal, and its outcome is not stored", async () => {
    const reasons: unknown[] = [];
    const gate = deferred<{ from: string }>();
    const long = job({
      type: "long",
      run({ signal }) {
        signal.addEventListener("abort", () => reasons.push(signal.reason));
        return gate.promise;
      },
    });
    const { hf, clock, store, another, job: read } = await scene();
    const line = watch(store.store);
    const cutOff = await another({ jobs: [long] }, line.store);
    const lost = eventsOf(cutOff, "lost");
    cutOff.work();
    const { id } = await hf.enqueue(long);
    await clock.advance("1s");
    // The worker cannot reach the store for longer than its lease. Meanwhile another worker claims the job.
    line.fail(new StoreUnavailableError("no way to the store"), "extend", "claim");
    await clock.advance("28s");
    expect(reasons).toEqual([]);
    await clock.advance("1s");
    expect(reasons[0]).toBeInstanceOf(LeaseLostError);
    const [second] = await hf.claim();
    expect(second).toMatchObject({ id, attempt: 2 });

    gate.resolve({ from: "first" });
    await clock.settle();
    expect(await read(id)).toMatchObject({ state: "claimed", output: null, fence: 2 });
    expect(lost.map((event) => event.id)).toEqual([id]);
    await second?.complete({ from: "second" });
    expect(await read(id)).toMatchObject({ state: "completed", output: { from: "second" } });
  });

  it("a lost lease is noticed at the next extension", async () => {
    const codes: unknown[] = [];
    const long = job({
      type: "long",
      run: ({ signal }) => untilAborted(signal).finally(() => codes.push(signal.reason?.code)),
    });
    const { hf, clock, another, job: read } = await scene();
    const worker = await another({ jobs: [long] });
    const lost = eventsOf(worker, "lost");
    const { id } = await hf.enqueue(long);
    worker.work({ concurrency: 1 });
    await clock.advance("1s");
    // The store's clock jumps: for the store the lease has expired, for the worker it has not.
    clock.setWall(clock.now() + 3_600_000);
    const [second] = await hf.claim();
    expect(second).toMatchObject({ id, fence: 2 });
    await clock.advance("8s");
    expect(codes).toEqual([]);
    await clock.advance("1s");
    expect(codes).toEqual(["LEASE_LOST"]);
    expect(lost.map((event) => event.id)).toEqual([id]);
    expect(await read(id)).toMatchObject({ state: "claimed", fence: 2 });
  });

  it("C-02 A-35 after a crash the next claim recovers the job", async () => {
    const type = job({ type: "t", run: () => ({ ok: true }) });
    const { hf, clock, lines, job: read } = await scene({ jobs: [type] });
    const recovered = eventsOf(hf, "recovered");
    const { id } = await hf.enqueue(type);
    // A worker that claims the job, starts it and disappears.
    const [crashed] = await hf.claim();
    await crashed?.start();
    await clock.advance("29s");
    expect(await hf.runNext()).toBe(false);
    await clock.advance("1s");
    expect(await hf.runNext()).toBe(true);

    const done = await read(id);
    expect(done).toMatchObject({ state: "completed", attempt: 2, error: { message: STALE, code: "STALE_CLAIM" } });
    expect(done.attempts).toMatchObject([
      { attempt: 1, error: { message: STALE } },
      { attempt: 2, end: "completed" },
    ]);
    expect(recovered).toEqual([{ id, type: "t", queue: "default", to: "claimed" }]);
    expect(lines).toContainEqual({ level: "warn", message: LEASE_EXPIRED, fields: { job: id, type: "t", attempt: 2 } });
    await expect(crashed?.complete()).rejects.toThrow(LeaseLostError);
  });

  it("a job whose attempts were used up by crashes becomes dead", async () => {
    let ran = 0;
    const type = job({ type: "t", retry: { maxAttempts: 1 }, run: () => void ran++ });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const died = eventsOf(hf, "dead");
    const { id } = await hf.enqueue(type);
    const [crashed] = await hf.claim();
    await crashed?.start();
    await clock.advance("31s");
    expect(await hf.runNext()).toBe(false);
    expect(ran).toBe(0);
    expect(await read(id)).toMatchObject({ state: "dead", attempt: 1, error: { message: STALE } });
    expect(died).toMatchObject([{ id, error: { message: STALE } }]);
  });

  it("a lease lost before the start restores its attempt, once", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf, clock } = await scene({ jobs: [type] });
    await hf.enqueue(type);
    const attempts: unknown[] = [];
    for (let round = 0; round < 3; round++) {
      const [lease] = await hf.claim();
      attempts.push(lease?.attempt);
      await clock.advance("30s");
    }
    expect(attempts).toEqual([1, 1, 2]);
  });

  it("after a loss the start mark is written before the handler runs", async () => {
    const seen: unknown[] = [];
    const type = job({ type: "t", run: async ({ job: own }) => void seen.push((await hf.get(own.id))?.state) });
    const { hf, clock, store } = await scene({ jobs: [type] });
    const started = eventsOf(hf, "started");
    await hf.enqueue(type);
    await hf.claim();
    await clock.advance("30s");
    hf.work();
    await clock.settle();
    expect(seen).toEqual(["running"]);
    expect(store.count("start")).toBe(1);
    expect(started).toHaveLength(1);
  });

  it("a failed start mark releases the job without an attempt", async () => {
    let ran = 0;
    const type = job({ type: "t", run: () => void ran++ });
    const { hf, clock, store, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const [crashed] = await hf.claim();
    await crashed?.start();
    await clock.advance("30s");
    const back = store.fail(new StoreUnavailableError("gone"), "start");
    hf.work();
    await clock.settle();
    expect(ran).toBe(0);
    expect(await read(id)).toMatchObject({ state: "pending", attempt: 1 });
    back();
    await clock.advance("2s");
    expect(ran).toBe(1);
    expect(await read(id)).toMatchObject({ state: "completed", attempt: 2 });
  });

  it("after a loss progress is stored while the handler runs", async () => {
    const gate = deferred();
    const type = job({
      type: "t",
      run({ progress }) {
        progress(0.25);
        return gate.promise;
      },
    });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    await hf.claim();
    await clock.advance("30s");
    hf.work();
    await clock.advance("1s");
    expect((await read(id)).progress?.fraction).toBe(0.25);
    gate.resolve();
  });
});
