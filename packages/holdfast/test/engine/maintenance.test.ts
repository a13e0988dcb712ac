import { setImmediate } from "node:timers/promises";
import { InvalidOptionError, job } from "holdfast";
import { describe, expect, it } from "vitest";
import { deferred, eventsOf, scene } from "./scene.js";

const STALE = "Job timed out (stale claim)";
const DAY = 86_400_000;
const type = job({ type: "t", run: () => {} });

describe("expired leases", () => {
  it("A-13 A-32 reapExpiredLeases recovers jobs and returns the count", async () => {
    const { hf, clock, lines, job: read } = await scene({ jobs: [type] });
    const recovered = eventsOf(hf, "recovered");
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) ids.push((await hf.enqueue(type, undefined, n === 2 ? { maxAttempts: 1 } : {})).id);
    for (const lease of await hf.claim({ limit: 3 })) await lease.start();
    const waiting = await hf.enqueue(type);
    await clock.advance(29_999);
    expect(await hf.reapExpiredLeases()).toBe(0);
    await clock.advance(1);
    expect(await hf.reapExpiredLeases()).toBe(3);
    expect(await hf.reapExpiredLeases()).toBe(0);

    const [first, second, last] = ids as [string, string, string];
    for (const id of [first, second]) {
      const back = await read(id);
      expect(back).toMatchObject({ state: "pending", attempt: 1, error: { message: STALE } });
      // No backoff: the crash was not caused by the job.
      expect(back.runAt.getTime()).toBe(clock.now());
    }
    expect(await read(last)).toMatchObject({
      state: "dead",
      error: { message: STALE },
      finishedAt: new Date(clock.now()),
    });
    expect((await read(waiting.id)).error).toBeNull();
    expect(recovered.map(({ id, to }) => [id, to])).toEqual([
      [first, "pending"],
      [second, "pending"],
      [last, "dead"],
    ]);
    expect(
      lines.filter(
        (line) =>
          line.message === `${STALE}: its lease expired, because its worker crashed or could not reach the store`,
      ),
    ).toHaveLength(3);
  });

  it("all expired leases are reaped, in several steps", async () => {
    const { hf, clock } = await scene({ jobs: [type] });
    await hf.enqueueMany(type, Array.from({ length: 1_100 }));
    for (let n = 0; n < 3; n++) await hf.claim({ limit: 500 });
    await clock.advance("30s");
    expect(await hf.reapExpiredLeases()).toBe(1_100);
  });

  it("A-16 A-32 a worker reaps them every 5 minutes", async () => {
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type, undefined, { queue: "unserved" });
    await hf.claim();
    hf.work({ queues: ["default"], poll: "1m", lease: "1m" });
    await clock.advance(299_999);
    expect((await read(id)).state).toBe("claimed");
    await clock.advance(1);
    expect(await read(id)).toMatchObject({ state: "pending", error: { message: STALE } });

    await clock.advance("1s");
    await hf.claim();
    await clock.advance("4m");
    expect((await read(id)).state).toBe("claimed");
    await clock.advance("1m");
    expect((await read(id)).state).toBe("pending");
  });

  it("one of several processes reaps them each time", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [type] });
    const options = { poll: "1m", lease: "1m" } as const;
    hf.work(options);
    (await another({ jobs: [type] })).work(options);
    (await another({ jobs: [type] })).work(options);
    await clock.advance("10m 10s");
    expect(store.count("reapExpiredLeases")).toBe(2);
    expect(store.count("expireOverdue")).toBe(20);
  });

  it("a failure is reported as an outage, and maintenance continues", async () => {
    const { hf, clock, store } = await scene({ jobs: [type] });
    const outages = eventsOf(hf, "outage");
    hf.work({ poll: "1m", lease: "1m" });
    const back = store.fail(new Error("no"), "reapExpiredLeases");
    await clock.advance("5m");
    expect(outages.map(({ doing }) => doing)).toEqual(["stale"]);
    back();
    await clock.advance("5m");
    expect(store.count("reapExpiredLeases")).toBe(2);
  });

  it("E-04 the lease time can be set", async () => {
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const [lease] = await hf.claim({ lease: "5m" });
    await lease?.start();
    await clock.advance("4m 59s");
    expect(await hf.reapExpiredLeases()).toBe(0);
    expect((await read(id)).state).toBe("running");
    await clock.advance("1s");
    expect(await hf.reapExpiredLeases()).toBe(1);
    expect((await read(id)).state).toBe("pending");
    expect(await hf.runNext()).toBe(true);
  });
});

