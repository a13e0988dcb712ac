import { SchemaTooNewError } from "../errors.js";
import { COLUMN_TYPES, readCount, type ColumnTypes } from "./columns.js";
import type { Database, Steps, Transaction } from "./sql.js";

/** The tables of a pack, version by version. Published steps never change. */
export interface PackSchema {
  /** Of all tables of the pack, e.g. `newsletter_`. */
  readonly prefix: string;
  /** One function per version: its statements. `table` quotes a name, with the prefix. */
  readonly versions: readonly ((given: { table: (name: string) => string; types: ColumnTypes }) => readonly string[])[];
}

/** Creates or updates the tables of a pack, in one transaction. Other processes that do the same wait, and then change nothing. */
export async function migrate(db: Database, { prefix, versions }: PackSchema): Promise<void> {
  const table = (name: string): string => db.table(prefix + name);
  const record = table("migrations");
  // Reads first: starting an up-to-date process needs no right to create tables, and takes no lock.
  if ((await currentVersion(db, record, prefix)) === versions.length) return;
  await db.transaction(function* (tx): Steps<void> {
    if (db.dialect === "postgres") {
      yield* tx.query("SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext(?))", [`holdfast ${record}`]);
    }
    const types = COLUMN_TYPES[db.dialect];
    yield* tx.query(
      `CREATE TABLE IF NOT EXISTS ${record} (version ${types.integer} PRIMARY KEY, applied_at ${types.time} NOT NULL)`,
    );
    const done = yield* versionIn(tx, record);
    if (done > versions.length) throw tooNew(prefix, done, versions.length);
    for (let version = done + 1; version <= versions.length; version++) {
      for (const statement of versions[version - 1]!({ table, types })) yield* tx.query(statement);
      yield* tx.query(`INSERT INTO ${record} (version, applied_at) VALUES (?, ?)`, [version, new Date()]);
    }
  });
}

function* versionIn(tx: Transaction, record: string): Steps<number> {
  const [row] = yield* tx.query(`SELECT max(version) AS version FROM ${record}`);
  return readCount(row?.["version"] ?? 0);
}

/** 0 if there are no tables yet. */
async function currentVersion(db: Database, record: string, prefix: string): Promise<number> {
  const isThere =
    db.dialect === "postgres"
      ? await db.query("SELECT pg_catalog.to_regclass(?) AS found", [record])
      : await db.query("SELECT name AS found FROM sqlite_master WHERE type = 'table' AND name = ?", [
          `${prefix}migrations`,
        ]);
  if ((isThere[0]?.["found"] ?? null) === null) return 0;
  const [row] = await db.query(`SELECT max(version) AS version FROM ${record}`);
  return readCount(row?.["version"] ?? 0);
}

function tooNew(prefix: string, found: number, known: number): SchemaTooNewError {
  return new SchemaTooNewError(
    `the tables ${prefix}* have version ${found}, and this version of the package knows ${known}; update the package`,
  );
}
