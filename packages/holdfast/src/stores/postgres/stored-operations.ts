import type { OperationState, Store, StoredOperation } from "../../store.js";
import type { Row, Runner } from "./connection/db.js";
import { NOW, type Sql } from "./connection/sql.js";

type OperationCalls = Pick<
  Store,
  | "putOperation"
  | "claimOperation"
  | "saveOperation"
  | "endOperation"
  | "stopOperation"
  | "getOperation"
  | "operations"
  | "purgeOperations"
>;

/** What the calls need of the store. */
interface StoreParts {
  db: Runner;
  time: () => number | null;
  tracked: <Result>(work: () => Promise<Result>) => Promise<Result>;
}

const COLUMNS =
  "o.id::text, o.started_at::float8, o.state, o.ended_at::float8, o.stop, o.owner, o.lease_until::float8, o.summary, coalesce(o.lease_until <= (SELECT now FROM t), false)";

/** Operations of the admin API. There are at most a few hundred, so a statement may read all rows; their plans are not read with them. */
export function storedOperations(sql: Sql, { db, time, tracked }: StoreParts): OperationCalls {
  const { s } = sql;
  const add = sql.statement(
    "operation_add",
    `WITH ${NOW} INSERT INTO ${s}.operations (id, started_at, state, stop, owner, lease_until, summary, plan)
     SELECT $2::uuid, $3::bigint, 'running', false, $4::text, now + $5::bigint, $6::text, $7::text FROM t ON CONFLICT (id) DO NOTHING`,
  );
  const claim = sql.statement(
    "operation_claim",
    `WITH ${NOW} UPDATE ${s}.operations o SET owner = $2::text, lease_until = (SELECT now FROM t) + $3::bigint WHERE o.id = (
       SELECT f.id FROM ${s}.operations f WHERE f.state = 'running' AND f.lease_until <= (SELECT now FROM t)
       ORDER BY f.started_at, f.id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING ${COLUMNS}, o.plan`,
  );
  const save = sql.statement(
    "operation_save",
    `WITH ${NOW} UPDATE ${s}.operations SET summary = $4::text, lease_until = (SELECT now FROM t) + $5::bigint
     WHERE id = $2::uuid AND owner = $3::text AND state = 'running' RETURNING stop`,
  );
  // Repeated after it was done, it changes the row to what it is.
  const end = sql.statement(
    "operation_end",
    `WITH ${NOW} UPDATE ${s}.operations SET state = $4::text, summary = CASE WHEN state = 'running' THEN $5::text ELSE summary END,
       ended_at = coalesce(ended_at, (SELECT now FROM t)), lease_until = NULL
     WHERE id = $2::uuid AND owner = $3::text AND state IN ('running', $4::text) RETURNING 1`,
  );
  const stop = sql.statement(
    "operation_stop",
    `UPDATE ${s}.operations SET stop = true WHERE id = $1::uuid AND state = 'running' RETURNING 1`,
  );
  const byId = sql.statement(
    "operation_get",
    `WITH ${NOW} SELECT ${COLUMNS} FROM ${s}.operations o WHERE o.id = $2::uuid`,
  );
  const all = sql.statement(
    "operations",
    `WITH ${NOW} SELECT ${COLUMNS} FROM ${s}.operations o ORDER BY o.started_at DESC, o.id DESC`,
  );
  const purge = sql.statement(
    "operations_purge",
    `DELETE FROM ${s}.operations WHERE state <> 'running' AND (ended_at < $1::bigint OR id NOT IN (
       SELECT o.id FROM ${s}.operations o WHERE o.state <> 'running' ORDER BY o.started_at DESC, o.id DESC LIMIT $2::bigint)) RETURNING 1`,
  );

  return {
    putOperation: ({ id, startedAt, summary, plan }, { owner, leaseMs }) =>
      tracked(async () => void (await db.run(add, [time(), id, startedAt, owner, leaseMs, summary, plan]))),
    claimOperation: ({ owner, leaseMs }) =>
      tracked(async () => {
        const [row] = await db.run(claim, [time(), owner, leaseMs]);
        return row === undefined ? null : { ...readOperation(row), plan: row[9] as string };
      }),
    saveOperation: ({ id, owner, leaseMs, summary }) =>
      tracked(async () => {
        const [row] = await db.run(save, [time(), id, owner, summary, leaseMs]);
        return row === undefined ? "lost" : row[0] === true ? "stop" : "kept";
      }),
    endOperation: ({ id, owner, state, summary }) =>
      tracked(async () => (await db.run(end, [time(), id, owner, state, summary])).length > 0),
    stopOperation: (id) => tracked(async () => (await db.run(stop, [id])).length > 0),
    getOperation: (id) =>
      tracked(async () => {
        const [row] = await db.run(byId, [time(), id]);
        return row === undefined ? null : readOperation(row);
      }),
    operations: () => tracked(async () => (await db.run(all, [time()])).map(readOperation)),
    purgeOperations: ({ before, keep }) => tracked(async () => (await db.run(purge, [before, keep])).length),
  };
}

function readOperation([
  id,
  startedAt,
  state,
  endedAt,
  stop,
  owner,
  leaseUntil,
  summary,
  abandoned,
]: Row): StoredOperation {
  return {
    id: id as string,
    startedAt: startedAt as number,
    state: state as OperationState,
    endedAt: endedAt as number | null,
    stopRequested: stop as boolean,
    owner: owner as string,
    leaseUntil: leaseUntil as number | null,
    abandoned: abandoned as boolean,
    summary: summary as string,
  };
}
