import type { Statement } from "../connection/db.js";
import { NOW, type Sql } from "../connection/sql.js";

export const FOLLOWED_UNTIL = "followed_until";

/**
 * The value of this sequence is until when transitions are recorded; 0 or none: they are not. A sequence, because its value is
 * no part of any snapshot: a statement in an older REPEATABLE READ transaction sees it too. And it costs no plan node: reading a
 * table would cost every statement 6 µs, this costs about one.
 */
export function followedUntil(s: string): string {
  return `pg_catalog.pg_sequence_last_value('${s}.${FOLLOWED_UNTIL}')`;
}

/** How a statement that changes states treats transitions. */
export interface Recording {
  /** The part `t` with the time. */
  now: string;
  /** An integer expression for statements without `t`; it fails as `now` does. */
  guard: string;
  /**
   * A part that records the rows of a relation (`id`, `queue`, `type`, `state`), with a comma after it; empty if nothing is
   * recorded. `state`: SQL over the row `x`. `now`: SQL of the time, if there is no `t`.
   */
  of(from: string, how?: { state?: string; now?: string }): string;
  /** SQL that only statements need which record. */
  only(text: string): string;
}

/** For statements that record nothing: the tables of migration 10 do not exist. */
const NOT_RECORDED: Recording = { now: NOW, guard: "1", of: () => "", only: () => "" };

/** For statements that record whenever jobs are followed. */
export function recorded({ s, hasFollowing }: Sql): Recording {
  if (!hasFollowing) return NOT_RECORDED;
  return {
    now: NOW,
    guard: "1",
    of(from, { state = "x.state", now } = {}) {
      const at = now ?? "(SELECT now FROM t)";
      // In a subquery, so that it is evaluated once and not for each row.
      const isFollowed =
        now === undefined ? `(SELECT ${followedUntil(s)} > now FROM t)` : `(SELECT ${followedUntil(s)} > ${now})`;
      return `recorded AS (
        INSERT INTO ${s}.transitions (at, queue, type, state, jobs)
        SELECT ${at}, x.queue, x.type, ${state}, pg_catalog.array_agg(x.id) FROM ${from} x WHERE ${isFollowed}
        GROUP BY x.queue, x.type${state === "x.state" ? ", x.state" : ""}),`;
    },
    only: (text) => text,
  };
}

/** For statements that record nothing and fail with a division by zero if jobs are followed. */
export function guarded({ s }: Sql): Recording {
  const guard = `CASE WHEN ${followedUntil(s)} > 0 THEN 0 ELSE 1 END`;
  return {
    now: NOW.replace(/ AS now\)$/, ` / ${guard} AS now)`),
    guard: `1 / ${guard}`,
    of: () => "",
    only: () => "",
  };
}

/** A statement that changes states, in both forms. */
export interface StateStatement {
  guarded: Statement;
  recorded: Statement;
}

export function stateStatement(sql: Sql, name: string, text: (recording: Recording) => string): StateStatement {
  return {
    guarded: sql.statement(name, text(guarded(sql))),
    recorded: sql.statement(`${name}_recorded`, text(recorded(sql))),
  };
}
