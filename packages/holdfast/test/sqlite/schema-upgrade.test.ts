import { readFileSync } from "node:fs";
import type { Database } from "better-sqlite3";
import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import type { ClaimedJob } from "#src/store.js";
import { claim, failureOf, FINGERPRINT } from "#src/testing/exercise-store/builders.js";
import { startChild } from "./child.js";
import { connect, everyJob, integrity, open, openStore, tempFile } from "./scene.js";

const VERSION_5 = readFileSync(new URL("../fixtures/schema-5.sql", import.meta.url), "utf8");
const VERSION_1 = readFileSync(new URL("../fixtures/schema-1.sql", import.meta.url), "utf8");
const PROCESSES = 4;

const ID = (n: number): string => `018f4d2e-7b3a-7c11-8a55-${String(n).padStart(12, "0")}`;

/** A file of schema version 1, with jobs in several states, a key, tags and a large input. */
function makeVersion1(file: string): void {
  const db = connect(file);
  db.pragma("journal_mode = WAL");
  db.exec(VERSION_1);
  const insert = db.prepare(
    `INSERT INTO holdfast_jobs (id, type, queue, priority, state, input, attempt, max_attempts, losses, releases, fence,
       run_at, due_at, created_at, updated_at, finished_at, key, key_scope, tags)
     VALUES (?, 'old', 'default', ?, ?, ?, ?, 4, 0, 0, ?, 1, ?, 1, 1, ?, ?, ?, ?)`,
  );
  insert.run(ID(1), 0, "pending", '{"n":1}', 0, 0, 1, null, "k", "live", '["t"]');
  insert.run(ID(2), 5, "failed", '{"n":2}', 1, 1, 1, null, null, null, null);
  insert.run(ID(3), 0, "completed", '{"n":3}', 1, 1, null, Date.now(), null, null, null);
  insert.run(ID(4), 0, "pending", null, 0, 0, 1, null, null, null, null);
  db.exec(`
    INSERT INTO holdfast_inputs SELECT seq, '{"n":4,"text":"' || printf('%.*c', 1000, 'x') || '"}' FROM holdfast_jobs WHERE id = '${ID(4)}';
    INSERT INTO holdfast_keys VALUES ('k', '${ID(1)}', 'live', NULL, 0);
    INSERT INTO holdfast_tags SELECT 't', seq FROM holdfast_jobs WHERE id = '${ID(1)}';
    INSERT INTO holdfast_lanes VALUES ('default', 0, 0), ('default', 5, 0);
    INSERT INTO holdfast_counts VALUES ('default', 'old', 'pending', 2), ('default', 'old', 'failed', 1),
      ('default', 'old', 'completed', 1);
  `);
  db.close();
}

function expectMigrated(db: Database): void {
  const versions = db.prepare("SELECT version FROM holdfast_migrations ORDER BY version").pluck().all();
  expect(versions.length).toBeGreaterThanOrEqual(2);
  expect(versions).toEqual(versions.map((_, index) => index + 1));
}

/** Tables, columns and indexes. Not their SQL, which differs between altered and new tables. */
function shape(db: Database): unknown {
  const objects = db
    .prepare("SELECT type, name FROM sqlite_schema WHERE name LIKE 'holdfast%' ORDER BY type, name")
    .all() as { type: string; name: string }[];
  return objects.map(({ type, name }) => ({
    type,
    name,
    columns: db
      .prepare('SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_xinfo(?) ORDER BY name')
      .all(name),
    keys: db.prepare('SELECT name, "desc", key FROM pragma_index_xinfo(?) ORDER BY seqno').all(name),
  }));
}

