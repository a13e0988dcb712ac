import type { Database } from "better-sqlite3";
import { STALE_FINGERPRINT } from "../../../job/fingerprint.js";
import { attemptsUsed, EXPIRED_ERROR, STALE_ERROR, type State } from "../../../job/state.js";
import type { ReapedJob, PurgeRequest } from "../../../store.js";
import { BLOCK } from "../../list-plan.js";
import { JOB_ROW_COLUMNS, type ChangeOperations, type JobRow } from "./changes.js";
import { lostAttempt } from "./claim.js";
import { purgeTime } from "./purge-time.js";
import type { Counts } from "./counts.js";
import type { History } from "./history.js";
import type { Keys } from "./unique-keys.js";
import type { Lane, Lanes } from "./lanes.js";
import type { Waits } from "./waits.js";

interface LeasedRow extends JobRow {
  attempt: number;
  fence: number;
  max_attempts: number;
  losses: number;
  due_at: number;
  worker: string | null;
  claimed_at: number | null;
  started_at: number | null;
}

/** Where a scan over the due jobs continues. */
export interface ReapPosition extends Lane {
  dueAt: number;
  seq: number;
}

export interface MaintenanceOperations {
  /** One bounded step of the scan for expired leases. `next` is null at the end. */
  reapExpiredLeases(
    limit: number,
    from: ReapPosition | null,
    now: number,
  ): { reaped: ReapedJob[]; next: ReapPosition | null };
  expireOverdue(limit: number, now: number): ReapedJob[];
  purge(request: PurgeRequest, now: number): number;
  purgeDue(limit: number, now: number): number;
  tryAcquireDuty(name: string, everyMs: number, now: number): boolean;
  /** Inside a transaction. `wasClockSetBack`: this process has seen its clock set back by more than a day. */
  maintain(wasClockSetBack: boolean, now: number): void;
}

// Expired leases have no separate index (it would cost every job 8 %), so the scan also reads waiting jobs that are due.
// It runs in steps, so that claims can run in between.
const STEP = 2_000;
// NTP slews small differences. A larger difference means that the clock was set.
const CLOCK_SET_BACK_MS = 5_000;
export const CLOCK_WRONG_MS = 86_400_000;

