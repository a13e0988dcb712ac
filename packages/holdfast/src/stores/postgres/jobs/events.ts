import { eventTopic } from "../../../job/stored-step.js";
import type { EmitResult, NewEvent } from "../../../store.js";
import type { Runner, Statement } from "../connection/db.js";
import { isLockTimeout, isMissingFunction, isPermissionDenied, isRowError } from "../connection/errors.js";
import { NOW, rowsOf, type Sql } from "../connection/sql.js";
import type { InsertRunner } from "./insert-direct.js";
import { SHORT_LOCK_WAIT } from "./lock-retry.js";
import { NOTES, readNotes } from "./wake-notes.js";

export interface EventOperations {
  /**
   * Keeps events; `notes` gets the numbers of their notes. Throws, after all others are kept, if one cannot be stored, or if a
   * transaction that emits one stays open.
   */
  emit(runner: Runner, events: readonly NewEvent[], now: number | null, notes: string[]): Promise<EmitResult[]>;
  /** In the caller's transaction: waits for another one that emits the same event. */
  emitIn(runner: InsertRunner, event: NewEvent, now: number | null): Promise<EmitResult>;
  purge(runner: Runner, limit: number, now: number | null): Promise<number>;
}

// How long to wait for a transaction that is about to emit the same event.
const RETRY_MS = 2_000;
const PAUSE_MS = 50;

/**
 * The statement of an emit, with the time, the names, the payloads and how long they are kept. `isSet`: a condition that sets the lock
 * timeout, with its part in `lockWait`. Returns a row for each event that is the first of its name, and one with the notes.
 */
export function emitText({ s }: Sql, lockWait = "", isSet = "true"): string {
  // A repeated event also leaves a note: the process that emitted it first may have crashed.
  return `WITH ${NOW}, ${lockWait} e AS MATERIALIZED (
       SELECT * FROM ${rowsOf("(SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::bigint[])")} AS e (name, payload, keep_ms) WHERE ${isSet}
     ), kept AS (
       INSERT INTO ${s}.events (name, payload, at, keep_until) SELECT e.name, e.payload::json, t.now, t.now + e.keep_ms FROM e, t ORDER BY e.name
       ON CONFLICT (name) DO UPDATE SET payload = excluded.payload, at = excluded.at, keep_until = excluded.keep_until
       WHERE events.keep_until <= (SELECT now FROM t) RETURNING name
     ), ends AS MATERIALIZED (
       SELECT e.name, e.payload::json AS payload FROM e WHERE e.name = ANY (ARRAY(SELECT name FROM kept))
       UNION ALL SELECT o.name, o.payload FROM ${s}.events o
         WHERE o.name = ANY (ARRAY(SELECT name FROM e)) AND NOT o.name = ANY (ARRAY(SELECT name FROM kept))
     ), notes AS (
       INSERT INTO ${s}.wakes (topic, value) SELECT '${eventTopic("")}' || name, payload FROM ends RETURNING n
     )
     SELECT true AS is_first, name FROM kept UNION ALL SELECT false, ${NOTES}`;
}

