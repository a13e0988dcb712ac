import { createHash } from "node:crypto";
import { STALE_ERROR } from "../../../job/state.js";
import type { Statement } from "./db.js";
import { qualify, type Qualified } from "./qualify.js";

/** What statements are made with: the schema's name, and the type of users. */
export interface Sql {
  /** The schema, quoted. */
  s: string;
  user: string;
  /** A statement under a name that no other text has. */
  statement(name: string, text: string): Statement;
}

export function sqlFor(schema: string, user: string): Sql {
  return {
    s: schema,
    user,
    statement: (name, text) => new Prepared(name, text),
  };
}

/** Made ready when it is first used: a process uses few of all the statements there are. */
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
 * The time of a statement, in milliseconds: the server's own, or the first value where a test's clock rules. Read once,
 * so that the planner can use it for an index.
 */
export const NOW: string =
  "t AS MATERIALIZED (SELECT coalesce($1::bigint, (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint) AS now)";

/** More than a column of its type can hold would fail every claim of the queue. */
export const MOST_LOSSES = 32_767;

export const LEASED = "('claimed', 'running')";
export const WAITING = "('pending', 'failed')";

/** `attemptsUsed` of state.ts, as SQL over a row of the live table. */
export function usedAttempts(row: string): string {
  return `CASE WHEN ${row}.state = 'claimed' AND ${row}.losses = 0 THEN greatest(0, ${row}.attempt - 1) ELSE ${row}.attempt END`;
}

/** The entry that a lost lease leaves in its job's history, as SQL over the row as it was. */
export function lostAttempt(row: string): string {
  const error = `pg_catalog.json_build_object('message', '${STALE_ERROR.message}', 'code', '${STALE_ERROR.code}', 'stack', NULL)`;
  return `pg_catalog.json_build_object('attempt', ${row}.attempt, 'worker', ${row}.worker, 'claimedAt', ${row}.claimed_at,
    'startedAt', ${row}.started_at, 'endedAt', (SELECT now FROM t), 'error', ${error})`;
}

/**
 * Whether a column with a user holds the one in `place`: in the column's own type, so that an index serves it. A text that
 * is none of that type is nobody's.
 */
export function ofUser({ user }: Sql, column: string, place: string): string {
  if (user === "text") return `${column} = ${place}::text`;
  const form = user === "uuid" ? "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$" : "^-?[0-9]{1,18}$";
  return `${column} = CASE WHEN ${place}::text ~ '${form}' THEN ${place}::text::${user} END`;
}

/** Conditions with bound values; those whose value is missing are left out. */
export class Conditions {
  readonly values: unknown[];
  readonly #terms: string[] = [];

  /** Parts of one statement share its values. */
  constructor(values: unknown[] = []) {
    this.values = values;
  }

  /** `term` gets the place of the value. */
  add(term: (place: string) => string, value: unknown): void {
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
 * The rows of some arrays, beside each other and filled up with NULL; for FROM. `arrays` has commas between. It is what
 * `unnest` with several arrays means, which cannot be written with its schema.
 */
export function rowsOf(arrays: string): string {
  const each = arrays.split(",").map((array) => `pg_catalog.unnest(${array.trim()})`);
  return `ROWS FROM (${each.join(", ")})`;
}

/** A column of some rows. One in which nothing stands costs nothing: `unnest` fills it up with NULL. */
export function orNull<Item, Value>(
  rows: readonly Item[],
  column: (row: Item) => Value | null,
): (Value | null)[] | null {
  return rows.every((row) => column(row) === null) ? null : rows.map(column);
}

/** A column in which the same stands throughout has it once; the statement takes the first for those that are missing. */
export function once<Item, Value>(rows: readonly Item[], column: (row: Item) => Value): Value[] {
  const [first] = rows;
  if (first === undefined) return [];
  const value = column(first);
  return rows.every((row) => column(row) === value) ? [value] : rows.map(column);
}

// What JSON writes in another way than PostgreSQL does.
const UNLIKE_JSON = /[\p{Cc}\p{Cs}]/u;

/** A list of texts as PostgreSQL writes it: in a fraction of the time that the driver takes. */
export function textArray(texts: readonly string[]): string {
  return `{${texts.map(quoted).join(",")}}`;
}

function quoted(text: string): string {
  if (!UNLIKE_JSON.test(text)) return JSON.stringify(text);
  return `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}
