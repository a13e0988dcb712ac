import type { Db, Statement } from "../connection/db.js";
import { sqlState } from "../connection/errors.js";
import type { Sql } from "../connection/sql.js";
import { PIN_PATH } from "./migration-steps.js";
import type { MaintenanceOperations } from "../jobs/maintenance.js";

// The index of a smaller table is built so quickly that writers can wait for it.
const SMALL = 20_000;
const RETRY_MS = 60_000;
// Shorter, so that a process that failed may try again.
const DUTY_MS = 0.75 * RETRY_MS;
// An expression instead of the bare column. With the column, the planner finds the index of all types equally good and
// scans over the jobs of other types: 90 to 150 ms for a claim behind 500,000 of them, and 1 to 2 ms with this index
// (decision 0005).
const queueOf = (row: string): string => `(${row}queue OPERATOR(pg_catalog.||) '')`;

/** The index's name. */
export const TYPES_INDEX = "live_types";

/** Rows of a lane `l` with a type, as SQL that only this index serves. */
export const MATCH_TYPE: string = `j.type = l.type AND ${queueOf("j.")} = l.queue`;

/**
 * The index for claims of given types. Every job pays for it, and few workers need it. So it is created when a worker
 * first claims by types, and claims work without it until then, but slowly behind many jobs of other types. They stay
 * slow if the role may not create it.
 *
 * Two processes that build a large index concurrently would deadlock and leave it invalid. So one process builds it at
 * a time, by a row of the table `turns`: behind a pooler in transaction mode, a session's advisory lock does not work. A
 * build that takes longer than the duty is visible to the others in `pg_stat_progress_create_index`.
 */
export class TypesIndex {
  readonly #db: Db;
  readonly #duties: Pick<MaintenanceOperations, "tryAcquireDuty">;
  readonly #inspect: Statement;
  readonly #drop: Statement;
  readonly #createSmall: Statement;
  readonly #createLarge: string;
  readonly #stopped = new AbortController();
  #creating: Promise<void> | null = null;
  #triedAt = Number.NEGATIVE_INFINITY;
  /** Whether claims can use it. */
  exists = false;

  constructor(sql: Sql, db: Db, duties: Pick<MaintenanceOperations, "tryAcquireDuty">) {
    const { s } = sql;
    const create = (how: "" | "CONCURRENTLY"): string =>
      `CREATE INDEX ${how} IF NOT EXISTS ${TYPES_INDEX} ON ${s}.live (type, ${queueOf("")}, priority, due_at, seq)`;
    this.#db = db;
    this.#duties = duties;
    this.#inspect = sql.statement(
      "types_index",
      `SELECT (SELECT indisvalid FROM pg_catalog.pg_index WHERE indexrelid = pg_catalog.to_regclass('${s}.${TYPES_INDEX}')),
        (SELECT pg_catalog.count(*) FROM (SELECT 1 FROM ${s}.live LIMIT ${SMALL}) AS few) < ${SMALL},
        (SELECT pg_catalog.pg_has_role(relowner, 'USAGE') AND pg_catalog.has_schema_privilege(relnamespace, 'CREATE')
          FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass('${s}.live'))
        AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_progress_create_index WHERE relid = pg_catalog.to_regclass('${s}.live'))`,
    );
    this.#drop = sql.statement("types_index_drop", withShortLockWait(dropBroken(s)));
    this.#createSmall = sql.statement("types_index_create", withShortLockWait(`${dropBroken(s)} ${create("")};`));
    this.#createLarge = create("CONCURRENTLY");
  }

  /** Creates the index if it is missing. Waits for a small one, and builds a large one in the background. */
  async ensure(): Promise<void> {
    const now = performance.now();
    if (this.exists || this.#creating !== null || now - this.#triedAt < RETRY_MS) return;
    this.#triedAt = now;
    const { small, mayCreate } = await this.#check();
    if (this.exists || !mayCreate) return;
    if (small) await this.#create();
    else this.#creating = this.#createLargeOnce().finally(() => (this.#creating = null));
  }

  /** Stops waiting for a build. The server continues it, and may wait until every open transaction has ended. */
  async stop(): Promise<void> {
    this.#stopped.abort(new Error("the store is closed"));
    await this.#creating;
  }

  /** Checks validity, not only the name: an unfinished index has the name too. */
  async #check(): Promise<{ small: boolean; mayCreate: boolean }> {
    const [row] = await this.#db.run(this.#inspect, []);
    this.exists = row?.[0] === true;
    return { small: row?.[1] === true, mayCreate: row?.[2] === true };
  }

  async #create(): Promise<void> {
    try {
      await this.#db.run(this.#createSmall, []);
      await this.#check();
    } catch (error) {
      if (!IGNORED.has(sqlState((error as Error).cause))) throw error;
    }
  }

  async #createLargeOnce(): Promise<void> {
    try {
      if (!(await this.#duties.tryAcquireDuty(this.#db, "types index", DUTY_MS, null))) return;
      await this.#db.run(this.#drop, []);
      await this.#db.runLong(this.#createLarge, this.#stopped.signal);
      await this.#check();
    } catch {
      // Claims work without the index, and a later call tries again.
    }
  }
}

// Permission denied, lock timeout, or another process has just created it.
const IGNORED: ReadonlySet<string> = new Set(["42501", "55P03", "42P07", "23505"]);

/** With a short lock timeout: all other sessions would queue behind a waiting lock request. */
function withShortLockWait(steps: string): string {
  return `DO $$ BEGIN ${PIN_PATH} PERFORM pg_catalog.set_config('lock_timeout', '200ms', true); ${steps} END $$`;
}

/**
 * Drops an invalid index that a crashed process left. One that is being built looks the same, but then the table is
 * locked.
 */
function dropBroken(s: string): string {
  const isBroken = `EXISTS (SELECT 1 FROM pg_catalog.pg_index
    WHERE indexrelid = pg_catalog.to_regclass('${s}.${TYPES_INDEX}') AND NOT indisvalid)`;
  return `IF ${isBroken} THEN
    LOCK TABLE ${s}.live IN ACCESS EXCLUSIVE MODE;
    IF ${isBroken} THEN DROP INDEX ${s}.${TYPES_INDEX}; END IF;
  END IF;`;
}
