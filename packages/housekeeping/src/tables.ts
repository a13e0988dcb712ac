import { NotRetryable } from "holdfast";
import { quoteIdentifier, readCount, type Database } from "holdfast/pack";
import type { CheckedDeletion, TimeFormat } from "./rules.js";

/** A table, or one of the tables that hold its rows: a partition, or a table that inherits from it. */
export interface TablePart {
  /** For SQL. */
  from: string;
  /** The quoted name, for errors. */
  name: string;
  /** The columns that identify a row: `ctid` on PostgreSQL; the row id or the primary key on SQLite. */
  rowId: readonly string[];
  /** The first column of each index. */
  indexed: readonly string[];
}

/** The tables that hold the rows. Throws, without a retry, if the deletion cannot work. */
export function findTable(db: Database, deletion: CheckedDeletion): Promise<readonly TablePart[]> {
  return db.dialect === "postgres" ? findOnPostgres(db, deletion) : findOnSqlite(db, deletion);
}

/** The types of a column that stores times so; without those of SQLite, which has none. */
const COLUMN_TYPES: Readonly<Record<TimeFormat, readonly string[]>> = {
  native: ["timestamp with time zone", "timestamp without time zone", "date"],
  utc: ["timestamp without time zone"],
  milliseconds: ["bigint", "numeric", "double precision"],
  seconds: ["bigint", "integer", "numeric", "double precision"],
  text: [],
};

async function findOnPostgres(db: Database, { table, times, where }: CheckedDeletion): Promise<TablePart[]> {
  const name = db.table(table);
  // A ctid identifies a row in one table only, so each partition is a table of its own.
  const tables = await db.query(
    `WITH RECURSIVE part(id) AS (
       SELECT pg_catalog.to_regclass(?)::pg_catalog.oid
       UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN part ON i.inhparent = part.id)
     SELECT n.nspname::text AS schema, c.relname::text AS name, c.relkind::text AS kind,
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_index x
             JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
             WHERE x.indrelid = c.oid AND x.indisvalid) AS indexed
     FROM part JOIN pg_catalog.pg_class c ON c.oid = part.id JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     ORDER BY n.nspname, c.relname`,
    [name],
  );
  if (tables.length === 0) throw missing(`the table ${name}`);
  const found = await db.query<{ name: string; type: string }>(
    `SELECT a.attname::text AS name,
       pg_catalog.format_type(CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END, NULL) AS type
     FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
     WHERE a.attrelid = pg_catalog.to_regclass(?) AND a.attnum > 0 AND NOT a.attisdropped`,
    [name],
  );
  checkColumns(
    name,
    where,
    found.map((column) => column.name),
  );
  for (const { column } of where) {
    const type = found.find((each) => each.name === column)?.type ?? "";
    if (COLUMN_TYPES[times].includes(type)) continue;
    const allowed = COLUMN_TYPES[times].join(", ");
    throw new NotRetryable(
      `the column ${quote(column)} of ${name} has the type ${type}; with times: "${times}" it must be one of: ${allowed}`,
    );
  }
  return tables
    .filter(({ kind }) => kind !== "p")
    .map(({ schema, name: part, kind, indexed }) => {
      const from = `${quote(schema)}.${quote(part)}`;
      if (kind !== "r") throw new NotRetryable(`${from} is not a table; name the table that holds the rows`);
      return { from: `ONLY ${from}`, name: from, rowId: ["ctid"], indexed: indexed as string[] };
    });
}

async function findOnSqlite(db: Database, { table, times, where }: CheckedDeletion): Promise<TablePart[]> {
  const name = db.table(table);
  const [found] = await db.query("SELECT type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", [table]);
  if (found === undefined) throw missing(`the table ${name}`);
  if (found["type"] !== "table") throw new NotRetryable(`${name} is not a table; name the table that holds the rows`);
  // Also lists generated columns, unlike table_info.
  const rows = await db.query("SELECT name, pk FROM pragma_table_xinfo(?)", [table]);
  const names = rows.map((row) => String(row["name"]));
  checkColumns(name, where, names);
  for (const { column } of where) await checkFormat(db, name, { column, times });
  const indexed = await db.query<{ name: string }>(
    "SELECT i.name FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i WHERE i.seqno = 0",
    [table],
  );
  const part = { from: name, name, indexed: indexed.map((each) => each.name) };
  const hasRowId = readCount(found["wr"]) === 0;
  const free = ["rowid", "_rowid_", "oid"].find((each) => !names.some((column) => column.toLowerCase() === each));
  if (hasRowId && free !== undefined) return [{ ...part, rowId: [free] }];
  const key = rows.filter((row) => readCount(row["pk"]) > 0).map((row) => quote(row["name"]));
  if (key.length === 0) throw new NotRetryable(`${name} has no primary key`);
  return [{ ...part, rowId: key }];
}

/** The last Julian day that SQLite's functions read. Larger numbers are no dates to them. */
const MAX_JULIAN_DAY = 5_373_484.5;

/** SQLite has no types for times, and compares texts with numbers without an error: no row would ever be old. */
async function checkFormat(
  db: Database,
  table: string,
  { column, times }: { column: string; times: TimeFormat },
): Promise<void> {
  const name = quote(column);
  // Texts are sorted behind numbers. With an index, this reads one entry.
  const [row] = await db.query(`SELECT ${name} AS value FROM ${table} ORDER BY ${name} DESC LIMIT 1`);
  const value = row?.["value"];
  const isWrong =
    times === "text"
      ? (typeof value === "number" || typeof value === "bigint") && value > MAX_JULIAN_DAY
      : typeof value === "string" && Number.isNaN(Number(value));
  if (!isWrong) return;
  const [holds, advice] = times === "text" ? ["numbers", '"milliseconds" or "seconds"'] : ["text", '"text"'];
  throw new NotRetryable(`the column ${name} of ${table} holds ${holds}; set times: ${advice}`);
}

const quote = (name: unknown): string => quoteIdentifier(String(name), "column");

function checkColumns(table: string, where: CheckedDeletion["where"], found: readonly string[]): void {
  const wanted = where.flatMap(({ column, and }) => (and === null ? [column] : [column, and.column]));
  const lacking = wanted.find((column) => !found.includes(column));
  if (lacking !== undefined) throw missing(`the column ${quote(lacking)} of ${table}`);
}

/** Another attempt would not find it either. */
function missing(what: string): NotRetryable {
  return new NotRetryable(`${what} does not exist; correct the rule, or create it`);
}
