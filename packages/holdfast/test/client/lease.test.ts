import {
  holdfast,
  InvalidOutputError,
  job,
  LeaseLostError,
  PayloadTooLargeError,
  type Holdfast,
  type Lease,
} from "holdfast";
import { sqlite } from "holdfast/sqlite";
import { describe, expect, it } from "vitest";
import { cleanup, double, expectRefusal, fileStore, jobCount, jobOf, open, START, stateOf } from "./scene.js";

async function claimOne(hf: Holdfast, options = {}): Promise<Lease> {
  const [lease] = await hf.claim(options);
  if (lease === undefined) throw new Error("nothing to claim");
  return lease;
}
const lost = { is: LeaseLostError, code: "LEASE_LOST" } as const;

describe("claim", () => {
  it("A-07 works on an open store and on a URL", async () => {
    const url = await fileStore();
    const opened = sqlite(url.slice("sqlite:".length), { durability: "normal" });
    const given = await holdfast({ store: opened });
    const own = await holdfast({ store: url });
    const { id } = await given.enqueue(cleanup);
    await (await claimOne(own)).complete();
    expect(await stateOf(given, id)).toBe("completed");
    await Promise.all([given.close(), own.close()]);
  });

  it("A-09 returns no lease if no job is due", async () => {
    const { hf } = await open();
    expect(await hf.claim()).toEqual([]);
    await hf.enqueue(cleanup, {}, { delay: 1 });
    expect(await hf.claim({ limit: 10 })).toEqual([]);
  });

  it("A-09 takes only due, unexpired, waiting, matching jobs", async () => {
    const { hf, clock } = await open();
    const wanted = await hf.enqueue(double, { n: 1 });
    await hf.enqueue(cleanup, {}, { priority: 50 });
    await hf.enqueue(double, { n: 2 }, { queue: "other", priority: 50 });
    await hf.enqueue(double, { n: 3 }, { delay: "1h", priority: 50 });
    await hf.enqueue(double, { n: 4 }, { expiresAt: START + 10, priority: 50 });
    await hf.cancel((await hf.enqueue(double, { n: 5 }, { priority: 50 })).id);
    await clock.advance(10);
    const options = { queues: ["default"], types: [double], limit: 10 };
    expect((await hf.claim(options)).map((lease) => lease.id)).toEqual([wanted.id]);
    expect(await hf.claim({ types: ["unused"] })).toEqual([]);
    expect((await hf.claim({ limit: 10 })).map((lease) => lease.type)).toEqual(["cleanup", "double"]);
  });

  it("takes one job by default, and at most `limit`", async () => {
    const { hf } = await open();
    await hf.enqueueMany(
      double,
      Array.from({ length: 10 }, (_, n) => ({ n })),
    );
    expect(await hf.claim()).toHaveLength(1);
    expect(await hf.claim({ limit: 4 })).toHaveLength(4);
    expect(await hf.claim({ limit: 500 })).toHaveLength(5);
  });

  it("A-29 gives one job to one of two concurrent claims", async () => {
    const { hf } = await open();
    await hf.enqueue(cleanup);
    const claims = await Promise.all([hf.claim(), hf.claim()]);
    expect(claims.flat()).toHaveLength(1);
  });

  it("E-12 A-29 gives concurrent claims of two clients different jobs", async () => {
    const store = await fileStore();
    const clients = [await holdfast({ store }), await holdfast({ store })] as const;
    await clients[0].enqueueMany(
      double,
      Array.from({ length: 40 }, (_, n) => ({ n })),
    );
    const claims = Array.from({ length: 50 }, (_, index) => clients[index % 2]!.claim());
    const ids = (await Promise.all(claims)).flat().map((lease) => lease.id);
    expect(ids).toHaveLength(40);
    expect(new Set(ids).size).toBe(40);
    await Promise.all(clients.map((client) => client.close()));
  });
});

