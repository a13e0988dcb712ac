import type Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { claimRequest } from "#src/testing/exercise-store/builders.js";
import { preparedOn } from "./prepared.js";

const MANY = 100_000;
const NOW = 1_000_000;

/** The statements the store really prepares, over a database where what is in the way is many. */
describe.each(["before ANALYZE", "after ANALYZE"])("query plans %s", (when) => {
  const { db, statements: prepared, room, planOf } = preparedOn(fill, when, NOW);

  /** Statements that pick jobs by queue, priority and due time. */
  function claimStatements(ofType: boolean): string[] {
    const walks = [...prepared].filter((sql) => /queue = \?.*priority = \? AND due_at <=? ?\?/s.test(sql));
    return walks.filter((sql) => /\btype = \?/.test(sql) === ofType);
  }

  it("claims walk the index of due jobs, in its order, without a sort", () => {
    const statements = claimStatements(false);
    expect(statements.length).toBeGreaterThan(0);
    for (const sql of statements) {
      expect(planOf(sql)).toMatch(
        /^SEARCH holdfast_jobs USING (COVERING )?INDEX holdfast_jobs_due \(queue=\? AND priority=\? AND due_at[<>]\?( AND due_at<\?)?\)$/,
      );
    }
  });

  it("claims of given types walk an index of their own, made when it is first needed", () => {
    expect(claimStatements(true)).toEqual([]);
    expect(indexes()).not.toContain("holdfast_jobs_due_type");
    const { rows } = room().operations.claim(NOW, claimRequest({ types: ["wanted"], limit: 10 }));
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

  it("that index is made again if the transaction that made it is rolled back", () => {
    db.exec("DROP INDEX holdfast_jobs_due_type; BEGIN");
    room().operations.claim(NOW, claimRequest({ types: ["wanted"], limit: 10 }));
    db.exec("ROLLBACK");
    expect(indexes()).not.toContain("holdfast_jobs_due_type");
    expect(room().operations.claim(NOW, claimRequest({ types: ["wanted"], limit: 10 })).rows).toHaveLength(10);
    expect(indexes()).toContain("holdfast_jobs_due_type");
  });

  it("no statement that touches jobs walks them all, and none sorts them", () => {
    const touching = [...prepared].filter((sql) => /holdfast_jobs/.test(sql) && !sql.startsWith("CREATE"));
    expect(touching.length).toBeGreaterThan(20);
    for (const sql of touching) {
      const plan = planOf(sql);
      const walks = /SCAN (holdfast_jobs|j)\b(?! USING)|TEMP B-TREE/.test(plan);
      expect({ sql, plan, walks }).toEqual({ sql, plan, walks: false });
    }
  });

  it("finished jobs are listed off an index, in its order, without a sort", () => {
    for (const states of [["completed"], ["dead", "completed"]] as const) {
      prepared.clear();
      const page = room().operations.list(NOW, { states }, { limit: 5, cursor: null });
      expect(page.jobs).toHaveLength(5);
      expect(prepared.size).toBeGreaterThan(0);
      for (const sql of prepared) {
        expect(planOf(sql)).toMatch(/USING INDEX holdfast_jobs_finished_type/);
        expect(planOf(sql)).not.toMatch(/TEMP B-TREE/);
      }
    }
  });

  it(`behind ${MANY} future jobs of a higher priority and ${MANY} finished ones a claim takes what is due`, () => {
    const { rows } = room().operations.claim(NOW, claimRequest({ limit: 50 }));
    expect(rows).toHaveLength(50);
    expect(room().emptyClaim(claimRequest({ queues: ["nothing here"] }), NOW)).toMatchObject({
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
    INSERT INTO holdfast_lanes VALUES ('default', 10, 0), ('default', 0, 0);
  `);
}
