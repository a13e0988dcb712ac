import type { Database } from "better-sqlite3";
import { jsonBytes } from "../../../job/json.js";
import type { FinishedState, State } from "../../../job/state.js";
import type {
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
import type { History } from "./history.js";
import { readTagText } from "./insert.js";
import type { Lanes } from "./lanes.js";
import { pageFinder } from "./listing.js";
import { cursorAfter, pageOf } from "../../list-plan.js";
import { oldestDueOf } from "../../oldest-due.js";
import { readSettings } from "../../stored-values.js";

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
  fingerprint: string | null;
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
  parent: string | null;
  settings: string | null;
  progress: number | null;
  progress_note: string | null;
  progress_data: string | null;
}

const RECORD = `SELECT j.*, coalesce(j.input, i.input) AS input FROM holdfast_jobs j LEFT JOIN holdfast_inputs i ON i.job = j.seq`;
const BARE_RECORD = `SELECT seq, id, type, queue, state, priority, user, 'null' AS input, NULL AS output, error, error_code,
  error_at, fingerprint, attempt, max_attempts, losses, releases, fence, run_at, due_at, expires_at, created_at, updated_at, claimed_at,
  started_at, finished_at, cancel_at, worker, key, tags, schedule, slot, trace, parent, settings, progress, progress_note, progress_data
  FROM holdfast_jobs`;

export interface QueryOperations {
  get(id: string, scope: Scope): StoredJob | null;
  list(filter: JobFilter, page: PageRequest, now: number): JobPage;
  skip(filter: JobFilter, page: PageRequest, now: number): Skipped;
  stats(now: number): StoreStats;
  heartbeat(worker: WorkerRecord, now: number): HeartbeatResult;
  drainWorker(id: string, draining: boolean, now: number): boolean;
  deregister(id: string, now: number): void;
  workers(now: number): StoredWorker[];
}

// Long enough to find types that a worker has listed in the last ten minutes.
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
  const heartbeat = db.prepare(
    `INSERT INTO holdfast_workers (id, record, seen_at, gone) VALUES (?, ?, ?, 0)
     ON CONFLICT DO UPDATE SET record = excluded.record, seen_at = excluded.seen_at, gone = 0 RETURNING draining`,
  );
  const drain = db.prepare("UPDATE holdfast_workers SET draining = ? WHERE id = ? AND gone = 0 AND seen_at >= ?");
  const deregister = db.prepare("UPDATE holdfast_workers SET gone = 1, seen_at = ? WHERE id = ?");
  const forgetWorkers = db.prepare("DELETE FROM holdfast_workers WHERE seen_at < ?");
  const workers = db.prepare(
    "SELECT record, seen_at, gone, draining FROM holdfast_workers WHERE seen_at >= ? ORDER BY id",
  );

  const bySeq = db.prepare(`${RECORD} WHERE j.seq = ?`);
  const bareBySeq = db.prepare(`${BARE_RECORD} WHERE seq = ?`);
  const findPage = pageFinder(db, lanes);

  // In one snapshot: a write of another process between two statements must not hide a job.
  const list = db.transaction((filter: JobFilter, page: PageRequest, now: number): JobPage => {
    const { limit, payloads = true, bytes = Infinity } = page;
    const found = findPage(filter, page, now);
    const { passed, cursor: next } = pageOf(found, limit);
    const record = payloads ? bySeq : bareBySeq;
    const jobs: StoredJob[] = [];
    const cursors: string[] = [];
    let read = 0;
    for (const seq of found.seqs.slice(0, passed)) {
      const row = record.get(seq) as RecordRow;
      if (payloads && bytes < Infinity) read += jsonBytes(row.input) + jsonBytes(row.output ?? "");
      if (read > bytes && jobs.length > 0) return { jobs, cursors, cursor: cursors.at(-1) ?? null };
      jobs.push(readRecord(row, { attempts: [], log: [] }));
      cursors.push(cursorAfter(seq));
    }
    return { jobs, cursors, cursor: next };
  });
  const skip = db.transaction((filter: JobFilter, page: PageRequest, now: number): Skipped =>
    pageOf(findPage(filter, page, now), page.limit),
  );

  return {
    get(id, scope) {
      const row = byId.get(id) as RecordRow | undefined;
      if (row === undefined || (scope.user !== undefined && row.user !== scope.user)) return null;
      return readRecord(row, { attempts: history.attempts(row.seq), log: history.log(row.seq) });
    },
    list: (filter, page, now) => list(filter, page, now),
    skip: (filter, page, now) => skip(filter, page, now),
    stats(now) {
      const dueMs = new Map<string, number>();
      for (const { queue, priority, dueAt } of lanes.unpaused(null)) {
        const due = dueAt <= now ? (oldestDue.get(queue, priority, now) as number | undefined) : undefined;
        if (due !== undefined) dueMs.set(queue, Math.max(dueMs.get(queue) ?? 0, now - due));
      }
      const lastMinute: Record<FinishedState, number> = { completed: 0, dead: 0, cancelled: 0 };
      const second = Math.floor(now / 1000);
      for (const row of pace.all(second - 60, second) as { state: FinishedState; n: number }[])
        lastMinute[row.state] = row.n;
      return {
        counts: allCounts.all() as StoreStats["counts"],
        ...oldestDueOf(dueMs),
        lastMinute,
      };
    },
    heartbeat(worker, now) {
      const { draining } = heartbeat.get(worker.id, JSON.stringify(worker), now) as { draining: number };
      forgetWorkers.run(now - WORKERS_KEPT_MS);
      return { draining: draining === 1 };
    },
    drainWorker: (id, draining, now) => drain.run(draining ? 1 : 0, id, now - WORKERS_KEPT_MS).changes > 0,
    deregister: (id, now) => void deregister.run(now, id),
    workers: (now) =>
      (workers.all(now - WORKERS_KEPT_MS) as WorkerRow[]).map((row) => {
        const record = JSON.parse(row.record) as WorkerRecord;
        // Workers of earlier versions do not report schedules.
        const schedules = record.schedules ?? [];
        return { ...record, schedules, seenAt: row.seen_at, left: row.gone === 1, draining: row.draining === 1 };
      }),
  };
}

interface WorkerRow {
  record: string;
  seen_at: number;
  gone: number;
  draining: number;
}

function readRecord(row: RecordRow, history: Pick<StoredJob, "attempts" | "log">): StoredJob {
  return {
    id: row.id,
    type: row.type,
    queue: row.queue,
    state: row.state,
    priority: row.priority,
    user: row.user,
    input: row.input,
    output: row.output,
    error:
      row.error === null
        ? null
        : { message: row.error, code: row.error_code, at: row.error_at ?? 0, fingerprint: row.fingerprint },
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
    parent: row.parent,
    settings: readSettings(row.settings),
    trace: row.trace,
    progress:
      row.progress === null ? null : { fraction: row.progress, note: row.progress_note, data: row.progress_data },
    ...history,
  };
}