describe("a lease", () => {
  it("A-10 start marks the job running with its start time", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup);
    const lease = await claimOne(hf);
    expect(await jobOf(hf, id)).toMatchObject({ state: "claimed", startedAt: null, attempt: 1, fence: 1 });
    await clock.advance(250);
    expect(await lease.start()).toEqual({ cancelRequested: false });
    const begun = { state: "running", claimedAt: new Date(START), startedAt: new Date(START + 250) };
    expect(await jobOf(hf, id)).toMatchObject(begun);
    await clock.advance(250);
    await lease.start();
    expect(await jobOf(hf, id)).toMatchObject(begun);
  });

  it("A-11 complete stores the output and the completion time", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup);
    const lease = await claimOne(hf);
    await lease.start();
    await clock.advance("5s");
    await lease.complete({ sent: ["a", "b"] });
    const done = { state: "completed", output: { sent: ["a", "b"] }, finishedAt: new Date(START + 5_000), dueAt: null };
    expect(await jobOf(hf, id)).toMatchObject(done);
  });

  it("A-33 complete without output stores {}", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(cleanup);
    await (await claimOne(hf)).complete();
    expect((await jobOf(hf, id)).output).toEqual({});
  });

  it("complete refuses an invalid output and keeps the lease", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(cleanup);
    const lease = await claimOne(hf);
    const says = /^output of cleanup: total: .*BigInt/;
    await expectRefusal(lease.complete({ total: 5n }), { is: InvalidOutputError, code: "INVALID_OUTPUT", says });
    await expectRefusal(lease.complete("x".repeat(300_000)), { is: PayloadTooLargeError, code: "PAYLOAD_TOO_LARGE" });
    expect(await stateOf(hf, id)).toBe("claimed");
    await lease.complete({ total: "5" });
    expect(await stateOf(hf, id)).toBe("completed");
  });

  it("extend renews the lease for its time or a given one", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup);
    const lease = await claimOne(hf, { lease: "10s" });
    expect((await jobOf(hf, id)).dueAt).toEqual(new Date(START + 10_000));
    await clock.advance("9s");
    expect(await lease.extend()).toEqual({ cancelRequested: false });
    expect((await jobOf(hf, id)).dueAt).toEqual(new Date(START + 19_000));
    await lease.extend("1m");
    await clock.advance("59s");
    expect(await hf.claim()).toEqual([]);
    await clock.advance("1s");
    expect(await hf.claim()).toHaveLength(1);
  });

  it("release makes the job due later and restores the attempt", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup);
    await (await claimOne(hf)).release({ delay: "5s" });
    const back = { state: "pending", attempt: 0, fence: 1, worker: null, dueAt: new Date(START + 5_000), error: null };
    expect(await jobOf(hf, id)).toMatchObject(back);
    expect(await hf.claim()).toEqual([]);
    await clock.advance("5s");
    expect(await claimOne(hf)).toMatchObject({ id, attempt: 1, fence: 2 });
  });

  it("start and extend report a cancellation, and cancel confirms it", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(cleanup);
    const lease = await claimOne(hf);
    await hf.cancel(id);
    expect(await lease.start()).toEqual({ cancelRequested: true });
    expect(await lease.extend()).toEqual({ cancelRequested: true });
    await lease.cancel();
    expect(await jobOf(hf, id)).toMatchObject({ state: "cancelled", finishedAt: new Date(START), error: null });
  });

  it("a requested cancellation wins over fail and release", async () => {
    const { hf } = await open();
    await hf.enqueueMany(cleanup, [{}, {}]);
    const [one, two] = await hf.claim({ limit: 2 });
    await hf.cancel({ type: cleanup });
    expect(await one?.fail("broken")).toBe("cancelled");
    await two?.release();
    expect((await hf.stats()).states).toMatchObject({ cancelled: 2 });
  });
});

