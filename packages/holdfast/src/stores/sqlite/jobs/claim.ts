import type { Database, Statement } from "better-sqlite3";
import { STALE_FINGERPRINT } from "../../../job/fingerprint.js";
import { attemptsUsed, countClaim, STALE_ERROR, type State } from "../../../job/state.js";
import { PARKED_AT } from "../../../job/stored-step.js";
import type { ClaimedJob, ClaimRequest } from "../../../store.js";
import { columnPositions, type RowOf } from "../../column-positions.js";
import { readSettings } from "../../stored-values.js";
import { fromColumns, toColumns, type Columns } from "../thread/columns.js";
import type { Counts } from "./counts.js";
import type { History } from "./history.js";
import { readTagText } from "./insert.js";
import type { Lane, Lanes, LiveLane } from "./lanes.js";
import type { LeaseCache } from "./lease-cache.js";

/** The values of a claimed row, in order. The SELECT list and the positions in a row derive from it. */
const CLAIMED = [
  "id",
  "fence",
  "type",
  "queue",
  "priority",
  "user",
  "input",
  "attempt",
  "max_attempts",
  "losses",
  "releases",
  "run_at",
  "expires_at",
  "created_at",
  "cancel_at",
  "error",
  "error_code",
  "error_at",
  "tags",
  "state",
  "seq",
  "schedule",
  "slot",
  "trace",
  "parent",
  "settings",
  // Added by the claim; everything before is a column of the table.
  "previous_attempt",
  "exhausted",
] as const;
const COLUMN = columnPositions(CLAIMED);
const SELECT_LIST = CLAIMED.slice(0, COLUMN.previous_attempt).join(", ");

interface ClaimedValues {
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
  /** The state before the claim. */
  state: State;
  seq: number;
  schedule: string | null;
  slot: number | null;
  trace: string | null;
  parent: string | null;
  settings: string | null;
  previous_attempt: number;
  exhausted: boolean;
}

/**
 * A due job as an array of columns. The claim changes it in place, and sends it to the caller's thread in this form: an array
 * of values is created and copied at half the cost of an object.
 */
export type ClaimedRow = RowOf<ClaimedValues, typeof CLAIMED>;

// Rows that a claim reads at a time.
const STEP = 125;

interface TypeStatements {
  order: Statement;
  rows: Statement;
}

export interface ClaimOperation {
  claim(request: ClaimRequest, now: number): Claimed;
  /** The result of a claim that would find nothing, else null. Takes no write lock. */
  emptyClaim(request: ClaimRequest, now: number): Claimed | null;
}

interface Claimed {
  rows: ClaimedRow[];
  /** When the next job becomes due, if the claim returned fewer jobs than its limit. */
  nextDueAt: number | null;
}

/** The index for claims by type. The first such claim creates it. */
export const TYPE_INDEX = "holdfast_jobs_due_type";

/**
 * claim: leases due jobs of lanes that are not paused, highest priority and earliest due time first. It filters by queue, type,
 * priority and due time only. Jobs that must not run are claimed too, and the engine rejects them without running.
 */
