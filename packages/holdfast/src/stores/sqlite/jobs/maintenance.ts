import type { Database } from "better-sqlite3";
import { attemptsUsed, EXPIRED_ERROR, STALE_ERROR, type State } from "../../../job/state.js";
import type { ReapedJob, PurgeRequest } from "../../../store.js";
import { BLOCK } from "../../list-plan.js";
import { JOB_ROW_COLUMNS, type ChangeOperations, type JobRow } from "./changes.js";
import { lostAttempt } from "./claim.js";
import type { Counts } from "./counts.js";
import type { History } from "./history.js";
import type { Keys } from "./keys.js";
import type { Lane, Lanes } from "./lanes.js";

interface StaleRow extends JobRow {
  attempt: number;
  max_attempts: number;
  losses: number;
  due_at: number;
  worker: string | null;
  claimed_at: number | null;
  started_at: number | null;
}

/** Where a walk over the due jobs stands. */
export interface StaleWalk extends Lane {
  dueAt: number;
  seq: number;
}

export interface UpkeepOperations {
  /** One bounded step of the walk that finds stale leases; `next` is null when it is through. */
  reapExpiredLeases(
    limit: number,
    from: StaleWalk | null,
    now: number,
  ): { laidDown: ReapedJob[]; next: StaleWalk | null };
  expireOverdue(limit: number, now: number): ReapedJob[];
  purge(request: PurgeRequest, now: number): number;
  tryAcquireDuty(name: string, everyMs: number, now: number): boolean;
  /** Inside a transaction. `wasWrong`: this process has seen its clock set back by more than a day. */
  tidy(wasWrong: boolean, now: number): void;
}

// Stale leases have no index of their own (it would cost every job 8 %), so the walk passes waiting jobs that are due.
// It goes in steps that leave room for claims in between.
const STEP = 2_000;
// NTP slews small differences; a larger one is somebody, or something, that set the clock.
const CLOCK_SET_BACK_MS = 5_000;
export const CLOCK_WRONG_MS = 86_400_000;

