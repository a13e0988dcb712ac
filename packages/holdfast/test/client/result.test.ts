import {
  ClosedError,
  holdfast,
  InvalidOptionError,
  job,
  JobNotCompletedError,
  JobNotFoundError,
  WaitTimeoutError,
  type Holdfast,
  type Lease,
} from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { cleanup, double, errorOf, expectRefusal, fileStore, open } from "./scene.js";

const missing = "018f4d2e-7b3a-7c11-8a55-0123456789ab";

async function leased(hf: Holdfast): Promise<Lease> {
  await hf.enqueue(double, { n: 1 });
  const [lease] = await hf.claim();
  return lease!;
}

describe("result", () => {
  it("of a completed job resolves, by id or by type and id", async () => {
    const { hf } = await open({ jobs: [double] });
    const { id } = await hf.enqueue(double, { n: 21 });
    await hf.runNext();
    expect(await hf.result(id)).toEqual({ twice: 42 });
    const { twice } = await hf.result(double, id);
    expect(twice).toBe(42);
  });

  it("of a job of another type is refused", async () => {
    const { hf } = await open({ jobs: [double, cleanup] });
    const { id } = await hf.enqueue(double, { n: 21 });
    await hf.runNext();
    await expectRefusal(hf.result(cleanup, id), {
      is: InvalidOptionError,
      code: "INVALID_OPTION",
      field: "type",
      says: /is of type double/,
    });
  });

  it("a promise instead of an id is refused", async () => {
    const { hf } = await open();
    const forgotten = hf.enqueue(double, { n: 1 }) as unknown as { id: string };
    await expectRefusal(hf.result(forgotten.id), { is: InvalidOptionError, code: "INVALID_OPTION", field: "id" });
    await (forgotten as unknown as Promise<unknown>);
  });

  it("waits for the job to finish, for any number of callers", async () => {
    const { hf, clock } = await open();
    const lease = await leased(hf);
    const waiting = [hf.result(lease.id), hf.result(double, lease.id), hf.result(lease.id, { timeout: "1h" })];
    await clock.advance("10m");
    await lease.complete({ twice: 2 });
    expect(await Promise.all(waiting)).toEqual([{ twice: 2 }, { twice: 2 }, { twice: 2 }]);
  });

  it("A-33 of a handler that returned nothing is {}, and null stays null", async () => {
    const find = job({
      type: "find",
      input: z.string(),
      run: ({ input }) => (input === "x" ? { found: input } : null),
    });
    const { hf } = await open({ jobs: [cleanup, find] });
    const nothing = await hf.enqueue(cleanup);
    const none = await hf.enqueue(find, "y");
    await hf.drain();
    expect(await hf.result(cleanup, nothing.id)).toEqual({});
    expect(await hf.result(find, none.id)).toBeNull();
  });

  it("of a dead job throws its state and reason", async () => {
    const { hf } = await open();
    const lease = await leased(hf);
    const waiting = errorOf(hf.result(lease.id));
    await lease.fail(new Error("the printer is on fire"), { retry: false });
    expect(await waiting).toBeInstanceOf(JobNotCompletedError);
    expect(await waiting).toMatchObject({ code: "JOB_NOT_COMPLETED", id: lease.id, state: "dead" });
    expect(((await waiting) as Error).message).toBe(`job ${lease.id} ended dead: the printer is on fire`);
  });

  it("of a cancelled job throws its state", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(double, { n: 1 });
    const waiting = errorOf(hf.result(id));
    await hf.cancel(id);
    expect(await waiting).toMatchObject({ code: "JOB_NOT_COMPLETED", id, state: "cancelled" });
  });

  it("keeps waiting after a failed attempt", async () => {
    const { hf, clock } = await open();
    const lease = await leased(hf);
    const waiting = hf.result(lease.id);
    await lease.fail("not yet");
    await clock.advance("30s");
    const [second] = await hf.claim();
    await second?.complete({ at: "last" });
    expect(await waiting).toEqual({ at: "last" });
  });

  it("of a missing or removed job throws", async () => {
    const { hf, clock } = await open();
    await expectRefusal(hf.result(missing), { is: JobNotFoundError, code: "JOB_NOT_FOUND" });
    const { id } = await hf.enqueue(double, { n: 1 });
    const waiting = errorOf(hf.result(id));
    await clock.advance(10);
    await hf.remove(id);
    await clock.advance("1s");
    expect(await waiting).toBeInstanceOf(JobNotFoundError);
  });

  it("times out after its timeout, not before", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(double, { n: 1 });
    let ended = false;
    const waiting = errorOf(hf.result(id, { timeout: "5s" })).finally(() => (ended = true));
    await clock.advance(4_999);
    expect(ended).toBe(false);
    await clock.advance(1);
    expect(await waiting).toBeInstanceOf(WaitTimeoutError);
    expect(await waiting).toMatchObject({
      code: "WAIT_TIMEOUT",
      message: `job ${id} has not finished within 5000 ms; it is pending`,
    });
  });

  it("rejects with the reason of an aborted signal", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(double, { n: 1 });
    const reason = new Error("the visitor left");
    const controller = new AbortController();
    const waiting = errorOf(hf.result(id, { signal: controller.signal }));
    controller.abort(reason);
    expect(await waiting).toBe(reason);
    expect(await errorOf(hf.result(id, { signal: controller.signal }))).toBe(reason);
  });

  it("one timeout does not affect other callers", async () => {
    const { hf, clock } = await open();
    const lease = await leased(hf);
    const patient = hf.result(lease.id);
    const hasty = errorOf(hf.result(lease.id, { timeout: "1s" }));
    await clock.advance("1s");
    expect(await hasty).toBeInstanceOf(WaitTimeoutError);
    await lease.complete({ ok: true });
    expect(await patient).toEqual({ ok: true });
  });

  it("rejects when the client is closed", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(double, { n: 1 });
    const waiting = errorOf(hf.result(id));
    await hf.close();
    expect(await waiting).toBeInstanceOf(ClosedError);
    expect(((await waiting) as Error).message).toMatch(
      /closed while waiting for a result; call result\(\) of a new client/,
    );
  });

  it("of another process's worker resolves", async () => {
    const store = await fileStore();
    const web = await holdfast({ store });
    const workers = await holdfast({ store, jobs: [double], logger: false });
    const { id } = await web.enqueue(double, { n: 4 });
    const waiting = web.result(double, id, { timeout: "20s" });
    workers.work();
    expect(await waiting).toEqual({ twice: 8 });
    await Promise.all([web.close(), workers.close()]);
  });
});
