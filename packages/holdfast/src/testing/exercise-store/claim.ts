import assert from "node:assert/strict";
import {
  add,
  addAll,
  assertNothingToClaim,
  claim,
  claimIds,
  claimOne,
  claimRequest,
  finish,
  LEASE_MS,
  MINUTE,
  newJob,
  newJobs,
  recordOf,
  SECOND,
} from "./builders.js";
import type { DefineCase } from "./scene.js";

export function claimCases(test: DefineCase): void {
  test("A-09 a claim without due jobs is empty", async ({ store, clock }) => {
    assert.deepEqual(await store.claim(claimRequest()), { at: clock.now(), jobs: [], nextDueAt: null });
    await add(store, { delayMs: SECOND });
    await assertNothingToClaim(store);
    await assertNothingToClaim(store, { queues: ["nowhere"] });
    await assertNothingToClaim(store, { queues: [] });
  });

  test("A-09 C-02 C-03 leases the job and counts the attempt", async ({ store, clock }) => {
    const id = await add(store, { user: "u", tags: ["t"], input: `{"n":1}`, expiresAt: clock.now() + MINUTE });
    const createdAt = clock.now();
    await clock.advance(5 * SECOND);
    const { at, jobs } = await store.claim(claimRequest({ worker: "w7", leaseMs: 9_000 }));
    assert.equal(at, clock.now());
    assert.deepEqual(jobs, [
      {
        id,
        fence: 1,
        type: "mail",
        queue: "default",
        priority: 0,
        user: "u",
        input: `{"n":1}`,
        attempt: 1,
        maxAttempts: 4,
        losses: 0,
        releases: 0,
        runAt: createdAt,
        expiresAt: createdAt + MINUTE,
        createdAt,
        cancelRequested: false,
        error: null,
        tags: ["t"],
        schedule: null,
        parent: null,
        settings: null,
        trace: null,
        previous: { state: "pending", attempt: 0, exhausted: false },
      },
    ]);
    const record = await recordOf(store, id);
    assert.deepEqual(
      [record.state, record.worker, record.attempt, record.fence, record.claimedAt, record.dueAt, record.startedAt],
      ["claimed", "w7", 1, 1, clock.now(), clock.now() + 9_000, null],
    );
  });

  test("A-09 B-12 does not claim a leased job again", async ({ store, clock }) => {
    await add(store);
    await claimOne(store);
    await assertNothingToClaim(store);
    await clock.advance(LEASE_MS - 1);
    await assertNothingToClaim(store);
  });

  test("claims at most the limit, other jobs later", async ({ store }) => {
    const ids = await addAll(store, newJobs(5));
    const first = await claimIds(store, { limit: 2 });
    const second = await claimIds(store, { limit: 2 });
    const third = await claimIds(store, { limit: 2 });
    assert.deepEqual([first.length, second.length, third.length], [2, 2, 1]);
    assert.deepEqual(new Set([...first, ...second, ...third]), new Set(ids));
  });

  test.needing(["strict order"], "A-09 B-12 claims by priority, due time and age", async (scene) => {
    const { store, clock } = scene;
    const now = clock.now();
    const late = await add(store, { runAt: now - SECOND });
    const tieOne = await add(store, { runAt: now - 5 * SECOND });
    const tieTwo = await add(store, { runAt: now - 5 * SECOND });
    const low = await add(store, { priority: -100, runAt: now - MINUTE });
    const high = await add(store, { priority: 100 });
    const higher = await add(store, { priority: 3, runAt: now });
    const expected = [high, higher, tieOne, tieTwo, late, low];
    assert.deepEqual(await claimIds(store, { limit: 2 }), expected.slice(0, 2));
    assert.deepEqual(await claimIds(store), expected.slice(2));
  });

  test.needing(["strict order"], "orders a retry by its new due time", async ({ store, clock }) => {
    const retried = await add(store, { runAt: clock.now() - MINUTE });
    await finish(store, await claimOne(store), "failed", { delayMs: 5 * SECOND });
    const before = await add(store, { delayMs: 4 * SECOND });
    const after = await add(store, { delayMs: 6 * SECOND });
    await clock.advance(MINUTE);
    assert.deepEqual(await claimIds(store), [before, retried, after]);
  });

  test("A-09 future high-priority jobs do not hide due ones", async ({ store, clock }) => {
    await addAll(store, newJobs(300, { priority: 9, delayMs: MINUTE }));
    const due = await addAll(store, [newJob({ priority: 0 }), newJob({ priority: -9 })]);
    assert.deepEqual(new Set(await claimIds(store, { limit: 10, leaseMs: 2 * MINUTE })), new Set(due));
    await clock.advance(MINUTE - 1);
    await assertNothingToClaim(store, { limit: 1 });
  });

  test("claims from the given queues, or from all", async ({ store }) => {
    const [a, b, c] = [
      await add(store, { queue: "a" }),
      await add(store, { queue: "b" }),
      await add(store, { queue: "c" }),
    ];
    assert.deepEqual(await claimIds(store, { queues: ["b"] }), [b]);
    assert.deepEqual(new Set(await claimIds(store, { queues: null })), new Set([a, c]));
  });

  test("claims from several queues, but no others", async ({ store }) => {
    const ids = await addAll(
      store,
      ["a", "b", "c", "a"].map((queue) => newJob({ queue })),
    );
    const claimed = await claimIds(store, { queues: ["a", "c", "missing"] });
    assert.deepEqual(new Set(claimed), new Set([ids[0], ids[2], ids[3]]));
  });

  test.needing(["strict order"], "A-09 orders by priority across queues", async ({ store }) => {
    const low = await add(store, { queue: "a", priority: 1 });
    const high = await add(store, { queue: "z", priority: 2 });
    const middle = await add(store, { queue: "b", priority: 1 });
    assert.deepEqual(await claimIds(store, { limit: 1 }), [high]);
    const next = await add(store, { queue: "z", priority: 3 });
    const claimed = await claimIds(store, { queues: ["a", "b", "z"] });
    assert.equal(claimed[0], next);
    assert.deepEqual(new Set(claimed.slice(1)), new Set([low, middle]));
  });

  test.needing(["strict order"], "A-09 keeps the order over more queues than the limit", async ({ store, clock }) => {
    const now = clock.now();
    // The first job of each queue is later than that of the previous queue; its second is earlier than the first of the next.
    const jobs = Array.from({ length: 12 }, (_, n) => [
      newJob({ queue: `q${11 - n}`, runAt: now - 100 * SECOND + 5 * n * SECOND }),
      newJob({ queue: `q${11 - n}`, runAt: now - 100 * SECOND + (5 * n + 11) * SECOND }),
    ]).flat();
    const ids = await addAll(store, jobs);
    const order = ids.toSorted((a, b) => runAtOf(a) - runAtOf(b));
    function runAtOf(id: string): number {
      return jobs[ids.indexOf(id)]?.runAt ?? 0;
    }
    assert.deepEqual(await claimIds(store, { limit: 5 }), order.slice(0, 5));
    assert.deepEqual(await claimIds(store, { limit: 7 }), order.slice(5, 12));
    assert.deepEqual(await claimIds(store, { limit: 100 }), order.slice(12));
  });

  test("A-09 claims only the given types", async ({ store }) => {
    await add(store, { type: "other", priority: 9 });
    const [mail, report] = [await add(store, { type: "mail" }), await add(store, { type: "report", queue: "b" })];
    assert.deepEqual(await claimIds(store, { types: ["report"], queues: ["default"] }), []);
    assert.deepEqual(new Set(await claimIds(store, { types: ["mail", "report"] })), new Set([mail, report]));
    assert.deepEqual(await claimIds(store, { types: ["nothing"] }), []);
  });

  test.needing(["strict order"], "A-09 claims by type keep order and limit", async ({ store, clock }) => {
    const now = clock.now();
    const jobs = [
      newJob({ type: "b", runAt: now - SECOND }),
      newJob({ type: "other", priority: 50 }),
      newJob({ type: "a", priority: 5 }),
      newJob({ type: "a", runAt: now - 2 * SECOND }),
      newJob({ type: "b", priority: 5, runAt: now - SECOND }),
      newJob({ type: "a", priority: 5, delayMs: SECOND }),
    ];
    const ids = await addAll(store, jobs);
    assert.deepEqual(await claimIds(store, { types: ["a", "b"], limit: 3 }), [ids[4], ids[2], ids[3]]);
    assert.deepEqual(await claimIds(store, { types: ["a", "b"] }), [ids[0]]);
  });

  test("A-09 finds a type behind many other jobs", async ({ store }) => {
    await addAll(store, newJobs(500, { type: "flood", priority: 5 }));
    const wanted = await add(store, { type: "wanted" });
    assert.deepEqual(await claimIds(store, { types: ["wanted"], limit: 1 }), [wanted]);
  });

  test("claims nothing from a paused queue until resumed", async ({ store }) => {
    const paused = await add(store, { queue: "paused" });
    const open = await add(store, { queue: "open" });
    await store.pause("paused");
    await assertNothingToClaim(store, { queues: ["paused"] });
    await assertNothingToClaim(store, { queues: ["paused"], types: ["mail"] });
    assert.deepEqual(await claimIds(store), [open]);
    await store.resume("paused");
    assert.deepEqual(await claimIds(store), [paused]);
  });

  test("a pause covers new priorities and new queues", async ({ store }) => {
    await add(store, { queue: "q", priority: 0 });
    await store.pause("q");
    await store.pause("unseen");
    await add(store, { queue: "q", priority: 7 });
    await add(store, { queue: "unseen", priority: 7 });
    await assertNothingToClaim(store);
    await store.resume("q");
    assert.equal((await claim(store)).length, 2);
    await store.resume("unseen");
    assert.equal((await claim(store)).length, 1);
  });

  test("a pause keeps held leases but delays their retries", async ({ store }) => {
    await add(store);
    const job = await claimOne(store);
    await store.pause("default");
    assert.deepEqual(await store.extend([job], LEASE_MS), ["kept"]);
    await finish(store, job, "failed");
    await assertNothingToClaim(store);
  });

  test("stops at the byte limit, other jobs unchanged", async ({ store }) => {
    const input = `"${"x".repeat(998)}"`;
    const ids = await addAll(store, newJobs(6, { input }));
    const claimed = await claimIds(store, { bytes: 2_500 });
    assert.ok(
      claimed.length === 2 || claimed.length === 3,
      `2,500 bytes are 2 or 3 jobs of 1,000, not ${claimed.length}`,
    );
    const rest = ids.filter((id) => !claimed.includes(id));
    const record = await recordOf(store, rest[0] ?? "");
    assert.deepEqual([record.state, record.attempt, record.fence], ["pending", 0, 0]);
    assert.deepEqual(new Set(await claimIds(store)), new Set(rest));
  });

  test("the byte limit counts bytes, not characters", async ({ store }) => {
    const input = `"${"漢".repeat(400)}"`;
    await addAll(store, newJobs(6, { input }));
    const claimed = await claimIds(store, { bytes: 2_500 });
    assert.ok(claimed.length <= 3, `2,500 bytes are at most 3 jobs of 1,202, not ${claimed.length}`);
  });

  test("a short claim may return the next due time", async ({ store, clock }) => {
    await addAll(store, [newJob({ delayMs: MINUTE }), newJob({ delayMs: SECOND, priority: -1 })]);
    await add(store, { queue: "other", delayMs: 10 });
    const { nextDueAt } = await store.claim(claimRequest({ queues: ["default"] }));
    assert.ok(
      nextDueAt === null || nextDueAt === clock.now() + SECOND,
      `null or the time of the next, not ${nextDueAt}`,
    );
  });

  test("always claims one job, however large", async ({ store }) => {
    await addAll(store, newJobs(2, { input: `"${"x".repeat(100_000)}"` }));
    assert.equal((await claim(store, { bytes: 1 })).length, 1);
    assert.equal((await claim(store, { bytes: 1, types: ["mail"] })).length, 1);
    await assertNothingToClaim(store);
  });

  test("A-34 claims an expired job and returns its expiry", async (scene) => {
    const { store, clock } = scene;
    const id = await add(store, { expiresAt: clock.now() + SECOND });
    await clock.advance(2 * SECOND);
    const { at, jobs } = await store.claim(claimRequest());
    assert.equal(jobs[0]?.id, id);
    assert.ok(jobs[0].expiresAt !== null && jobs[0].expiresAt <= at);
  });

  test.needing(
    ["another handle"],
    "A-29 E-12 concurrent claims on two handles are disjoint",
    async ({ store, again }) => {
      const other = await again();
      const ids = await addAll(store, newJobs(20));
      const claims = await Promise.all(
        ids.map((_, index) => claimIds(index % 2 === 0 ? store : other, { limit: 1, worker: `w${index}` })),
      );
      assert.deepEqual(claims.flat().toSorted(), ids.toSorted());
    },
  );

  test("A-29 E-12 concurrent claims on one handle are disjoint", async ({ store }) => {
    const ids = await addAll(store, newJobs(20));
    const claims = await Promise.all(ids.map(() => claimIds(store, { limit: 1 })));
    assert.deepEqual(claims.flat().toSorted(), ids.toSorted());
    const last = await add(store);
    const race = await Promise.all(Array.from({ length: 10 }, () => claimIds(store, { limit: 1 })));
    assert.deepEqual(race.flat(), [last]);
  });
}