describe("a file of schema version 1", () => {
  it("is migrated with its jobs to the schema of a new file", async () => {
    const file = tempFile();
    makeVersion1(file);
    const ran: number[] = [];
    const old = job({ type: "old", run: ({ job: { schedule } }) => void ran.push(schedule === null ? 0 : 1) });
    const hf = await open(file, { jobs: [old] });
    const db = connect(file);
    expectMigrated(db);
    const fresh = tempFile();
    await open(fresh);
    expect(shape(db)).toEqual(shape(connect(fresh)));

    const before = await everyJob(hf);
    expect(before.map(({ id, state, schedule }) => [id, state, schedule])).toEqual([
      [ID(4), "pending", null],
      [ID(3), "completed", null],
      [ID(2), "failed", null],
      [ID(1), "pending", null],
    ]);
    expect((await hf.get(ID(4)))?.input).toMatchObject({ n: 4 });
    expect(await hf.get(ID(1))).toMatchObject({ key: "k", tags: ["t"] });
    expect((await hf.enqueue(old, undefined, { unique: "k" })).id).toBe(ID(1));
    expect((await hf.stats()).states).toMatchObject({ pending: 2, failed: 1, completed: 1 });

    await hf.schedule("s", { job: old, every: "1h" });
    const { id } = await hf.schedules.runNow("s");
    expect(await hf.drain()).toBe(4);
    expect(ran.toSorted((a, b) => a - b)).toEqual([0, 0, 0, 1]);
    expect((await hf.list({ schedule: "s" })).jobs.map((made) => made.id)).toEqual([id]);
    expect((await hf.stats()).states).toMatchObject({ pending: 0, failed: 0, completed: 5 });
    expect(integrity(file)).toBe("ok");
  });

  it(`is migrated once when ${PROCESSES} processes open it together`, async () => {
    const file = tempFile();
    makeVersion1(file);
    const children = Array.from({ length: PROCESSES }, () => startChild("client.mjs", [file]));
    await Promise.all(children.map((child) => child.next("up")));
    for (const child of children) child.send({ do: "open" });
    await Promise.all(children.map((child) => child.next("opened")));
    const db = connect(file);
    expectMigrated(db);
    expect(db.prepare("SELECT count(*) FROM holdfast_jobs").pluck().get()).toBe(4);
    expect(integrity(file)).toBe("ok");
  });

  it("holds keys stored with the scope `ever` forever", async () => {
    const file = tempFile();
    makeVersion1(file);
    const before = connect(file);
    before.exec(`
      UPDATE holdfast_jobs SET key = 'once', key_scope = 'ever' WHERE id = '${ID(3)}';
      INSERT INTO holdfast_keys VALUES ('once', '${ID(3)}', 'ever', NULL, 0), ('past', '${ID(9)}', 'ever', NULL, 0);
    `);
    before.close();
    const old = job({ type: "old", run() {} });
    const hf = await open(file, { jobs: [old] });
    const enqueued = async (key: string): Promise<string> =>
      (await hf.enqueue(old, undefined, { unique: { key, scope: "forever" } })).id;
    expect(await enqueued("once")).toBe(ID(3));
    expect(await enqueued("past")).toBe(ID(9));
    // The key outlives its job: the job's row has the scope too.
    expect(await hf.purge({ state: "completed", olderThan: 0 })).toBe(1);
    expect(await hf.get(ID(3))).toBeNull();
    expect(await enqueued("once")).toBe(ID(3));
    // Processes of an earlier version read a new key as they stored it.
    await enqueued("new");
    const stored = connect(file).prepare("SELECT scope FROM holdfast_keys WHERE key = 'new'").pluck();
    expect(stored.get()).toBe("ever");
  });

  it("rejects invalid schedules", async () => {
    const file = tempFile();
    makeVersion1(file);
    const hf = await open(file);
    await hf.schedule("s", { job: job({ type: "old", run() {} }), every: "1h" });
    const db = connect(file);
    for (const set of [
      "cron = '* * * * *'",
      "every_ms = NULL",
      "every_ms = 999",
      "jitter_ms = -1",
      "overlap = 'forbid'",
      "enabled = 2",
      "origin = 'cli'",
      "priority = 101",
      "max_attempts = 0",
    ]) {
      expect(() => db.exec(`UPDATE holdfast_schedules SET ${set}`)).toThrow(
        expect.objectContaining({ code: "SQLITE_CONSTRAINT_CHECK" }),
      );
    }
    expect(() => db.exec("INSERT INTO holdfast_schedules SELECT * FROM holdfast_schedules")).toThrow(
      expect.objectContaining({ code: "SQLITE_CONSTRAINT_PRIMARYKEY" }),
    );
  });
});

describe("a file of schema version 5", () => {
  /** A paused queue, and a job that failed. */
  function makeVersion5(file: string): void {
    const db = connect(file);
    db.pragma("journal_mode = WAL");
    db.exec(VERSION_5);
    db.exec(`
      INSERT INTO holdfast_jobs (id, type, queue, priority, state, input, attempt, max_attempts, losses, releases, fence, run_at,
        due_at, created_at, updated_at, error, error_code, error_at)
      VALUES ('${ID(1)}', 'old', 'default', 0, 'failed', '{}', 1, 4, 0, 0, 1, 1, 1, 1, 1, 'it broke', 'E_OLD', 5);
      INSERT INTO holdfast_counts VALUES ('default', 'old', 'failed', 1);
      INSERT INTO holdfast_paused VALUES ('default'), ('*');
    `);
    db.close();
  }

  it("is migrated to the schema of a new file", async () => {
    const file = tempFile();
    makeVersion5(file);
    await openStore(file);
    const fresh = tempFile();
    await openStore(fresh);
    expectMigrated(connect(file));
    expect(shape(connect(file))).toEqual(shape(connect(fresh)));
    expect(integrity(file)).toBe("ok");
  });

  it("keeps errors without a group and anonymous pauses", async () => {
    const file = tempFile();
    makeVersion5(file);
    const store = await openStore(file);
    const error = { message: "it broke", code: "E_OLD", at: 5, fingerprint: null };
    expect((await store.get(ID(1)))?.error).toEqual(error);
    const anonymous = { paused: true, pausedAt: null, pausedBy: null };
    expect(await store.queues()).toEqual([
      { queue: "default", ...anonymous, priorities: [0] },
      { queue: "*", ...anonymous, priorities: [] },
    ]);
    await store.pause("default", "ada");
    expect((await store.queues())[0]).toMatchObject(anonymous);
    await store.resume("*");
    await store.resume("default");
    const cursor = await store.recordTransitions(60_000);
    const [job] = await claim(store);
    await store.settle([failureOf(job as ClaimedJob, "again")]);
    expect((await store.list({ fingerprint: FINGERPRINT }, { limit: 5, cursor: null })).jobs).toHaveLength(1);
    expect((await store.transitions(cursor, 10))?.transitions.map(({ to }) => to)).toEqual(["claimed", "failed"]);
  });
});

describe("a file of an earlier version", () => {
  it("has the slot reason of a manual run", async () => {
    const file = tempFile();
    const before = await open(file);
    const old = job({ type: "old", run() {} });
    await before.schedule("s", { job: old, every: "1h" });
    await before.schedules.runNow("s");
    await before.close();
    const db = connect(file);
    db.exec("UPDATE holdfast_slots SET reason = 'by hand'");
    const hf = await open(file);
    expect((await hf.schedules.get("s"))?.slots.map(({ reason }) => reason)).toEqual(["manual"]);
    expectMigrated(db);
  });
});
