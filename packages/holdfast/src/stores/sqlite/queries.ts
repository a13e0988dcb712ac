import type { Database } from "better-sqlite3";
import { isFinished, STATE_NAMES, type State } from "../../state.js";
import type { FinishedState } from "../../state.js";
import type { JobFilter, JobPage, Scope, SeenWorker, StoredJob, StoreStats, WorkerRecord } from "../../store.js";
import type { History } from "./history.js";
import { readTagText } from "./insert.js";
import type { Lanes } from "./lanes.js";

interface RecordRow {
  seq: number;
  id: string;
  type: string;
  queue: string;
  state: State;
  priority: number;
  user: string | null;
  input: string;
  output: string | null;
  error: string | null;
  error_code: string | null;
  error_at: number | null;
  attempt: number;
  max_attempts: number;
  losses: number;
  releases: number;
  fence: number;
  run_at: number;
  due_at: number | null;
  expires_at: number | null;
  created_at: number;
  updated_at: number;
  claimed_at: number | null;
  started_at: number | null;
  finished_at: number | null;
  cancel_at: number | null;
  worker: string | null;
  key: string | null;
  tags: string | null;
  schedule: string | null;
  slot: number | null;
  trace: string | null;
  progress: number | null;
  progress_note: string | null;
}

const RECORD = `SELECT j.*, coalesce(j.input, i.input) AS input FROM holdfast_jobs j LEFT JOIN holdfast_inputs i ON i.job = j.seq`;

export interface QueryOperations {
  get(id: string, scope: Scope): StoredJob | null;
  list(filter: JobFilter, page: { limit: number; cursor: string | null }): JobPage;
  stats(now: number): StoreStats;
  beat(worker: WorkerRecord, now: number): void;
  leave(id: string, now: number): void;
  workers(now: number): SeenWorker[];
}

// More types and states than this are read in one go after all.
const MOST_PARTS = 100;
// Long enough to tell that a type was listed by someone in the last ten minutes.
const WORKERS_KEPT_MS = 3_600_000;

export function queryOperations(db: Database, lanes: Lanes, history: History): QueryOperations {
  const byId = db.prepare(`${RECORD} WHERE j.id = ?`);
  const allCounts = db.prepare(
    "SELECT queue, type, state, n AS count FROM holdfast_counts WHERE n > 0 ORDER BY queue, type, state",
  );
  const oldestDue = db
    .prepare(
      `SELECT due_at FROM holdfast_jobs WHERE queue = ? AND priority = ? AND due_at <= ? AND state IN ('pending', 'failed')
       ORDER BY due_at LIMIT 1`,
    )
    .pluck();
  const pace = db.prepare(
    "SELECT state, sum(n) AS n FROM holdfast_pace WHERE second > ? AND second <= ? GROUP BY state",
  );
  // A step from type to type along the index: each costs one look, however many jobs there are of it.
  const finishedTypes = db
    .prepare(
      `WITH RECURSIVE known (type) AS (
         SELECT min(type) FROM holdfast_jobs WHERE due_at IS NULL
         UNION ALL
         SELECT (SELECT min(type) FROM holdfast_jobs WHERE due_at IS NULL AND type > known.type) FROM known
         WHERE known.type IS NOT NULL
       ) SELECT type FROM known WHERE type IS NOT NULL LIMIT ?`,
    )
    .pluck();
  const beat = db.prepare(
    `INSERT INTO holdfast_workers (id, record, seen_at, gone) VALUES (?, ?, ?, 0)
     ON CONFLICT DO UPDATE SET record = excluded.record, seen_at = excluded.seen_at, gone = 0`,
  );
  const leave = db.prepare("UPDATE holdfast_workers SET gone = 1, seen_at = ? WHERE id = ?");
  const forgetWorkers = db.prepare("DELETE FROM holdfast_workers WHERE seen_at < ?");
  const workers = db.prepare("SELECT record, seen_at, gone FROM holdfast_workers WHERE seen_at >= ? ORDER BY id");

  /**
   * Finished jobs lie in an index by type and state, in order. Asked for one of each, a page is read off it; asked for
   * all types at once, SQLite would sort every finished job for every page. Users and tags have indexes of their own.
   */
  function pagesOf(filter: JobFilter): JobFilter[] {
    const { states } = filter;
    if (states === undefined || !states.every((state) => isFinished(state))) return [filter];
    if (filter.user !== undefined || filter.tag !== undefined) return [filter];
    const types = filter.types ?? (finishedTypes.all(MOST_PARTS + 1) as string[]);
    if (types.length * states.length > MOST_PARTS) return [filter];
    return states.flatMap((state) => types.map((type) => ({ ...filter, states: [state], types: [type] })));
  }

  return {
    get(id, scope) {
      const row = byId.get(id) as RecordRow | undefined;
      if (row === undefined || (scope.user !== undefined && row.user !== scope.user)) return null;
      return readRecord(row, { attempts: history.attempts(row.seq), log: history.log(row.seq) });
    },
    list(filter, page) {
      const rows = pagesOf(filter)
        .flatMap((part) => {
          const { where, values } = conditions(part, page.cursor);
          return db
            .prepare(`${RECORD} ${where} ORDER BY j.seq DESC LIMIT ?`)
            .all(...values, page.limit + 1) as RecordRow[];
        })
        .toSorted((a, b) => b.seq - a.seq)
        .slice(0, page.limit + 1);
      const jobs = rows.slice(0, page.limit).map((row) => readRecord(row, { attempts: [], log: [] }));
      return { jobs, cursor: rows.length > page.limit ? String(rows[page.limit - 1]?.seq) : null };
    },
    stats(now) {
      const dues = lanes
        .open(null)
        .map((lane) => oldestDue.get(lane.queue, lane.priority, now) as number | undefined)
        .filter((due) => due !== undefined);
      const lastMinute: Record<FinishedState, number> = { completed: 0, dead: 0, cancelled: 0 };
      const second = Math.floor(now / 1000);
      for (const row of pace.all(second - 60, second) as { state: FinishedState; n: number }[])
        lastMinute[row.state] = row.n;
      return {
        counts: allCounts.all() as StoreStats["counts"],
        oldestDueMs: dues.length === 0 ? null : now - Math.min(...dues),
        lastMinute,
      };
    },
    beat(worker, now) {
      beat.run(worker.id, JSON.stringify(worker), now);
      forgetWorkers.run(now - WORKERS_KEPT_MS);
    },
    leave: (id, now) => void leave.run(now, id),
    workers: (now) =>
      (workers.all(now - WORKERS_KEPT_MS) as { record: string; seen_at: number; gone: number }[]).map((row) => {
        const record = JSON.parse(row.record) as WorkerRecord;
        // A worker of the version before says nothing of schedules.
        const schedules = record.schedules ?? [];
        return { ...record, schedules, seenAt: row.seen_at, left: row.gone === 1 };
      }),
  };
}