export function maintenanceOperations(
  db: Database,
  counts: Counts,
  keys: Keys,
  lanes: Lanes,
  history: History,
  changes: ChangeOperations,
  waits: Waits,
): MaintenanceOperations {
  const dueStep = db.prepare(
    `SELECT ${JOB_ROW_COLUMNS}, attempt, fence, max_attempts, losses, due_at, worker, claimed_at, started_at FROM holdfast_jobs
     WHERE queue = ? AND priority = ? AND due_at <= ? AND (due_at, seq) > (?, ?) ORDER BY due_at, seq LIMIT ?`,
  );
  const endJob = db.prepare(
    `UPDATE holdfast_jobs SET state = @to, due_at = @dueAt, run_at = coalesce(@dueAt, run_at), finished_at = @finishedAt,
       purge_at = ${purgeTime("@to", "@finishedAt")}, updated_at = @now, attempt = @attempt, losses = losses + @lost,
       worker = CASE WHEN @finishedAt IS NOT NULL THEN worker END WHERE seq = @seq`,
  );
  const expired = db.prepare(
    `SELECT ${JOB_ROW_COLUMNS}, attempt FROM holdfast_jobs WHERE expires_at <= ? AND expires_at IS NOT NULL
     AND due_at IS NOT NULL AND state IN ('pending', 'failed') ORDER BY expires_at LIMIT ?`,
  );
  const oldestFinished = db.prepare(
    `SELECT ${JOB_ROW_COLUMNS} FROM holdfast_jobs WHERE state = ? AND due_at IS NULL AND finished_at < ?
     AND purge_at IS NULL ORDER BY finished_at LIMIT ?`,
  );
  const ownTimePassed = db.prepare(
    `SELECT ${JOB_ROW_COLUMNS} FROM holdfast_jobs WHERE purge_at <= ? AND due_at IS NULL ORDER BY purge_at LIMIT ?`,
  );
  const total = db.prepare("SELECT coalesce(sum(n), 0) FROM holdfast_counts WHERE state = ?").pluck();
  const hasOwnTimes = db
    .prepare("SELECT EXISTS (SELECT 1 FROM holdfast_jobs WHERE purge_at IS NOT NULL AND due_at IS NULL)")
    .pluck();
  const countWithout = db
    .prepare(
      `SELECT count(*) FROM (SELECT 1 FROM holdfast_jobs INDEXED BY holdfast_jobs_finished
       WHERE state = ? AND due_at IS NULL AND purge_at IS NULL LIMIT ?)`,
    )
    .pluck();
  const acquireDuty = db.prepare(
    `INSERT INTO holdfast_turns (name, at) VALUES (@name, @now) ON CONFLICT DO UPDATE SET at = @now
     WHERE holdfast_turns.at <= @now - @everyMs OR holdfast_turns.at > @now`,
  );
  const lastClock = db.prepare("SELECT at FROM holdfast_turns WHERE name = 'clock'").pluck();
  const setLastClock = db.prepare(
    "INSERT INTO holdfast_turns (name, at) VALUES ('clock', @now) ON CONFLICT DO UPDATE SET at = @now",
  );
  const makeDueNow = db.prepare(
    `UPDATE holdfast_jobs SET due_at = @now WHERE queue = @queue AND priority = @priority
     AND due_at > @now AND due_at <= @last AND state IN ('pending', 'failed')`,
  );
  const shiftLeases = db.prepare(
    `UPDATE holdfast_jobs SET due_at = due_at - @by WHERE queue = @queue AND priority = @priority
     AND due_at > @last AND state IN ('claimed', 'running')`,
  );
  const resetSchedules = db.prepare(
    `UPDATE holdfast_schedules SET last_slot = min(last_slot, @now), next_run_at = NULL, version = version || '+',
       created_at = min(created_at, @now), updated_at = @now
     WHERE updated_at > @now + ${CLOCK_WRONG_MS}`,
  );
  const deleteOldPace = db.prepare("DELETE FROM holdfast_pace WHERE second < ?");
  const deleteOldBlocks = db.prepare(
    `DELETE FROM holdfast_ages WHERE block < (SELECT min(seq) FROM holdfast_jobs) / ${BLOCK}`,
  );

  /** As a claim does after a lost lease: no backoff, and dead when no attempts are left. */
  function reap(row: LeasedRow, now: number): ReapedJob {
    const used = attemptsUsed(row);
    const to: State = row.cancel_at !== null ? "cancelled" : used >= row.max_attempts ? "dead" : "pending";
    const [dueAt, finishedAt] = to === "pending" ? [now, null] : [null, now];
    endJob.run({ to, dueAt, finishedAt, now, attempt: used, lost: 1, seq: row.seq });
    history.setError(row.seq, { ...STALE_ERROR, fingerprint: STALE_FINGERPRINT }, now);
    history.appendAttempt(row.seq, lostAttempt(row, now));
    counts.recordStateChange(row.id, row.queue, row.type, row.state, to);
    if (finishedAt !== null) waits.finished(row, now);
    return { id: row.id, type: row.type, queue: row.queue, attempt: used, to };
  }

  /**
   * After the clock was set back, due jobs and the leases of crashed workers would wait until it has caught up. So jobs that
   * were due by the old time become due now, and leases keep the time they had left.
   */
  function adjustToClock(wasClockSetBack: boolean, now: number): void {
    const last = lastClock.get() as number | undefined;
    if (last !== undefined && now < last - CLOCK_SET_BACK_MS) {
      for (const { queue, priority } of lanes.live()) {
        makeDueNow.run({ queue, priority, now, last });
        shiftLeases.run({ queue, priority, by: last - now, last });
      }
    }
    // Schedules wait if the clock was set back by an hour: the slots of that hour have run already. If it was wrong by days
    // or years, they would wait as long. Only a process that has seen its clock go back may move them: one whose own clock
    // is behind would run slots twice.
    if (wasClockSetBack) resetSchedules.run({ now });
    setLastClock.run({ now });
  }

  /** How many jobs of a state exceed `keep`, at most `limit`. Jobs with a purge time of their own do not count. */
  function surplus(state: State, keep: number, limit: number): number {
    const counted = total.get(state) as number;
    if (counted <= keep) return 0;
    // The counters include jobs with a time of their own. If there are any, the others are counted: as many as matter.
    const without = hasOwnTimes.get() === 1 ? (countWithout.get(state, keep + limit) as number) : counted;
    return Math.min(limit, Math.max(0, without - keep));
  }

  return {
    reapExpiredLeases(limit, from, now) {
      const reaped: ReapedJob[] = [];
      let left = STEP;
      for (const lane of lanesFrom(lanes.live(), from)) {
        const resumed = from !== null && from.queue === lane.queue && from.priority === lane.priority;
        const [dueAt, seq] = resumed ? [from.dueAt, from.seq] : [Number.MIN_SAFE_INTEGER, 0];
        const rows = dueStep.all(lane.queue, lane.priority, now, dueAt, seq, left) as LeasedRow[];
        for (const row of rows) {
          if (row.state !== "claimed" && row.state !== "running") continue;
          reaped.push(reap(row, now));
          if (reaped.length >= limit) return { reaped, next: null };
        }
        const last = rows.at(-1);
        if (rows.length === left && last !== undefined) {
          return { reaped, next: { queue: lane.queue, priority: lane.priority, dueAt: last.due_at, seq: last.seq } };
        }
        left -= rows.length;
      }
      return { reaped, next: null };
    },

    expireOverdue: (limit, now) =>
      (expired.all(now, limit) as (JobRow & { attempt: number })[]).map((row) => {
        const { attempt, seq } = row;
        endJob.run({ to: "dead", dueAt: null, finishedAt: now, now, attempt, lost: 0, seq });
        history.setError(row.seq, EXPIRED_ERROR, now);
        counts.recordStateChange(row.id, row.queue, row.type, row.state, "dead");
        waits.finished(row, now);
        return { id: row.id, type: row.type, queue: row.queue, attempt: row.attempt, to: "dead" as const };
      }),

    purge(request, now) {
      const limit = request.keep === null ? request.limit : surplus(request.state, request.keep, request.limit);
      if (limit === 0) return 0;
      const before = request.before ?? now + 1;
      const rows = oldestFinished.all(request.state, before, limit) as JobRow[];
      for (const row of rows) changes.deleteRow(row, false, now);
      return rows.length;
    },

    purgeDue(limit, now) {
      const rows = ownTimePassed.all(now, limit) as JobRow[];
      for (const row of rows) changes.deleteRow(row, false, now);
      return rows.length;
    },

    tryAcquireDuty: (name, everyMs, now) => acquireDuty.run({ name, now, everyMs }).changes > 0,

    maintain(wasClockSetBack, now) {
      adjustToClock(wasClockSetBack, now);
      keys.deleteExpired(now, 1_000);
      deleteOldPace.run(Math.floor(now / 1000) - 120);
      deleteOldBlocks.run();
    },
  };
}

/** The lanes still to scan, the interrupted one first. */
function lanesFrom(lanes: readonly Lane[], from: ReapPosition | null): readonly Lane[] {
  if (from === null) return lanes;
  return lanes.filter(
    (lane) => lane.queue > from.queue || (lane.queue === from.queue && lane.priority >= from.priority),
  );
}
