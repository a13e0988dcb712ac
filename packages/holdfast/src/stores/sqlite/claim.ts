import type { Database, Statement } from "better-sqlite3";
import { attemptsUsed, countClaim, STALE_ERROR, type State } from "../../state.js";
import type { ClaimedJob, ClaimRequest } from "../../store.js";
import type { Counts } from "./counts.js";
import type { History } from "./history.js";
import { readTagText } from "./insert.js";
import type { Lane, Lanes } from "./lanes.js";

interface DueRow {
  seq: number;
  id: string;
  fence: number;
  type: string;
  queue: string;
  priority: number;
  user: string | null;
  input: string | null;
  attempt: number;
  max_attempts: number;
  losses: number;
  releases: number;
  run_at: number;
  expires_at: number | null;
  created_at: number;
  cancel_at: number | null;
  error: string | null;
  error_code: string | null;
  error_at: number | null;
  tags: string | null;
  state: State;
  worker: string | null;
  claimed_at: number | null;
  started_at: number | null;
}

/** A claimed job on its way between threads: an array of values is copied at half the cost of an object. */
export type ClaimedRow = readonly [
  id: string,
  fence: number,
  type: string,
  queue: string,
  priority: number,
  user: string | null,
  input: string,
  attempt: number,
  maxAttempts: number,
  losses: number,
  releases: number,
  runAt: number,
  expiresAt: number | null,
  createdAt: number,
  cancelRequested: boolean,
  error: string | null,
  errorCode: string | null,
  errorAt: number | null,
  tags: string | null,
  previousState: State,
  previousAttempt: number,
  exhausted: boolean,
];

const COLUMNS = `seq, id, fence, type, queue, priority, user, input, attempt, max_attempts, losses, releases, run_at,
  expires_at, created_at, cancel_at, error, error_code, error_at, tags, state, worker, claimed_at, started_at`;

export interface ClaimOperation {
  claim(request: ClaimRequest, now: number): ClaimedRow[];
  /** The first due time still to come. */
  nextDueAt(request: ClaimRequest, now: number): number | null;
  /** Whether a claim would find anything; costs no write lock. */
  anythingDue(request: ClaimRequest, now: number): boolean;
}

/**
 * claim: walks the open lanes from the highest priority down and takes what is due, oldest due time first. Filters on
 * queue, priority and due time and on nothing else; what must not run is taken too, and laid down by the engine.
 */
