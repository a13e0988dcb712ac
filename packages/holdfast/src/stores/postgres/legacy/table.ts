import { InvalidOptionError, StoreUnavailableError } from "../../../errors.js";
import { show } from "../../../options.js";
import { type Transaction, unnamed } from "../connection/db.js";
import { sqlState } from "../connection/errors.js";

/** A table as the caller named it, in the option `field`. */
export interface TableName {
  schema: string | null;
  name: string;
  field: string;
}

/** A table that exists. */
export interface Table {
  oid: string;
  /** `schema.table`, for people. */
  title: string;
  /** For SQL. */
  quoted: string;
  field: string;
}

export interface Column {
  name: string;
  /** The name of the type; of a domain, its base type. */
  type: string;
  /** PostgreSQL's letter for the category of the type: D for times, N for numbers, S for strings, … */
  category: string;
}

export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function readTableName(value: unknown, field: string): TableName {
  const parts = typeof value === "string" ? value.split(".") : [];
  const name = parts.at(-1) ?? "";
  const isPlain = parts.length <= 2 && parts.every((part) => part !== "" && !part.includes("\0"));
  if (name === "" || !isPlain) throw new InvalidOptionError(field, `${show(value)} must be "table" or "schema.table"`);
  return { schema: parts.length === 2 ? (parts[0] as string) : null, name, field };
}

/** Finds a table. Throws if it is not a table, or is one of Holdfast's own. */
export async function findTable(
  runner: Transaction,
  { schema, name, field }: TableName,
  ownSchema: string,
): Promise<Table> {
  const asked = schema === null ? quote(name) : `${quote(schema)}.${quote(name)}`;
  const text = `SELECT c.oid::text, n.nspname, c.relname, c.relkind FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = pg_catalog.to_regclass($1)`;
  const [row] = await runner.run(unnamed(text), [asked]);
  if (row === undefined) {
    throw new InvalidOptionError(field, `the table ${asked} does not exist; was it imported and dropped before?`);
  }
  const [oid, inSchema, found, kind] = row as [string, string, string, string];
  const title = `${inSchema}.${found}`;
  if (!["r", "p"].includes(kind)) throw new InvalidOptionError(field, `${title} is not a table`);
  if (quote(inSchema) === ownSchema) throw new InvalidOptionError(field, `${title} is one of Holdfast's own tables`);
  return { oid, title, quoted: `${quote(inSchema)}.${quote(found)}`, field };
}

export async function columnsOf(runner: Transaction, { oid }: Table): Promise<ReadonlyMap<string, Column>> {
  const text = `SELECT a.attname, b.typname, b.typcategory FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type y ON y.oid = a.atttypid
    JOIN pg_catalog.pg_type b ON b.oid = CASE WHEN y.typbasetype <> 0 THEN y.typbasetype ELSE y.oid END
    WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`;
  const rows = (await runner.run(unnamed(text), [oid])) as [string, string, string][];
  return new Map(rows.map(([name, type, category]) => [name, { name, type, category }]));
}

/**
 * Locks out other writers, and readers too if the table will be dropped: upgrading the lock later could deadlock with a
 * reader that wants to write.
 */
export async function lockTables(runner: Transaction, table: Table, drop: readonly Table[]): Promise<void> {
  const willDrop = drop.some(({ oid }) => oid === table.oid);
  const modes = new Map([[table.quoted, willDrop ? "ACCESS EXCLUSIVE" : "SHARE ROW EXCLUSIVE"]]);
  for (const { quoted } of drop) modes.set(quoted, "ACCESS EXCLUSIVE");
  for (const [quoted, mode] of modes) {
    try {
      await runner.script(`LOCK TABLE ${quoted} IN ${mode} MODE`);
    } catch (error) {
      if (sqlState(error) !== "55P03") throw error;
      throw new StoreUnavailableError(
        `timed out after ${LOCK_WAIT} waiting for a lock on ${quoted}; stop the programs that use it and retry`,
        error,
      );
    }
  }
}

/** How long an import waits for locks. */
export const LOCK_WAIT = "10s";

/** Drops tables. Throws if other objects depend on them. */
export async function dropTables(runner: Transaction, tables: readonly Table[]): Promise<void> {
  if (tables.length === 0) return;
  try {
    await runner.script(`DROP TABLE ${tables.map(({ quoted }) => quoted).join(", ")}`);
  } catch (error) {
    const { detail = "", message } = error as { detail?: string; message: string };
    if (sqlState(error) !== "2BP01") throw error;
    throw new InvalidOptionError(
      "drop",
      `other objects depend on a table to be dropped (${detail === "" ? message : detail.replaceAll("\n", "; ")}); drop those first, or do not drop the table`,
    );
  }
}