describe("fail", () => {
  it("A-30 retries after 30 s × 2ⁿ, at most 15 min, then is dead", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup, {}, { maxAttempts: 8 });
    for (const seconds of [30, 60, 120, 240, 480, 900, 900]) {
      const lease = await claimOne(hf);
      expect(await lease.fail(new Error(`attempt ${lease.attempt}`))).toBe("failed");
      const waiting = await jobOf(hf, id);
      expect(waiting).toMatchObject({ state: "failed", attempt: lease.attempt, finishedAt: null });
      expect(waiting.dueAt).toEqual(new Date(clock.now() + seconds * 1_000));
      await clock.advance(seconds * 1_000 - 1);
      expect(await hf.claim()).toEqual([]);
      await clock.advance(1);
    }
    expect(await (await claimOne(hf)).fail(new Error("the last"))).toBe("dead");
    const dead = await jobOf(hf, id);
    expect(dead).toMatchObject({ state: "dead", attempt: 8, error: { message: "the last" }, dueAt: null });
    expect(dead.finishedAt).toEqual(new Date(clock.now()));
    expect(dead.attempts.map((attempt) => attempt.error?.message)).toEqual([
      ...Array.from({ length: 7 }, (_, index) => `attempt ${index + 1}`),
      "the last",
    ]);
  });

  it.each([
    ["5 s × 2^(n−1) plus 0–1 s", { base: "5s", max: "5m", jitter: "1s" }, [5_500, 10_500, 20_500, 40_500]],
    ["60 s × 2^(attempts−1)", { base: "60s", max: "1d", jitter: 0 }, [60_000, 120_000, 240_000, 480_000]],
    ["30, 60, 120 s", {}, [30_000, 60_000, 120_000]],
  ])("%s, with the client's random source; then dead", async (_name, backoff, delays) => {
    const type = job({ type: "flaky", retry: { maxAttempts: delays.length + 1, backoff }, run: () => {} });
    const { hf, clock } = await open({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    for (const delay of delays) {
      expect(await (await claimOne(hf)).fail("broken")).toBe("failed");
      expect((await jobOf(hf, id)).dueAt).toEqual(new Date(clock.now() + delay));
      await clock.advance(delay);
    }
    expect(await (await claimOne(hf)).fail("broken")).toBe("dead");
  });

  it("A-12 without retry makes the job dead", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(cleanup);
    expect(await (await claimOne(hf)).fail("hopeless", { retry: false })).toBe("dead");
    expect(await jobOf(hf, id)).toMatchObject({ state: "dead", attempt: 1, finishedAt: new Date(START) });
  });

  it.each<[unknown, string, string | null]>([
    [new Error("plain"), "plain", null],
    [Object.assign(new Error("no entry"), { code: "ENOENT" }), "no entry", "ENOENT"],
    ["a string", "a string", null],
    [{ why: "an object" }, '{"why":"an object"}', null],
    [undefined, "undefined", null],
    [10n, "10", null],
  ])("stores a thrown value (%s) as a message", async (thrown, message, code) => {
    const { hf } = await open();
    const { id } = await hf.enqueue(cleanup);
    await (await claimOne(hf)).fail(thrown);
    expect((await jobOf(hf, id)).error).toMatchObject({ message, code });
  });
});

describe("a lost lease", () => {
  it("changes nothing and throws, once another worker has the job", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup);
    const old = await claimOne(hf, { lease: "10s" });
    await clock.advance("10s");
    const fresh = await claimOne(hf);
    expect(fresh.fence).toBe(old.fence + 1);
    const before = await jobOf(hf, id);
    for (const call of [
      () => old.start(),
      () => old.extend(),
      () => old.complete({ late: true }),
      () => old.fail("late"),
      () => old.release(),
      () => old.cancel(),
    ]) {
      await expectRefusal(call, { ...lost, says: new RegExp(`${id} is no longer held`) });
    }
    expect(await jobOf(hf, id)).toEqual(before);
    await fresh.complete({ by: "fresh" });
    expect((await jobOf(hf, id)).output).toEqual({ by: "fresh" });
  });

  it("A-13 A-32 is reaped by reapExpiredLeases and cannot settle", async () => {
    const { hf, clock } = await open();
    await hf.enqueueMany(cleanup, [{}, {}]);
    const [one, two] = await hf.claim({ limit: 2, lease: "10s" });
    await one?.start();
    await two?.extend("1h");
    await clock.advance("10s");
    expect(await hf.reapExpiredLeases()).toBe(1);
    const stale = await jobOf(hf, one!.id);
    expect(stale.error).toMatchObject({ message: "Job timed out (stale claim)", code: "STALE_CLAIM" });
    expect(["pending", "failed"]).toContain(stale.state);
    await expectRefusal(one!.complete(), lost);
    expect(await hf.reapExpiredLeases()).toBe(0);
  });

  it("cannot settle a removed or finished job", async () => {
    const { hf } = await open();
    await hf.enqueue(cleanup);
    const lease = await claimOne(hf);
    await lease.complete({ first: true });
    await expectRefusal(lease.start(), lost);
    await expectRefusal(lease.fail("second thoughts"), lost);
    await hf.remove(lease.id);
    await expectRefusal(lease.complete(), lost);
    expect(await jobCount(hf)).toBe(0);
  });
});
