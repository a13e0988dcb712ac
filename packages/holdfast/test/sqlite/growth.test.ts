import { statSync } from "node:fs";
import type { Database } from "better-sqlite3";
import { job } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { SPARE_PAGES } from "#src/stores/sqlite/thread/spare-pages.js";
import type { Store } from "#src/store.js";
import { laneStatements } from "#src/stores/sqlite/jobs/lanes.js";
import {
  addAll,
  claim,
  claimOne,
  failureOf,
  finish,
  key,
  newJob,
  newJobs,
  outcomeOf,
} from "#src/testing/exercise-store/builders.js";
import { connect, integrity, open, openStore, tempFile } from "./scene.js";

const MB = 1024 * 1024;
/** The size at which SQLite checkpoints the log, and maintenance truncates it. */
const WAL_BYTES = 16 * MB;
const LARGE = `"${"x".repeat(8_000)}"`;

function walBytes(file: string): number {
  return statSync(`${file}-wal`).size;
}

async function addMegabytes(store: Store, megabytes: number): Promise<void> {
  for (let added = 0; added < megabytes; added++) await addAll(store, newJobs(125, { input: LARGE }));
}

function rows(db: Database, table: string): unknown {
  return db.prepare(`SELECT count(*) FROM holdfast_${table}`).pluck().get();
}

describe("the write-ahead log", () => {
  it("is checkpointed as it grows, so its size stays bounded", async () => {
    const file = tempFile();
    const store = await openStore(file, { durability: "normal" });
    await addMegabytes(store, 40);
    expect(statSync(file).size).toBeGreaterThan(WAL_BYTES);
    expect(walBytes(file)).toBeLessThan(WAL_BYTES + 4 * MB);
  });

  it("grows during a long read, and is truncated after it", async () => {
    const file = tempFile();
    const store = await openStore(file, { durability: "normal", busyTimeout: "10s" });
    await addMegabytes(store, 1);
    const reader = connect(file, { readonly: true });
    reader.exec("BEGIN");
    expect(rows(reader, "jobs")).toBe(125);

    await addMegabytes(store, 20);
    expect(walBytes(file)).toBeGreaterThan(WAL_BYTES);
    expect(walBytes(file)).toBeLessThan(2 * 21 * MB);
    const from = performance.now();
    await store.maintain();
    await addAll(store, newJobs(1));
    // A truncation that waited for the reader would take the whole busy timeout.
    expect(performance.now() - from).toBeLessThan(5_000);
    expect(rows(reader, "jobs")).toBe(125);

    reader.exec("COMMIT");
    await store.maintain();
    expect(walBytes(file)).toBe(0);
    expect(integrity(file)).toBe("ok");
  });
});

describe("retention", () => {
  it("deletes at most `limit` jobs, oldest first", async () => {
    const file = tempFile();
    const clock = fakeClock();
    const store = await openStore(file, { clock });
    const ids = await addAll(store, newJobs(250));
    for (const claimed of await claim(store)) {
      await clock.advance(1);
      await finish(store, claimed);
    }
    const db = connect(file);
    const left = (): unknown => db.prepare("SELECT id FROM holdfast_jobs ORDER BY seq").pluck().all();
    const request = { state: "completed", before: null, keep: null, limit: 100 } as const;
    expect(await store.purge(request)).toBe(100);
    expect(left()).toEqual(ids.slice(100));
    expect(await store.purge(request)).toBe(100);
    expect(await store.purge(request)).toBe(50);
    expect(await store.purge(request)).toBe(0);
    expect(left()).toEqual([]);
  });

  it("keeps the file from growing, and returns free pages", async () => {
    const file = tempFile();
    const quick = job({ type: "quick", run: () => "y".repeat(2_000) });
    const hf = await open(file, { jobs: [quick] });
    const store = await openStore(file);
    const db = connect(file);
    const pages = (): number => db.pragma("page_count", { simple: true }) as number;
    const sizes: number[] = [];
    let full = 0;
    for (let round = 0; round < 5; round++) {
      await hf.enqueueMany(quick, Array(1_000).fill({}));
      expect(await hf.drain()).toBe(1_000);
      full = pages();
      expect(await hf.purge({ state: "completed", olderThan: 0 })).toBe(1_000);
      await store.maintain();
      sizes.push(pages());
    }
    expect(Math.max(...sizes.slice(2))).toBeLessThanOrEqual((sizes[1] ?? 0) * 1.1);
    // Each call returns a few hundred pages.
    for (let step = 0; step < 10; step++) await store.maintain();
    expect(db.pragma("freelist_count", { simple: true })).toBe(SPARE_PAGES);
    expect(pages()).toBeLessThan(full / 2);
    expect(integrity(file)).toBe("ok");
  });
});