/** The filter as SQL: only column names from here and bound values from the caller. */
function conditions(filter: JobFilter, cursor: string | null): { where: string; values: (string | number)[] } {
  const terms: string[] = [];
  const values: (string | number)[] = [];
  const oneOf = (column: string, allowed: readonly string[] | undefined): void => {
    if (allowed === undefined) return;
    terms.push(`j.${column} IN (${allowed.map(() => "?").join(", ")})`);
    values.push(...allowed);
  };
  oneOf("state", filter.states);
  oneOf("type", filter.types);
  oneOf("queue", filter.queues);
  // Says which of the partial indexes may serve the query.
  const states = filter.states ?? STATE_NAMES;
  if (states.every((state) => isFinished(state))) terms.push("j.due_at IS NULL");
  if (states.every((state) => !isFinished(state))) terms.push("j.due_at IS NOT NULL");
  const compare = (term: string, value: string | number | undefined | null): void => {
    if (value === undefined || value === null) return;
    terms.push(term);
    values.push(value);
  };
  compare("j.user = ?", filter.user);
  compare("j.seq IN (SELECT job FROM holdfast_tags WHERE tag = ?)", filter.tag);
  compare("j.schedule = ?", filter.schedule);
  compare("j.created_at >= ?", filter.createdAfter);
  compare("j.created_at < ?", filter.createdBefore);
  compare("j.seq < ?", cursor === null ? null : Number(cursor));
  return { where: terms.length === 0 ? "" : `WHERE ${terms.join(" AND ")}`, values };
}

function readRecord(row: RecordRow, beside: Pick<StoredJob, "attempts" | "log">): StoredJob {
  return {
    id: row.id,
    type: row.type,
    queue: row.queue,
    state: row.state,
    priority: row.priority,
    user: row.user,
    input: row.input,
    output: row.output,
    error: row.error === null ? null : { message: row.error, code: row.error_code, at: row.error_at ?? 0 },
    attempt: row.attempt,
    maxAttempts: row.max_attempts,
    losses: row.losses,
    releases: row.releases,
    fence: row.fence,
    runAt: row.run_at,
    dueAt: row.due_at,
    expiresAt: row.expires_at,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    claimedAt: row.claimed_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
    cancelRequestedAt: row.cancel_at,
    worker: row.worker,
    key: row.key,
    tags: readTagText(row.tags),
    schedule: row.schedule === null ? null : { name: row.schedule, slot: row.slot ?? 0 },
    trace: row.trace,
    progress: row.progress === null ? null : { fraction: row.progress, note: row.progress_note },
    ...beside,
  };
}
