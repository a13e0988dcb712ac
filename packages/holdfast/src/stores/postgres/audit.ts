import { auditCursor, auditWindow } from "../../access/audit-order.js";
import type { AuditEntry, AuditFilter, AuditPage, StoredAuditEntry } from "../../store.js";
import type { Row, Runner, Statement } from "./connection/db.js";
import { NOW, rowsOf, type Sql } from "./connection/sql.js";

export interface AuditOperations {
  append(runner: Runner, entries: readonly AuditEntry[], now: number | null): Promise<void>;
  list(runner: Runner, filter: AuditFilter, page: { limit: number; cursor: string | null }): Promise<AuditPage>;
  purge(runner: Runner, request: { before: number; limit: number }): Promise<number>;
}

/** The audit log. Entries are added and, after their retention, deleted; they are never updated. */
export function auditOperations(sql: Sql): AuditOperations {
  const { s } = sql;
  const add = sql.statement(
    "audit_add",
    `WITH ${NOW} INSERT INTO ${s}.audit (id, at, actor, action, target, count, detail, keep_until)
     SELECT e.id, now, e.actor, e.action, e.target, e.count, e.detail, now + e.keep_ms
     FROM t, ${rowsOf("$2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::bigint[]")}
       AS e (id, actor, action, target, count, detail, keep_ms) ON CONFLICT (id) DO NOTHING`,
  );
  const listing = (name: string, condition: string, order: string): Statement =>
    sql.statement(
      `audit_${name}`,
      `SELECT a.id::text, a.at::float8, actor, action, target, count::float8, detail FROM ${s}.audit a
       WHERE a.at >= $1::bigint AND (a.at, a.id) < ($2::bigint, $3::uuid) ${condition}
       ORDER BY a.at DESC ${order}, a.id DESC ${order} LIMIT $4`,
    );
  const all = listing("all", "", "");
  const some = {
    actor: listing("actor", "AND actor = $5", "NULLS LAST"),
    action: listing("action", "AND action = $5", "NULLS LAST"),
    both: listing("both", "AND actor = $5 AND action = $6", "NULLS LAST"),
  };
  // Row-level security may hide rows: see access-sql.ts. Rows are not locked first, because that needs more privileges.
  const purge = sql.statement(
    "audit_purge",
    `WITH gone AS (
       DELETE FROM ${s}.audit WHERE id = ANY (ARRAY(
         SELECT id FROM ${s}.audit WHERE at < $1::bigint ORDER BY at, id LIMIT $2)) RETURNING 1
     )
     SELECT pg_catalog.count(*)::float8 FROM gone`,
  );

  function listingFor({ actor, action }: AuditFilter): Statement {
    if (actor === undefined) return action === undefined ? all : some.action;
    return action === undefined ? some.actor : some.both;
  }

  return {
    async append(runner, entries, now) {
      await runner.run(add, [
        now,
        entries.map(({ id }) => id),
        entries.map(({ actor }) => actor),
        entries.map(({ action }) => action),
        entries.map(({ target }) => target),
        entries.map(({ count }) => count),
        entries.map(({ detail }) => detail),
        entries.map(({ keepMs }) => keepMs),
      ]);
    },
    async list(runner, filter, { limit, cursor }) {
      const { from, below } = auditWindow(filter, cursor);
      const given = [filter.actor, filter.action].filter((value) => value !== undefined);
      const rows = await runner.run(listingFor(filter), [from, below.at, below.id, limit + 1, ...given]);
      const entries = rows.slice(0, limit).map(readEntry);
      const last = entries.at(-1);
      return { entries, cursor: rows.length > limit && last !== undefined ? auditCursor(last) : null };
    },
    async purge(runner, { before, limit }) {
      const [row] = await runner.run(purge, [before, limit]);
      return (row?.[0] as number | undefined) ?? 0;
    },
  };
}

function readEntry([id, at, actor, action, target, count, detail]: Row): StoredAuditEntry {
  return {
    id: id as string,
    at: at as number,
    actor: actor as string,
    action: action as string,
    target: target as string | null,
    count: count as number,
    detail: detail as string | null,
  };
}
