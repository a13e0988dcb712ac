import { Cancel, job, RetryAfter } from "holdfast";
import { describe, expect, it } from "vitest";
import { deferred, eventsOf, scene } from "./scene.js";

describe("throw new Cancel", () => {
  it("ends the job cancelled with its reason", async () => {
    const type = job({
      type: "t",
      run: () => {
        throw new Cancel("the order was withdrawn");
      },
    });
    const { hf, job: read } = await scene({ jobs: [type] });
    const events = eventsOf(hf, "cancelled");
    const { id } = await hf.enqueue(type);
    await hf.runNext();
    const ended = await read(id);
    expect(ended).toMatchObject({
      state: "cancelled",
      attempt: 1,
      error: { message: "the order was withdrawn", code: "CANCELLED" },
      attempts: [{ attempt: 1, end: "cancelled", error: null }],
    });
    expect(events).toMatchObject([{ id }]);
    expect(await hf.retry(id)).toBe("retried");
  });

  it("is recognised from another copy of the package", async () => {
    const foreign = Object.assign(new Error("elsewhere"), { [Symbol.for("holdfast.Cancel")]: 1 });
    const type = job({ type: "t", run: () => Promise.reject(foreign) });
    const { hf, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    await hf.runNext();
    expect(await read(id)).toMatchObject({ state: "cancelled", error: { message: "elsewhere" } });
  });

  it("works for a lease that a program holds itself", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const [lease] = await hf.claim();
    expect(await lease?.fail(new Cancel("no longer needed"))).toBe("cancelled");
    expect(await read(id)).toMatchObject({ state: "cancelled", error: { message: "no longer needed" } });
  });
});

describe("an asynchronous backoff", () => {
  const failing = (backoff: (attempt: number) => Promise<string | number>) =>
    job({ type: "t", retry: { backoff }, run: () => Promise.reject(new Error("down")) });

  it("is awaited", async () => {
    const gate = deferred<string>();
    const type = failing(() => gate.promise);
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const running = hf.runNext();
    await clock.advance(1);
    expect((await read(id)).state).toMatch(/claimed|running/);
    gate.resolve("7m");
    await running;
    const failed = await read(id);
    expect(failed.state).toBe("failed");
    expect(failed.runAt.getTime() - clock.now()).toBe(7 * 60_000);
  });

  it.each([
    ["that rejects", () => Promise.reject(new Error("no table")), "the backoff function failed"],
    ["of no duration", () => Promise.resolve("soon"), "no valid delay"],
  ])("%s retries in 30 s and is logged", async (_what, backoff, message) => {
    const type = failing(backoff);
    const { hf, clock, job: read, lines } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    await hf.runNext();
    expect((await read(id)).runAt.getTime() - clock.now()).toBe(30_000);
    expect(lines[0]).toMatchObject({ level: "error", message: expect.stringContaining(message) as string });
  });

  it("that never settles is given up after 10 s", async () => {
    const type = failing(() => new Promise(() => {}));
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const running = hf.runNext();
    await clock.advance("10s");
    await running;
    const failed = await read(id);
    expect(failed).toMatchObject({ state: "failed", fence: 1 });
    expect(failed.runAt.getTime() - clock.now()).toBe(30_000);
  });

  it("is awaited by a worker that stops without grace, and the error is kept", async () => {
    const gate = deferred<string>();
    const asked = deferred();
    const type = failing(() => (asked.resolve(), gate.promise));
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const worker = hf.work({ grace: 0 });
    await clock.settle();
    await asked.promise;
    const stopped = worker.stop();
    await clock.advance("2s");
    gate.resolve("7m");
    await stopped;
    const failed = await read(id);
    expect(failed).toMatchObject({ state: "failed", attempt: 1, error: { message: "down" } });
    expect(failed.attempts).toMatchObject([{ end: "failed", error: { message: "down" } }]);
    expect(failed.runAt.getTime() - clock.now()).toBe(7 * 60_000);
  });

  it("is not asked if the handler says when", async () => {
    let asked = 0;
    const type = job({
      type: "t",
      retry: { backoff: () => Promise.resolve(++asked) },
      run: () => Promise.reject(new RetryAfter("2m")),
    });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    await hf.runNext();
    expect(asked).toBe(0);
    expect((await read(id)).runAt.getTime() - clock.now()).toBe(120_000);
  });

  it("is awaited for a handler that timed out and ignores its signal", async () => {
    const type = job({
      type: "t",
      timeout: "1s",
      retry: { backoff: () => Promise.resolve("5m") },
      run: () => new Promise(() => {}),
    });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    hf.work();
    const { id } = await hf.enqueue(type);
    await clock.advance("32s");
    expect(await read(id)).toMatchObject({ state: "failed", error: { code: "JOB_TIMEOUT" } });
  });
});
