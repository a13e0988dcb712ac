import { LIMITS } from "../../../defaults.js";
import type { FinishedState, State } from "../../../job/state.js";
import type {
  AttemptRecord,
  JobFilter,
  JobPage,
  PageRequest,
  Skipped,
  Scope,
  StoredWorker,
  StoredJob,
  StoreStats,
  HeartbeatResult,
  WorkerRecord,
} from "../../../store.js";
import { cursorAfter, pageOf } from "../../list-plan.js";
import type { Row, Runner, Statement } from "../connection/db.js";
import { isUuid, pageFinder, SKIPPING } from "./listing.js";
import { isUnpausedQueue } from "./live-lanes.js";
import { columnPositions } from "../../column-positions.js";
import { oldestDueOf } from "../../oldest-due.js";
import { readSettings } from "../../stored-values.js";
import { NOW, WAITING, type Sql } from "../connection/sql.js";

export interface QueryOperations {
  get(runner: Runner, id: string, scope: Scope): Promise<StoredJob | null>;
  /** Several statements, of one snapshot if the filter needs that. */
  list(runner: Runner, filter: JobFilter, page: PageRequest, now: number | null): Promise<JobPage>;
  skip(runner: Runner, filter: JobFilter, page: Omit<PageRequest, "payloads">, now: number | null): Promise<Skipped>;
  stats(runner: Runner, now: number | null): Promise<StoreStats>;
  heartbeat(runner: Runner, worker: WorkerRecord, now: number | null): Promise<HeartbeatResult>;
  drainWorker(runner: Runner, id: string, draining: boolean, now: number | null): Promise<boolean>;
  deregister(runner: Runner, id: string, now: number | null): Promise<void>;
  workers(runner: Runner, now: number | null): Promise<StoredWorker[]>;
}

// Long enough to know whether any worker listed a type in the last ten minutes.
const WORKERS_KEPT_MS = 3_600_000;

