import { NotRetryable } from "holdfast";
import { quoteIdentifier, readCount, type Database } from "holdfast/pack";

/** A table, or a partition of one. */
export interface TablePart {
  /** For SQL. */
  from: string;
  /** The columns that identify a row: `ctid` on PostgreSQL; the row id or the primary key on SQLite. */
  rowId: readonly string[];
  dialect: Database["dialect"];
}

/** The parts of a table. Throws, without a retry, if it or one of these columns does not exist. */
export function findTable(db: Database, table: string, columns: readonly string[]): Promise<readonly TablePart[]> {
  return db.dialect === "postgres" ? findOnPostgres(db, table, columns) : findOnSqlite(db, table, columns);
}

/** A statement that deletes the rows that `condition` selects, and returns a row for each. */
export function deletionFrom({ from, rowId, dialect }: TablePart, condition: string): string {
  const found = `SELECT ${rowId.join(", ")} FROM ${from} ${condition}`;
  if (dialect === "postgres") {
    // Rows that another session has locked are left for the next run: it may be about to renew them.
    return `DELETE FROM ${from} WHERE ctid = ANY (ARRAY(${found} FOR UPDATE SKIP LOCKED)) RETURNING 1 AS deleted`;
  }
  return `DELETE FROM ${from} WHERE (${rowId.join(", ")}) IN (${found}) RETURNING 1 AS deleted`;
}

async function findOnPostgres(db: Database, table: string, columns: readonly string[]): Promise<TablePart[]> {
  const name = db.table(table);
  const [found] = await db.query(
    `SELECT c.relkind AS kind,
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
     FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass(?)`,
    [name],
  );
  if (found === undefined) throw missing(`the table ${name}`);
  checkColumns(name, columns, found["columns"] as string[]);
  // A ctid identifies a row in one table only, so each partition is a table of its own.
  if (found["kind"] === "p") {
    const leaves = await db.query(
      `SELECT n.nspname AS schema, c.relname AS name
       FROM pg_catalog.pg_partition_tree(?::text::pg_catalog.regclass) AS t
       JOIN pg_catalog.pg_class c ON c.oid = t.relid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
       WHERE t.isleaf ORDER BY n.nspname, c.relname`,
      [name],
    );
    return leaves.map(({ schema, name: leaf }) => postgresPart(`${quote(schema)}.${quote(leaf)}`));
  }
  if (found["kind"] !== "r") throw new NotRetryable(`${name} is not a table; name the table that holds the rows`);
  return [postgresPart(name)];
}

const postgresPart = (name: string): TablePart => ({ from: `ONLY ${name}`, rowId: ["ctid"], dialect: "postgres" });

async function findOnSqlite(db: Database, table: string, columns: readonly string[]): Promise<TablePart[]> {
  const name = db.table(table);
  const [found] = await db.query("SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", [table]);
  if (found === undefined) throw missing(`the table ${name}`);
  if (found["type"] !== "table") throw new NotRetryable(`${name} is not a table; name the table that holds the rows`);
  const rows = await db.query("SELECT name, pk FROM pragma_table_info(?)", [table]);
  const names = rows.map((row) => String(row["name"]));
  checkColumns(name, columns, names);
  const hasRowId = readCount(found["wr"]) === 0;
  const free = ["rowid", "_rowid_", "oid"].find((each) => !names.some((column) => column.toLowerCase() === each));
  if (hasRowId && free !== undefined) return [{ from: name, rowId: [free], dialect: "sqlite" }];
  const key = rows.filter((row) => readCount(row["pk"]) > 0).map((row) => quote(row["name"]));
  if (key.length === 0) throw new NotRetryable(`${name} has no primary key`);
  return [{ from: name, rowId: key, dialect: "sqlite" }];
}

const quote = (name: unknown): string => quoteIdentifier(String(name), "column");

function checkColumns(table: string, wanted: readonly string[], found: readonly string[]): void {
  const lacking = wanted.find((column) => !found.includes(column));
  if (lacking !== undefined) throw missing(`the column ${quote(lacking)} of ${table}`);
}

/** Another attempt would not find it either. */
function missing(what: string): NotRetryable {
  return new NotRetryable(`${what} does not exist; correct the rule, or create it`);
}
