import { createHash } from "node:crypto";
import { STALE_ERROR } from "../../../job/state.js";
import type { Statement } from "./db.js";
import { qualify, type Qualified } from "./qualify.js";

/** What the SQL of a store depends on: the schema's name and the type of users. */
export interface Sql {
  /** The schema, quoted. */
  s: string;
  user: string;
  /** Whether the tables have what migration 8 adds. They lack it only when that is undone. */
  hasJobSettings: boolean;
  /** The same for migration 10. */
  hasFollowing: boolean;
  /** The same for migration 15. */
  hasSteps: boolean;
  /** A statement with a unique name: a hash of its text is added. */
  statement(name: string, text: string): Statement;
}

export function sqlFor(
  schema: string,
  user: string,
  /** For functions of the schema before this migration. */
  before: 8 | 10 | 15 | null = null,
): Sql {
  return {
    s: schema,
    user,
    hasJobSettings: before !== 8,
    hasFollowing: before === null || before > 10,
    hasSteps: before === null,
    statement: (name, text) => new Prepared(name, text),
  };
}

/** Qualified and hashed when it is first used: a process uses few of all the statements. */
class Prepared implements Statement {
  readonly #title: string;
  readonly #source: string;
  #made: Pick<Statement, "name" | "text"> | null = null;

  constructor(title: string, source: string) {
    this.#title = title;
    this.#source = source;
  }

  get name(): string {
    return this.#ready().name;
  }

  get text(): Qualified {
    return this.#ready().text;
  }

  #ready(): Pick<Statement, "name" | "text"> {
    if (this.#made === null) {
      const text = qualify(this.#source);
      const hash = createHash("sha256").update(text).digest("hex").slice(0, 12);
      this.#made = { name: `holdfast_${this.#title}_${hash}`, text };
    }
    return this.#made;
  }
}

/**
 * The time of a statement in milliseconds: the server's, or the first value if a test sets the clock. Materialized, so
 * that it is read once and the planner can use it in an index condition.
 */
export const NOW: string =
  "t AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint) AS now)";

/** The maximum of the column: one more would fail every claim of the queue. */
export const MAX_LOSSES = 32_767;

export const LEASED = "('claimed', 'running')";
export const WAITING = "('pending', 'failed')";

/** `attemptsUsed` of state.ts, as SQL over a row of the live table. */
export function usedAttempts(row: string): string {
  return `CASE WHEN ${row}.state = 'claimed' AND ${row}.losses = 0 THEN greatest(0, ${row}.attempt - 1) ELSE ${row}.attempt END`;
}

/** The attempt record of an expired lease, as SQL over the previous row. */
export function lostAttempt(row: string): string {
  const error = `pg_catalog.json_build_object('message', '${STALE_ERROR.message}', 'code', '${STALE_ERROR.code}', 'stack', NULL)`;
  return `pg_catalog.json_build_object('attempt', ${row}.attempt, 'fence', ${row}.fence, 'end', 'expired', 'worker', ${row}.worker,
    'claimedAt', ${row}.claimed_at, 'startedAt', ${row}.started_at, 'endedAt', (SELECT now FROM t), 'error', ${error})`;
}

/** A UUID, as a regular expression for SQL and for JavaScript. */
export const UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$";

/**
 * Compares a column with the user in `placeholder`, in the column's own type so that an index can be used. A string
 * that is not valid for that type matches no row.
 */
export function ofUser({ user }: Sql, column: string, placeholder: string): string {
  if (user === "text") return `${column} = ${placeholder}::text`;
  const form = user === "uuid" ? UUID : "^-?[0-9]{1,18}$";
  return `${column} = CASE WHEN ${placeholder}::text ~ '${form}' THEN ${placeholder}::text::${user} END`;
}

/** Conditions with bound values. A condition without a value is left out. */
export class Conditions {
  readonly values: unknown[];
  readonly #terms: string[] = [];

  /** Several parts of one statement can share its values. */
  constructor(values: unknown[] = []) {
    this.values = values;
  }

  /** `term` gets the placeholder of the value. */
  add(term: (placeholder: string) => string, value: unknown): void {
    if (value === undefined || value === null) return;
    this.values.push(value);
    this.#terms.push(term(`$${this.values.length}`));
  }

  /** A condition without a value. */
  always(term: string): void {
    this.#terms.push(term);
  }

  get where(): string {
    return this.#terms.length === 0 ? "" : `WHERE ${this.#terms.join(" AND ")}`;
  }
}

/**
 * Arrays as the columns of a table, for FROM; shorter arrays are padded with NULL. `arrays` is comma-separated. The
 * same as `unnest` with several arrays, which cannot be schema-qualified.
 */
export function rowsOf(arrays: string): string {
  const each = arrays.split(",").map((array) => `pg_catalog.unnest(${array.trim()})`);
  return `ROWS FROM (${each.join(", ")})`;
}

/** One column of some rows, or null if all values are null: `unnest` pads it with NULL. */
export function orNull<Item, Value>(
  rows: readonly Item[],
  column: (row: Item) => Value | null,
): (Value | null)[] | null {
  return rows.every((row) => column(row) === null) ? null : rows.map(column);
}

/** One column of some rows. If all values are equal it has one element, and the statement uses that for all rows. */
export function once<Item, Value>(rows: readonly Item[], column: (row: Item) => Value): Value[] {
  const [first] = rows;
  if (first === undefined) return [];
  const value = column(first);
  return rows.every((row) => column(row) === value) ? [value] : rows.map(column);
}

// Characters that JSON and PostgreSQL escape differently.
const UNLIKE_JSON = /[\p{Cc}\p{Cs}]/u;

/** An array literal of PostgreSQL. Much faster than the one of the driver. */
export function textArray(texts: readonly string[]): string {
  return `{${texts.map(quoted).join(",")}}`;
}

function quoted(text: string): string {
  if (!UNLIKE_JSON.test(text)) return JSON.stringify(text);
  return `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}
