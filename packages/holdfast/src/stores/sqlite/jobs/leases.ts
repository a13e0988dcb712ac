import type { Database } from "better-sqlite3";
import { isFinished, isLeased, settledBefore, type State } from "../../../job/state.js";
import { PARKED_AT, wakesOf } from "../../../job/stored-step.js";
import type { LeaseResult, LeaseRef, Note, Outcome, SettleResult, StartMark } from "../../../store.js";
import type { ChangeOperations } from "./changes.js";
import { columnPositions } from "../../column-positions.js";
import { fromColumns, toColumns, type Columns } from "../thread/columns.js";
import type { Counts } from "./counts.js";
import type { History } from "./history.js";
import type { CachedLease, LeaseCache } from "./lease-cache.js";
import { purgeTime } from "./purge-time.js";
import type { StepOperations } from "./steps.js";
import type { Waits } from "./waits.js";

interface LeaseRow {
  seq: number;
  state: State;
  fence: number;
  queue: string;
  type: string;
  cancel_at: number | null;
  settings: string | null;
  /** Set if an older process retried a finished job. */
  purge_at: number | null;
  ties: number | null;
}

export interface LeaseOperations {
  start(marks: readonly StartMark[], now: number): LeaseResult[];
  extend(leases: readonly LeaseRef[], leaseMs: number, now: number): LeaseResult[];
  settle(outcomes: readonly Outcome[], now: number): SettleResult[];
  isLeaseHeld(lease: LeaseRef): boolean;
  note(notes: readonly Note[], now: number): void;
}

