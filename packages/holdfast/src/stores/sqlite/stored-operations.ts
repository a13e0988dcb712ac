import type { Database } from "better-sqlite3";
import type {
  ClaimedOperation,
  OperationEnd,
  OperationLease,
  OperationProgress,
  OperationRecord,
  OperationState,
  SaveOperationResult,
  StoredOperation,
} from "../../store.js";

export interface StoredOperations {
  put(operation: OperationRecord, lease: OperationLease, now: number): void;
  claim(lease: OperationLease, now: number): ClaimedOperation | null;
  save(progress: OperationProgress, now: number): SaveOperationResult;
  end(end: OperationEnd, now: number): boolean;
  stop(id: string): boolean;
  get(id: string, now: number): StoredOperation | null;
  list(now: number): StoredOperation[];
  purge(request: { before: number; keep: number }): number;
}

interface OperationRow {
  id: string;
  started_at: number;
  state: OperationState;
  ended_at: number | null;
  stop: number;
  owner: string;
  lease_until: number | null;
  summary: string;
}

const COLUMNS = "id, started_at, state, ended_at, stop, owner, lease_until, summary";

export function storedOperations(db: Database): StoredOperations {
  const add = db.prepare(
    `INSERT INTO holdfast_operations (id, started_at, state, owner, lease_until, summary, plan)
     VALUES (@id, @startedAt, 'running', @owner, @until, @summary, @plan) ON CONFLICT (id) DO NOTHING`,
  );
  // A claim that finds nothing only reads an index that is empty while no operation runs.
  const claim = db.prepare(
    `UPDATE holdfast_operations SET owner = @owner, lease_until = @until WHERE id = (
       SELECT id FROM holdfast_operations WHERE lease_until <= @now ORDER BY started_at, id LIMIT 1) RETURNING ${COLUMNS}, plan`,
  );
  const save = db.prepare(
    `UPDATE holdfast_operations SET summary = @summary, lease_until = @until
     WHERE id = @id AND owner = @owner AND state = 'running' RETURNING stop`,
  );
  const end = db.prepare(
    `UPDATE holdfast_operations SET state = @state, summary = @summary, ended_at = @now, lease_until = NULL
     WHERE id = @id AND owner = @owner AND state = 'running'`,
  );
  const hasEnded = db.prepare("SELECT 1 FROM holdfast_operations WHERE id = @id AND owner = @owner AND state = @state");
  const stop = db.prepare("UPDATE holdfast_operations SET stop = 1 WHERE id = ? AND state = 'running'");
  const byId = db.prepare(`SELECT ${COLUMNS} FROM holdfast_operations WHERE id = ?`);
  const all = db.prepare(`SELECT ${COLUMNS} FROM holdfast_operations ORDER BY started_at DESC, id DESC`);
  const purge = db.prepare(
    `DELETE FROM holdfast_operations WHERE state <> 'running' AND (ended_at < @before OR id NOT IN (
       SELECT id FROM holdfast_operations WHERE state <> 'running' ORDER BY started_at DESC, id DESC LIMIT @keep))`,
  );

  return {
    put({ id, startedAt, summary, plan }, { owner, leaseMs }, now) {
      add.run({ id, startedAt, summary, plan, owner, until: now + leaseMs });
    },
    claim({ owner, leaseMs }, now) {
      const row = claim.get({ owner, until: now + leaseMs, now }) as (OperationRow & { plan: string }) | undefined;
      return row === undefined ? null : { ...readOperation(row, now), plan: row.plan };
    },
    save({ id, owner, leaseMs, summary }, now) {
      const row = save.get({ id, owner, summary, until: now + leaseMs }) as { stop: number } | undefined;
      return row === undefined ? "lost" : row.stop === 1 ? "stop" : "kept";
    },
    end({ id, owner, state, summary }, now) {
      return (
        end.run({ id, owner, state, summary, now }).changes > 0 || hasEnded.get({ id, owner, state }) !== undefined
      );
    },
    stop: (id) => stop.run(id).changes > 0,
    get(id, now) {
      const row = byId.get(id) as OperationRow | undefined;
      return row === undefined ? null : readOperation(row, now);
    },
    list: (now) => (all.all() as OperationRow[]).map((row) => readOperation(row, now)),
    purge: (request) => purge.run(request).changes,
  };
}

function readOperation(row: OperationRow, now: number): StoredOperation {
  const { id, state, owner, summary } = row;
  return {
    id,
    startedAt: row.started_at,
    state,
    endedAt: row.ended_at,
    stopRequested: row.stop === 1,
    owner,
    leaseUntil: row.lease_until,
    abandoned: row.lease_until !== null && row.lease_until <= now,
    summary,
  };
}
