import type Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { preparedOn } from "./prepared.js";

const IDLE = 100_000;
const NOW = 1_000_000;

/** Statements that the store prepares, on a database with many schedules that are not due. */
describe.each(["before ANALYZE", "after ANALYZE"])("query plans of schedules %s", (when) => {
  const { statements: prepared, store, planOf } = preparedOn(fill, when, NOW);

  it("due schedules are found by an index, without a sort", () => {
    const statements = [...prepared].filter((sql) => /FROM holdfast_schedules\s+WHERE enabled = 1/.test(sql));
    expect(statements.length).toBeGreaterThanOrEqual(3);
    for (const sql of statements) {
      expect(planOf(sql)).toMatch(
        /^(SEARCH|SCAN) holdfast_schedules USING (COVERING )?INDEX holdfast_schedules_due( \(next_run_at[=<>]\?\))?$/,
      );
      // Without a condition, only the first entry of the index is read.
      if (planOf(sql).startsWith("SCAN")) expect(sql).toMatch(/LIMIT 1$/);
    }
  });

  it("no statement scans all schedules or slots, and none sorts schedules", () => {
    const touching = [...prepared].filter((sql) => /holdfast_(schedules|slots)/.test(sql));
    expect(touching.length).toBeGreaterThan(8);
    for (const sql of touching) {
      const plan = planOf(sql);
      // A schedule has at most forty stored slots: those may be sorted.
      const scans =
        (/SCAN holdfast/.test(plan) && !sql.endsWith("LIMIT 1")) ||
        (/holdfast_schedules/.test(plan) && /TEMP B-TREE/.test(plan));
      expect({ sql, plan, scans }).toEqual({ sql, plan, scans: false });
    }
  });

  it("lists use an index in name order, with any filter", () => {
    for (const filter of [
      {},
      { origin: "code" },
      { origin: "runtime" },
      { enabled: true },
      { type: "t" },
      { user: "u1" },
    ] as const) {
      prepared.clear();
      store().operations.listSchedules(NOW, filter, { limit: 5, cursor: "s 5" });
      expect(prepared.size).toBe(1);
      for (const sql of prepared) expect(planOf(sql)).not.toMatch(/TEMP B-TREE/);
    }
    prepared.clear();
    store().operations.listSchedules(NOW, { user: "u1" }, { limit: 5, cursor: null });
    for (const sql of prepared) expect(planOf(sql)).toMatch(/INDEX holdfast_schedules_user/);
  });

  it("jobs of a schedule are listed by an index", () => {
    prepared.clear();
    store().operations.list(NOW, { schedule: "s 1" }, { limit: 5, cursor: null });
    expect(prepared.size).toBeGreaterThan(0);
    for (const sql of prepared) expect(planOf(sql)).toMatch(/INDEX holdfast_jobs_schedule/);
  });

  it(`due and unknown schedules are found among ${IDLE} idle and as many disabled ones`, () => {
    const due = store().operations.dueSchedules(NOW, 100);
    expect(due.schedules.map(({ name }) => name)).toEqual(["unknown", "due 1", "due 2"]);
    expect(due).toMatchObject({ at: NOW, nextRunAt: NOW + 1 });
    expect(store().operations.dueSchedules(NOW, 2).schedules).toHaveLength(2);
    // The schedule whose next run is unknown is due now.
    expect(store().nextScheduleAt()).toBe(0);
  });
});

function fill(db: Database.Database): void {
  const insert = (name: string, enabled: string, next: string, from: string): string => `
    INSERT INTO holdfast_schedules (name, version, origin, type, queue, priority, user, input, max_attempts, every_ms,
      jitter_ms, catch_up, overlap, enabled, next_run_at, created_at, updated_at)
    SELECT ${name}, 'v', CASE WHEN i % 2 = 0 THEN 'code' ELSE 'runtime' END, 't', 'q', 0, 'u' || (i % 100), '{}', 4,
      1000, 0, 'latest', 'allow', ${enabled}, ${next}, 0, 0 FROM ${from};`;
  db.exec(`
    CREATE TEMP TABLE n AS
      WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < ${IDLE}) SELECT i FROM r;
    ${insert("'s ' || i", "1", `${NOW} + i`, "n")}
    ${insert("'off ' || i", "0", "NULL", "n")}
    ${insert("'unknown'", "1", "NULL", "n WHERE i = 1")}
    ${insert("'due ' || (3 - i)", "1", `${NOW} - i`, "n WHERE i <= 2")}
  `);
}