/** start, extend, settle, note: the calls of a lease holder, each guarded by the fencing token. */
export function leaseOperations(
  db: Database,
  counts: Counts,
  history: History,
  leased: LeaseCache,
  changes: Pick<ChangeOperations, "deleteJob">,
  { steps, waits }: { steps: Pick<StepOperations, "reopen">; waits: Waits },
): LeaseOperations {
  const leaseRow = db.prepare(
    "SELECT seq, state, fence, queue, type, cancel_at, settings, purge_at, ties FROM holdfast_jobs WHERE id = ?",
  );
  const markRunning = db.prepare(
    "UPDATE holdfast_jobs SET state = 'running', started_at = ?, updated_at = ? WHERE seq = ?",
  );
  const setDueAt = db.prepare("UPDATE holdfast_jobs SET due_at = ?, updated_at = ? WHERE seq = ?");
  const finish = db.prepare(
    `UPDATE holdfast_jobs SET state = ?, output = ?, due_at = NULL, finished_at = ?, updated_at = ?, attempt = ?,
       releases = ?, started_at = coalesce(started_at, ?) WHERE seq = ?`,
  );
  const setPurgeTime = db.prepare(
    `UPDATE holdfast_jobs SET purge_at = coalesce(@now + @purgeMs, ${purgeTime("state", "@now")}) WHERE seq = @seq`,
  );
  const isHeld =
    "seq = ? AND id = ? AND fence = ? AND state = ? AND cancel_at IS NULL AND purge_at IS NULL AND ties IS NULL";
  // The claim has set `attempt` and `releases`. To set them again would take 2 % of a settlement.
  const completeIfHeld = db.prepare(
    `UPDATE holdfast_jobs SET state = 'completed', output = ?, due_at = NULL, finished_at = ?, updated_at = ?,
       started_at = coalesce(started_at, ?) WHERE ${isHeld}`,
  );
  const finishWithErrorIfHeld = db.prepare(
    `UPDATE holdfast_jobs SET state = ?, due_at = NULL, finished_at = ?, updated_at = ?, attempt = ?, releases = ?,
       error = ?, error_code = ?, error_at = ?, fingerprint = ?, started_at = coalesce(started_at, ?) WHERE ${isHeld}`,
  );
  const makeWaiting = db.prepare(
    `UPDATE holdfast_jobs SET state = ?, due_at = ?, run_at = ?, updated_at = ?, attempt = ?, releases = ?,
       started_at = coalesce(started_at, ?), worker = NULL WHERE seq = ?`,
  );
  const park = db.prepare(
    `UPDATE holdfast_jobs SET state = 'pending', due_at = ?, run_at = ?, expires_at = NULL, updated_at = ?, attempt = ?, releases = ?,
       started_at = coalesce(started_at, ?), worker = NULL WHERE seq = ?`,
  );
  const setProgress = db.prepare(
    "UPDATE holdfast_jobs SET progress = ?, progress_note = ?, progress_data = ?, updated_at = ? WHERE seq = ?",
  );

  /** The row if this lease still holds the job. */
  function held(lease: LeaseRef): LeaseRow | undefined {
    const row = leaseRow.get(lease.id) as LeaseRow | undefined;
    return row !== undefined && row.fence === lease.fence && isLeased(row.state) ? row : undefined;
  }

  /** The fast path for most jobs: completed, or rejected without running, under a cached lease. */
  function finishCached(outcome: Outcome, now: number): boolean {
    const { id, to } = outcome;
    const row = leased.get(id);
    leased.forget(id);
    const isPlain = isFinished(to) && outcome.attemptRecord === null && outcome.keep && outcome.purgeMs === null;
    if (row === undefined || row.fence !== outcome.fence || !isPlain || row.hasSettings) return false;
    if (!finishIfHeld(outcome, row, now)) return false;
    counts.recordStateChange(id, row.queue, row.type, row.state, to);
    return true;
  }

  function finishIfHeld(
    { id, to, output, attempt, releases, startedAt, error }: Outcome,
    row: CachedLease,
    now: number,
  ): boolean {
    const guard = [row.seq, id, row.fence, row.state];
    if (error !== null) {
      const { message, code, fingerprint = null } = error;
      const values = [to, now, now, attempt, releases, message, code, now, fingerprint, startedAt];
      return finishWithErrorIfHeld.run(...values, ...guard).changes > 0;
    }
    if (to !== "completed" || attempt !== row.attempt || releases !== row.releases) return false;
    return completeIfHeld.run(output, now, now, startedAt, ...guard).changes > 0;
  }

  function settleOne(outcome: Outcome, now: number): SettleResult {
    if (finishCached(outcome, now)) return "applied";
    const row = leaseRow.get(outcome.id) as LeaseRow | undefined;
    if (row === undefined || row.fence !== outcome.fence) return "lost";
    if (!isLeased(row.state)) return settledBefore(outcome.to, row.state);
    const to = row.cancel_at !== null && outcome.to !== "completed" ? "cancelled" : outcome.to;
    const isParked = to === "pending" && outcome.park !== undefined;
    if (isParked && wakesOf(row.ties) !== outcome.park?.wakes) return "awake";
    if (outcome.reopen !== undefined) steps.reopen(row.seq, outcome.reopen);
    if (isFinished(to)) {
      finish.run(to, outcome.output, now, now, outcome.attempt, outcome.releases, outcome.startedAt, row.seq);
      const purgeMs = to === outcome.to ? outcome.purgeMs : null;
      if (purgeMs !== null || row.settings !== null || row.purge_at !== null)
        setPurgeTime.run({ now, purgeMs, seq: row.seq });
    } else if (isParked) {
      const dueAt = Math.max(now, outcome.park?.until ?? PARKED_AT);
      park.run(dueAt, now, now, outcome.attempt, outcome.releases, outcome.startedAt, row.seq);
    } else {
      const dueAt = now + outcome.delayMs;
      makeWaiting.run(to, dueAt, dueAt, now, outcome.attempt, outcome.releases, outcome.startedAt, row.seq);
    }
    if (outcome.error !== null) history.setError(row.seq, outcome.error, now);
    if (outcome.attemptRecord !== null) history.appendAttempt(row.seq, outcome.attemptRecord);
    counts.recordStateChange(outcome.id, row.queue, row.type, row.state, to);
    if (isFinished(to)) waits.finished({ seq: row.seq, id: outcome.id, ties: row.ties }, now);
    if (to !== outcome.to) return "cancelled";
    if (isFinished(to) && !outcome.keep) changes.deleteJob(outcome.id, now);
    return "applied";
  }

  function leaseResult(row: LeaseRow): LeaseResult {
    return row.cancel_at === null ? "kept" : "cancel";
  }

  return {
    start: (marks, now) =>
      marks.map((mark) => {
        const row = held(mark);
        if (row === undefined) return "lost";
        if (row.state === "claimed") {
          markRunning.run(mark.startedAt, now, row.seq);
          counts.recordStateChange(mark.id, row.queue, row.type, "claimed", "running");
          const cached = leased.get(mark.id);
          if (cached !== undefined) cached.state = "running";
        }
        return leaseResult(row);
      }),
    extend: (leases, leaseMs, now) =>
      leases.map((lease) => {
        const row = held(lease);
        if (row === undefined) return "lost";
        setDueAt.run(now + leaseMs, now, row.seq);
        return leaseResult(row);
      }),
    settle: (outcomes, now) => outcomes.map((outcome) => settleOne(outcome, now)),
    isLeaseHeld: (lease) => held(lease) !== undefined,
    note(notes, now) {
      for (const note of notes) {
        const row = held(note);
        if (row === undefined) continue;
        const { progress } = note;
        if (progress !== null) setProgress.run(progress.fraction, progress.note, progress.data, now, row.seq);
        if (note.log.length > 0) history.appendLog(row.seq, note.log);
      }
    },
  };
}

