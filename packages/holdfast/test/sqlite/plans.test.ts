import type Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import type { JobFilter } from "#src/store.js";
import { prepareStore } from "#src/stores/sqlite/jobs/prepared-store.js";
import { BLOCK } from "#src/stores/list-plan.js";
import { claimRequest } from "#src/testing/exercise-store/builders.js";
import { preparedOn } from "./prepared.js";

const MANY = 100_000;
const NOW = 1_000_000;

/** Statements that the store prepares, on a database with many jobs that a claim must not read. */
describe.each(["before ANALYZE", "after ANALYZE"])("query plans %s", (when) => {
  const { db, statements: prepared, store, planOf } = preparedOn(fill, when, NOW);

  /** Statements that pick jobs by queue, priority and due time. */
  function claimStatements(ofType: boolean): string[] {
    const picks = [...prepared].filter((sql) => /queue = \?.*priority = \? AND due_at <=? ?\?/s.test(sql));
    const found = picks.filter((sql) => !sql.includes("count(*)"));
    return found.filter((sql) => /\btype = \?/.test(sql) === ofType);
  }

  it("claims use the index of due jobs, without a sort", () => {
    const statements = claimStatements(false);
    expect(statements.length).toBeGreaterThan(0);
    for (const sql of statements) {
      expect(planOf(sql)).toMatch(
        /^SEARCH holdfast_jobs USING (COVERING )?INDEX holdfast_jobs_due \(queue=\? AND priority=\? AND due_at[<>]\?( AND due_at<\?)?\)$/,
      );
    }
  });

  it("jobs ahead are counted in the index of due jobs", () => {
    const statements = [...prepared].filter((sql) =>
      /count\(\*\) FROM \(SELECT 1 FROM holdfast_jobs WHERE queue = /.test(sql),
    );
    expect(statements).toHaveLength(2);
    for (const sql of statements) {
      expect(planOf(sql)).toMatch(
        /SEARCH holdfast_jobs USING COVERING INDEX holdfast_jobs_due \(queue=\? AND priority=\? AND due_at<\?\)/,
      );
    }
  });

  it("history, transitions and error groups are read in order", () => {
    const tables = /FROM holdfast_(history|transitions|error_groups)\b/;
    const statements = [...prepared].filter((sql) => tables.test(sql) && sql.includes("ORDER BY"));
    expect(statements).toHaveLength(6);
    for (const sql of statements) {
      const plan = planOf(sql);
      expect({ sql, plan, sorts: /TEMP B-TREE/.test(plan) }).toEqual({ sql, plan, sorts: false });
      if (!sql.includes("error_groups")) expect(plan).toMatch(/^(SEARCH|SCAN holdfast_transitions$)/);
    }
  });

  it("lanes are found by seeks in the index of due jobs", () => {
    const seeks = [...prepared].filter((sql) => /INDEXED BY holdfast_jobs_due\b.* LIMIT 1$/s.test(sql));
    expect(seeks).toHaveLength(3);
    for (const sql of seeks) {
      expect(planOf(sql)).toMatch(
        /^SEARCH holdfast_jobs USING COVERING INDEX holdfast_jobs_due \((queue=\?|queue=\? AND priority>\?|queue>\?)\)$/,
      );
    }
  });

  it("claims by type use their own index, created on first use", () => {
    expect(claimStatements(true)).toEqual([]);
    expect(indexes()).not.toContain("holdfast_jobs_due_type");
    const { rows } = store().operations.claim(NOW, claimRequest({ types: ["wanted"], limit: 10 }));
    expect(rows).toHaveLength(10);
    expect(indexes()).toContain("holdfast_jobs_due_type");
    const statements = claimStatements(true);
    expect(statements.length).toBeGreaterThan(0);
    for (const sql of statements) {
      expect(planOf(sql)).toMatch(
        /^SEARCH holdfast_jobs USING (COVERING )?INDEX holdfast_jobs_due_type \(queue=\? AND type=\? AND priority=\? AND due_at<\?\)$/,
      );
    }
  });

  it("the index for types is created again after a rollback", () => {
    db.exec("DROP INDEX holdfast_jobs_due_type; BEGIN");
    store().operations.claim(NOW, claimRequest({ types: ["wanted"], limit: 10 }));
    db.exec("ROLLBACK");
    expect(indexes()).not.toContain("holdfast_jobs_due_type");
    expect(store().operations.claim(NOW, claimRequest({ types: ["wanted"], limit: 10 })).rows).toHaveLength(10);
    expect(indexes()).toContain("holdfast_jobs_due_type");
  });

  it("no statement scans or sorts all jobs", () => {
    const touching = [...prepared].filter((sql) => /holdfast_jobs/.test(sql) && !sql.startsWith("CREATE"));
    expect(touching.length).toBeGreaterThan(20);
    for (const sql of touching) {
      const plan = planOf(sql);
      const scans = /SCAN (holdfast_jobs|j)\b(?! USING)|TEMP B-TREE/.test(plan);
      expect({ sql, plan, scans }).toEqual({ sql, plan, scans: false });
    }
  });

  /** The query plan steps of one page of a list, without duplicates. */
  function stepsOf(filter: JobFilter): string[] {
    // A new one, so that its statements are prepared again.
    const { operations } = prepareStore(db);
    prepared.clear();
    operations.list(NOW, filter, { limit: 5, cursor: null });
    const steps = [...prepared].flatMap((sql) => planOf(sql).split("; "));
    return [...new Set(steps)].filter((step) => /^(SEARCH|SCAN) (j|g)\b|TEMP B-TREE/.test(step)).toSorted();
  }
  const BOUNDS = "rowid>? AND rowid<?";
  const ALL = `SEARCH j USING INTEGER PRIMARY KEY (${BOUNDS})`;
  const KIND = `SEARCH j USING COVERING INDEX holdfast_jobs_finished_type (type=? AND state=? AND queue=? AND due_at=? AND ${BOUNDS})`;
  const BY_ROWID = "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)";
  const TAG_EXISTS = "SEARCH g EXISTS USING PRIMARY KEY (tag=? AND job=?)";

  it.each<[string, JobFilter, string[]]>([
    ["all jobs", {}, [ALL]],
    ["finished jobs of a state", { states: ["completed"] }, [KIND]],
    [
      "finished jobs of several states, types and queues",
      { states: ["dead", "completed"], types: ["wanted", "other"], queues: ["default"] },
      [KIND],
    ],
    ["jobs of a user", { user: "ada" }, [`SEARCH j USING COVERING INDEX holdfast_jobs_user (user=? AND ${BOUNDS})`]],
    [
      "a schedule",
      { schedule: "digest" },
      [`SEARCH j USING COVERING INDEX holdfast_jobs_schedule (schedule=? AND ${BOUNDS})`],
    ],
    [
      "jobs of an error group",
      { fingerprint: "00c0ffee00c0ffee" },
      [`SEARCH j USING COVERING INDEX holdfast_jobs_fingerprint (fingerprint=? AND ${BOUNDS})`],
    ],
    ["jobs with a tag", { tag: "odd" }, ["SEARCH g USING PRIMARY KEY (tag=? AND job>? AND job<?)", BY_ROWID]],
    ["jobs of a time", { createdBefore: 5 }, [ALL]],
  ])("%s are read from an index, without a sort", (_, filter, steps) => {
    expect(stepsOf(filter)).toEqual(steps);
  });

  it("other conditions are checked on the jobs of a user, schedule or tag", () => {
    const user = `SEARCH j USING COVERING INDEX holdfast_jobs_user (user=? AND ${BOUNDS})`;
    const rows = user.replace("COVERING ", "");
    expect(stepsOf({ user: "ada", states: ["dead"] })).toEqual([user, rows]);
    expect(stepsOf({ user: "ada", tag: "odd" })).toEqual([TAG_EXISTS, user]);
    expect(stepsOf({ tag: "odd", types: ["wanted"], createdBefore: 5 })).toEqual([
      "SEARCH g USING PRIMARY KEY (tag=? AND job>? AND job<?)",
      BY_ROWID,
    ]);
  });

  it("live jobs are found by the counters, or sorted by index", () => {
    const live = "SCAN j USING COVERING INDEX holdfast_jobs_due";
    const queue = "SEARCH j USING COVERING INDEX holdfast_jobs_due (queue=?)";
    expect(stepsOf({ states: ["running"] })).toEqual([live]);
    expect(stepsOf({ states: ["pending"] })).toEqual([live, BY_ROWID, "USE TEMP B-TREE FOR ORDER BY"]);
    expect(stepsOf({ states: ["pending"], queues: ["default"] })).toEqual([
      queue,
      BY_ROWID,
      "USE TEMP B-TREE FOR ORDER BY",
    ]);
    expect(stepsOf({ states: ["pending"], queues: ["nowhere"] })).toEqual([queue]);
  });

  it("an unknown type or queue needs no read", () => {
    expect(stepsOf({ types: ["nothing"] })).toEqual([]);
    expect(stepsOf({ states: ["completed"], queues: ["nowhere"] })).toEqual([]);
  });

  it(`a claim finds due jobs behind ${MANY} future and ${MANY} finished ones`, () => {
    const { rows } = store().operations.claim(NOW, claimRequest({ limit: 50 }));
    expect(rows).toHaveLength(50);
    expect(store().emptyClaim(claimRequest({ queues: ["empty"] }), NOW)).toMatchObject({
      at: NOW,
      rows: { length: 0 },
      nextDueAt: null,
    });
  });

  function indexes(): unknown[] {
    return db.prepare("SELECT name FROM sqlite_schema WHERE type = 'index'").pluck().all();
  }
});

function fill(db: Database.Database): void {
  db.exec(`
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${2 * MANY + 1_000})
    INSERT INTO holdfast_jobs (id, type, queue, priority, state, input, attempt, max_attempts, losses, releases, fence,
      run_at, due_at, created_at, updated_at, finished_at)
    SELECT 'job ' || i,
      CASE WHEN i % 10 = 0 THEN 'wanted' ELSE 'other' END,
      'default',
      CASE WHEN i <= ${MANY} THEN 10 ELSE 0 END,
      CASE WHEN i <= ${MANY} OR i > ${2 * MANY} THEN 'pending' ELSE 'completed' END,
      '{}', 0, 4, 0, 0, 0, 0,
      CASE WHEN i <= ${MANY} THEN ${10 * NOW} WHEN i > ${2 * MANY} THEN i % 1000 ELSE NULL END,
      0, 0,
      CASE WHEN i > ${MANY} AND i <= ${2 * MANY} THEN i ELSE NULL END
    FROM n;
    INSERT INTO holdfast_counts SELECT queue, type, state, count(*) FROM holdfast_jobs GROUP BY 1, 2, 3;
    INSERT INTO holdfast_ages SELECT seq / ${BLOCK}, type, min(created_at), max(created_at) FROM holdfast_jobs GROUP BY 1, 2;
  `);
}
