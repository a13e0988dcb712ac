import type { Database } from "better-sqlite3";
import { isFinished, isLeased, isWaiting, type State } from "../../../job/state.js";
import type { CancelResult, RemoveResult, RetryResult, ChangeScope } from "../../../store.js";
import type { Counts } from "./counts.js";
import type { History } from "./history.js";
import { readTagText } from "./insert.js";
import { isKeyHeld, type Keys } from "./unique-keys.js";
import type { StoredScope } from "../../stored-values.js";

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
}

export const JOB_ROW_COLUMNS = "seq, id, state, queue, type, priority, user, key, key_scope, tags, cancel_at";

export interface ChangeOperations {
  cancel(ids: readonly string[], scope: ChangeScope, now: number): CancelResult[];
  retry(ids: readonly string[], scope: ChangeScope, now: number): RetryResult[];
  remove(ids: readonly string[], scope: ChangeScope): RemoveResult[];
  /**
   * Deletes a job with its input, tags and history. `freeKey` also deletes the row of a `forever` or `period` key. A `period`
   * key is not held without its job (see `isKeyHeld`); only its row stays until the period ends.
   */
  deleteRow(row: JobRow, freeKey: boolean): void;
  /** The same by id. The row of a `forever` or `period` key stays. */
  deleteJob(id: string): void;
}

/** cancel, retry, remove: changes requested by users. */
export function changeOperations(db: Database, counts: Counts, keys: Keys, history: History): ChangeOperations {
  const byId = db.prepare(`SELECT ${JOB_ROW_COLUMNS} FROM holdfast_jobs WHERE id = ?`);
  const cancelWaiting = db.prepare(
    "UPDATE holdfast_jobs SET state = 'cancelled', due_at = NULL, finished_at = @now, cancel_at = @now, updated_at = @now WHERE seq = @seq",
  );
  const requestCancel = db.prepare("UPDATE holdfast_jobs SET cancel_at = @now, updated_at = @now WHERE seq = @seq");
  const resetForRetry = db.prepare(
    `UPDATE holdfast_jobs SET state = 'pending', attempt = 0, losses = 0, releases = 0, run_at = @now, due_at = @now,
       updated_at = @now, finished_at = NULL, cancel_at = NULL, expires_at = NULL, output = NULL,
       error = NULL, error_code = NULL, error_at = NULL, worker = NULL WHERE seq = @seq`,
  );
  const makeDue = db.prepare(
    "UPDATE holdfast_jobs SET run_at = @now, due_at = @now, updated_at = @now WHERE seq = @seq",
  );
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
    counts.recordStateChange(row.queue, row.type, row.state, "cancelled");
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
    counts.recordStateChange(row.queue, row.type, row.state, "pending");
    return "retried";
  }

  function deleteRow(row: JobRow, freeKey: boolean): void {
    deleteSeq.run(row.seq);
    counts.sequence.deleted(row.seq);
    deleteInput.run(row.seq);
    history.remove(row.seq);
    for (const tag of readTagText(row.tags)) deleteTag.run(tag, row.seq);
    const keepsKeyRow = row.key_scope === "ever" || row.key_scope === "period";
    if (row.key !== null && (freeKey || !keepsKeyRow)) keys.free(row.key, row.id);
    counts.recordStateChange(row.queue, row.type, row.state, null);
  }

  return {
    cancel: (ids, scope, now) => ids.map((id) => cancelOne(id, scope, now)),
    retry: (ids, scope, now) => ids.map((id) => retryOne(id, scope, now)),
    remove: (ids, scope) =>
      ids.map((id) => {
        const row = find(id, scope);
        if (row === undefined) return "missing";
        if (!isWaiting(row.state) && !isFinished(row.state)) return "leased";
        deleteRow(row, true);
        return "removed";
      }),
    deleteRow,
    deleteJob(id) {
      const row = find(id, {});
      if (row !== undefined) deleteRow(row, false);
    },
  };
}
