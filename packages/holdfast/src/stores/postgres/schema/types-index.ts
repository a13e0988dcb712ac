import type { Db, Statement } from "../connection/db.js";
import { sqlState } from "../connection/errors.js";
import type { Sql } from "../connection/sql.js";
import { PIN_PATH } from "./migration-steps.js";
import type { UpkeepOperations } from "../jobs/maintenance.js";

// A table of this many rows has its index in a moment, in which writers may wait.
const SMALL = 20_000;
const AGAIN_MS = 60_000;
// Shorter, so that whoever failed finds that it may try again.
const TURN_MS = 0.75 * AGAIN_MS;
// Not the bare column: the planner would find the index of all types as good as this one, and walk over the others.
const queueOf = (row: string): string => `(${row}queue OPERATOR(pg_catalog.||) '')`;

/** The index's name. */
export const TYPES_INDEX = "live_types";

/** Rows of a lane `l` with a type, as SQL that only this index serves. */
export const MATCH_TYPE: string = `j.type = l.type AND ${queueOf("j.")} = l.queue`;

/**
 * The index of claims for given types. It costs every job, and few workers ask for types: so it is made when one first
 * does, while claims go on without it. A role that may not make it leaves claims for types slow behind other types.
 *
 * Two who make a large one at once wait for each other, and the deadlock leaves it half made. So they take turns, by a row
 * of a table: the lock of a session would be another's, or nobody's, behind a pooler in transaction mode. One who takes
 * longer than a turn is seen at work by the others.
 */
export class TypesIndex {
  readonly #db: Db;
  readonly #turns: Pick<UpkeepOperations, "tryAcquireDuty">;
  readonly #look: Statement;
  readonly #drop: Statement;
  readonly #makeSmall: Statement;
  readonly #makeLarge: string;
  readonly #stopped = new AbortController();
  #making: Promise<void> | null = null;
  #triedAt = Number.NEGATIVE_INFINITY;
  /** Whether claims can use it. */
  isThere = false;

  constructor(sql: Sql, db: Db, turns: Pick<UpkeepOperations, "tryAcquireDuty">) {
    const { s } = sql;
    const create = (how: "" | "CONCURRENTLY"): string =>
      `CREATE INDEX ${how} IF NOT EXISTS ${TYPES_INDEX} ON ${s}.live (type, ${queueOf("")}, priority, due_at, seq)`;
    this.#db = db;
    this.#turns = turns;
    this.#look = sql.statement(
      "types_index",
      `SELECT (SELECT indisvalid FROM pg_catalog.pg_index WHERE indexrelid = pg_catalog.to_regclass('${s}.${TYPES_INDEX}')),
        (SELECT pg_catalog.count(*) FROM (SELECT 1 FROM ${s}.live LIMIT ${SMALL}) AS few) < ${SMALL},
        (SELECT pg_catalog.pg_has_role(relowner, 'USAGE') AND pg_catalog.has_schema_privilege(relnamespace, 'CREATE')
          FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass('${s}.live'))
        AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_progress_create_index WHERE relid = pg_catalog.to_regclass('${s}.live'))`,
    );
    this.#drop = sql.statement("types_index_drop", briefly(dropBroken(s)));
    this.#makeSmall = sql.statement("types_index_make", briefly(`${dropBroken(s)} ${create("")};`));
    this.#makeLarge = create("CONCURRENTLY");
  }

  /** Sees to it that the index comes to be; answers when a small one is there, and does not wait for a large one. */
  async ensure(): Promise<void> {
    const now = performance.now();
    if (this.isThere || this.#making !== null || now - this.#triedAt < AGAIN_MS) return;
    this.#triedAt = now;
    const { small, mayMake } = await this.#see();
    if (this.isThere || !mayMake) return;
    if (small) await this.#make();
    else this.#making = this.#makeInTurn().finally(() => (this.#making = null));
  }

  /** Leaves what is being made to the server, which may have to wait for the end of every open transaction. */
  async stop(): Promise<void> {
    this.#stopped.abort(new Error("the store was closed"));
    await this.#making;
  }

  /** That it has the name says nothing: one that is half made has it too. */
  async #see(): Promise<{ small: boolean; mayMake: boolean }> {
    const [row] = await this.#db.run(this.#look, []);
    this.isThere = row?.[0] === true;
    return { small: row?.[1] === true, mayMake: row?.[2] === true };
  }

  async #make(): Promise<void> {
    try {
      await this.#db.run(this.#makeSmall, []);
      await this.#see();
    } catch (error) {
      if (!PASSED_OVER.has(sqlState((error as Error).cause))) throw error;
    }
  }

  async #makeInTurn(): Promise<void> {
    try {
      if (!(await this.#turns.tryAcquireDuty(this.#db, "types index", TURN_MS, null))) return;
      await this.#db.run(this.#drop, []);
      await this.#db.runLong(this.#makeLarge, this.#stopped.signal);
      await this.#see();
    } catch {
      // Whatever it is, claims go on without it, and it is tried again.
    }
  }
}

// Of rights, of a lock, of a name that another process has just taken.
const PASSED_OVER: ReadonlySet<string> = new Set(["42501", "55P03", "42P07", "23505"]);

/** Whoever waits for a lock on the table makes all others wait behind it. */
function briefly(steps: string): string {
  return `DO $$ BEGIN ${PIN_PATH} PERFORM pg_catalog.set_config('lock_timeout', '200ms', true); ${steps} END $$`;
}

/**
 * Drops what was left half made by a process that died. One that is being made this moment looks the same, but the table
 * is locked for it.
 */
function dropBroken(s: string): string {
  const isBroken = `EXISTS (SELECT 1 FROM pg_catalog.pg_index
    WHERE indexrelid = pg_catalog.to_regclass('${s}.${TYPES_INDEX}') AND NOT indisvalid)`;
  return `IF ${isBroken} THEN
    LOCK TABLE ${s}.live IN ACCESS EXCLUSIVE MODE;
    IF ${isBroken} THEN DROP INDEX ${s}.${TYPES_INDEX}; END IF;
  END IF;`;
}
