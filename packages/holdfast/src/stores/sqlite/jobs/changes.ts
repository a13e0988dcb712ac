import type { Database } from "better-sqlite3";
import { isFinished, isLeased, isWaiting, type State } from "../../../job/state.js";
import type {
  CancelResult,
  ChangeScope,
  FreeKeyResult,
  JobUpdate,
  KeyHolder,
  RemoveResult,
  RetryResult,
  UpdateResult,
} from "../../../store.js";
import type { Counts } from "./counts.js";
import type { History } from "./history.js";
import { isLarge, readTagText, tagText } from "./insert.js";
import { purgeTime } from "./purge-time.js";
import { isKeyHeld, type Keys } from "./unique-keys.js";
import type { StoredScope } from "../../stored-values.js";
import { updateConflict } from "../../update-conflict.js";
import type { Waits } from "./waits.js";

export interface JobRow {
  seq: number;
  id: string;
  state: State;
  queue: string;
  type: string;
  priority: number;
  user: string | null;
  key: string | null;
  key_scope: StoredScope | null;
  tags: string | null;
  cancel_at: number | null;
  ties: number | null;
}

/** What an update may change, besides the columns of `JobRow`. */
interface Changeable {
  attempt: number;
  input: string | null;
  maxAttempts: number;
  expiresAt: number | null;
  runAt: number;
  dueAt: number;
}

export const JOB_ROW_COLUMNS = "seq, id, state, queue, type, priority, user, key, key_scope, tags, cancel_at, ties";

export interface ChangeOperations {
  cancel(ids: readonly string[], scope: ChangeScope, now: number): CancelResult[];
  retry(ids: readonly string[], scope: ChangeScope, now: number): RetryResult[];
  update(updates: readonly JobUpdate[], scope: ChangeScope, now: number): UpdateResult[];
  keyHolder(key: string, now: number): KeyHolder | null;
  freeKey(key: string, now: number): FreeKeyResult;
  remove(ids: readonly string[], scope: ChangeScope, now: number): RemoveResult[];
  /**
   * Deletes a job with its input, tags and history. `freeKey` also deletes the row of a `forever` or `period` key. A `period`
   * key is not held without its job (see `isKeyHeld`); only its row stays until the period ends.
   */
  deleteRow(row: JobRow, freeKey: boolean, now: number): void;
  /** The same by id. The row of a `forever` or `period` key stays. */
  deleteJob(id: string, now: number): void;
}

