import type { Db, Statement } from "./db.js";
import { sqlState } from "./faults.js";
import type { Sql } from "./sql.js";

// A table of this many rows has its index in a moment, in which writers may wait.
const SMALL = 20_000;
const AGAIN_MS = 60_000;
// Not the bare column: the planner would find the index of all types as good as this one, and walk over the others.
const queueOf = (row: string): string => `(${row}queue || '')`;

/** The index's name. */
export const TYPES_INDEX = "live_types";

/** Rows of a lane `l` with a type, as SQL that only this index serves. */
export const MATCH_TYPE: string = `j.type = l.type AND ${queueOf("j.")} = l.queue`;

/**
 * The index of claims for given types. It costs every job, and few workers ask for types: so it is made when one first
 * does, while claims go on without it. A role that may not make it leaves claims for types slow behind other types.
 */
export class TypesIndex {
  readonly #db: Db;
  readonly #schema: string;
  readonly #stopped = new AbortController();
  #making: Promise<void> | null = null;
  #triedAt = Number.NEGATIVE_INFINITY;
  /** Whether claims can use it. */
  isThere = false;

  constructor({ s }: Sql, db: Db) {
    this.#db = db;
    this.#schema = s;
  }

  /** Sees to it that the index comes to be; answers when a small one is there, and does not wait for a large one. */
  async ensure(): Promise<void> {
    const now = performance.now();
    if (this.isThere || this.#making !== null || now - this.#triedAt < AGAIN_MS) return;
    this.#triedAt = now;
    const [row] = await this.#db.run(this.#look(), []);
    const [valid, small] = [row?.[0] as boolean | null | undefined, row?.[1] === true];
    // Another process is at it.
    if (row?.[2] === true) return;
    if (valid === true) this.isThere = true;
    else if (small) await this.#make(valid === false, "");
    else this.#making = this.#make(valid === false, "CONCURRENTLY").finally(() => (this.#making = null));
  }

  /** Leaves what is being made to the server, which may have to wait for the end of every open transaction. */
  async stop(): Promise<void> {
    this.#stopped.abort(new Error("the store was closed"));
    await this.#making;
  }

  #look(): Statement {
    const s = this.#schema;
    return {
      name: "",
      text: `SELECT (SELECT indisvalid FROM pg_catalog.pg_index WHERE indexrelid = to_regclass('${s}.${TYPES_INDEX}')),
        (SELECT count(*) FROM (SELECT 1 FROM ${s}.live LIMIT ${SMALL}) AS few) < ${SMALL},
        EXISTS (SELECT 1 FROM pg_catalog.pg_stat_progress_create_index WHERE relid = to_regclass('${s}.live'))`,
    };
  }

  async #make(broken: boolean, how: "" | "CONCURRENTLY"): Promise<void> {
    const s = this.#schema;
    const create = `CREATE INDEX ${how} IF NOT EXISTS ${TYPES_INDEX} ON ${s}.live (type, ${queueOf("")}, priority, due_at, seq)`;
    try {
      // What was left half made by a process that died. One that is being made this moment is locked, and left alone.
      if (broken) await this.#db.transaction((tx) => tx.script(`${brief} DROP INDEX ${s}.${TYPES_INDEX}`));
      if (how === "") await this.#db.transaction((tx) => tx.script(`${brief} ${create}`));
      else await this.#db.runLong(create, this.#stopped.signal);
      this.isThere = true;
    } catch (error) {
      // No rights, somebody holds the table, or two make it at once: claims go on without it.
      if (how === "" && !PASSED_OVER.has(sqlState((error as Error).cause))) throw error;
    }
  }
}

// Of rights, of a lock, of a name that another process has just taken.
const PASSED_OVER: ReadonlySet<string> = new Set(["42501", "55P03", "42P07", "23505"]);
// Whoever waits for a lock on the table makes all others wait behind it.
const brief = "SET LOCAL lock_timeout = '200ms';";