export function claimOperation(db: Database, counts: Counts, lanes: Lanes, history: History): ClaimOperation {
  const dueRows = db.prepare(
    `SELECT ${COLUMNS} FROM holdfast_jobs
     WHERE queue = ? AND priority = ? AND due_at <= ? ORDER BY due_at, seq LIMIT ?`,
  );
  const dueOrder = db.prepare(
    `SELECT due_at, seq FROM holdfast_jobs
     WHERE queue = ? AND priority = ? AND due_at <= ? ORDER BY due_at, seq LIMIT ?`,
  );
  const nextDue = db
    .prepare("SELECT due_at FROM holdfast_jobs WHERE queue = ? AND priority = ? AND due_at > ? ORDER BY due_at LIMIT 1")
    .pluck();
  const rowBySeq = db.prepare(`SELECT ${COLUMNS} FROM holdfast_jobs WHERE seq = ?`);
  const largeInput = db.prepare("SELECT input FROM holdfast_inputs WHERE job = ?").pluck();
  const lease = db.prepare(
    `UPDATE holdfast_jobs SET state = 'claimed', fence = ?, attempt = ?, losses = ?, due_at = ?, claimed_at = ?,
       started_at = NULL, worker = ?, updated_at = ? WHERE seq = ?`,
  );
  const setStale = db.prepare("UPDATE holdfast_jobs SET error = ?, error_code = ?, error_at = ? WHERE seq = ?");
  let dueOfType: Statement | undefined;

  /** Made when first asked for: an index that every job would pay for, and most installations never use. */
  function typeStatement(): Statement {
    if (dueOfType === undefined) {
      db.exec(
        "CREATE INDEX IF NOT EXISTS holdfast_jobs_due_type ON holdfast_jobs (queue, type, priority, due_at) WHERE due_at IS NOT NULL",
      );
      dueOfType = db.prepare(
        `SELECT due_at, seq FROM holdfast_jobs
         WHERE queue = ? AND type = ? AND priority = ? AND due_at <= ? ORDER BY due_at, seq LIMIT ?`,
      );
    }
    return dueOfType;
  }

  /** Due rows of lanes of one priority, in order. Several sources are merged on their order alone, then read. */
  function rowsOf(level: readonly Lane[], types: readonly string[] | null, now: number, limit: number): DueRow[] {
    const [only] = level;
    if (level.length === 1 && only !== undefined && types === null) {
      return dueRows.all(only.queue, only.priority, now, limit) as DueRow[];
    }
    const order: { due_at: number; seq: number }[] = [];
    for (const { queue, priority } of level) {
      if (types === null) order.push(...(dueOrder.all(queue, priority, now, limit) as typeof order));
      else {
        const ofType = typeStatement();
        for (const type of types) order.push(...(ofType.all(queue, type, priority, now, limit) as typeof order));
      }
    }
    order.sort((a, b) => a.due_at - b.due_at || a.seq - b.seq);
    return order.slice(0, limit).map(({ seq }) => rowBySeq.get(seq) as DueRow);
  }

  function take(row: DueRow, input: string, request: ClaimRequest, now: number): ClaimedRow {
    const before = { state: row.state, attempt: row.attempt, maxAttempts: row.max_attempts, losses: row.losses };
    const count = countClaim(before);
    const fence = row.fence + 1;
    lease.run(fence, count.attempt, count.losses, now + request.leaseMs, now, request.worker, now, row.seq);
    counts.move(row.queue, row.type, row.state, "claimed");
    if (count.lost) {
      setStale.run(STALE_ERROR.message, STALE_ERROR.code, now, row.seq);
      history.appendAttempt(row.seq, lostAttempt(row, now));
    }
    return [
      row.id,
      fence,
      row.type,
      row.queue,
      row.priority,
      row.user,
      input,
      count.attempt,
      row.max_attempts,
      count.losses,
      row.releases,
      row.run_at,
      row.expires_at,
      row.created_at,
      row.cancel_at !== null,
      row.error,
      row.error_code,
      row.error_at,
      row.tags,
      row.state,
      attemptsUsed(before),
      count.exhausted,
    ];
  }

  return {
    nextDueAt(request, now) {
      let next: number | null = null;
      for (const { queue, priority } of lanes.open(request.queues)) {
        const due = nextDue.get(queue, priority, now) as number | undefined;
        if (due !== undefined && (next === null || due < next)) next = due;
      }
      return next;
    },
    anythingDue(request, now) {
      if (request.types !== null && dueOfType === undefined) return true;
      return lanes.open(request.queues).some((lane) => rowsOf([lane], request.types, now, 1).length > 0);
    },
    claim(request, now) {
      const claimed: ClaimedRow[] = [];
      let bytes = 0;
      for (const level of byPriority(lanes.open(request.queues))) {
        for (const row of rowsOf(level, request.types, now, request.limit - claimed.length)) {
          const input = row.input ?? (largeInput.get(row.seq) as string);
          bytes += input.length;
          if (bytes > request.bytes && claimed.length > 0) return claimed;
          claimed.push(take(row, input, request, now));
        }
        if (claimed.length >= request.limit) break;
      }
      return claimed;
    },
  };
}

export function lostAttempt(
  row: { attempt: number; worker: string | null; claimed_at: number | null; started_at: number | null },
  now: number,
): Parameters<History["appendAttempt"]>[1] {
  return {
    attempt: row.attempt,
    worker: row.worker,
    claimedAt: row.claimed_at,
    startedAt: row.started_at,
    endedAt: now,
    error: { ...STALE_ERROR, stack: null },
  };
}

/** Lanes come highest priority first; lanes of one priority form a level. */
function byPriority(lanes: readonly Lane[]): Lane[][] {
  const levels: Lane[][] = [];
  for (const lane of lanes) {
    const level = levels.at(-1);
    if (level !== undefined && level[0]?.priority === lane.priority) level.push(lane);
    else levels.push([lane]);
  }
  return levels;
}

export function readClaimed(row: ClaimedRow): ClaimedJob {
  const [
    id,
    fence,
    type,
    queue,
    priority,
    user,
    input,
    attempt,
    maxAttempts,
    losses,
    releases,
    runAt,
    expiresAt,
    createdAt,
    cancelRequested,
    error,
    errorCode,
    errorAt,
    tags,
    state,
    previousAttempt,
    exhausted,
  ] = row;
  return {
    id,
    fence,
    type,
    queue,
    priority,
    user,
    input,
    attempt,
    maxAttempts,
    losses,
    releases,
    runAt,
    expiresAt,
    createdAt,
    cancelRequested,
    error: error === null ? null : { message: error, code: errorCode, at: errorAt ?? 0 },
    tags: tags === null ? NO_TAGS : readTagText(tags),
    previous: { state, attempt: previousAttempt, exhausted },
  };
}
const NO_TAGS: readonly string[] = [];