export function eventOperations(sql: Sql): EventOperations {
  const { s } = sql;
  const emitOwn = sql.statement("emit", emitText(sql, `${SHORT_LOCK_WAIT},`, "(SELECT true FROM lock_wait)"));
  const emitInside = sql.statement("emit_inside", emitText(sql));
  // For roles without privileges on the tables. The function uses the time of the server.
  const call = `${s}.emit($1::text, $2::json, $3::bigint * interval '1 ms')`;
  const emitByFunction = sql.statement("emit_function", `WITH ${SHORT_LOCK_WAIT} SELECT ${call} FROM lock_wait`);
  const emitByFunctionInside = sql.statement("emit_function_inside", `SELECT ${call}`);
  let own: "direct" | "function" = "direct";
  const purge = sql.statement(
    "purge_events",
    `WITH ${NOW}, past AS (
       DELETE FROM ${s}.events WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${s}.events WHERE keep_until <= (SELECT now FROM t) ORDER BY keep_until LIMIT $2::bigint FOR UPDATE SKIP LOCKED)) RETURNING 1
     ) SELECT pg_catalog.count(*)::float8 FROM past`,
  );

  /** Keeps events with different names. Returns which are the first of their name. */
  async function keep(
    runner: Runner,
    statement: Statement,
    events: readonly NewEvent[],
    now: number | null,
    notes: string[],
  ): Promise<string[]> {
    const columns = [
      events.map(({ name }) => name),
      events.map(({ payload }) => payload),
      events.map(({ keepMs }) => keepMs),
    ];
    const rows = await runner.run(statement, [now, ...columns]);
    notes.push(...readNotes(rows.find(([isFirst]) => isFirst === false)?.[1]));
    return rows.filter(([isFirst]) => isFirst === true).map(([, name]) => name as string);
  }

  /** The same for a role without privileges on the tables. */
  async function keepByFunction(runner: Runner, statement: Statement, events: readonly NewEvent[]): Promise<string[]> {
    const first: string[] = [];
    for (const { name, payload, keepMs } of events) {
      const [row] = await runner.run(statement, [name, payload, keepMs]);
      if (row?.[0] === true) first.push(name);
    }
    return first;
  }

  /** In the way that the role of the store needs, which is found by trying. */
  async function keepEither(
    runner: Runner,
    events: readonly NewEvent[],
    now: number | null,
    notes: string[],
  ): Promise<string[]> {
    try {
      if (own === "direct") return await keep(runner, emitOwn, events, now, notes);
    } catch (error) {
      if (!isPermissionDenied(error)) throw error;
      const first = await keepByFunction(runner, emitByFunction, events).catch((second: unknown) => {
        throw isPermissionDenied(second) || isMissingFunction(second) ? error : second;
      });
      own = "function";
      return first;
    }
    return keepByFunction(runner, emitByFunction, events);
  }

  /** In halves, if an open transaction emits one of them, or one cannot be stored. `failed` gets the errors of those. */
  async function keepFree(
    runner: Runner,
    events: readonly NewEvent[],
    now: number | null,
    notes: string[],
    failed: unknown[],
  ): Promise<string[]> {
    const deadline = performance.now() + RETRY_MS;
    for (;;) {
      try {
        return await keepEither(runner, events, now, notes);
      } catch (error) {
        if (!isLockTimeout(error) && !isRowError(error)) throw error;
        if (events.length > 1) break;
        if (isRowError(error) || performance.now() >= deadline) {
          failed.push(error);
          return [];
        }
        await pause(PAUSE_MS);
      }
    }
    const middle = Math.ceil(events.length / 2);
    return [
      ...(await keepFree(runner, events.slice(0, middle), now, notes, failed)),
      ...(await keepFree(runner, events.slice(middle), now, notes, failed)),
    ];
  }

  return {
    async emit(runner, events, now, notes) {
      // Of several with one name, the first one counts.
      const different = [...new Map(events.toReversed().map((event) => [event.name, event])).values()];
      const failed: unknown[] = [];
      const first = new Set(await keepFree(runner, different, now, notes, failed));
      if (failed.length > 0) throw failed[0] as Error;
      return events.map(({ name }) => ({ first: first.delete(name) }));
    },
    async emitIn(runner, event, now) {
      try {
        return await runner.isolated(async (isolated) => {
          const first = await keep(isolated, emitInside, [event], now, []);
          return { first: first.length > 0 };
        });
      } catch (error) {
        if (!isPermissionDenied(error)) throw error;
        return { first: (await keepByFunction(runner, emitByFunctionInside, [event])).length > 0 };
      }
    },
    async purge(runner, limit, now) {
      const [row] = await runner.run(purge, [now, limit]);
      return row?.[0] as number;
    },
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}