export function queryOperations(sql: Sql): QueryOperations {
  const { s } = sql;
  const input = `CASE WHEN j.input IS NULL THEN (SELECT i.input::text FROM ${s}.inputs i WHERE i.job = j.id) ELSE j.input::text END`;
  const columns = (live: boolean, payloads = true): string =>
    Object.values({
      ...COLUMNS,
      ...(live ? LIVE_COLUMNS : FINISHED_COLUMNS),
      ...(payloads ? { input } : { input: "'null'", output: "NULL" }),
    }).join(", ");
  const byId = sql.statement(
    "get",
    `SELECT ${columns(true)} FROM ${s}.live j WHERE id = $1::uuid AND ($2::text IS NULL OR user_id::text = $2)
     UNION ALL SELECT ${columns(false)} FROM ${s}.archive j WHERE id = $1::uuid AND ($2::text IS NULL OR user_id::text = $2)`,
  );
  const bySeq = (name: string, payloads: boolean): Statement =>
    sql.statement(
      name,
      `SELECT ${columns(true, payloads)} FROM ${s}.live j WHERE seq = ANY ($1::bigint[])
       UNION ALL SELECT ${columns(false, payloads)} FROM ${s}.archive j WHERE seq = ANY ($1::bigint[]) ORDER BY ${JOB.seq + 1} DESC`,
    );
  const full = bySeq("list", true);
  const bare = bySeq("list_bare", false);
  const byIds = (name: string, payloads: boolean): Statement =>
    sql.statement(
      name,
      `SELECT ${columns(true, payloads)} FROM ${s}.live j WHERE id = ANY ($1::uuid[])
       UNION ALL SELECT ${columns(false, payloads)} FROM ${s}.archive j WHERE id = ANY ($1::uuid[]) ORDER BY ${JOB.seq + 1} DESC`,
    );
  // Reads outputs one by one, and only until the limit is exceeded. A job that was deleted meanwhile has no size.
  const fitting = sql.statement(
    "list_fitting",
    `WITH RECURSIVE sizes AS (
       SELECT 0 AS n, 0::bigint AS before, 0::bigint AS bytes
       UNION ALL SELECT p.n + 1, p.bytes, p.bytes + coalesce(
         (SELECT j.input_bytes FROM ${s}.live j WHERE j.seq = ($1::bigint[])[p.n + 1]),
         (SELECT j.input_bytes + coalesce(pg_catalog.octet_length(j.output::text), 0) FROM ${s}.archive j WHERE j.seq = ($1::bigint[])[p.n + 1]), 0)
       FROM sizes p WHERE p.n < pg_catalog.cardinality($1::bigint[]) AND (p.bytes <= $2::bigint OR p.before = 0)
     ) SELECT pg_catalog.max(n) FROM sizes WHERE bytes <= $2::bigint OR before = 0`,
  );
  const fullByIds = byIds("list_ids", true);
  const bareByIds = byIds("list_bare_ids", false);
  const findPage = pageFinder(sql);
  const findToSkip = pageFinder(sql, SKIPPING);
  const attempts = sql.statement(
    "attempts",
    `SELECT record::text FROM (SELECT n, record FROM ${s}.attempts WHERE job = $1::uuid ORDER BY n DESC LIMIT ${LIMITS.attempts}) a ORDER BY n`,
  );
  const log = sql.statement(
    "read_log",
    `SELECT at::float8, line FROM (SELECT n, at, line FROM ${s}.log WHERE job = $1::uuid ORDER BY n DESC LIMIT ${LIMITS.logLines}) l ORDER BY n`,
  );
  // In one statement: pages that show the counts read them all the time.
  const stats = sql.statement(
    "stats",
    `WITH ${NOW}, oldest AS (
       SELECT l.queue, (SELECT now FROM t) - pg_catalog.min(d.due_at) AS n FROM ${s}.lanes l CROSS JOIN LATERAL (
         SELECT due_at FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at <= (SELECT now FROM t)
           AND j.state IN ${WAITING} ORDER BY due_at LIMIT 1) d WHERE ${isUnpausedQueue(s, "l.queue")}
       GROUP BY l.queue ORDER BY pg_catalog.min(d.due_at) LIMIT ${LIMITS.statsQueues}
     ), pace AS (
       SELECT state, pg_catalog.sum(n) AS n FROM ${s}.deltas WHERE ended AND at > (SELECT now FROM t) - 60000 AND at <= (SELECT now FROM t) GROUP BY state
     ), counted AS (
       SELECT queue, type, state, pg_catalog.sum(n) AS n FROM (SELECT queue, type, state, n FROM ${s}.counts UNION ALL SELECT queue, type, state, n FROM ${s}.deltas) c
       GROUP BY queue, type, state HAVING pg_catalog.sum(n) > 0
     )
     SELECT 'count', queue, type, state, n::float8 FROM counted
     UNION ALL SELECT 'due', queue, NULL, NULL, n::float8 FROM oldest
     UNION ALL SELECT 'pace', NULL, NULL, state, n::float8 FROM pace
     ORDER BY 1, 2, 3, 4`,
  );
  const heartbeat = sql.statement(
    "heartbeat",
    `WITH ${NOW}, old AS (DELETE FROM ${s}.workers WHERE seen_at < (SELECT now FROM t) - ${WORKERS_KEPT_MS} AND id <> $2)
     INSERT INTO ${s}.workers (id, record, seen_at, gone) SELECT $2, $3::json, now, false FROM t
     ON CONFLICT (id) DO UPDATE SET record = excluded.record, seen_at = excluded.seen_at, gone = false RETURNING draining`,
  );
  const drain = sql.statement(
    "drain_worker",
    `WITH ${NOW} UPDATE ${s}.workers SET draining = $3 WHERE id = $2 AND NOT gone AND seen_at >= (SELECT now FROM t) - ${WORKERS_KEPT_MS} RETURNING 1`,
  );
  const deregister = sql.statement(
    "deregister",
    `WITH ${NOW} UPDATE ${s}.workers SET gone = true, seen_at = (SELECT now FROM t) WHERE id = $2`,
  );
  const workers = sql.statement(
    "workers",
    `WITH ${NOW} SELECT record::text, seen_at::float8, gone, draining FROM ${s}.workers WHERE seen_at >= (SELECT now FROM t) - ${WORKERS_KEPT_MS} ORDER BY id COLLATE "C"`,
  );

  return {
    async get(runner, id, { user }) {
      const [row] = await runner.run(byId, [id, user ?? null]);
      if (row === undefined) return null;
      const history = (await runner.run(attempts, [id])).map(([text]) => JSON.parse(text as string) as AttemptRecord);
      const lines = (await runner.run(log, [id])).map(([at, line]) => ({ at: at as number, line: line as string }));
      return readRecord(row, { attempts: history, log: lines });
    },
    async list(runner, filter, page, now) {
      const { limit, payloads = true, order, bytes } = page;
      if (isByIds(filter, page)) {
        const valid = filter.ids?.filter((id) => isUuid.test(id)) ?? [];
        const rows = valid.length === 0 ? [] : await runner.run(payloads ? fullByIds : bareByIds, [valid]);
        return pageOfRows(order === "oldest" ? rows.toReversed() : rows, null);
      }
      const found = await findPage(runner, filter, page, now);
      let { passed, cursor: next } = pageOf(found, limit);
      if (payloads && bytes !== undefined && passed > 1) {
        const [[fits] = []] = await runner.run(fitting, [found.seqs.slice(0, passed), bytes]);
        if ((fits as number) < passed) {
          passed = fits as number;
          next = cursorAfter(found.seqs[passed - 1] ?? 0);
        }
      }
      const shown = found.seqs.slice(0, passed);
      const rows = shown.length === 0 ? [] : await runner.run(payloads ? full : bare, [shown]);
      return pageOfRows(order === "oldest" ? rows.toReversed() : rows, next);
    },
    skip: async (runner, filter, page, now) => pageOf(await findToSkip(runner, filter, page, now), page.limit),
    async stats(runner, now) {
      const rows = (await runner.run(stats, [now])) as unknown as StatsRow[];
      const of = (kind: StatsRow[0]): StatsRow[] => rows.filter((row) => row[0] === kind);
      const due = of("due").map(([, queue, , , ms]) => [queue, ms] as const);
      const lastMinute: Record<FinishedState, number> = { completed: 0, dead: 0, cancelled: 0 };
      for (const [, , , state, n] of of("pace")) lastMinute[state as FinishedState] = n;
      const counts = of("count").map(([, queue, type, state, count]) => ({
        queue,
        type,
        state: state as State,
        count,
      }));
      return { counts, ...oldestDueOf(new Map(due)), lastMinute };
    },
    async heartbeat(runner, worker, now) {
      const [row] = await runner.run(heartbeat, [now, worker.id, JSON.stringify(worker)]);
      return { draining: row?.[0] === true };
    },
    drainWorker: async (runner, id, draining, now) => (await runner.run(drain, [now, id, draining])).length > 0,
    deregister: async (runner, id, now) => void (await runner.run(deregister, [now, id])),
    workers: async (runner, now) =>
      (await runner.run(workers, [now])).map(([record, seenAt, gone, draining]) => ({
        ...(JSON.parse(record as string) as WorkerRecord),
        seenAt: seenAt as number,
        left: gone as boolean,
        draining: draining as boolean,
      })),
  };
}