/** cancel, retry, update, remove, freeKey: changes requested by users. */
export function changeOperations(
  db: Database,
  counts: Counts,
  keys: Keys,
  history: History,
  waits: Waits,
): ChangeOperations {
  const byId = db.prepare(`SELECT ${JOB_ROW_COLUMNS} FROM holdfast_jobs WHERE id = ?`);
  const cancelWaiting = db.prepare(
    `UPDATE holdfast_jobs SET state = 'cancelled', due_at = NULL, finished_at = @now, cancel_at = @now, updated_at = @now,
       purge_at = ${purgeTime("'cancelled'", "@now")} WHERE seq = @seq`,
  );
  const requestCancel = db.prepare("UPDATE holdfast_jobs SET cancel_at = @now, updated_at = @now WHERE seq = @seq");
  const resetForRetry = db.prepare(
    `UPDATE holdfast_jobs SET state = 'pending', attempt = 0, losses = 0, releases = 0, run_at = @now, due_at = @now,
       updated_at = @now, finished_at = NULL, cancel_at = NULL, expires_at = NULL, output = NULL,
       error = NULL, error_code = NULL, error_at = NULL, fingerprint = NULL, worker = NULL, claimed_at = NULL,
       started_at = NULL, purge_at = NULL WHERE seq = @seq`,
  );
  const makeDue = db.prepare(
    "UPDATE holdfast_jobs SET run_at = @now, due_at = @now, updated_at = @now WHERE seq = @seq",
  );
  const change = db.prepare(
    `UPDATE holdfast_jobs SET queue = @queue, priority = @priority, input = @input, tags = @tags, max_attempts = @maxAttempts,
       expires_at = @expiresAt, run_at = @runAt, due_at = @dueAt, updated_at = @now WHERE seq = @seq`,
  );
  const changeable = db.prepare(
    "SELECT attempt, input, max_attempts AS maxAttempts, expires_at AS expiresAt, run_at AS runAt, due_at AS dueAt FROM holdfast_jobs WHERE seq = ?",
  );
  const insertInput = db.prepare("INSERT OR REPLACE INTO holdfast_inputs (job, input) VALUES (?, ?)");
  const insertTag = db.prepare("INSERT OR IGNORE INTO holdfast_tags (tag, job) VALUES (?, ?)");
  const deleteSeq = db.prepare("DELETE FROM holdfast_jobs WHERE seq = ?");
  const deleteInput = db.prepare("DELETE FROM holdfast_inputs WHERE job = ?");
  const deleteTag = db.prepare("DELETE FROM holdfast_tags WHERE tag = ? AND job = ?");

  function find(id: string, { user, states }: ChangeScope): JobRow | undefined {
    const row = byId.get(id) as JobRow | undefined;
    if (row === undefined || (user !== undefined && row.user !== user)) return undefined;
    return states?.includes(row.state) === false ? undefined : row;
  }

  /**
   * Acquires the `live` key of a retried job again, and frees a `waiting` one. Returns false if another job holds the key now.
   */
  function reacquireKey(row: JobRow, now: number): boolean {
    // A job that was cancelled before its first claim must not hold its key of scope `waiting` again.
    if (row.key !== null && row.key_scope === "waiting") keys.free(row.key, row.id);
    if (row.key === null || row.key_scope !== "live") return true;
    const holder = keys.holder(row.key);
    if (holder !== undefined && holder.job !== row.id && isKeyHeld(holder, now)) return false;
    keys.acquire(row.key, row.id, { scope: "live", until: null, acquiredAtFence: 0 });
    return true;
  }

  function cancelOne(id: string, scope: ChangeScope, now: number): CancelResult {
    const row = find(id, scope);
    if (row === undefined) return "missing";
    if (isFinished(row.state)) return "finished";
    if (isLeased(row.state)) {
      if (row.cancel_at === null) requestCancel.run({ now, seq: row.seq });
      return "requested";
    }
    cancelWaiting.run({ now, seq: row.seq });
    counts.recordStateChange(row.id, row.queue, row.type, row.state, "cancelled");
    waits.finished(row, now);
    return "cancelled";
  }

  function retryOne(id: string, scope: ChangeScope, now: number): RetryResult {
    const row = find(id, scope);
    if (row === undefined) return "missing";
    if (row.state === "failed") {
      makeDue.run({ now, seq: row.seq });
      return "retried";
    }
    if (row.state !== "dead" && row.state !== "cancelled") return "not-retryable";
    if (!reacquireKey(row, now)) return "key-held";
    resetForRetry.run({ now, seq: row.seq });
    counts.recordStateChange(row.id, row.queue, row.type, row.state, "pending");
    return "retried";
  }

  function updateOne(update: JobUpdate, scope: ChangeScope, now: number): UpdateResult {
    const row = find(update.id, scope);
    if (row === undefined) return { status: "missing" };
    if (!isWaiting(row.state)) return { status: "not-waiting", state: row.state };
    const { seq } = row;
    const { due, tags, input } = update;
    const old = changeable.get(seq) as Changeable;
    const conflict = updateConflict(update, { ...old, type: row.type }, now);
    if (conflict !== null) return { status: "conflict", reason: conflict };
    const dueAt = due === undefined ? old.dueAt : (due.runAt ?? now) + due.delayMs;
    const queue = update.queue ?? row.queue;
    change.run({
      seq,
      now,
      queue,
      priority: update.priority ?? row.priority,
      input: input === undefined ? old.input : isLarge({ input }) ? null : input,
      tags: tags === undefined ? row.tags : tagText(tags),
      maxAttempts: update.maxAttempts ?? old.maxAttempts,
      expiresAt: update.expiresAt === undefined ? old.expiresAt : update.expiresAt,
      runAt: due === undefined ? old.runAt : dueAt,
      dueAt,
    });
    if (input !== undefined && isLarge({ input })) insertInput.run(seq, input);
    else if (input !== undefined) deleteInput.run(seq);
    if (tags !== undefined) {
      for (const tag of readTagText(row.tags)) deleteTag.run(tag, seq);
      for (const tag of tags) insertTag.run(tag, seq);
    }
    if (queue !== row.queue) {
      counts.recordMove(row, queue, row.state);
    }
    return { status: "updated" };
  }

  function deleteRow(row: JobRow, freeKey: boolean, now: number): void {
    deleteSeq.run(row.seq);
    waits.deleted(row, now);
    counts.sequence.deleted(row.seq);
    deleteInput.run(row.seq);
    history.remove(row.seq);
    for (const tag of readTagText(row.tags)) deleteTag.run(tag, row.seq);
    const keepsKeyRow = row.key_scope === "ever" || row.key_scope === "period";
    if (row.key !== null && (freeKey || !keepsKeyRow)) keys.free(row.key, row.id);
    counts.recordStateChange(row.id, row.queue, row.type, row.state, null);
  }

  return {
    cancel: (ids, scope, now) => ids.map((id) => cancelOne(id, scope, now)),
    retry: (ids, scope, now) => ids.map((id) => retryOne(id, scope, now)),
    update: (updates, scope, now) => updates.map((update) => updateOne(update, scope, now)),
    keyHolder(key, now) {
      const holder = keys.holder(key);
      if (holder === undefined || !isKeyHeld(holder, now)) return null;
      return { job: holder.job, exists: holder.state !== null };
    },
    freeKey(key, now) {
      const holder = keys.holder(key);
      if (holder === undefined || !isKeyHeld(holder, now)) return "missing";
      if (holder.state !== null) return "held";
      keys.free(key, holder.job);
      return "freed";
    },
    remove: (ids, scope, now) =>
      ids.map((id) => {
        const row = find(id, scope);
        if (row === undefined) return "missing";
        if (!isWaiting(row.state) && !isFinished(row.state)) return "leased";
        deleteRow(row, true, now);
        return "removed";
      }),
    deleteRow,
    deleteJob(id, now) {
      const row = find(id, {});
      if (row !== undefined) deleteRow(row, false, now);
    },
  };
}
