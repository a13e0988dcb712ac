import type { Database, SqlRow, SqlValue, Steps, Transaction } from "holdfast/pack";
import type { TablePart } from "./tables.js";

/** Rows that one transaction deletes: a large table is neither locked for long, nor its write-ahead log filled by one transaction. */
const CHUNK = 500;
/** How long a chunk waits for a lock of another session. */
const LOCK_TIMEOUT = "2s";
const LOCK_NOT_AVAILABLE = "55P03";

export interface ChunkOf {
  part: TablePart;
  /** The column with the time, quoted. */
  column: string;
  /** What the rows are sorted by: `column`, or a function of it. */
  time: string;
  /** Which rows are old, with `?` for `value`. */
  condition: string;
  value: SqlValue;
}

export interface Chunk {
  deleted: number;
  /** Whether there may be more rows. */
  more: boolean;
  /** The time of the newest row, for `after` of the next chunk. */
  newest: unknown;
}

/** Deletes the oldest rows. `check` gets the time of the newest one; if it throws, none is deleted. */
export async function deleteChunk(
  db: Database,
  chunk: ChunkOf,
  after: unknown,
  check: (newest: unknown) => void,
): Promise<Chunk> {
  try {
    return await db.transaction(function* (tx) {
      const deleted = yield* tx.dialect === "postgres" ? onPostgres(tx, chunk, after) : onSqlite(tx, chunk);
      check(deleted.newest);
      return deleted;
    });
  } catch (error) {
    if ((error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE) throw error;
    const reason = "another session holds a lock on it, or on rows that refer to it";
    throw new Error(`${chunk.part.name} cannot be cleaned now: ${reason}`, { cause: error });
  }
}

function* onPostgres(tx: Transaction, chunk: ChunkOf, after: unknown): Steps<Chunk> {
  const { part, column, time, condition, value } = chunk;
  // Without a limit, a migration that locks the table would hold this job, and a connection, for its whole time. Dates in ISO format,
  // so that every setting of the session reads `newest` as it was.
  yield* tx.query(
    `SELECT pg_catalog.set_config('lock_timeout', '${LOCK_TIMEOUT}', true), pg_catalog.set_config('datestyle', 'ISO', true)`,
  );
  // Rows that another session has locked are left for the next run: it may be about to renew them. Later chunks begin where the one
  // before has ended: until VACUUM, and while an old snapshot exists, an index still holds the rows that were deleted.
  const [row] = yield* tx.query(
    `WITH found AS MATERIALIZED (
       SELECT t.ctid AS row_id, t.${column} AS row_time FROM ${part.from} AS t
       WHERE ${condition}${after === null ? "" : ` AND t.${column} >= ?`}
       ORDER BY ${time} LIMIT ${CHUNK} FOR UPDATE SKIP LOCKED),
     deleted AS (DELETE FROM ${part.from} AS t WHERE t.ctid = ANY (ARRAY(SELECT row_id FROM found)) RETURNING 1)
     SELECT (SELECT pg_catalog.count(*) FROM deleted) AS deleted, (SELECT pg_catalog.count(*) FROM found) AS found,
       (SELECT pg_catalog.max(row_time) FROM found)::text AS newest`,
    after === null ? [value] : [value, after as string],
  );
  const deleted = Number(row?.["deleted"]);
  const newest = row?.["newest"] ?? null;
  // A trigger may keep rows: as long as the time moves on, the next chunk has others.
  return { deleted, newest, more: Number(row?.["found"]) === CHUNK && (deleted > 0 || newest !== after) };
}

function* onSqlite(tx: Transaction, { part, column, time, condition, value }: ChunkOf): Steps<Chunk> {
  const id = part.rowId.join(", ");
  const rows: SqlRow[] = yield* tx.query(
    `DELETE FROM ${part.from} WHERE (${id}) IN
       (SELECT ${id} FROM ${part.from} AS t WHERE ${condition} ORDER BY ${time} LIMIT ${CHUNK})
     RETURNING ${column} AS row_time`,
    [value],
  );
  let newest: unknown = null;
  for (const { row_time: at } of rows) {
    if (newest === null || (at as number) > (newest as number)) newest = at;
  }
  return { deleted: rows.length, newest, more: rows.length === CHUNK };
}
