import { InvalidOptionError, StoreUnavailableError } from "../../../errors.js";
import { show } from "../../../options.js";
import { type Transaction, unnamed } from "../connection/db.js";
import { sqlState } from "../connection/errors.js";

/** A table as the caller names it. `field` is the option that did. */
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
  /** The type's name, that beneath a domain. */
  type: string;
  /** PostgreSQL's letter for the kind of type: D for times, N for numbers, S for texts, … */
  category: string;
}

export function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function readTableName(value: unknown, field: string): TableName {
  const parts = typeof value === "string" ? value.split(".") : [];
  const name = parts.at(-1) ?? "";
  const isPlain = parts.length <= 2 && parts.every((part) => part !== "" && !part.includes("\0"));
  if (name === "" || !isPlain) throw new InvalidOptionError(field, `${show(value)} is not "table" or "schema.table"`);
  return { schema: parts.length === 2 ? (parts[0] as string) : null, name, field };
}

/** Finds a table, and refuses what is none, or is one of Holdfast's own. */
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
    throw new InvalidOptionError(field, `there is no table ${asked}; was it imported and dropped before?`);
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
 * Keeps everyone else from writing, and from reading too where the table is to go: a lock that is raised later can meet
 * a reader who wants to write, and then both wait for each other.
 */
export async function lockTables(runner: Transaction, table: Table, drop: readonly Table[]): Promise<void> {
  const goes = drop.some(({ oid }) => oid === table.oid);
  const modes = new Map([[table.quoted, goes ? "ACCESS EXCLUSIVE" : "SHARE ROW EXCLUSIVE"]]);
  for (const { quoted } of drop) modes.set(quoted, "ACCESS EXCLUSIVE");
  for (const [quoted, mode] of modes) {
    try {
      await runner.script(`LOCK TABLE ${quoted} IN ${mode} MODE`);
    } catch (error) {
      if (sqlState(error) !== "55P03") throw error;
      throw new StoreUnavailableError(
        `${quoted} is in use, and its lock was not given within ${LOCK_WAIT}; stop what works on it and import again`,
        error,
      );
    }
  }
}

/** How long an import waits for others to let go of a table. */
export const LOCK_WAIT = "10s";

/** Drops tables that nothing else needs, and says what does otherwise. */
export async function dropTables(runner: Transaction, tables: readonly Table[]): Promise<void> {
  if (tables.length === 0) return;
  try {
    await runner.script(`DROP TABLE ${tables.map(({ quoted }) => quoted).join(", ")}`);
  } catch (error) {
    const { detail = "", message } = error as { detail?: string; message: string };
    if (sqlState(error) !== "2BP01") throw error;
    throw new InvalidOptionError(
      "drop",
      `something else still needs what is to be dropped (${detail === "" ? message : detail.replaceAll("\n", "; ")}); drop that first, or leave the table out`,
    );
  }
}