export function upkeepOperations(
  db: Database,
  counts: Counts,
  keys: Keys,
  lanes: Lanes,
  history: History,
  changes: ChangeOperations,
): UpkeepOperations {
  const dueStep = db.prepare(
    `SELECT ${JOB_ROW_COLUMNS}, attempt, max_attempts, losses, due_at, worker, claimed_at, started_at FROM holdfast_jobs
     WHERE queue = ? AND priority = ? AND due_at <= ? AND (due_at, seq) > (?, ?) ORDER BY due_at, seq LIMIT ?`,
  );
  const layDown = db.prepare(
    `UPDATE holdfast_jobs SET state = ?, due_at = ?, run_at = coalesce(?, run_at), finished_at = ?, updated_at = ?,
       attempt = ?, losses = losses + ?, worker = NULL WHERE seq = ?`,
  );
  const setError = db.prepare("UPDATE holdfast_jobs SET error = ?, error_code = ?, error_at = ? WHERE seq = ?");
  const expired = db.prepare(
    `SELECT ${JOB_ROW_COLUMNS}, attempt FROM holdfast_jobs WHERE expires_at <= ? AND expires_at IS NOT NULL
     AND due_at IS NOT NULL AND state IN ('pending', 'failed') ORDER BY expires_at LIMIT ?`,
  );
  const oldestFinished = db.prepare(
    `SELECT ${JOB_ROW_COLUMNS} FROM holdfast_jobs WHERE state = ? AND due_at IS NULL AND finished_at < ?
     ORDER BY finished_at LIMIT ?`,
  );
  const total = db.prepare("SELECT coalesce(sum(n), 0) FROM holdfast_counts WHERE state = ?").pluck();
  const takeTurn = db.prepare(
    `INSERT INTO holdfast_turns (name, at) VALUES (@name, @now) ON CONFLICT DO UPDATE SET at = @now
     WHERE holdfast_turns.at <= @now - @everyMs OR holdfast_turns.at > @now`,
  );
  const lastSeen = db.prepare("SELECT at FROM holdfast_turns WHERE name = 'clock'").pluck();
  const setSeen = db.prepare(
    "INSERT INTO holdfast_turns (name, at) VALUES ('clock', @now) ON CONFLICT DO UPDATE SET at = @now",
  );
  const pullDue = db.prepare(
    `UPDATE holdfast_jobs SET due_at = @now WHERE queue = @queue AND priority = @priority
     AND due_at > @now AND due_at <= @seen AND state IN ('pending', 'failed')`,
  );
  const pullLeases = db.prepare(
    `UPDATE holdfast_jobs SET due_at = due_at - @by WHERE queue = @queue AND priority = @priority
     AND due_at > @seen AND state IN ('claimed', 'running')`,
  );
  const pullSchedules = db.prepare(
    `UPDATE holdfast_schedules SET last_slot = min(last_slot, @now), next_run_at = NULL, version = version || '+',
       created_at = min(created_at, @now), updated_at = @now
     WHERE updated_at > @now + ${CLOCK_WRONG_MS}`,
  );
  const forgetPace = db.prepare("DELETE FROM holdfast_pace WHERE second < ?");
  const forgetAges = db.prepare(
    `DELETE FROM holdfast_ages WHERE block < (SELECT min(seq) FROM holdfast_jobs) / ${BLOCK}`,
  );

  /** The same rule as a claim after a lost lease: no backoff, and dead once the attempts are used up. */
  function layDownStale(row: StaleRow, now: number): ReapedJob {
    const used = attemptsUsed(row);
    const to: State = row.cancel_at !== null ? "cancelled" : used >= row.max_attempts ? "dead" : "pending";
    const finished = to === "pending" ? null : now;
    layDown.run(to, finished === null ? now : null, finished === null ? now : null, finished, now, used, 1, row.seq);
    setError.run(STALE_ERROR.message, STALE_ERROR.code, now, row.seq);
    history.appendAttempt(row.seq, lostAttempt(row, now));
    counts.move(row.queue, row.type, row.state, to);
    return { id: row.id, type: row.type, queue: row.queue, attempt: used, to };
  }

  /**
   * A clock that was set back would leave what was due, and the leases of the dead, waiting until it has caught up.
   * What the clock had reached before counts as due; leases end as far from now as they would have.
   */
  function followClock(wasWrong: boolean, now: number): void {
    const seen = lastSeen.get() as number | undefined;
    if (seen !== undefined && now < seen - CLOCK_SET_BACK_MS) {
      for (const { queue, priority } of lanes.live()) {
        pullDue.run({ queue, priority, now, seen });
        pullLeases.run({ queue, priority, by: seen - now, seen });
      }
    }
    // Set back by an hour, the slots of that hour have had their runs, and schedules wait. After a clock that was wrong by
    // days, waiting for that time to come round again could take years. Only who has seen it go back may say so: a
    // process whose own clock is behind would have slots run twice.
    if (wasWrong) pullSchedules.run({ now });
    setSeen.run({ now });
  }

  return {
    reapExpiredLeases(limit, from, now) {
      const laidDown: ReapedJob[] = [];
      let room = STEP;
      for (const lane of lanesFrom(lanes.live(), from)) {
        const resumed = from !== null && from.queue === lane.queue && from.priority === lane.priority;
        const [dueAt, seq] = resumed ? [from.dueAt, from.seq] : [Number.MIN_SAFE_INTEGER, 0];
        const rows = dueStep.all(lane.queue, lane.priority, now, dueAt, seq, room) as StaleRow[];
        for (const row of rows) {
          if (row.state !== "claimed" && row.state !== "running") continue;
          laidDown.push(layDownStale(row, now));
          if (laidDown.length >= limit) return { laidDown, next: null };
        }
        const last = rows.at(-1);
        if (rows.length === room && last !== undefined) {
          return { laidDown, next: { queue: lane.queue, priority: lane.priority, dueAt: last.due_at, seq: last.seq } };
        }
        room -= rows.length;
      }
      return { laidDown, next: null };
    },

    expireOverdue: (limit, now) =>
      (expired.all(now, limit) as (JobRow & { attempt: number })[]).map((row) => {
        layDown.run("dead", null, null, now, now, row.attempt, 0, row.seq);
        setError.run(EXPIRED_ERROR.message, EXPIRED_ERROR.code, now, row.seq);
        counts.move(row.queue, row.type, row.state, "dead");
        return { id: row.id, type: row.type, queue: row.queue, attempt: row.attempt, to: "dead" as const };
      }),

    purge(request, now) {
      const past =
        request.keep === null ? request.limit : Math.max(0, (total.get(request.state) as number) - request.keep);
      const limit = Math.min(request.limit, past);
      if (limit === 0) return 0;
      const before = request.before ?? now + 1;
      const rows = oldestFinished.all(request.state, before, limit) as JobRow[];
      for (const row of rows) changes.deleteRow(row, false);
      return rows.length;
    },

    tryAcquireDuty: (name, everyMs, now) => takeTurn.run({ name, now, everyMs }).changes > 0,

    tidy(wasWrong, now) {
      followClock(wasWrong, now);
      keys.forgetPast(now, 1_000);
      forgetPace.run(Math.floor(now / 1000) - 120);
      forgetAges.run();
    },
  };
}

/** The lanes still to walk, the interrupted one first. */
function lanesFrom(lanes: readonly Lane[], from: StaleWalk | null): readonly Lane[] {
  if (from === null) return lanes;
  return lanes.filter(
    (lane) => lane.queue > from.queue || (lane.queue === from.queue && lane.priority >= from.priority),
  );
}