/** What a row of the stats is: a count, the oldest due job of a queue, or how many jobs ended in the last minute. */
type StatsRow = [kind: "count" | "due" | "pace", queue: string, type: string, state: string, n: number];

/** Whether statements of a list must see one snapshot: meanwhile, a job may no longer match. Without conditions, and by ids, it always does. */
export function needsSnapshot({ ids: _ids, ...others }: JobFilter): boolean {
  return Object.values(others).some((value) => value !== undefined);
}

/** Jobs that are asked for by nothing but their ids need no plan: one statement reads them. */
function isByIds(filter: JobFilter, { limit, cursor, bytes }: PageRequest): boolean {
  const isWhole = cursor === null && bytes === undefined;
  return filter.ids !== undefined && !needsSnapshot(filter) && isWhole && filter.ids.length <= limit;
}

/** The columns of a job, in order, with the SQL of each; the tables differ in the empty ones. */
const COLUMNS = {
  id: "j.id::text",
  type: "j.type",
  queue: "j.queue",
  state: "j.state",
  priority: "j.priority",
  user: "j.user_id::text",
  input: "",
  output: "",
  error: "j.error",
  errorCode: "j.error_code",
  errorAt: "j.error_at::float8",
  fingerprint: "j.fingerprint",
  attempt: "j.attempt",
  maxAttempts: "j.max_attempts",
  losses: "j.losses",
  releases: "j.releases",
  fence: "j.fence",
  runAt: "j.run_at::float8",
  dueAt: "",
  expiresAt: "j.expires_at::float8",
  createdAt: "j.created_at::float8",
  updatedAt: "j.updated_at::float8",
  claimedAt: "j.claimed_at::float8",
  startedAt: "j.started_at::float8",
  finishedAt: "",
  cancelRequestedAt: "j.cancel_at::float8",
  worker: "j.worker",
  key: "j.key",
  tags: "pg_catalog.array_to_json(j.tags)::text",
  schedule: "j.schedule",
  slot: "j.slot::float8",
  progress: "j.progress::float8",
  progressNote: "j.progress_note",
  progressData: "j.progress_data::text",
  seq: "j.seq::float8",
  trace: "j.trace",
  parent: "j.parent::text",
  settings: "j.settings::text",
};
const LIVE_COLUMNS: Partial<typeof COLUMNS> = {
  output: "NULL",
  dueAt: "j.due_at::float8",
  finishedAt: "NULL::float8",
};
const FINISHED_COLUMNS: Partial<typeof COLUMNS> = {
  output: "j.output::text",
  dueAt: "NULL::float8",
  finishedAt: "j.finished_at::float8",
};
const JOB = columnPositions(COLUMNS);

