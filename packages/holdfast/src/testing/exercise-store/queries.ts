import assert from "node:assert/strict";
import { STATE_NAMES } from "../../job/state.js";
import type { JobFilter, JobPage, Skipped, Store, StoredJob } from "../../store.js";
import {
  add,
  addAll,
  attemptRecord,
  claim,
  claimOne,
  failureOf,
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
    const filters: JobFilter[] = [
      {},
      { types: ["b"] },
      { user: "u" },
      { tag: "x" },
      { states: ["pending"] },
      { states: ["pending", "completed"], types: ["a"], createdAfter: 0 },
      { types: ["none"] },
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
        const rest = cursor === null ? [] : ids((await pagesOf(store, filter, 1_000, cursor)).flat());
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

  test("paging returns every job once, newest first", async ({ store, clock }) => {
    const created: string[] = [];
    // Several per millisecond: the cursor must distinguish them.
    for (let count = 0; count < 5; count++) {
      created.push(...(await addAll(store, newJobs(5, { tags: [count % 2 === 0 ? "even" : "odd"] }))));
      await clock.advance(1);
    }
    for (const job of await claim(store, { limit: 9 })) await finish(store, job);
    for (const limit of [1, 3, 5, 25, 100]) {
      const pages = await pagesOf(store, {}, limit);
      assert.ok(
        pages.every((page) => page.length <= limit),
        `at most ${limit} a page`,
      );
      const all = pages.flat();
      assert.deepEqual(ids(all).toSorted(), created.toSorted(), `by ${limit}`);
      assert.ok(
        all.every((job, index) => index === 0 || job.createdAt <= (all[index - 1]?.createdAt ?? 0)),
        "newest first",
      );
    }
    assert.equal((await pagesOf(store, { tag: "odd", states: ["pending", "completed"] }, 3)).flat().length, 10);
  });

  test("new and changed jobs do not shift later pages", async ({ store, clock }) => {
    const created: string[] = [];
    for (let count = 0; count < 6; count++) {
      created.unshift(await add(store));
      await clock.advance(1);
    }
    const first = await store.list({}, { limit: 3, cursor: null });
    await add(store);
    await finish(store, await claimOne(store));
    const rest = first.cursor === null ? [] : (await pagesOf(store, {}, 10, first.cursor)).flat();
    assert.deepEqual(ids([...first.jobs, ...rest]), created);
  });

  test("list without payloads omits only inputs and outputs", async ({ store }) => {
    const large = JSON.stringify("x".repeat(20_000));
    await addAll(store, [newJob({ input: large, tags: ["a"], user: "u" }), newJob({ input: '{"small":1}' })]);
    await finish(store, await claimOne(store), "completed");
    const whole = (await pagesOf(store, {}, 10)).flat();
    assert.ok(whole.some(({ input }) => input === large) && whole.some(({ input }) => input === '{"small":1}'));
    assert.ok(whole.some(({ output }) => output !== null));
    const bare = (await pagesOf(store, {}, 10, null, false)).flat();
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
    const { counts } = await store.stats();
    assert.deepEqual(new Map(counts.map((row) => [`${row.queue} ${row.type} ${row.state}`, row.count])), expected);
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

  test("workers returns each worker's last heartbeat", async ({ store, clock }) => {
    assert.deepEqual(await store.workers(), []);
    await store.heartbeat(workerRecord({ id: "w1" }));
    await store.heartbeat(workerRecord({ id: "w2", queues: null, types: [], schedules: [] }));
    const firstSeen = clock.now();
    await clock.advance(SECOND);
    await store.heartbeat(workerRecord({ id: "w1", running: 3 }));
    const workers = (await store.workers()).toSorted((a, b) => a.id.localeCompare(b.id));
    assert.deepEqual(workers, [
      { ...workerRecord({ id: "w1", running: 3 }), seenAt: clock.now(), left: false },
      { ...workerRecord({ id: "w2", queues: null, types: [], schedules: [] }), seenAt: firstSeen, left: false },
    ]);
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

async function list(store: Store, filter: JobFilter): Promise<StoredJob[]> {
  return (await pagesOf(store, filter, 1_000)).flat();
}

/** Ends at a null cursor, because a page may be short although more follow. */
async function pagesOf(
  store: Store,
  filter: JobFilter,
  limit: number,
  from: string | null = null,
  payloads = true,
): Promise<StoredJob[][]> {
  const pages: StoredJob[][] = [];
  let cursor = from;
  do {
    const page: JobPage = await store.list(filter, { limit, cursor, payloads });
    if (page.cursor !== null) assert.match(page.cursor, /^[\w-]{1,200}$/, "the cursor fits in a URL");
    pages.push(page.jobs);
    cursor = page.cursor;
    assert.ok(pages.length < 1_000, "paging must end");
  } while (cursor !== null);
  return pages;
}

function ids(jobs: readonly { id: string }[]): string[] {
  return jobs.map((job) => job.id);
}
