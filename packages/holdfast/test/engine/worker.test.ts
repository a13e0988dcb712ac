import { ClosedError, InvalidOptionError, job, type JobType, type NoInput } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { deferred, eventsOf, next, onFile, scene, type Deferred } from "./scene.js";

/** A job type whose handlers wait until the test releases them. */
function gated(type = "gated"): { type: JobType<NoInput, void>; begun: string[]; gates: Map<string, Deferred<void>> } {
  const begun: string[] = [];
  const gates = new Map<string, Deferred<void>>();
  const gatedType = job({
    type,
    run({ job: { id } }) {
      begun.push(id);
      const gate = deferred();
      gates.set(id, gate);
      return gate.promise;
    },
  });
  return { type: gatedType, begun, gates };
}

describe("worker", () => {
  it("A-10 A-11 A-28 a job goes pending → claimed → running → completed", async () => {
    const { type, gates } = gated();
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    expect(await read(id)).toMatchObject({ state: "pending", attempt: 0, claimedAt: null, startedAt: null });

    await clock.advance("5s");
    const begunAt = new Date(clock.now());
    hf.work();
    await clock.settle();
    expect(await read(id)).toMatchObject({ state: "claimed", attempt: 1, claimedAt: begunAt });

    await clock.advance("1s");
    expect(await read(id)).toMatchObject({ state: "running", startedAt: begunAt, finishedAt: null });

    gates.get(id)?.resolve();
    await clock.settle();
    expect(await read(id)).toMatchObject({
      state: "completed",
      attempt: 1,
      startedAt: begunAt,
      finishedAt: new Date(clock.now()),
      dueAt: null,
    });
  });

  it("A-11 the output is stored as JSON", async () => {
    const sum = job({
      type: "sum",
      input: z.object({ of: z.array(z.number()) }),
      run: ({ input }) => ({ total: input.of.length }),
    });
    const { hf, job: read } = await scene({ jobs: [sum] });
    const { id } = await hf.enqueue(sum, { of: [1, 2, 3] });
    await hf.runNext();
    expect(await read(id)).toMatchObject({ state: "completed", output: { total: 3 }, input: { of: [1, 2, 3] } });
  });

  it("A-14 A-27 each job reaches the handler of its type", async () => {
    const ran: string[] = [];
    const types = ["email_processing", "agent_invocation", "brand.new"].map((type) =>
      job({ type, run: ({ job: { type: own } }) => void ran.push(own) }),
    );
    const { hf, clock } = await scene({ jobs: types });
    for (const type of types) await hf.enqueue(type);
    hf.work();
    await clock.settle();
    expect(ran).toEqual(["email_processing", "agent_invocation", "brand.new"]);
  });

  it("A-15 an enqueue wakes an idle worker; otherwise it polls", async () => {
    const { type, begun } = gated();
    const { hf, clock, store } = await scene({ jobs: [type] });
    hf.work({ poll: "5s" });
    await clock.settle();
    await hf.enqueue(type);
    await clock.settle();
    expect(begun).toHaveLength(1);

    store.forget();
    await clock.advance("60s");
    expect(store.count("claim")).toBe(12);
  });

  it("a future job starts when it is due, not at the next poll", async () => {
    const at: number[] = [];
    const later = job({ type: "later", run: () => void at.push(clock.now()) });
    const { hf, clock } = await scene({ jobs: [later] });
    const first = clock.now() + 12_345;
    await hf.enqueue(later, undefined, { runAt: first });
    hf.work({ poll: "1m" });
    await clock.settle();
    await hf.enqueue(later, undefined, { runAt: first + 11_111 });
    await clock.advance("1m");
    expect(at).toEqual([first, first + 11_111]);
  });

  it("B-12 higher priority first, then the oldest due job", async () => {
    const order: unknown[] = [];
    const note = job({
      type: "note",
      input: z.object({ n: z.string() }),
      run: ({ input }) => void order.push(input.n),
    });
    const { hf, clock } = await scene({ jobs: [note] });
    await hf.enqueue(note, { n: "late" }, { delay: "3s" });
    await hf.enqueue(note, { n: "oldest" });
    await hf.enqueue(note, { n: "urgent" }, { delay: "4s", priority: 10 });
    await hf.enqueue(note, { n: "second" }, { delay: "1s" });
    await clock.advance("10s");
    hf.work({ concurrency: 1 });
    await clock.settle();
    expect(order).toEqual(["urgent", "oldest", "second", "late"]);
  });

  it("B-13 C-09 runs at most `concurrency` handlers, 4 by default", async () => {
    for (const concurrency of [undefined, 3]) {
      const { type, begun, gates } = gated();
      const { hf, clock } = await scene({ jobs: [type] });
      for (let n = 0; n < 10; n++) await hf.enqueue(type);
      const worker = hf.work(concurrency === undefined ? {} : { concurrency });
      await clock.advance("2s");
      expect(begun).toHaveLength(concurrency ?? 4);
      expect(worker.running).toBe(concurrency ?? 4);

      gates.get(begun[0] ?? "")?.resolve();
      await clock.settle();
      expect(begun).toHaveLength((concurrency ?? 4) + 1);
      expect(worker.running).toBe(concurrency ?? 4);
    }
  });

  it("B-13 workers claim independently without running a job twice", async () => {
    const { type, begun } = gated();
    const { hf, clock } = await scene({ jobs: [type] });
    for (let n = 0; n < 6; n++) await hf.enqueue(type);
    const workers = [hf.work({ concurrency: 2 }), hf.work({ concurrency: 2 }), hf.work({ concurrency: 2 })];
    await clock.advance("1s");
    expect(workers.map((worker) => worker.running)).toEqual([2, 2, 2]);
    expect(new Set(begun).size).toBe(6);
  });

  it("B-13 an idle worker claims once per poll interval", async () => {
    const { hf, clock, store } = await scene();
    hf.work();
    await clock.settle();
    store.forget();
    await clock.advance("60s");
    expect(store.count("claim")).toBe(60);
    expect(store.count("heartbeat")).toBe(6);
    expect(store.count("extend")).toBe(0);
    expect(store.count("dueSchedules")).toBe(12);
    // The others are maintenance duties, and one search for undefined schedules.
    expect(store.total()).toBeLessThan(60 + 6 + 16 + 20);
  });

  it("B-13 a slow handler blocks neither other handlers nor workers", async () => {
    const slow = gated("slow");
    const quick = job({ type: "quick", run: () => ({ done: true }) });
    const { hf, clock, job: read } = await scene({ jobs: [slow.type, quick] });
    await hf.enqueue(slow.type);
    hf.work({ concurrency: 2 });
    await clock.advance("1s");
    const ids: string[] = [];
    for (let n = 0; n < 20; n++) ids.push((await hf.enqueue(quick)).id);
    await clock.settle();
    for (const id of ids) expect((await read(id)).state).toBe("completed");
    expect(slow.begun).toHaveLength(1);
  });

  it("B-13 a handler that blocks the event loop keeps its lease", async () => {
    const block = job({
      type: "block",
      run() {
        const until = performance.now() + 150;
        while (performance.now() < until);
        return { blocked: true };
      },
    });
    const { hf } = await onFile({ jobs: [block] });
    hf.work({ lease: "100ms" });
    const { id } = await hf.enqueue(block);
    expect(await hf.result(block, id)).toEqual({ blocked: true });
    expect((await hf.get(id))?.attempt).toBe(1);
  });

  it("B-19 A-27 a handler that throws or hangs affects no other job", async () => {
    const hang = gated("hang");
    const crash = job({
      type: "crash",
      run() {
        throw new Error("crash");
      },
    });
    const fine = job({ type: "fine", run: () => {} });
    const { hf, clock, job: read } = await scene({ jobs: [hang.type, crash, fine] });
    const first = hf.work({ concurrency: 1, queues: ["a"] });
    hf.work({ concurrency: 1, queues: ["b"] });
    await hf.enqueue(hang.type, undefined, { queue: "a" });
    const waiting = await hf.enqueue(fine, undefined, { queue: "a" });
    const crashed = await hf.enqueue(crash, undefined, { queue: "b" });
    const other = await hf.enqueue(fine, undefined, { queue: "b" });
    await clock.advance("1s");

    expect(first.running).toBe(1);
    expect((await read(waiting.id)).state).toBe("pending");
    expect((await read(crashed.id)).state).toBe("failed");
    expect((await read(other.id)).state).toBe("completed");
  });

  it("a worker is listed while it works, and named in its jobs", async () => {
    const { type } = gated();
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const started = next(hf, "workerStarted");
    const worker = hf.work({ concurrency: 7 });
    expect(await started).toEqual({ worker: worker.id });
    const { id } = await hf.enqueue(type);
    await clock.advance("11s");
    expect(await hf.workers()).toMatchObject([
      { id: worker.id, types: ["gated"], concurrency: 7, running: 1, pid: process.pid, left: false },
    ]);
    const running = await read(id);
    expect(running).toMatchObject({ worker: worker.id, attempt: 1 });
    expect(running.dueAt?.getTime()).toBeGreaterThan(clock.now());

    const stopped = eventsOf(hf, "workerStopped");
    const stopping = worker.stop();
    await clock.advance("1m");
    await stopping;
    expect(stopped).toEqual([{ worker: worker.id }]);
    expect(await hf.workers()).toMatchObject([{ id: worker.id, left: true }]);
  });

  it("sends a heartbeat every minute, and none after it stopped", async () => {
    const { hf, clock } = await scene();
    const worker = hf.work({ lease: "1h" });
    for (let minute = 0; minute < 5; minute++) {
      await clock.advance("1m");
      const [seen] = await hf.workers();
      expect(clock.now() - (seen?.seenAt.getTime() ?? 0)).toBeLessThan(60_000);
    }
    await worker.stop();
    await clock.advance("5m");
    expect(await hf.workers()).toMatchObject([{ id: worker.id, left: true }]);
  });

  it("queues and types limit the claimed jobs", async () => {
    const a = gated("a");
    const b = gated("b");
    const { hf, clock } = await scene({ jobs: [a.type, b.type] });
    await hf.enqueue(a.type);
    await hf.enqueue(b.type);
    await hf.enqueue(b.type, undefined, { queue: "special" });
    hf.work({ types: [b.type], queues: ["default"] });
    await clock.advance("5s");
    expect([a.begun.length, b.begun.length]).toEqual([0, 1]);
    hf.work({ queues: ["special"] });
    await clock.advance("5s");
    expect([a.begun.length, b.begun.length]).toEqual([0, 2]);
  });

  it("no client claims from a paused queue", async () => {
    const { type, begun } = gated();
    const { hf, clock, another } = await scene({ jobs: [type] });
    await hf.pause("default");
    (await another({ jobs: [type] })).work();
    await hf.enqueue(type);
    await clock.advance("10s");
    expect(begun).toHaveLength(0);
    await hf.resume("default");
    await clock.settle();
    expect(begun).toHaveLength(1);
  });

  it("C-20 options out of range are refused and named", async () => {
    const { hf } = await scene();
    for (const [options, field] of [
      [{ concurrency: 0 }, "concurrency"],
      [{ concurrency: 1.5 }, "concurrency"],
      [{ lease: "50ms" }, "lease"],
      [{ poll: 0 }, "poll"],
      [{ queues: [] }, "queues"],
      [{ types: [""] }, "types.0"],
      [{ grace: "long" }, "grace"],
      [{ unknownType: "ignore" }, "unknownType"],
      [{ concurency: 4 }, "concurency"],
    ] as const) {
      const refused = (): unknown => hf.work(options as object);
      expect(refused).toThrow(InvalidOptionError);
      expect(refused).toThrow(new RegExp(`^${field}:? `));
    }
  });

  it("a running worker is not started twice, a stopped one not again", async () => {
    const { hf, clock } = await scene();
    const started = eventsOf(hf, "workerStarted");
    const worker = hf.work();
    worker.start();
    await clock.settle();
    expect(started).toHaveLength(1);
    await worker.stop();
    expect(() => worker.start()).toThrow(ClosedError);
  });
});
