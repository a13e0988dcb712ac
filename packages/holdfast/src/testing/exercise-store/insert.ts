import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import { newId } from "../../job/uuid.js";
import {
  add,
  addAll,
  assertNothingToClaim,
  claim,
  claimIds,
  claimOne,
  finish,
  insertAll,
  insertOne,
  key,
  newJob,
  newJobs,
  recordOf,
  SECOND,
  stateOf,
} from "./builders.js";
import type { DefineCase } from "./scene.js";

const MANY = 1_500;

/** JSON that a careless driver, column type or split would change. */
const ODD_INPUTS: readonly string[] = [
  `null`,
  `""`,
  ` { "spaced" : [ 1 , 2.50 , 1e3 ] } `,
  `{"b":1,"a":2,"a":3}`,
  `{"big":123456789012345678901234567890,"small":-0.0}`,
  `"it's \\"quoted\\", \\\\ escaped, $1 ? :name %s --"`,
  `"escaped \\ud800 \\u2028, and what looks like a NUL: \\\\u0000"`,
  `"naïve Ω 漢字 \u{1f9d1}\u200d\u{1f680} e\u0301 \u202eright to left\u202c"`,
  `"separators \u2028\u2029, byte order mark \ufeff, noncharacter \uffff"`,
];

export function insertCases(test: DefineCase): void {
  test("stores or refuses an input with an escaped NUL", async ({ store }) => {
    const nul = newJob({ input: `{"a":"\\\\\\u0000"}` });
    const plain = newJob();
    const [result, other] = await insertAll(store, [nul, plain]);
    assert.deepEqual(other, { status: "inserted" });
    if (result?.status === "inserted") assert.equal((await recordOf(store, nul.id)).input, nul.input);
    else assert.match(result?.status === "refused" && result.reason === "not-stored" ? result.error : "", /u0000/);
  });

  test("A-01 stores all fields of a job as given", async ({ store, clock }) => {
    const now = clock.now();
    const job = newJob({
      type: "report.build",
      queue: "reports",
      priority: 7,
      user: "user-1",
      input: `{"month":"2026-01"}`,
      maxAttempts: 3,
      runAt: now + 5 * SECOND,
      expiresAt: now + 60 * SECOND,
      tags: ["monthly", "eu"],
      unique: key("report:2026-01"),
      schedule: { name: "monthly report", slot: now + SECOND },
      trace: `{"traceparent":"00-1"}`,
    });
    assert.deepEqual(await store.insert([job]), [{ status: "inserted" }]);
    assert.deepEqual(await recordOf(store, job.id), {
      id: job.id,
      type: "report.build",
      queue: "reports",
      state: "pending",
      priority: 7,
      user: "user-1",
      input: `{"month":"2026-01"}`,
      output: null,
      error: null,
      attempt: 0,
      maxAttempts: 3,
      losses: 0,
      releases: 0,
      fence: 0,
      runAt: now + 5 * SECOND,
      dueAt: now + 5 * SECOND,
      expiresAt: now + 60 * SECOND,
      createdAt: now,
      updatedAt: now,
      claimedAt: null,
      startedAt: null,
      finishedAt: null,
      cancelRequestedAt: null,
      worker: null,
      key: "report:2026-01",
      tags: ["monthly", "eu"],
      schedule: { name: "monthly report", slot: now + SECOND },
      parent: null,
      settings: null,
      trace: `{"traceparent":"00-1"}`,
      progress: null,
      attempts: [],
      log: [],
    });
  });

  test("a job is due now, or after its delay", async ({ store, clock }) => {
    const atOnce = await recordOf(store, await add(store));
    const delayed = await recordOf(store, await add(store, { delayMs: 700 }));
    assert.equal(atOnce.dueAt, clock.now());
    assert.deepEqual([delayed.dueAt, delayed.runAt], [clock.now() + 700, clock.now() + 700]);
  });

  test("adds the delay to runAt, which may be past", async ({ store, clock }) => {
    const now = clock.now();
    const both = await recordOf(store, await add(store, { runAt: now + SECOND, delayMs: 500 }));
    const past = await recordOf(store, await add(store, { runAt: now - 9 * SECOND }));
    assert.equal(both.dueAt, now + 1_500);
    assert.equal(past.dueAt, now - 9 * SECOND);
  });

  test("A-08 a future job is claimable exactly when due", async ({ store, clock }) => {
    const id = await add(store, { runAt: clock.now() + 10 * SECOND });
    await assertNothingToClaim(store);
    await clock.advance(10 * SECOND - 1);
    await assertNothingToClaim(store);
    await clock.advance(1);
    assert.deepEqual(await claimIds(store), [id]);
  });

  test("returns one result per job, in order", async ({ store }) => {
    const [first, second, third] = newJobs(3) as [
      ReturnType<typeof newJob>,
      ReturnType<typeof newJob>,
      ReturnType<typeof newJob>,
    ];
    await addAll(store, [second]);
    assert.deepEqual(await store.insert([first, second, third]), [
      { status: "inserted" },
      { status: "duplicate", of: second.id, replaced: false },
      { status: "inserted" },
    ]);
    assert.deepEqual(await store.insert([]), []);
  });

  test("inserts batches larger than any statement limit", async ({ store, many }) => {
    const count = Math.min(MANY, many);
    const ids = await addAll(store, newJobs(count));
    assert.deepEqual(new Set(await claimIds(store, { limit: count + 1 })), new Set(ids));
  });

  test("C-01 refuses maxAttempts 0 and stores the other jobs", async ({ store }) => {
    const good = newJobs(2);
    const keyed = newJob({ unique: key("k") });
    const bad = newJob({ maxAttempts: 0, unique: key("bad") });
    const results = await insertAll(store, [good[0] ?? bad, bad, keyed, good[1] ?? bad]);
    assert.deepEqual(
      results.map((result) => result.status),
      ["inserted", "refused", "inserted", "inserted"],
    );
    const [, refusal] = results;
    assert.ok(refusal?.status === "refused" && refusal.reason === "not-stored", "refused as not stored");
    assert.ok(refusal.error.length > 0, "the refusal has an error message");
    assert.equal(await store.get(bad.id), null);
    assert.equal((await claim(store)).length, 3);
  });

  test("a refused job does not occupy its id or key", async ({ store }) => {
    const bad = newJob({ maxAttempts: 0, unique: key("k") });
    assert.equal((await insertOne(store, bad)).status, "refused");
    assert.deepEqual(await insertOne(store, { ...bad, maxAttempts: 1 }), { status: "inserted" });
  });

  test("repeating an insert with the same id changes nothing", async ({ store, clock }) => {
    const job = newJob({ input: `"first"` });
    await addAll(store, [job]);
    const before = await recordOf(store, job.id);
    await clock.advance(SECOND);
    assert.deepEqual(await insertOne(store, { ...job, input: `"second"`, priority: 9 }), {
      status: "duplicate",
      of: job.id,
      replaced: false,
    });
    assert.deepEqual(await recordOf(store, job.id), before);
  });

  test("the same id twice in a batch is one job", async ({ store }) => {
    const job = newJob();
    assert.deepEqual(await store.insert([job, job]), [
      { status: "inserted" },
      { status: "duplicate", of: job.id, replaced: false },
    ]);
    assert.deepEqual(await claimIds(store), [job.id]);
  });

  test("detects a duplicate id of leased and finished jobs", async ({ store }) => {
    const job = newJob();
    await addAll(store, [job]);
    const again = { status: "duplicate", of: job.id, replaced: false };
    const lease = await claimOne(store);
    assert.deepEqual(await insertOne(store, job), again);
    await finish(store, lease, "completed", { output: `"kept"` });
    assert.deepEqual(await insertOne(store, job), again);
    await assertNothingToClaim(store);
    assert.equal((await recordOf(store, job.id)).output, `"kept"`);
  });

  test("repeating an insert with its key is no conflict", async ({ store }) => {
    for (const onConflict of ["keep", "reject"] as const) {
      const job = newJob({ unique: key(`k ${onConflict}`, { onConflict }) });
      await addAll(store, [job]);
      assert.deepEqual(await insertOne(store, job), { status: "duplicate", of: job.id, replaced: false });
    }
  });

  test("returns unusual inputs byte for byte", async ({ store }) => {
    const jobs = ODD_INPUTS.map((input) => newJob({ input }));
    await addAll(store, jobs);
    const claimed = await claim(store);
    for (const job of jobs) {
      assert.equal((await recordOf(store, job.id)).input, job.input);
      assert.equal(claimed.find((found) => found.id === job.id)?.input, job.input);
    }
  });

  test("returns large inputs byte for byte", async ({ store }) => {
    const inline = LIMITS.inlineInputBytes;
    const sizes = [inline - 1, inline, inline + 1, 8_192, 65_536, LIMITS.payloadBytes];
    const jobs = sizes.map((size) => newJob({ input: textOf(size) }));
    await addAll(store, jobs);
    const claimed = await claim(store);
    for (const job of jobs) {
      assert.ok((await recordOf(store, job.id)).input === job.input, `get of ${job.input.length} characters`);
      assert.ok(claimed.find((found) => found.id === job.id)?.input === job.input, "claim returns the same input");
    }
    // Again after the lease has expired: inputs stored outside the row must still be found.
    for (const job of claimed) await finish(store, job, "failed");
    const again = await claim(store);
    for (const job of jobs) assert.ok(again.find((found) => found.id === job.id)?.input === job.input);
  });

  test("matches names with quotes, wildcards and Unicode exactly", async ({ store }) => {
    const names = [
      "plain",
      "it's",
      "100%",
      "under_score",
      "a,b",
      `"q"`,
      "; drop table jobs; --",
      "кириллица",
      "🧵",
      "a\\b",
    ];
    for (const name of names) {
      await add(store, { queue: name, type: name, user: name, tags: [name], unique: key(name) });
    }
    for (const name of names) {
      const found = await store.list(
        { queues: [name], types: [name], user: name, tag: name },
        { limit: 10, cursor: null },
      );
      assert.equal(found.jobs.length, 1, `listed by ${name}`);
      const job = await claimOne(store, { queues: [name], types: [name] });
      const record = await recordOf(store, job.id);
      assert.deepEqual(
        [record.queue, record.type, record.user, record.tags, record.key],
        [name, name, name, [name], name],
      );
    }
  });

  test.needing(["another handle"], "another handle sees an inserted job immediately", async (scene) => {
    const other = await scene.again();
    const id = await add(scene.store, { input: textOf(2_000) });
    assert.equal(await stateOf(other, id), "pending");
    assert.deepEqual(await claimIds(other), [id]);
    await assertNothingToClaim(scene.store);
  });

  test.needing(["another handle"], "an inserted job survives closing every handle", async (scene) => {
    const id = await add(scene.store, { id: newId(0), input: `"durable"` });
    await scene.store.close();
    const other = await scene.again();
    assert.equal((await recordOf(other, id)).input, `"durable"`);
  });
}

/** A JSON string of this many bytes. */
function textOf(bytes: number): string {
  return `"${"abcdefghij".repeat(Math.ceil(bytes / 10)).slice(0, bytes - 2)}"`;
}
