import { job, JobTimeoutError, type AbortReason } from "holdfast";
import { describe, expect, it } from "vitest";
import { deferred, eventsOf, scene, untilAborted } from "./scene.js";

describe("timeouts", () => {
  it("a timeout aborts the signal and fails the attempt", async () => {
    let reason: AbortReason | undefined;
    const type = job({
      type: "t",
      timeout: "10s",
      async run({ signal }) {
        await untilAborted(signal).catch(() => (reason = signal.reason));
        throw new Error("stopped half way");
      },
    });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    hf.work();
    const { id } = await hf.enqueue(type);
    await clock.advance(9_999);
    expect(reason).toBeUndefined();
    await clock.advance(1);

    expect(reason).toBeInstanceOf(JobTimeoutError);
    const failed = await read(id);
    expect(failed).toMatchObject({ state: "failed", attempt: 1, error: { code: "JOB_TIMEOUT" } });
    expect(failed.error?.message).toContain("10000 ms");
    expect(failed.attempts[0]?.error?.stack).toBeNull();
    expect(failed.runAt.getTime() - clock.now()).toBe(30_000);
  });

  it("the default timeout is 15 minutes", async () => {
    const aborted: number[] = [];
    const type = job({ type: "t", run: ({ signal }) => untilAborted(signal).finally(() => aborted.push(clock.now())) });
    const { hf, clock } = await scene({ jobs: [type] });
    const startedAt = clock.now();
    hf.work();
    await hf.enqueue(type);
    await clock.advance("20m");
    expect(aborted[0]).toBe(startedAt + 15 * 60_000);
  });

  it("a handler that returns after its signal is completed", async () => {
    const type = job({
      type: "t",
      timeout: "1s",
      run: ({ signal }) => untilAborted(signal).catch(() => ({ late: true })),
    });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    hf.work();
    const { id } = await hf.enqueue(type);
    await clock.advance("2s");
    expect(await read(id)).toMatchObject({ state: "completed", output: { late: true } });
  });

  it("a handler that ignores its signal for 30 s is abandoned", async () => {
    const gates = [deferred(), deferred()];
    const stubborn = job({ type: "stubborn", timeout: "10s", run: () => gates.shift()?.promise });
    const next = job({ type: "next", run: () => {} });
    const { hf, clock, lines, job: read } = await scene({ jobs: [stubborn, next] });
    const stuck = eventsOf(hf, "stuck");
    const worker = hf.work({ concurrency: 1 });
    const { id } = await hf.enqueue(stubborn);
    const waiting = await hf.enqueue(next);
    await clock.advance(39_999);
    expect(worker.running).toBe(1);
    expect(stuck).toEqual([]);
    expect((await read(id)).state).toBe("running");
    expect((await read(waiting.id)).state).toBe("pending");

    await clock.advance(1);
    expect(worker.running).toBe(0);
    expect(await read(id)).toMatchObject({ state: "failed", attempt: 1, error: { code: "JOB_TIMEOUT" } });
    expect((await read(waiting.id)).state).toBe("completed");
    expect(stuck).toMatchObject([{ id, type: "stubborn", worker: worker.id, attempt: 1 }]);
    expect(lines).toContainEqual(
      expect.objectContaining({ level: "error", fields: expect.objectContaining({ job: id }) }),
    );
  });

  it("the late result of an abandoned handler is ignored", async () => {
    const late = deferred<{ late: boolean }>();
    let attempt = 0;
    const stubborn = job({
      type: "stubborn",
      timeout: "10s",
      run({ log, progress }) {
        if (++attempt > 1) return { late: false };
        return late.promise.then((value) => {
          log("too late");
          progress(1);
          return value;
        });
      },
    });
    const { hf, clock, job: read } = await scene({ jobs: [stubborn] });
    const completed = eventsOf(hf, "completed");
    const lost = eventsOf(hf, "lost");
    hf.work();
    const { id } = await hf.enqueue(stubborn);
    await clock.advance("40s");
    expect((await read(id)).state).toBe("failed");

    late.resolve({ late: true });
    await clock.settle();
    expect(await read(id)).toMatchObject({ state: "failed", output: null, log: [], progress: null });
    await clock.advance("30s");
    expect(await read(id)).toMatchObject({ state: "completed", attempt: 2, output: { late: false } });
    expect(completed).toHaveLength(1);
    expect(lost).toEqual([]);
  });

  it("a handler that ignores its cancellation is abandoned too", async () => {
    const gate = deferred();
    const stubborn = job({ type: "stubborn", run: () => gate.promise });
    const { hf, clock, job: read } = await scene({ jobs: [stubborn] });
    const stuck = eventsOf(hf, "stuck");
    const worker = hf.work();
    const { id } = await hf.enqueue(stubborn);
    await clock.settle();
    await hf.cancel(id);
    await clock.advance("30s");
    expect(worker.running).toBe(0);
    expect(stuck.map((event) => event.id)).toEqual([id]);
    expect((await read(id)).state).toBe("cancelled");
    gate.resolve();
  });

  it("a timeout after a cancellation changes nothing", async () => {
    const codes: unknown[] = [];
    const gate = deferred();
    const type = job({
      type: "t",
      timeout: "5s",
      run({ signal }) {
        signal.addEventListener("abort", () => codes.push(signal.reason?.code));
        return gate.promise;
      },
    });
    const { hf, clock } = await scene({ jobs: [type] });
    hf.work();
    const { id } = await hf.enqueue(type);
    await clock.advance("1s");
    await hf.cancel(id);
    await clock.advance("10s");
    expect(codes).toEqual(["JOB_CANCELLED"]);
    gate.resolve();
  });

  it("a signal first read after the abort is aborted", async () => {
    const gate = deferred();
    let seen: unknown;
    const type = job({
      type: "t",
      timeout: "5s",
      async run(context) {
        await gate.promise;
        seen = context.signal.aborted && context.signal.reason;
      },
    });
    const { hf, clock } = await scene({ jobs: [type] });
    hf.work();
    await hf.enqueue(type);
    await clock.advance("6s");
    gate.resolve();
    await clock.settle();
    expect(seen).toBeInstanceOf(JobTimeoutError);
  });
});