describe("expiry", () => {
  it("A-34 an expired job becomes dead without running", async () => {
    let ran = 0;
    const counted = job({ type: "t", run: () => void ran++ });
    const { hf, clock, job: read } = await scene({ jobs: [counted] });
    const died = eventsOf(hf, "dead");
    const { id } = await hf.enqueue(counted, undefined, { expiresAt: clock.now() + 60_000 });
    const later = await hf.enqueue(counted, undefined, { expiresAt: clock.now() + 60_001 });
    await clock.advance("1m");
    hf.work();
    await clock.settle();
    expect(ran).toBe(1);
    expect((await read(later.id)).state).toBe("completed");
    expect(await read(id)).toMatchObject({ state: "dead", attempt: 0, startedAt: null, error: { code: "EXPIRED" } });
    expect(died).toMatchObject([{ id, error: { code: "EXPIRED" } }]);
  });

  it("A-34 runNext, drain and claim do not run it either", async () => {
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const expiring = async (): Promise<string> => {
      const { id } = await hf.enqueue(type, undefined, { expiresAt: clock.now() + 1_000 });
      await clock.advance("1s");
      return id;
    };
    const ids = [await expiring()];
    expect(await hf.runNext()).toBe(false);
    ids.push(await expiring());
    expect(await hf.drain()).toBe(0);
    ids.push(await expiring());
    expect(await hf.claim()).toEqual([]);
    for (const id of ids) expect(await read(id)).toMatchObject({ state: "dead", attempt: 0 });
  });

  it("A-34 without claims maintenance expires it within half a minute", async () => {
    const short = job({ type: "short", expiresAfter: "10s", run: () => {} });
    const { hf, clock, job: read } = await scene({ jobs: [short] });
    const expired = eventsOf(hf, "expired");
    const { id } = await hf.enqueue(short, undefined, { queue: "unserved" });
    hf.work({ queues: ["default"] });
    await clock.advance("30s");
    expect(await read(id)).toMatchObject({ state: "dead", attempt: 0, error: { code: "EXPIRED" } });
    expect(expired).toEqual([{ id, type: "short", queue: "unserved" }]);
  });
});

