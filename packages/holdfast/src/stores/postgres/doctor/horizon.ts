import { type Runner, unnamed } from "../connection/db.js";
import { bytes, countOf, levelOf, ok, time, worstOf, type Finding } from "./finding.js";

// An old snapshot keeps vacuum from removing newer dead rows, in every table, and claims have to scan over them. Its
// age is measured in time and in transactions, which shows how many dead rows may have accumulated.
const OPEN_MS = { warning: 60_000, problem: 900_000 };
const BEHIND = { warning: 10_000, problem: 10_000_000 };
const WAL_BYTES = { warning: 1_073_741_824, problem: 10_737_418_240 };

export interface OpenTransaction {
  pid: number;
  role: string | null;
  application: string;
  state: string | null;
  query: string;
  /** Null: not visible to this role. */
  openMs: number | null;
  /** Transactions that started after its snapshot; null if it has none yet. */
  behind: number | null;
}

/** The transaction with the oldest snapshot, and the one that is open longest. */
export async function checkTransactions(runner: Runner): Promise<Finding[]> {
  const text = `SELECT pid, usename::text, application_name, state, pg_catalog.left(pg_catalog.regexp_replace(query, '\\s+', ' ', 'g'), 80),
      (extract(epoch FROM pg_catalog.clock_timestamp() - xact_start) * 1000)::float8, pg_catalog.age(backend_xmin)::float8
    FROM pg_catalog.pg_stat_activity WHERE pid <> pg_catalog.pg_backend_pid() AND datname = pg_catalog.current_database()
      AND coalesce(backend_type, 'client backend') = 'client backend' AND (xact_start IS NOT NULL OR backend_xmin IS NOT NULL)`;
  const rows = (await runner.run(unnamed(text), [])) as unknown as [
    number,
    string | null,
    string,
    string | null,
    string,
    number | null,
    number | null,
  ][];
  const open = rows.map(([pid, role, application, state, query, openMs, behind]) => ({
    pid,
    role,
    application,
    state,
    query,
    openMs,
    behind,
  }));
  return judgeTransactions(open);
}

export function judgeTransactions(open: readonly OpenTransaction[]): Finding[] {
  const furthest = open.toSorted((a, b) => (b.behind ?? 0) - (a.behind ?? 0))[0];
  const longest = open.toSorted((a, b) => (b.openMs ?? 0) - (a.openMs ?? 0))[0];
  if (furthest === undefined || longest === undefined) return [ok("open transactions", "no other transaction is open")];
  return [...new Set([furthest, longest])].map(judgeTransaction).filter(
    // If both are fine, report one of them.
    ({ level }, at, all) => level !== "ok" || (at === 0 && all.every((each) => each.level === "ok")),
  );
}

function judgeTransaction({ pid, role, application, state, query, openMs, behind }: OpenTransaction): Finding {
  const level = worstOf(levelOf(openMs ?? 0, OPEN_MS), levelOf(behind ?? 0, BEHIND));
  const who = `pid ${pid} (${[application, role].filter(Boolean).join(", ")}${state === null ? "" : `, ${state}`})`;
  const since = openMs === null ? "for an unknown time" : `for ${time(openMs)}`;
  const held = behind === null ? "" : ` and holds vacuum back by ${countOf(behind, "transaction")}`;
  const found = `${who} has had a transaction open ${since}${held}: ${query}`;
  const advice = `End it in its program, or with SELECT pg_terminate_backend(${pid}). To prevent it, set idle_in_transaction_session_timeout.`;
  return { check: "open transactions", level, found, advice: level === "ok" ? null : advice };
}

export async function checkPrepared(runner: Runner): Promise<Finding[]> {
  const text = `SELECT gid, (extract(epoch FROM pg_catalog.clock_timestamp() - prepared) * 1000)::float8, pg_catalog.age(transaction)::float8
    FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database() ORDER BY prepared`;
  const rows = (await runner.run(unnamed(text), [])) as unknown as [string, number, number][];
  return judgePrepared(rows.map(([name, openMs, behind]) => ({ name, openMs, behind })));
}

export function judgePrepared(prepared: readonly { name: string; openMs: number; behind: number }[]): Finding[] {
  const late = prepared.filter(({ openMs, behind }) => openMs >= OPEN_MS.warning || behind >= BEHIND.warning);
  if (late.length === 0)
    return [
      ok("prepared transactions", countOf(prepared.length, "is prepared, not for long", "are prepared, none for long")),
    ];
  return late.map(({ name, openMs, behind }) => ({
    check: "prepared transactions",
    level: worstOf(levelOf(openMs, OPEN_MS), levelOf(behind, BEHIND)),
    found: `the prepared transaction '${name}' has waited for ${time(openMs)} and holds vacuum back by ${countOf(behind, "transaction")}`,
    advice: `Let its coordinator finish it; if that no longer exists, run ROLLBACK PREPARED '${name}'.`,
  }));
}

export interface Slot {
  name: string;
  active: boolean;
  /** `reserved`, `extended`, `unreserved` or `lost`. */
  walStatus: string | null;
  retained: number;
  /** Transactions since the oldest rows or catalog rows that it needs. */
  behind: number;
}

export async function checkSlots(runner: Runner): Promise<Finding[]> {
  // A standby has no current WAL position: pg_current_wal_lsn() fails there.
  const text = `SELECT slot_name::text, active, wal_status,
      coalesce(pg_catalog.pg_wal_lsn_diff(CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END, restart_lsn), 0)::float8,
      greatest(coalesce(pg_catalog.age(xmin), 0), coalesce(pg_catalog.age(catalog_xmin), 0))::float8
    FROM pg_catalog.pg_replication_slots ORDER BY 1`;
  const rows = (await runner.run(unnamed(text), [])) as unknown as [string, boolean, string | null, number, number][];
  return judgeSlots(
    rows.map(([name, active, walStatus, retained, behind]) => ({ name, active, walStatus, retained, behind })),
  );
}

export function judgeSlots(slots: readonly Slot[]): Finding[] {
  const findings = slots.map((slot): Finding => {
    const { name, active, walStatus, retained, behind } = slot;
    const level = worstOf(
      active ? "ok" : "warning",
      walStatus === "lost" || walStatus === "unreserved" ? "problem" : "ok",
      levelOf(retained, WAL_BYTES),
      levelOf(behind, { ...BEHIND, warning: BEHIND.warning * 100 }),
    );
    const found = `the replication slot ${name} ${active ? "is in use" : "is not in use"}, keeps ${bytes(retained)} of WAL and holds vacuum back by ${countOf(behind, "transaction")}`;
    const advice = `Start its consumer; if that no longer exists, run SELECT pg_drop_replication_slot('${name}'). Otherwise the disk fills up.`;
    return { check: "replication slots", level, found, advice: level === "ok" ? null : advice };
  });
  return findings.length > 0 ? findings : [ok("replication slots", "none")];
}
