import type Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { preparedOn } from "./prepared.js";

const MANY = 100_000;
const NOW = 1_000_000;

/** Statements that the store prepares, on an audit log in which almost all entries are of one kind. */
describe.each(["before ANALYZE", "after ANALYZE"])("query plans of the audit log %s", (when) => {
  const { statements: prepared, store, planOf } = preparedOn(fill, when, NOW);

  it("a purge uses the time index, and no statement scans the log", () => {
    const touching = [...prepared].filter((sql) => /holdfast_audit/.test(sql));
    expect(touching.filter((sql) => sql.startsWith("DELETE"))).toHaveLength(1);
    for (const sql of touching) expect(planOf(sql)).not.toMatch(/SCAN holdfast_audit|TEMP B-TREE/);
    expect(store().operations.purgeAudit(NOW, { before: 20, limit: 10 })).toBe(10);
    expect(store().operations.purgeAudit(NOW, { before: 20, limit: 10 })).toBe(9);
  });

  it.each([
    ["all", {}, "holdfast_audit_at"],
    ["one actor's", { actor: "common" }, "holdfast_audit_actor"],
    ["one action's", { action: "common" }, "holdfast_audit_action"],
    ["one actor's and action's", { actor: "rare", action: "common" }, "holdfast_audit_both"],
  ] as const)("a list of %s entries uses its own index, without a sort", (_name, filter, index) => {
    for (const times of [{}, { after: 5, before: 500 }]) {
      prepared.clear();
      store().operations.listAudit(NOW, { ...filter, ...times }, { limit: 5, cursor: null });
      expect(prepared.size).toBe(1);
      for (const sql of prepared)
        expect(planOf(sql)).toMatch(new RegExp(`^SEARCH holdfast_audit USING INDEX ${index} \\([^;]*$`));
    }
  });
});

function fill(db: Database.Database): void {
  db.exec(`
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${MANY})
    INSERT INTO holdfast_audit (id, at, actor, action, count)
    SELECT printf('%08d-0000-7000-8000-000000000000', i), i,
      CASE WHEN i % 10000 = 0 THEN 'rare' ELSE 'common' END, CASE WHEN i % 7000 = 0 THEN 'rare' ELSE 'common' END, 1
    FROM n;
  `);
}