/** The fields of an outcome that cross to the store's thread, in order. */
const OUTCOME_FIELDS = [
  "id",
  "fence",
  "to",
  "output",
  "delayMs",
  "attempt",
  "releases",
  "error",
  "startedAt",
  "attemptRecord",
  "keep",
  "purgeMs",
  "park",
  "reopen",
] as const satisfies readonly (keyof Outcome)[];
const COLUMN = columnPositions(OUTCOME_FIELDS);

export function packOutcomes(outcomes: readonly Outcome[]): Columns {
  return toColumns(outcomes, OUTCOME_FIELDS);
}

/** The fields of outcomes that wake-up hints need. In the usual batch all jobs completed, and one row is enough. */
export function outcomesForHints(packed: Columns): Pick<Outcome, "to" | "delayMs">[] {
  const to = packed.columns[COLUMN.to];
  const allCompleted = to !== undefined && "all" in to && to.all === "completed";
  return fromColumns(allCompleted ? { ...packed, length: 1 } : packed, (at) => ({
    to: at(COLUMN.to) as Outcome["to"],
    delayMs: at(COLUMN.delayMs) as number,
  }));
}

export function unpackOutcomes(columns: Columns): Outcome[] {
  return fromColumns(columns, (at) => ({
    id: at(COLUMN.id) as string,
    fence: at(COLUMN.fence) as number,
    to: at(COLUMN.to) as Outcome["to"],
    output: at(COLUMN.output) as string | null,
    delayMs: at(COLUMN.delayMs) as number,
    attempt: at(COLUMN.attempt) as number,
    releases: at(COLUMN.releases) as number,
    error: at(COLUMN.error) as Outcome["error"],
    startedAt: at(COLUMN.startedAt) as number | null,
    attemptRecord: at(COLUMN.attemptRecord) as Outcome["attemptRecord"],
    keep: at(COLUMN.keep) as boolean,
    keepMs: null,
    purgeMs: at(COLUMN.purgeMs) as number | null,
    park: at(COLUMN.park) as Outcome["park"],
    reopen: at(COLUMN.reopen) as Outcome["reopen"],
  }));
}
