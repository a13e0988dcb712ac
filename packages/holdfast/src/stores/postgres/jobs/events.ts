import { eventTopic } from "../../../job/stored-step.js";
import type { EmitResult, NewEvent } from "../../../store.js";
import type { Runner, Statement } from "../connection/db.js";
import { isLockTimeout, isRowError } from "../connection/errors.js";
import { NOW, rowsOf, type Sql } from "../connection/sql.js";
import { SHORT_LOCK_WAIT } from "./lock-retry.js";
import { NOTES, readNotes } from "./wake-notes.js";

export interface EventOperations {
  /**
   * Keeps events; `notes` gets the numbers of their notes. Throws, after all others are kept, if one cannot be stored, or if a
   * transaction that emits one stays open.
   */
  emit(runner: Runner, events: readonly NewEvent[], now: number | null, notes: string[]): Promise<EmitResult[]>;
  /** In the caller's transaction: waits for another one that emits the same event. */
  emitIn(runner: Runner, event: NewEvent, now: number | null): Promise<EmitResult>;
  purge(runner: Runner, limit: number, now: number | null): Promise<number>;
}

// How long to wait for a transaction that is about to emit the same event.
const RETRY_MS = 2_000;
const PAUSE_MS = 50;

export function eventOperations(sql: Sql): EventOperations {
  const { s } = sql;
  // A repeated event also leaves a note: the process that emitted it first may have crashed.
  const text = (lockWait: string, isSet: string): string => `WITH ${NOW}, ${lockWait} e AS MATERIALIZED (
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
     SELECT true, name FROM kept UNION ALL SELECT false, ${NOTES}`;
  const emitOwn = sql.statement("emit", text(`${SHORT_LOCK_WAIT},`, "(SELECT true FROM lock_wait)"));
  const emitInside = sql.statement("emit_inside", text("", "true"));
  const purge = sql.statement(
    "purge_events",
    `WITH ${NOW}, past AS (
       DELETE FROM ${s}.events WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${s}.events WHERE keep_until <= (SELECT now FROM t) ORDER BY keep_until LIMIT $2::bigint FOR UPDATE SKIP LOCKED)) RETURNING 1
     ) SELECT pg_catalog.count(*)::float8 FROM past`,
  );

  /** Events with different names. Returns which are the first of their name. */
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
        return await keep(runner, emitOwn, events, now, notes);
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
      return { first: (await keep(runner, emitInside, [event], now, [])).length > 0 };
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