describe("retention", () => {
  it("B-16 finished jobs are deleted after 7 days, dead ones after 30", async () => {
    const gate = deferred();
    const long = job({ type: "long", timeout: "300d", run: () => gate.promise });
    const bad = job({ type: "bad", retry: { maxAttempts: 1 }, run: () => Promise.reject(new Error("no")) });
    const { hf, clock } = await scene({ jobs: [type, long, bad] });
    const purged = eventsOf(hf, "purged");
    const completed = await hf.enqueue(type);
    const dead = await hf.enqueue(bad);
    const running = await hf.enqueue(long);
    hf.work({ concurrency: 1 });
    await clock.advance("1s");
    const cancelled = await hf.enqueue(type, undefined, { delay: "300d" });
    await hf.cancel(cancelled.id);
    const waiting = await hf.enqueue(type, undefined, { delay: "300d" });
    const left = async (): Promise<string[]> => (await hf.list()).jobs.map(({ id }) => id).toSorted();
    const sorted = (...jobs: { id: string }[]): string[] => jobs.map(({ id }) => id).toSorted();

    // The wall clock jumps by days, and the next heartbeat of the busy worker extends its lease.
    const jump = async (days: number): Promise<void> => {
      clock.setWall(clock.now() + days * DAY);
      await clock.advance("61s");
    };
    await jump(6.9);
    expect(await left()).toEqual(sorted(running, completed, dead, cancelled, waiting));
    await jump(0.2);
    expect(await left()).toEqual(sorted(running, dead, waiting));
    await jump(24);
    expect(await left()).toEqual(sorted(running, waiting));
    expect(purged).toEqual([
      { state: "completed", count: 1 },
      { state: "cancelled", count: 1 },
      { state: "dead", count: 1 },
    ]);
    gate.resolve();
  });

  it("retention is by age, count or both, or off, per state", async () => {
    const { hf, clock } = await scene({
      jobs: [type],
      retention: { completed: { age: "1h", count: 3 }, cancelled: { count: 1 }, dead: false },
    });
    const purged = eventsOf(hf, "purged");
    for (let n = 0; n < 5; n++) {
      await hf.enqueue(type);
      await hf.runNext();
      await hf.cancel((await hf.enqueue(type)).id);
      await clock.advance("1s");
    }
    const dead = await hf.enqueue(type, undefined, { expiresAt: clock.now() + 1 });
    await clock.advance("1s");
    await hf.runNext();
    const newest = (await hf.list({ state: "completed", limit: 3 })).jobs.map(({ id }) => id);

    expect(await hf.purge()).toBe(6);
    expect((await hf.list({ state: "completed" })).jobs.map(({ id }) => id)).toEqual(newest);
    expect((await hf.stats()).states).toMatchObject({ completed: 3, cancelled: 1, dead: 1 });
    expect(purged).toEqual([
      { state: "completed", count: 2 },
      { state: "cancelled", count: 4 },
    ]);
    await clock.advance("2h");
    expect(await hf.purge()).toBe(3);
    clock.setWall(clock.now() + 1_000 * DAY);
    await hf.purge();
    expect((await hf.get(dead.id))?.state).toBe("dead");
  });

  it.each([
    ["an age", { completed: 0, dead: "0s" }],
    ["a count", { completed: { count: 0 }, dead: { age: "1d", count: 0 } }],
  ])("with %s of 0 a job is deleted when it finishes", async (_what, retention) => {
    const bad = job({ type: "bad", retry: { maxAttempts: 1 }, run: () => Promise.reject(new Error("no")) });
    const { hf } = await scene({ jobs: [type, bad], retention });
    const [completed, dead] = [eventsOf(hf, "completed"), eventsOf(hf, "dead")];
    const ids = [(await hf.enqueue(type)).id, (await hf.enqueue(bad)).id];
    const { id: kept } = await hf.enqueue(type, undefined, { delay: "1h" });
    await hf.cancel(kept);
    await hf.drain();
    expect([completed.length, dead.length]).toEqual([1, 1]);
    expect(await Promise.all(ids.map((id) => hf.get(id)))).toEqual([null, null]);
    expect((await hf.stats()).states).toMatchObject({ completed: 0, dead: 0, cancelled: 1 });
    expect((await hf.stats()).lastMinute).toMatchObject({ completed: 1, dead: 1 });
  });

  it.each([
    ["purge", 500],
    ["purgeDue", 500],
    ["purgeAudit", 500],
    ["purgeTransitions", 5_000],
    ["purgeHistory", 500],
  ])("closing ends an endless %s after its chunk", async (name, chunk) => {
    const { clock, store, another } = await scene({ jobs: [type] });
    // There is always a full chunk more to delete.
    let calls = 0;
    const way = new Proxy(store.store, {
      get: (target, property) =>
        property === name
          ? () => setImmediate(++calls > 1_000 ? 0 : chunk)
          : (Reflect.get(target, property) as unknown),
    });
    const second = await another({ jobs: [type] }, way);
    second.work({ poll: "1m", lease: "1m" });
    const advancing = clock.advance("6m");
    while (calls < 5) await setImmediate();
    const closing = second.close();
    await Promise.all([closing, advancing, clock.advance("1m")]);
    expect(calls).toBeLessThan(100);
  });

  it("purge deletes jobs of a state older than a time", async () => {
    const { hf, clock } = await scene({ jobs: [type] });
    await hf.enqueue(type);
    await hf.runNext();
    await clock.advance("1h");
    await hf.enqueue(type);
    await hf.runNext();
    expect(await hf.purge({ state: "completed", olderThan: "30m" })).toBe(1);
    expect(await hf.purge({ state: "completed", olderThan: "30m" })).toBe(0);
    expect((await hf.stats()).states.completed).toBe(1);
  });

  it("an invalid retention is refused and named", async () => {
    for (const [retention, field] of [
      [{ completed: "never" }, "retention.completed"],
      [{ dead: {} }, "retention.dead"],
      [{ dead: { count: -1 } }, "retention.dead.count"],
      [{ pending: "1d" }, "retention.pending"],
    ] as const) {
      const opening = scene({ retention: retention as object });
      await expect(opening).rejects.toThrow(InvalidOptionError);
      await expect(opening).rejects.toThrow(new RegExp(`^${field}:? `));
    }
  });
});

describe("maintain", () => {
  it("does all maintenance in one call", async () => {
    const { hf, clock, store } = await scene({ jobs: [type], retention: { completed: "1h" } });
    await hf.enqueue(type);
    await hf.drain();
    await clock.advance("2h");
    await hf.enqueue(type);
    await hf.claim();
    await hf.enqueue(type, undefined, { queue: "other", expiresAt: clock.now() + 1_000 });
    await clock.advance("1m");
    expect(await hf.maintain()).toEqual({ stale: 1, expired: 1, purged: 1 });
    expect(store.count("maintain")).toBe(1);
    expect(await hf.maintain()).toEqual({ stale: 0, expired: 0, purged: 0 });
  });

  it("emits dead and expired events", async () => {
    const { hf, clock, lines } = await scene({ jobs: [type] });
    const dead = eventsOf(hf, "dead");
    const stale = await hf.enqueue(type, undefined, { maxAttempts: 1 });
    for (const lease of await hf.claim()) await lease.start();
    const late = await hf.enqueue(type, undefined, { expiresAt: clock.now() + 1_000 });
    await clock.advance("1m");
    await hf.maintain();
    expect(dead.map(({ id, error }) => [id, error.code])).toEqual([
      [stale.id, "STALE_CLAIM"],
      [late.id, "EXPIRED"],
    ]);
    // Expiry is expected, so it is not logged as an error.
    expect(lines.filter(({ level }) => level === "error").map(({ fields }) => fields["job"])).toEqual([stale.id]);
  });
});
