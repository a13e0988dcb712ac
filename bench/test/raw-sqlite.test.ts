import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { holdfast } from "holdfast";
import { afterEach, beforeEach, expect, it } from "vitest";
import { sqliteBed } from "#src/bed-sqlite.js";
import { noop, payload } from "#src/jobs.js";
import { openRawSqlite } from "#src/raw-sqlite.js";

// The baseline must write the same rows as Holdfast, otherwise the ratio is meaningless.

const JOBS = 20;
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "holdfast-bench-test-"));
});
afterEach(() => rm(folder, { recursive: true }));

/** Rows without ids, names and times. */
function contents(file: string): unknown {
  const db = new Database(file, { readonly: true });
  const unlike = new Set(["seq", "id", "worker", "second"]);
  const blurred = (row: unknown): unknown =>
    Object.fromEntries(
      Object.entries(row as object).map(([name, value]) => [
        name,
        value !== null && (unlike.has(name) || name.endsWith("_at")) ? "set" : value,
      ]),
    );
  const all = (sql: string): unknown[] => db.prepare(sql).all().map(blurred);
  const rows = {
    jobs: all("SELECT * FROM holdfast_jobs ORDER BY seq"),
    counts: all("SELECT * FROM holdfast_counts WHERE n <> 0 ORDER BY state"),
    pace: all("SELECT state, sum(n) AS n FROM holdfast_pace GROUP BY state"),
  };
  db.close();
  return rows;
}

it("writes the same rows in the baseline and in Holdfast", async () => {
  const bed = sqliteBed(folder);
  const [ours, theirs] = [await bed.place([]), await bed.place([])];
  const [ourFile, theirFile] = [ours.url.slice("sqlite:".length), theirs.url.slice("sqlite:".length)];
  const type = noop(() => {});
  const hf = await holdfast({ store: ours.url, jobs: [type] });
  const raw = openRawSqlite(theirFile);
  try {
    await hf.enqueueMany(
      type,
      Array.from({ length: JOBS }, () => payload()),
    );
    await raw.insert(JOBS);
    expect(contents(theirFile)).toEqual(contents(ourFile));

    expect(await hf.drain()).toBe(JOBS);
    const leases = await raw.claim(JOBS);
    expect(leases).toHaveLength(JOBS);
    await raw.settle(leases);
    expect(contents(theirFile)).toEqual(contents(ourFile));
    expect(await raw.claim(1)).toEqual([]);
  } finally {
    await raw.close();
    await hf.close();
  }
});

it("fills a template that Holdfast reads correctly", async () => {
  const bed = sqliteBed(folder);
  const place = await bed.place([
    { kind: "expired", count: 3 },
    { kind: "other", count: 4 },
    { kind: "finished", count: 5 },
    { kind: "future", count: 6 },
    { kind: "due", count: 7, inputBytes: 8_192 },
  ]);
  let bytes = 0;
  const type = noop((input) => void (bytes = JSON.stringify(input).length));
  const hf = await holdfast({ store: place.url, jobs: [type], logger: false });
  try {
    expect((await hf.stats()).states).toMatchObject({ pending: 20, completed: 5, dead: 0 });
    expect(await hf.drain({ types: [type] })).toBe(7);
    expect(bytes).toBe(8_192);
    expect((await hf.stats()).states).toMatchObject({ pending: 10, completed: 12, dead: 3 });
  } finally {
    await hf.close();
  }
});
