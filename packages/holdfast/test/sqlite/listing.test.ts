import Database from "better-sqlite3";
import fc from "fast-check";
import { fakeClock } from "holdfast/testing";
import { beforeAll, describe, expect, it } from "vitest";
import type { State } from "#src/job/state.js";
import { laneStatements } from "#src/stores/sqlite/jobs/lanes.js";
import { pageFinder } from "#src/stores/sqlite/jobs/listing.js";
import { openSqlite } from "#src/stores/sqlite/open.js";
import { BLOCK } from "#src/stores/list-plan.js";
import { newJob } from "#src/testing/exercise-store/builders.js";
import {
  anyFilter,
  anyPage,
  withIds,
  LIST_LIMITS,
  fill,
  matching,
  START,
  throughout,
  type Listed,
} from "../listing/listed.js";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

let db: Database.Database;
let jobs: Listed[];
let now: number;

beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-listing-"));
  const file = join(folder, "jobs.db");
  const clock = fakeClock(START);
  const store = openSqlite(file, { clock, durability: "normal" });
  await store.migrate();
  db = new Database(file);
  const fillers: string[] = [];
  await fill(store, clock, async () => {
    // The next job has a number in another block.
    const filler = newJob({ type: "filler", queue: "filler", runAt: Number.MAX_SAFE_INTEGER });
    await store.insert([filler]);
    db.prepare("UPDATE holdfast_jobs SET seq = (seq / ? + 1) * ? + 100 WHERE id = ?").run(BLOCK, BLOCK, filler.id);
    fillers.push(filler.id);
  });
  await store.remove(fillers);
  now = clock.now();
  await store.close();
  const rows = db.prepare("SELECT *, created_at AS createdAt FROM holdfast_jobs").all() as (Listed & {
    tags: string | null;
  })[];
  jobs = rows.map((row) => ({ ...row, tags: JSON.parse((row.tags as string | null) ?? "[]") as string[] }));
  return () => {
    db.close();
    rmSync(folder, { recursive: true, force: true });
  };
});

describe("listing on SQLite", () => {
  it("the test data covers every state and several blocks", () => {
    expect(jobs).toHaveLength(240);
    expect(new Set(jobs.map(({ state }): State => state)).size).toBeGreaterThanOrEqual(7);
    const blocks = new Set(jobs.map(({ seq }) => Math.floor(seq / BLOCK)));
    expect(blocks.size).toBe(3);
    // Every block has a record of all its types.
    const known = db.prepare("SELECT block, type FROM holdfast_ages WHERE type <> 'filler'").all();
    const types = new Set(jobs.map(({ seq, type }) => `${Math.floor(seq / BLOCK)} ${type}`));
    expect(known).toHaveLength(types.size);
  });

  it.each(LIST_LIMITS)("pages list each matching job once and in order, for any filter, with %j", async (limits) => {
    const find = pageFinder(db, laneStatements(db), limits);
    await fc.assert(
      fc.asyncProperty(anyFilter, anyPage, async (given, { every, ...page }) => {
        const filter = withIds(given, jobs, every);
        const found = await throughout((each) => find(filter, each, now), page);
        expect(found).toEqual(matching(jobs, filter, page.order));
      }),
      { numRuns: 400 },
    );
  });
});