function pageOfRows(rows: readonly Row[], cursor: string | null): JobPage {
  return {
    jobs: rows.map((row) => readRecord(row, { attempts: [], log: [] })),
    cursors: rows.map((row) => cursorAfter(row[JOB.seq] as number)),
    cursor,
  };
}

function readRecord(row: Row, details: Pick<StoredJob, "attempts" | "log">): StoredJob {
  const error = row[JOB.error] as string | null;
  const tags = row[JOB.tags] as string | null;
  const schedule = row[JOB.schedule] as string | null;
  const progress = row[JOB.progress] as number | null;
  return {
    id: row[JOB.id] as string,
    type: row[JOB.type] as string,
    queue: row[JOB.queue] as string,
    state: row[JOB.state] as State,
    priority: row[JOB.priority] as number,
    user: row[JOB.user] as string | null,
    input: (row[JOB.input] as string | null) ?? "",
    output: row[JOB.output] as string | null,
    error:
      error === null
        ? null
        : {
            message: error,
            code: row[JOB.errorCode] as string | null,
            at: (row[JOB.errorAt] as number | null) ?? 0,
            fingerprint: row[JOB.fingerprint] as string | null,
          },
    attempt: row[JOB.attempt] as number,
    maxAttempts: row[JOB.maxAttempts] as number,
    losses: row[JOB.losses] as number,
    releases: row[JOB.releases] as number,
    fence: row[JOB.fence] as number,
    runAt: row[JOB.runAt] as number,
    dueAt: row[JOB.dueAt] as number | null,
    expiresAt: row[JOB.expiresAt] as number | null,
    createdAt: row[JOB.createdAt] as number,
    updatedAt: row[JOB.updatedAt] as number,
    claimedAt: row[JOB.claimedAt] as number | null,
    startedAt: row[JOB.startedAt] as number | null,
    finishedAt: row[JOB.finishedAt] as number | null,
    cancelRequestedAt: row[JOB.cancelRequestedAt] as number | null,
    worker: row[JOB.worker] as string | null,
    key: row[JOB.key] as string | null,
    tags: tags === null ? [] : (JSON.parse(tags) as string[]),
    schedule: schedule === null ? null : { name: schedule, slot: row[JOB.slot] as number },
    parent: row[JOB.parent] as string | null,
    settings: readSettings(row[JOB.settings] as string | null),
    trace: row[JOB.trace] as string | null,
    progress:
      progress === null
        ? null
        : {
            fraction: progress,
            note: row[JOB.progressNote] as string | null,
            data: row[JOB.progressData] as string | null,
          },
    ...details,
  };
}
