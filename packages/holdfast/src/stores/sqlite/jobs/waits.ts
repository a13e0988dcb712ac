import type { Database } from "better-sqlite3";
import { isFinished, type State } from "../../../job/state.js";
import { childFailure, jobTopic, TIES, type StepFailure } from "../../../job/stored-step.js";

/** How the wait for a topic ended. */
export interface TopicEnd {
  value: string | null;
  /** Null: it succeeded. */
  failure: StepFailure | null;
}

/** A job that changes, with what other jobs have to do with it. */
export interface TiedJob {
  seq: number;
  id: string;
  ties: number | null;
}

interface WaitingRow {
  job: number;
  name: string;
  member: number;
  wake: string;
}

/** Waits of steps for events and jobs, and the parked jobs that go on when they end. */
export interface Waits {
  /** How many jobs were woken since the last call. */
  takeWoken(): number;
  /** How the wait for a topic has ended; null if it has not. */
  endOf(topic: string, now: number): TopicEnd | null;
  /** Ends up to `limit` waits for a topic. Returns false if there may be more. */
  endTopic(topic: string, end: TopicEnd, limit: number, now: number): boolean;
  /** A job was finished: its row has its new state, output and error. */
  finished(job: TiedJob, now: number): void;
  /** A job is deleted: its steps are too, and waits for it fail. */
  deleted(job: TiedJob, now: number): void;
  /** Some other job waits for the end of this one. */
  await(id: string): void;
  /** Ends waits that should have ended, by reading on from where the last call stopped. Returns how many jobs it woke. */
  repair(limit: number, now: number): number;
}

// Waits ended in one transaction on behalf of a job that finishes. Nearly always there is one.
const MAX_WAITS = 10_000;

export function waitStatements(db: Database): Waits {
  const waitingFor = "SELECT job, name, member, wake FROM holdfast_steps WHERE topic = ? AND state = 'waiting'";
  const waiting = db.prepare(`${waitingFor} LIMIT ?`);
  const neverEnded = db.prepare(`${waitingFor} AND ended_at IS NULL LIMIT ?`);
  const end = db.prepare(
    `UPDATE holdfast_steps SET state = ?, value = ?, failure = ?, ended_at = ? WHERE job = ? AND name = ? AND member = ?`,
  );
  const stillWaits = db
    .prepare(
      `SELECT EXISTS (SELECT 1 FROM holdfast_steps INDEXED BY holdfast_steps_waiting
       WHERE job = ? AND name = ? AND state = 'waiting')`,
    )
    .pluck();
  const makeDue = db.prepare(
    `UPDATE holdfast_jobs SET due_at = max(run_at, @now), updated_at = @now
     WHERE seq = @job AND state = 'pending' AND due_at > max(run_at, @now)`,
  );
  const countWake = db.prepare(
    `UPDATE holdfast_jobs SET ties = coalesce(ties, 0) + ${TIES.wake} WHERE seq = ? AND (state = 'claimed' OR state = 'running')`,
  );
  const event = db.prepare("SELECT payload FROM holdfast_events WHERE name = ? AND keep_until > ?").pluck();
  const jobEnd = db.prepare("SELECT state, output, error, error_code FROM holdfast_jobs WHERE id = ?");
  const deleteSteps = db.prepare("DELETE FROM holdfast_steps WHERE job = ?");
  const setAwaited = db.prepare(
    `UPDATE holdfast_jobs SET ties = coalesce(ties, 0) | ${TIES.awaited}
     WHERE id = ? AND (ties IS NULL OR ties & ${TIES.awaited} = 0)`,
  );
  const topics = db
    .prepare("SELECT DISTINCT topic FROM holdfast_steps WHERE topic > ? AND state = 'waiting' ORDER BY topic LIMIT ?")
    .pluck();
  let woken = 0;
  let repairedTo = "";

  function wake(job: number, now: number): void {
    if (makeDue.run({ job, now }).changes > 0) woken++;
    else countWake.run(job);
  }

  function endTopic(topic: string, topicEnd: TopicEnd, limit: number, now: number): boolean {
    const rows = waiting.all(topic, limit) as WaitingRow[];
    endRows(rows, topicEnd, now);
    return rows.length < limit;
  }

  function endRows(rows: readonly WaitingRow[], { value, failure }: TopicEnd, now: number): void {
    const state = failure === null ? "done" : "failed";
    const text = failure === null ? null : JSON.stringify(failure);
    for (const { job, name, member } of rows) end.run(state, value, text, now, job, name, member);
    // After all of them have ended: a set of children wakes its job once.
    const looked = new Set<string>();
    for (const { job, name, wake: when } of rows) {
      const set = `${job}/${name}`;
      if (looked.has(set)) continue;
      looked.add(set);
      if ((when === "failure" && failure !== null) || stillWaits.get(job, name) === 0) wake(job, now);
    }
  }

  function endOf(topic: string, now: number): TopicEnd | null {
    const event_ = "event:";
    if (topic.startsWith(event_)) {
      const payload = event.get(topic.slice(event_.length), now) as string | undefined;
      return payload === undefined ? null : { value: payload, failure: null };
    }
    return endOfJob(topic.slice(jobTopic("").length));
  }

  function endOfJob(id: string): TopicEnd | null {
    const row = jobEnd.get(id) as
      | { state: State; output: string | null; error: string | null; error_code: string | null }
      | undefined;
    if (row === undefined) return { value: null, failure: childFailure("missing", null) };
    const { state } = row;
    if (!isFinished(state)) return null;
    if (state === "completed") return { value: row.output, failure: null };
    const error = row.error === null ? null : { message: row.error, code: row.error_code };
    return { value: null, failure: childFailure(state, error) };
  }

  return {
    takeWoken() {
      const count = woken;
      woken = 0;
      return count;
    },
    endOf,
    endTopic,
    finished({ id, ties }, now) {
      if (ties === null || (ties & TIES.awaited) === 0) return;
      const found = endOfJob(id);
      if (found !== null) endTopic(jobTopic(id), found, MAX_WAITS, now);
    },
    deleted({ seq, id, ties }, now) {
      if (ties === null) return;
      if ((ties & TIES.steps) !== 0) deleteSteps.run(seq);
      const missing = { value: null, failure: childFailure("missing", null) };
      if ((ties & TIES.awaited) !== 0) endTopic(jobTopic(id), missing, MAX_WAITS, now);
    },
    await: (id) => void setAwaited.run(id),
    repair(limit, now) {
      const before = woken;
      const found = topics.all(repairedTo, limit) as string[];
      for (const topic of found) {
        const ended = endOf(topic, now);
        // Not a reopened wait: its job has ended, and a retry stores it again.
        if (ended !== null) endRows(neverEnded.all(topic, limit) as WaitingRow[], ended, now);
      }
      repairedTo = found.length < limit ? "" : (found.at(-1) ?? "");
      return woken - before;
    },
  };
}
