import assert from "node:assert/strict";
import { STATE_NAMES } from "../../job/state.js";
import { isRequested } from "../../job/stored-queue.js";
import type { JobFilter, Skipped, StatsRequest } from "../../store.js";
import {
  add,
  addAll,
  attemptRecord,
  claim,
  claimOne,
  failureOf,
  FINGERPRINT,
  finish,
  jobIn,
  MINUTE,
  newJob,
  newJobs,
  recordOf,
  SECOND,
  settleOne,
  workerRecord,
} from "./builders.js";
import { ids, list, pagesOf } from "./paging.js";
import type { DefineCase } from "./scene.js";

export function queryCases(test: DefineCase): void {
  test("get returns null for an unknown job", async ({ store }) => {
    assert.equal(await store.get("00000000-0000-7000-8000-000000000000"), null);
  });

  test("list returns records newest first, without history and log", async ({ store, clock }) => {
    const first = await add(store, { input: `"${"x".repeat(2_000)}"`, tags: ["a", "b"], user: "u" });
    const job = await claimOne(store);
    await store.note([{ ...job, progress: { fraction: 0.5, note: null, data: null }, log: [{ at: 1, line: "x" }] }]);
    await settleOne(store, failureOf(job, "no", { delayMs: SECOND }));
    await clock.advance(1);
    const second = await add(store);
    await clock.advance(1);
    const third = await jobIn(store, "completed");
    const listed = await list(store, {});
    assert.deepEqual(ids(listed), [third, second, first]);
    const record = await recordOf(store, first);
    assert.deepEqual([record.attempts, record.log.length], [[attemptRecord(1, "no")], 1]);
    assert.deepEqual(listed[2], { ...record, attempts: [], log: [] });
  });

  test("list orders by enqueue time, not by id", async ({ store, clock }) => {
    const created = newJobs(3).toReversed();
    for (const job of created) {
      await addAll(store, [job]);
      await clock.advance(1);
    }
    assert.deepEqual(ids(await list(store, {})), ids(created).toReversed());
  });

  test("skip continues where list would", async ({ store, clock }) => {
    if (store.skip === undefined) return;
    for (let nth = 0; nth < 9; nth++) {
      await add(store, { type: nth % 3 === 0 ? "a" : "b", user: nth % 2 === 0 ? "u" : "v", tags: ["x"] });
      await clock.advance(1);
    }
    await finish(store, await claimOne(store), "completed");
    for (const job of await claim(store, { limit: 4 })) await settleOne(store, failureOf(job, "no"));
    const filters: JobFilter[] = [
      {},
      { types: ["b"] },
      { user: "u" },
      { tag: "x" },
      { states: ["pending"] },
      { states: ["pending", "completed"], types: ["a"], createdAfter: 0 },
      { types: ["none"] },
      { fingerprint: FINGERPRINT },
      { fingerprint: FINGERPRINT, states: ["failed"], types: ["b"] },
    ];
    for (const filter of filters) {
      const all = ids(await list(store, filter));
      for (let offset = 1; offset <= all.length + 1; offset++) {
        let [left, cursor]: [number, string | null] = [offset, null];
        do {
          const passed: Skipped = await store.skip(filter, { limit: left, cursor });
          assert.ok(passed.passed <= left);
          left -= passed.passed;
          cursor = passed.cursor;
        } while (cursor !== null && left > 0);
        assert.equal(offset - left, Math.min(offset, all.length), JSON.stringify(filter));
        const rest = cursor === null ? [] : ids((await pagesOf(store, filter, { from: cursor })).flat());
        assert.deepEqual(rest, all.slice(offset), JSON.stringify(filter));
      }
    }
    const refused = { code: "INVALID_OPTION", field: "cursor" };
    await assert.rejects(store.skip({}, { limit: 1, cursor: "none" }), refused);
  });

  test("list filters by state, type, queue, user and tag", async ({ store, clock }) => {
    const jobs = [
      newJob({ type: "a", queue: "q1", user: "u1", tags: ["x", "y"] }),
      newJob({ type: "b", queue: "q1", user: "u2", tags: ["x"] }),
      newJob({ type: "a", queue: "q2", user: "u1" }),
      newJob({ type: "c", queue: "q2", tags: ["xx"] }),
    ];
    for (const job of jobs) {
      await addAll(store, [job]);
      await clock.advance(1);
    }
    const [a1, b1, a2, c2] = ids(jobs);
    await finish(store, await claimOne(store, { queues: ["q1"], types: ["b"] }));
    await store.cancel([c2 ?? ""]);
    const cases: [JobFilter, (string | undefined)[]][] = [
      [{ types: ["a"] }, [a2, a1]],
      [{ types: ["a", "c"] }, [c2, a2, a1]],
      [{ queues: ["q2"] }, [c2, a2]],
      [{ queues: ["q1", "q2"] }, [c2, a2, b1, a1]],
      [{ user: "u1" }, [a2, a1]],
      [{ tag: "x" }, [b1, a1]],
      [{ tag: "y" }, [a1]],
      [{ states: ["pending"] }, [a2, a1]],
      [{ states: ["completed", "cancelled"] }, [c2, b1]],
      [{ states: ["pending", "completed"] }, [a2, b1, a1]],
      [{ states: ["dead"] }, []],
      [{ types: ["a"], queues: ["q1"] }, [a1]],
      [{ types: ["a", "b"], user: "u1", tag: "x", states: ["pending"], queues: ["q1"] }, [a1]],
      [{ user: "u1", tag: "xx" }, []],
      [{ user: undefined, tag: undefined, states: undefined }, [c2, a2, b1, a1]],
    ];
    for (const [filter, expected] of cases) {
      assert.deepEqual(ids(await list(store, filter)), expected, JSON.stringify(filter));
    }
  });

  test("list filters by fingerprint, in both orders", async ({ store, clock }) => {
    const other = "0123456789abcdef";
    const failed: string[] = [];
    for (let nth = 0; nth < 7; nth++) {
      const id = await add(store, { type: nth % 2 === 0 ? "a" : "b", user: nth < 3 ? "u" : null, tags: ["x"] });
      const error = { message: "no", code: null, fingerprint: nth === 6 ? other : FINGERPRINT };
      const to = nth % 3 === 0 ? "dead" : "failed";
      await finish(store, await claimOne(store), to, { error, delayMs: MINUTE });
      failed.push(id);
      await clock.advance(1);
    }
    await add(store);
    const some = (...nths: number[]): (string | undefined)[] => nths.map((nth) => failed[nth]);
    const cases: [JobFilter, (string | undefined)[]][] = [
      [{ fingerprint: FINGERPRINT }, some(5, 4, 3, 2, 1, 0)],
      [{ fingerprint: other }, some(6)],
      [{ fingerprint: "ffffffffffffffff" }, []],
      [{ fingerprint: FINGERPRINT, states: ["dead"] }, some(3, 0)],
      [{ fingerprint: FINGERPRINT, types: ["b"] }, some(5, 3, 1)],
      [{ fingerprint: FINGERPRINT, user: "u" }, some(2, 1, 0)],
      [{ fingerprint: FINGERPRINT, tag: "x", queues: ["default"], states: ["failed", "dead"] }, some(5, 4, 3, 2, 1, 0)],
      [{ fingerprint: FINGERPRINT, ids: some(1, 6) as string[] }, some(1)],
      [{ fingerprint: undefined, types: ["a"] }, some(6, 4, 2, 0)],
    ];
    for (const [filter, expected] of cases) {
      for (const limit of [2, 100]) {
        assert.deepEqual(ids((await pagesOf(store, filter, { limit })).flat()), expected, JSON.stringify(filter));
      }
      const oldest = await store.list(filter, { limit: 100, cursor: null, order: "oldest" });
      if (oldest.cursor === null) assert.deepEqual(ids(oldest.jobs), expected.toReversed(), JSON.stringify(filter));
    }
    const [listed] = await list(store, { fingerprint: other });
    assert.equal(listed?.error?.fingerprint, other);
    await store.remove(some(5) as string[]);
    assert.deepEqual(ids(await list(store, { fingerprint: FINGERPRINT })), some(4, 3, 2, 1, 0));
  });

  test("get and list return jobs in every state", async ({ store }) => {
    for (const state of STATE_NAMES) {
      const id = await jobIn(store, state);
      assert.equal((await recordOf(store, id)).state, state);
      assert.deepEqual(ids(await list(store, { states: [state] })), [id]);
    }
  });

  test("list filters by enqueue time", async ({ store, clock }) => {
    const start = clock.now();
    const created: string[] = [];
    for (let count = 0; count < 3; count++) {
      created.push(await jobIn(store, count === 1 ? "completed" : "pending"));
      await clock.advance(10 * SECOND);
    }
    assert.deepEqual(ids(await list(store, { createdAfter: start + 5 * SECOND })), [created[2], created[1]]);
    assert.deepEqual(ids(await list(store, { createdBefore: start + 15 * SECOND })), [created[1], created[0]]);
    const between = { createdAfter: start + 5 * SECOND, createdBefore: start + 15 * SECOND };
    assert.deepEqual(ids(await list(store, between)), [created[1]]);
  });

  test("a job added while paging is not on later pages", async ({ store, clock }) => {
    for (let count = 0; count < 6; count++) {
      await add(store);
      await clock.advance(1);
    }
    const first = await store.list({}, { limit: 3, cursor: null });
    await store.remove(ids(first.jobs));
    const added = await add(store);
    const second = await store.list({}, { limit: 10, cursor: first.cursor });
    assert.equal(second.jobs.length, 3);
    assert.ok(!ids(second.jobs).includes(added), "the new job is not after the cursor");
    await store.remove([...ids(second.jobs), added]);
    const last = await add(store);
    assert.deepEqual(ids((await store.list({}, { limit: 10, cursor: null })).jobs), [last]);
    assert.deepEqual(ids((await store.list({}, { limit: 10, cursor: first.cursor })).jobs), []);
  });

  test("list finds each of many types", async ({ store }) => {
    const types = Array.from({ length: 100 }, (_, nth) => `t${nth}`);
    const jobs = types.map((type) => newJob({ type }));
    await addAll(store, jobs);
    await store.maintain();
    for (const { id, type } of jobs) {
      const page = await store.list({ types: [type] }, { limit: 5, cursor: null });
      assert.deepEqual(ids(page.jobs), [id], type);
    }
  });

  test("list without payloads omits only inputs and outputs", async ({ store }) => {
    const large = JSON.stringify("x".repeat(20_000));
    await addAll(store, [newJob({ input: large, tags: ["a"], user: "u" }), newJob({ input: '{"small":1}' })]);
    await finish(store, await claimOne(store), "completed");
    const whole = (await pagesOf(store, {}, { limit: 10 })).flat();
    assert.ok(whole.some(({ input }) => input === large) && whole.some(({ input }) => input === '{"small":1}'));
    assert.ok(whole.some(({ output }) => output !== null));
    const bare = (await pagesOf(store, {}, { limit: 10, payloads: false })).flat();
    assert.deepEqual(
      bare,
      whole.map((job) => ({ ...job, input: "null", output: null })),
    );
  });

  test("E-01 stats count jobs by queue, type and state", async ({ store, clock }) => {
    assert.deepEqual((await store.stats()).counts, []);
    for (const state of ["pending", "pending", "running", "failed", "dead"] as const)
      await jobIn(store, state, place(state));
    const counted = async (): Promise<string[]> =>
      (await store.stats()).counts.map((row) => `${row.queue} ${row.type} ${row.state} ${row.count}`).toSorted();
    assert.deepEqual(await counted(), [
      "dead mail dead 1",
      "failed mail failed 1",
      "pending mail pending 2",
      "running mail running 1",
    ]);
    await clock.advance(MINUTE);
    await store.reapExpiredLeases(10);
    await store.cancel([...(await list(store, { states: ["pending"], queues: ["pending"] }))].map((job) => job.id));
    await store.remove((await list(store, { states: ["failed"], queues: ["failed"] })).map((job) => job.id));
    await store.purge({ state: "dead", before: clock.now(), keep: null, limit: 10 });
    const [stale] = await list(store, { queues: ["running"] });
    assert.deepEqual(await counted(), ["pending mail cancelled 2", `running mail ${stale?.state} 1`]);
  });

  test("E-01 stats agree with the records after every change", async ({ store, clock }) => {
    await addAll(store, [...newJobs(8), ...newJobs(4, { queue: "b", type: "report" })]);
    const claimed = await claim(store, { limit: 10 });
    for (const [index, to] of (["completed", "failed", "dead", "cancelled", "pending"] as const).entries()) {
      const job = claimed[index];
      if (job !== undefined) await finish(store, job, to);
    }
    await store.retry(claimed.slice(2, 4).map((job) => job.id));
    await store.start(claimed.slice(5, 7).map((job) => ({ ...job, startedAt: 0 })));
    await clock.advance(MINUTE);
    await claim(store, { limit: 3 });
    const expected = new Map<string, number>();
    for (const job of await list(store, {})) {
      const name = `${job.queue} ${job.type} ${job.state}`;
      expected.set(name, (expected.get(name) ?? 0) + 1);
    }
    const counted = async (request?: StatsRequest): Promise<Map<string, number>> =>
      new Map(
        (await store.stats(request)).counts
          .filter((row) => row.count > 0 && isRequested(request ?? {}, row))
          .map((row) => [`${row.queue} ${row.type} ${row.state}`, row.count]),
      );
    assert.deepEqual(await counted(), expected);
    const queues = ["b"];
    for (const states of [...STATE_NAMES.map((state) => [state]), [...STATE_NAMES]]) {
      const wanted = [...expected].filter(([name]) => states.some((state) => name.endsWith(` ${state}`)));
      assert.deepEqual(await counted({ states }), new Map(wanted), states.join());
      const inQueue = wanted.filter(([name]) => name.startsWith("b report"));
      assert.deepEqual(await counted({ states, queues, types: ["report"] }), new Map(inQueue), states.join());
    }
  });

  test("stats with a limit count at least that many or say so", async ({ store }) => {
    await addAll(store, [...newJobs(8), ...newJobs(4, { queue: "b" })]);
    for (const atMost of [1, 11, 12, 1_000]) {
      const { counts, partial = false } = await store.stats({ states: ["pending"], atMost });
      const count = counts.reduce((sum, row) => sum + row.count, 0);
      assert.ok(count <= 12 && (partial || count > atMost || count === 12), `atMost ${atMost}: ${count}`);
    }
  });

  test("E-01 stats return the age of the oldest due job", async ({ store, clock }) => {
    assert.equal((await store.stats()).oldestDueMs, null);
    await add(store, { delayMs: 10 * SECOND });
    assert.equal((await store.stats()).oldestDueMs, null, "a future job does not wait for a worker");
    await add(store, { priority: -5, queue: "b" });
    await clock.advance(12 * SECOND);
    assert.equal((await store.stats()).oldestDueMs, 12 * SECOND);
    await claimOne(store, { queues: ["b"] });
    assert.equal((await store.stats()).oldestDueMs, 2 * SECOND);
    await claimOne(store);
    assert.equal((await store.stats()).oldestDueMs, null);
  });

  test("stats return the oldest due job by queue", async ({ store, clock }) => {
    const due = async (): Promise<[string, number][]> =>
      (await store.stats()).oldestDue
        .map(({ queue, dueMs }): [string, number] => [queue, dueMs])
        .toSorted(([a], [b]) => (a < b ? -1 : 1));
    assert.deepEqual(await due(), []);
    await add(store, { queue: "a" });
    await add(store, { queue: "a", priority: 5, delayMs: 2 * SECOND });
    await clock.advance(SECOND);
    await add(store, { queue: "b", priority: 5 });
    await add(store, { queue: "b", priority: -5, delayMs: SECOND });
    await add(store, { queue: "future", delayMs: MINUTE });
    await jobIn(store, "running", { queue: "leased" });
    await jobIn(store, "completed", { queue: "finished" });
    await clock.advance(9 * SECOND);
    assert.deepEqual(await due(), [
      ["a", 10 * SECOND],
      ["b", 9 * SECOND],
    ]);
    assert.equal((await store.stats()).oldestDueMs, 10 * SECOND);
    await store.pause("a");
    assert.deepEqual(await due(), [["b", 9 * SECOND]]);
    assert.equal((await store.stats()).oldestDueMs, 9 * SECOND);
    await store.pause("*");
    assert.deepEqual(await due(), []);
    await store.resume("*");
    await store.resume("a");
    await claimOne(store, { queues: ["b"] });
    await finish(store, await claimOne(store, { queues: ["a"] }), "failed", { delayMs: MINUTE });
    assert.deepEqual(await due(), [
      ["a", 10 * SECOND],
      ["b", 8 * SECOND],
    ]);
    await finish(store, await claimOne(store, { queues: ["a"] }));
    assert.deepEqual(await due(), [["b", 8 * SECOND]]);
  });

  test("countAhead counts due jobs of the queue in order", async ({ store, clock }) => {
    const before = await addAll(store, newJobs(3));
    await clock.advance(SECOND);
    const id = await add(store);
    await clock.advance(SECOND);
    await addAll(store, newJobs(2));
    await add(store, { priority: 5 });
    await add(store, { priority: 9, delayMs: MINUTE });
    await add(store, { priority: -5 });
    await add(store, { queue: "other", priority: 9 });
    const ahead = async (atMost = 100): Promise<number> => {
      const { queue, priority, dueAt } = await recordOf(store, id);
      return store.countAhead({ id, queue, priority, dueAt: dueAt ?? 0 }, atMost);
    };
    if (store.capabilities.strictOrder) {
      assert.equal(await ahead(), 4);
      assert.deepEqual([await ahead(4), await ahead(3), await ahead(1), await ahead(0)], [4, 3, 1, 0]);
      await store.cancel(before.slice(0, 1));
      assert.equal(await ahead(), 3);
      await claimOne(store, { queues: ["default"] });
      assert.equal(await ahead(), 2, "a leased job is not ahead");
      await clock.advance(MINUTE);
      // The job with the delay, and the lease that has expired.
      assert.equal(await ahead(), 4);
    } else assert.ok((await ahead(3)) <= 3, "an estimate is at most as large");
    await store.update([{ id, priority: 10 }]);
    assert.equal(await ahead(), 0);
  });

  test("countAhead of a future job counts jobs due now", async ({ store, clock }) => {
    await addAll(store, newJobs(2));
    await add(store, { delayMs: SECOND });
    const position = { id: "00000000-0000-7000-8000-000000000000", queue: "default", priority: 0 };
    assert.equal(await store.countAhead({ ...position, dueAt: clock.now() + MINUTE }, 100), 2);
    assert.equal(await store.countAhead({ ...position, queue: "none", dueAt: clock.now() + MINUTE }, 100), 0);
    assert.equal(await store.countAhead({ ...position, priority: 1, dueAt: clock.now() + MINUTE }, 100), 0);
  });

  test.needing(["strict order"], "countAhead is the number of jobs claimed before", async ({ store, clock }) => {
    for (let nth = 0; nth < 20; nth++) {
      await add(store, { priority: [0, 5, -5][nth % 3] ?? 0, delayMs: nth % 4 === 0 ? SECOND : 0 });
      if (nth % 5 === 0) await clock.advance(1);
    }
    await clock.advance(2 * SECOND);
    const waiting = await list(store, {});
    const ahead = await Promise.all(
      waiting.map(({ id, queue, priority, dueAt }) => {
        return store.countAhead({ id, queue, priority, dueAt: dueAt ?? 0 }, 100);
      }),
    );
    const order = new Map(waiting.map(({ id }, at) => [id, ahead[at]]));
    const claimed = await claim(store, { limit: 100 });
    assert.deepEqual(
      claimed.map(({ id }) => order.get(id)),
      claimed.map((_, at) => at),
    );
  });

  test("stats count jobs that ended in the last minute", async ({ store, clock }) => {
    for (const state of ["completed", "completed", "dead", "cancelled"] as const) await jobIn(store, state);
    await clock.advance(30 * SECOND);
    await store.cancel([await add(store)]);
    assert.deepEqual((await store.stats()).lastMinute, { completed: 2, dead: 1, cancelled: 2 });
    await clock.advance(45 * SECOND);
    assert.deepEqual((await store.stats()).lastMinute, { completed: 0, dead: 0, cancelled: 1 });
  });

  test("queues returns priorities and pauses", async ({ store }) => {
    assert.deepEqual(await store.queues(), []);
    for (const priority of [0, 5, -5, 5]) await add(store, { queue: "mixed", priority });
    await add(store, { queue: "other", priority: 1 });
    await store.pause("mixed");
    await store.pause("unseen");
    const queues = await store.queues();
    const found = (name: string): unknown => {
      const queue = queues.find((candidate) => candidate.queue === name);
      return queue && [queue.paused, queue.priorities.toSorted((a, b) => a - b)];
    };
    assert.deepEqual(found("mixed"), [true, [-5, 0, 5]]);
    assert.deepEqual(found("other"), [false, [1]]);
    assert.equal(
      queues.find((queue) => queue.queue === "unseen")?.paused,
      true,
      "a paused queue is listed before its first job",
    );
    await store.resume("mixed");
    assert.equal((await store.queues()).find((queue) => queue.queue === "mixed")?.paused, false);
  });

  test("queues returns who paused a queue, and when", async ({ store, clock }) => {
    const paused = async (name: string): Promise<unknown[]> => {
      const queue = (await store.queues()).find((candidate) => candidate.queue === name);
      return [queue?.paused, queue?.pausedAt, queue?.pausedBy];
    };
    await add(store, { queue: "mail" });
    assert.deepEqual(await paused("mail"), [false, null, null]);
    const at = clock.now();
    const who = `token:naïve Ω 漢字 it's "quoted" \\ $1`;
    await store.pause("mail", who);
    await clock.advance(SECOND);
    await store.pause("mail", "someone else");
    await store.pause("mail");
    assert.deepEqual(await paused("mail"), [true, at, who], "a paused queue does not change");
    await store.pause("unseen", null);
    await store.pause("*", "ada");
    assert.deepEqual(await paused("unseen"), [true, clock.now(), null]);
    assert.deepEqual(await paused("*"), [true, clock.now(), "ada"]);
    await store.resume("mail");
    await store.resume("*");
    assert.deepEqual(await paused("mail"), [false, null, null]);
    assert.deepEqual(await paused("*"), [undefined, undefined, undefined]);
    await store.pause("mail", "bob");
    assert.deepEqual(await paused("mail"), [true, clock.now(), "bob"]);
  });

  test("workers returns each worker's last heartbeat", async ({ store, clock }) => {
    assert.deepEqual(await store.workers(), []);
    await store.heartbeat(workerRecord({ id: "w1" }));
    await store.heartbeat(workerRecord({ id: "w2", queues: null, types: [], schedules: [] }));
    const firstSeen = clock.now();
    await clock.advance(SECOND);
    await store.heartbeat(workerRecord({ id: "w1", running: 3 }));
    const workers = (await store.workers()).toSorted((a, b) => a.id.localeCompare(b.id));
    assert.deepEqual(workers, [
      { ...workerRecord({ id: "w1", running: 3 }), seenAt: clock.now(), left: false, draining: false },
      {
        ...workerRecord({ id: "w2", queues: null, types: [], schedules: [] }),
        seenAt: firstSeen,
        left: false,
        draining: false,
      },
    ]);
  });

  test("a worker learns from its heartbeat that it drains", async ({ store, clock }) => {
    assert.equal(await store.drainWorker("w1", true), false);
    assert.deepEqual(await store.heartbeat(workerRecord({ id: "w1" })), { draining: false });
    assert.deepEqual(await store.heartbeat(workerRecord({ id: "w2" })), { draining: false });
    assert.equal(await store.drainWorker("w1", true), true);
    assert.equal(await store.drainWorker("w1", true), true);
    await clock.advance(1_000);
    assert.deepEqual(await store.heartbeat(workerRecord({ id: "w1", running: 1 })), { draining: true });
    assert.deepEqual(await store.heartbeat(workerRecord({ id: "w2" })), { draining: false });
    const draining = (await store.workers()).map((worker) => `${worker.id} ${worker.running} ${worker.draining}`);
    assert.deepEqual(draining.toSorted(), ["w1 1 true", "w2 2 false"]);
    assert.equal(await store.drainWorker("w1", false), true);
    assert.deepEqual(await store.heartbeat(workerRecord({ id: "w1" })), { draining: false });
  });

  test("a worker that stopped or expired cannot drain", async ({ store, clock }) => {
    await store.heartbeat(workerRecord({ id: "w1" }));
    await store.heartbeat(workerRecord({ id: "w2" }));
    await store.deregister("w1");
    assert.equal(await store.drainWorker("w1", true), false);
    await clock.advance(3_601_000);
    assert.equal(await store.drainWorker("w2", true), false);
  });

  test("a deregistered worker is listed as left", async ({ store, clock }) => {
    await store.heartbeat(workerRecord({ id: "w1" }));
    await store.heartbeat(workerRecord({ id: "w2" }));
    await clock.advance(SECOND);
    await store.deregister("w1");
    await store.deregister("unknown");
    const left = (await store.workers()).map((worker) => `${worker.id} ${worker.left}`);
    assert.deepEqual(left.toSorted(), ["w1 true", "w2 false"]);
    await store.heartbeat(workerRecord({ id: "w1" }));
    assert.ok(
      (await store.workers()).every((worker) => !worker.left),
      "a worker with a new heartbeat is back",
    );
  });
}

/** One queue per state, so that creating a job in its state claims no other. */
function place(state: string): { queue: string } {
  return { queue: state };
}
