import type { Database } from "better-sqlite3";
import { auditCursor, auditWindow } from "../../access/audit-order.js";
import type { AuditEntry, AuditFilter, AuditPage, StoredAuditEntry } from "../../store.js";

export interface AuditOperations {
  append(entries: readonly AuditEntry[], now: number): void;
  list(filter: AuditFilter, page: { limit: number; cursor: string | null }): AuditPage;
  purge(request: { before: number; limit: number }): number;
}

/** The audit log. Entries are added, and deleted after their retention. They are never changed. */
export function auditOperations(db: Database): AuditOperations {
  const add = db.prepare(
    `INSERT INTO holdfast_audit (id, at, actor, action, target, count, detail)
     VALUES (@id, @now, @actor, @action, @target, @count, @detail) ON CONFLICT (id) DO NOTHING`,
  );
  const removeOldest = db.prepare(
    `DELETE FROM holdfast_audit WHERE id IN (
       SELECT id FROM holdfast_audit WHERE at < ? ORDER BY at, id LIMIT ?)`,
  );

  return {
    append(entries, now) {
      for (const { id, actor, action, target, count, detail } of entries)
        add.run({ id, now, actor, action, target, count, detail });
    },
    list({ actor, action, after, before }, { limit, cursor }) {
      const { from, below } = auditWindow({ after, before }, cursor);
      const terms = ["at >= ?", "(at, id) < (?, ?)"];
      const values: (string | number)[] = [from, below.at, below.id];
      for (const [column, value] of Object.entries({ actor, action })) {
        if (value === undefined) continue;
        terms.push(`${column} = ?`);
        values.push(value);
      }
      const rows = db
        .prepare(
          `SELECT id, at, actor, action, target, count, detail FROM holdfast_audit INDEXED BY ${indexFor(actor, action)}
           WHERE ${terms.join(" AND ")} ORDER BY at DESC, id DESC LIMIT ?`,
        )
        .all(...values, limit + 1) as StoredAuditEntry[];
      const entries = rows.slice(0, limit);
      const last = entries.at(-1);
      return { entries, cursor: rows.length > limit && last !== undefined ? auditCursor(last) : null };
    },
    purge: ({ before, limit }) => removeOldest.run(before, limit).changes,
  };
}

/** Named explicitly: without statistics the planner may choose an index that scans many entries that do not match. */
function indexFor(actor: string | undefined, action: string | undefined): string {
  if (actor === undefined) return action === undefined ? "holdfast_audit_at" : "holdfast_audit_action";
  return action === undefined ? "holdfast_audit_actor" : "holdfast_audit_both";
}