describe("rows that belong to a job", () => {
  const SIDE_TABLES = ["jobs", "inputs", "keys", "tags", "attempts", "log"] as const;
  const scopes = ["waiting", "live", "period", "forever"] as const;
  const occupied = (db: Database): string[] => SIDE_TABLES.filter((table) => rows(db, table) !== 0);

  /** One job of each scope of keys, each with a large input, tags, a failed attempt and log lines. */
  async function addFinished(store: Store): Promise<string[]> {
    const jobs = scopes.map((scope) =>
      newJob({ input: LARGE, tags: ["a", "b"], user: "ada", unique: key(scope, { scope, periodMs: 60_000 }) }),
    );
    const ids = await addAll(store, jobs);
    for (const claimed of await claim(store)) {
      await store.note([
        { ...claimed, progress: { fraction: 0.5, note: "half", data: null }, log: [{ at: 0, line: "hello" }] },
      ]);
      await store.settle([failureOf(claimed, "once")]);
    }
    for (const claimed of await claim(store)) await finish(store, claimed);
    return ids;
  }

  it("large inputs are stored in another table", async () => {
    const file = tempFile();
    const store = await openStore(file);
    const db = connect(file);
    const edge = [`"${"x".repeat(510)}"`, `"${"x".repeat(511)}"`];
    const ids = await addAll(
      store,
      edge.map((input) => newJob({ input })),
    );
    expect(db.prepare("SELECT input FROM holdfast_jobs ORDER BY seq").pluck().all()).toEqual([edge[0], null]);
    expect(db.prepare("SELECT input FROM holdfast_inputs").pluck().all()).toEqual([edge[1]]);
    expect(await Promise.all(ids.map(async (id) => (await store.get(id))?.input))).toEqual(edge);
    expect((await claim(store)).map(({ input }) => input)).toEqual(edge);
  });

  it("remove deletes all of them, and keys of every scope", async () => {
    const file = tempFile();
    const store = await openStore(file, { clock: fakeClock() });
    const db = connect(file);
    const ids = await addFinished(store);
    expect(occupied(db)).toEqual(SIDE_TABLES);
    expect(await store.remove(ids)).toEqual(ids.map(() => "removed"));
    expect(occupied(db)).toEqual([]);
    expect((await store.stats()).counts).toEqual([]);
  });

  it("purge leaves only keys that outlive their job", async () => {
    const file = tempFile();
    const clock = fakeClock();
    const store = await openStore(file, { clock });
    const db = connect(file);
    const ids = await addFinished(store);
    await clock.advance(1_000);
    expect(await store.purge({ state: "completed", before: clock.now(), keep: null, limit: 100 })).toBe(ids.length);
    expect(occupied(db)).toEqual(["keys"]);
    const keys = (): unknown => db.prepare("SELECT key FROM holdfast_keys ORDER BY key").pluck().all();
    expect(keys()).toEqual(["forever", "period"]);
    await clock.advance("1m");
    await store.maintain();
    expect(keys()).toEqual(["forever"]);
  });

  it("a key stays with its new job when the previous one is purged", async () => {
    const file = tempFile();
    const store = await openStore(file);
    await addAll(store, [newJob({ unique: key("k") })]);
    await finish(store, await claimOne(store));
    const [second] = await addAll(store, [newJob({ unique: key("k") })]);
    expect(await store.purge({ state: "completed", before: null, keep: 0, limit: 10 })).toBe(1);
    const [result] = await store.insert([newJob({ unique: key("k") })]);
    expect(result).toEqual({ status: "duplicate", of: second, replaced: false });
  });

  it("a replaced job keeps neither input nor tags", async () => {
    const file = tempFile();
    const store = await openStore(file);
    const db = connect(file);
    await addAll(store, [newJob({ input: LARGE, tags: ["old", "both"], unique: key("k") })]);
    await store.insert([newJob({ input: "{}", tags: ["both", "new"], unique: key("k", { onConflict: "replace" }) })]);
    expect(rows(db, "inputs")).toBe(0);
    expect(db.prepare("SELECT tag FROM holdfast_tags ORDER BY tag").pluck().all()).toEqual(["both", "new"]);
  });

  it("finished jobs leave no lane", async () => {
    const file = tempFile();
    const clock = fakeClock();
    const store = await openStore(file, { clock });
    const db = connect(file);
    await addAll(
      store,
      Array.from({ length: 50 }, (_, n) => newJob({ queue: `tenant ${n}` })),
    );
    for (const claimed of await claim(store)) await store.settle([outcomeOf(claimed, "completed")]);
    expect(laneStatements(db).live()).toEqual([]);
    expect(await store.queues()).toEqual([]);
    expect(rows(db, "pace")).toBeGreaterThan(0);
    await clock.advance("5m");
    await store.maintain();
    expect(rows(db, "pace")).toBe(0);
  });
});