export function claimOperation(
  db: Database,
  counts: Counts,
  lanes: Lanes,
  history: History,
  leased: LeaseCache,
): ClaimOperation {
  const dueRows = db
    .prepare(
      `SELECT ${SELECT_LIST} FROM holdfast_jobs
     WHERE queue = ? AND priority = ? AND due_at <= ? ORDER BY due_at, seq LIMIT ?`,
    )
    .raw();
  const dueOrder = db.prepare(
    `SELECT due_at, seq FROM holdfast_jobs
     WHERE queue = ? AND priority = ? AND due_at <= ? ORDER BY due_at, seq LIMIT ?`,
  );
  const nextDue = db
    .prepare("SELECT due_at FROM holdfast_jobs WHERE queue = ? AND priority = ? AND due_at > ? ORDER BY due_at LIMIT 1")
    .pluck();
  const rowBySeq = db.prepare(`SELECT ${SELECT_LIST} FROM holdfast_jobs WHERE seq = ?`).raw();
  const largeInput = db.prepare("SELECT input FROM holdfast_inputs WHERE job = ?").pluck();
  const lease = db.prepare(
    `UPDATE holdfast_jobs SET state = 'claimed', fence = ?, attempt = ?, losses = ?, due_at = ?, claimed_at = ?,
       started_at = NULL, worker = ?, updated_at = ? WHERE seq = ?`,
  );
  const lostLease = db.prepare("SELECT worker, claimed_at, started_at FROM holdfast_jobs WHERE seq = ?");
  let preparedByType: TypeStatements | undefined;

  /** Created on first use: every insert would pay for the index, and most installations never use it. */
  function typeStatements(): TypeStatements {
    // Every time, because a rollback removes the index again. It costs nothing if the index exists.
    db.exec(
      `CREATE INDEX IF NOT EXISTS ${TYPE_INDEX} ON holdfast_jobs (queue, type, priority, due_at) WHERE due_at IS NOT NULL`,
    );
    // INDEXED BY, because after an ANALYZE the planner prefers the other index and scans all jobs of other types.
    const due = (columns: string): Statement =>
      db.prepare(
        `SELECT ${columns} FROM holdfast_jobs INDEXED BY ${TYPE_INDEX}
         WHERE queue = ? AND type = ? AND priority = ? AND due_at <= ? ORDER BY due_at, seq LIMIT ?`,
      );
    preparedByType ??= { order: due("due_at, seq"), rows: due(SELECT_LIST).raw() };
    return preparedByType;
  }

  /** Due rows of lanes of one priority, in order. With several lanes or types, the order is merged before rows are read. */
  function rowsOf(level: readonly Lane[], types: readonly string[] | null, now: number, limit: number): ClaimedRow[] {
    const [only] = level;
    if (level.length === 1 && only !== undefined && (types === null || types.length === 1)) {
      if (types === null) return dueRows.all(only.queue, only.priority, now, limit) as ClaimedRow[];
      return typeStatements().rows.all(only.queue, types[0], only.priority, now, limit) as ClaimedRow[];
    }
    const order: { due_at: number; seq: number }[] = [];
    for (const { queue, priority } of level) {
      if (types === null) order.push(...(dueOrder.all(queue, priority, now, limit) as typeof order));
      else {
        const { order: dueOfType } = typeStatements();
        for (const type of types) order.push(...(dueOfType.all(queue, type, priority, now, limit) as typeof order));
      }
    }
    order.sort((a, b) => a.due_at - b.due_at || a.seq - b.seq);
    return order.slice(0, limit).map(({ seq }) => rowBySeq.get(seq) as ClaimedRow);
  }

  function claimRow(row: ClaimedRow, request: ClaimRequest, now: number): void {
    const seq = row[COLUMN.seq];
    const state = row[COLUMN.state];
    const attempt = row[COLUMN.attempt];
    const fence = row[COLUMN.fence] + 1;
    const before = { state, attempt, maxAttempts: row[COLUMN.max_attempts], losses: row[COLUMN.losses] };
    const count = countClaim(before);
    row[COLUMN.fence] = fence;
    row[COLUMN.attempt] = count.attempt;
    row[COLUMN.losses] = count.losses;
    row[COLUMN.previous_attempt] = attemptsUsed(before);
    row[COLUMN.exhausted] = count.exhausted;
    if (count.lost) recordExpiredLease(seq, { attempt, fence: fence - 1 }, now);
    lease.run(fence, count.attempt, count.losses, now + request.leaseMs, now, request.worker, now, seq);
    const queue = row[COLUMN.queue];
    const type = row[COLUMN.type];
    const id = row[COLUMN.id];
    counts.recordStateChange(id, queue, type, state, "claimed");
    leased.remember(id, {
      seq,
      fence,
      queue,
      type,
      state: "claimed",
      attempt: count.attempt,
      releases: row[COLUMN.releases],
      hasSettings: row[COLUMN.settings] !== null,
    });
  }

  /** The previous lease expired: its attempt goes into the history, with its worker. */
  function recordExpiredLease(seq: number, of: { attempt: number; fence: number }, now: number): void {
    const lost = lostLease.get(seq) as Omit<Parameters<typeof lostAttempt>[0], "attempt" | "fence">;
    history.appendAttempt(seq, lostAttempt({ ...of, ...lost }, now));
    history.setError(seq, { ...STALE_ERROR, fingerprint: STALE_FINGERPRINT }, now);
  }

  /** The first due time after now in these lanes. */
  function nextDueAt(lanes: readonly LiveLane[], now: number): number | null {
    let next: number | null = null;
    for (const { queue, priority, dueAt } of lanes) {
      const due = dueAt > now ? dueAt : (nextDue.get(queue, priority, now) as number | undefined);
      if (due !== undefined && due < PARKED_AT && (next === null || due < next)) next = due;
    }
    return next;
  }

  return {
    emptyClaim(request, now) {
      if (request.types !== null && preparedByType === undefined) return null;
      const unpaused = lanes.unpaused(request.queues);
      const due = unpaused.filter(({ dueAt }) => dueAt <= now);
      const found =
        request.types === null ? due.length > 0 : due.some((lane) => rowsOf([lane], request.types, now, 1).length > 0);
      return found ? null : { rows: [], nextDueAt: nextDueAt(unpaused, now) };
    },
    claim(request, now) {
      if (request.leaseMs <= 0) throw new RangeError("a lease must be longer than 0");
      const unpaused = lanes.unpaused(request.queues);
      const rows: ClaimedRow[] = [];
      let bytes = 0;
      for (const due of byPriority(unpaused.filter(({ dueAt }) => dueAt <= now))) {
        const level = request.types === null ? firstLanes(due, request.limit - rows.length) : due;
        // In steps: with large inputs only the first rows fit, and more would be read in vain. Claimed rows are no longer
        // due, so the next step finds the next rows.
        for (let found = STEP; found === STEP && rows.length < request.limit;) {
          const step = rowsOf(level, request.types, now, Math.min(STEP, request.limit - rows.length));
          found = step.length;
          for (const row of step) {
            const input = (row[COLUMN.input] ??= (largeInput.get(row[COLUMN.seq]) as string | undefined) ?? "");
            bytes += Buffer.byteLength(input);
            if (bytes > request.bytes && rows.length > 0) return { rows, nextDueAt: nextDueAt(unpaused, now) };
            claimRow(row, request, now);
            rows.push(row);
          }
        }
        if (rows.length >= request.limit) return { rows, nextDueAt: null };
      }
      return { rows, nextDueAt: nextDueAt(unpaused, now) };
    },
  };
}

export function lostAttempt(
  row: { attempt: number; fence: number; worker: string | null; claimed_at: number | null; started_at: number | null },
  now: number,
): Parameters<History["appendAttempt"]>[1] {
  return {
    attempt: row.attempt,
    fence: row.fence,
    end: "expired",
    worker: row.worker,
    claimedAt: row.claimed_at,
    startedAt: row.started_at,
    endedAt: now,
    error: { ...STALE_ERROR, stack: null },
  };
}

/** Groups lanes, which are sorted by priority, into one level per priority. */
function byPriority(lanes: readonly LiveLane[]): LiveLane[][] {
  const levels: LiveLane[][] = [];
  for (const lane of lanes) {
    const level = levels.at(-1);
    if (level !== undefined && level[0]?.priority === lane.priority) level.push(lane);
    else levels.push([lane]);
  }
  return levels;
}

/** The first `limit` jobs of a level are in the `limit` lanes whose first jobs are due first. */
function firstLanes(level: LiveLane[], limit: number): LiveLane[] {
  if (level.length <= limit) return level;
  return level.sort((a, b) => a.dueAt - b.dueAt || a.seq - b.seq).slice(0, limit);
}

const CLAIMED_POSITIONS = [...CLAIMED.keys()];

export function packClaimed(rows: readonly ClaimedRow[]): Columns {
  return toColumns(rows, CLAIMED_POSITIONS);
}

export function unpackClaimed(columns: Columns): ClaimedJob[] {
  return fromColumns(columns, (at) => {
    const error = at(COLUMN.error) as string | null;
    const tags = at(COLUMN.tags) as string | null;
    const schedule = at(COLUMN.schedule) as string | null;
    return {
      id: at(COLUMN.id) as string,
      fence: at(COLUMN.fence) as number,
      type: at(COLUMN.type) as string,
      queue: at(COLUMN.queue) as string,
      priority: at(COLUMN.priority) as number,
      user: at(COLUMN.user) as string | null,
      input: at(COLUMN.input) as string,
      attempt: at(COLUMN.attempt) as number,
      maxAttempts: at(COLUMN.max_attempts) as number,
      losses: at(COLUMN.losses) as number,
      releases: at(COLUMN.releases) as number,
      runAt: at(COLUMN.run_at) as number,
      expiresAt: at(COLUMN.expires_at) as number | null,
      createdAt: at(COLUMN.created_at) as number,
      cancelRequested: at(COLUMN.cancel_at) !== null,
      error:
        error === null
          ? null
          : { message: error, code: at(COLUMN.error_code) as string | null, at: at(COLUMN.error_at) as number },
      tags: tags === null ? NO_TAGS : readTagText(tags),
      schedule: schedule === null ? null : { name: schedule, slot: at(COLUMN.slot) as number },
      parent: at(COLUMN.parent) as string | null,
      settings: readSettings(at(COLUMN.settings) as string | null),
      trace: at(COLUMN.trace) as string | null,
      previous: {
        state: at(COLUMN.state) as State,
        attempt: at(COLUMN.previous_attempt) as number,
        exhausted: at(COLUMN.exhausted) as boolean,
      },
    };
  });
}
const NO_TAGS: readonly string[] = [];
