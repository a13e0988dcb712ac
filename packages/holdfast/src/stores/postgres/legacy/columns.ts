import { InvalidOptionError } from "../../../errors.js";
import { show } from "../../../options.js";
import type { Field, LegacyMap } from "./options.js";
import { quote, type Column } from "./table.js";

/** SQL that reads a column of the old row `l`, or null if its type does not fit. */
type Reader = (column: Column) => string | null;

const text: Reader = ({ name }) => `l.${quote(name)}::text`;

/** An empty string counts as no value. */
function notEmpty(name: string): string {
  const value = `l.${quote(name)}::text`;
  return `(CASE WHEN ${value} <> '' THEN ${value} END)`;
}

const whole: Reader = ({ name, category }) => {
  if (category === "N") return `l.${quote(name)}::integer`;
  return category === "S" ? `${notEmpty(name)}::integer` : null;
};

// 10^11 seconds is in the year 5138, 10^11 milliseconds in 1973.
const SECONDS_BELOW = 100_000_000_000;

const time: Reader = ({ name, type, category }) => {
  const column = `l.${quote(name)}`;
  if (category === "N") {
    return `(CASE WHEN pg_catalog.abs(${column}) < ${SECONDS_BELOW} THEN ${column} * 1000.0 ELSE ${column} END)::bigint`;
  }
  if (category === "S") return milliseconds(`${notEmpty(name)}::timestamptz`);
  return ["timestamptz", "timestamp", "date"].includes(type) ? milliseconds(`${column}::timestamptz`) : null;
};

function milliseconds(timestamp: string): string {
  return `(extract(epoch FROM ${timestamp}) * 1000)::bigint`;
}

const json: Reader = ({ name, type, category }) => {
  if (type === "json" || type === "jsonb") return `l.${quote(name)}::json`;
  return category === "S" ? `${notEmpty(name)}::json` : null;
};

const NO_TIME = "is not a time";
const NO_NUMBER = "is not a number";
const NO_JSON = "is not JSON; use an array, [column], to make it a member of an object";
const ANY = "cannot be read";

interface Kind {
  read: Reader;
  sqlType: string;
  /** For error messages: why a value or column cannot be read. */
  otherwise: string;
}
const TEXT: Kind = { read: text, sqlType: "text", otherwise: ANY };
const WHOLE: Kind = { read: whole, sqlType: "integer", otherwise: NO_NUMBER };
const TIME: Kind = { read: time, sqlType: "bigint", otherwise: NO_TIME };
const JSON_KIND: Kind = { read: json, sqlType: "json", otherwise: NO_JSON };

const KINDS: Readonly<Record<Field, Kind>> = {
  id: TEXT,
  status: TEXT,
  user: TEXT,
  input: JSON_KIND,
  inputMerge: { ...JSON_KIND, otherwise: "is not a JSON object" },
  output: JSON_KIND,
  error: TEXT,
  queue: TEXT,
  priority: WHOLE,
  attempt: WHOLE,
  retries: WHOLE,
  maxAttempts: WHOLE,
  maxRetries: WHOLE,
  runAt: TIME,
  expiresAt: TIME,
  createdAt: TIME,
  updatedAt: TIME,
  claimedAt: TIME,
  startedAt: TIME,
  finishedAt: TIME,
};

function userKind(type: string): Kind {
  return {
    read: (column) => `${text(column)}::${type}`,
    sqlType: type,
    otherwise: `is not a ${type}, the userType of this store`,
  };
}

/** SQL over the old row `l` for each field; NULL for fields that are not mapped. */
export interface Reading {
  sql: Readonly<Record<Field, string>>;
  /** The mapped fields, with the error message for one that cannot be read. */
  mapped: readonly { field: Field; otherwise: string }[];
}

/** Checks the map against the columns of the table. */
export function readColumns(
  map: LegacyMap,
  columns: ReadonlyMap<string, Column>,
  table: string,
  userType: string,
): Reading {
  const kinds = { ...KINDS, user: userKind(userType) };

  function columnOf(name: unknown, option: string): Column {
    const column = typeof name === "string" ? columns.get(name) : undefined;
    if (column !== undefined) return column;
    throw new InvalidOptionError(
      option,
      `${table} has no column ${show(name)}; it has ${[...columns.keys()].map(show).join(", ")}`,
    );
  }

  function read(field: Field): string {
    const { read: reader, sqlType, otherwise } = kinds[field];
    const given = map[field];
    if (given === undefined) return `NULL::${sqlType}`;
    if (typeof given === "object" && sqlType === "json") return objectOf(given, `map.${field}`, columnOf);
    const column = columnOf(given, `map.${field}`);
    const sql = reader(column);
    if (sql !== null) return sql;
    throw new InvalidOptionError(
      `map.${field}`,
      `column ${show(column.name)} is of type ${column.type}, which ${otherwise}`,
    );
  }

  const fields = Object.keys(kinds) as Field[];
  const sql = Object.fromEntries(fields.map((field) => [field, read(field)])) as Record<Field, string>;
  if (map.inputMerge !== undefined) {
    sql.inputMerge = objectIn(sql.inputMerge);
    sql.input = `(${map.input === undefined ? "'{}'::jsonb" : objectIn(sql.input)} OPERATOR(pg_catalog.||) ${sql.inputMerge})::json`;
  }
  return {
    sql,
    mapped: fields
      .filter((field) => map[field] !== undefined)
      .map((field) => ({ field, otherwise: kinds[field].otherwise })),
  };
}

/**
 * A JSON object; NULL becomes an empty one. PostgreSQL raises an error for other values, which have no fields to merge.
 */
function objectIn(sql: string): string {
  const value = `(SELECT o.value FROM (SELECT (${sql})::jsonb AS value) o WHERE o.value <> 'null'::jsonb)`;
  const fields = `pg_catalog.jsonb_each(coalesce(${value}, '{}'::jsonb))`;
  return `(SELECT coalesce(pg_catalog.jsonb_object_agg(f.key, f.value), '{}'::jsonb) FROM ${fields} f)`;
}

// Keys become column names, and PostgreSQL truncates longer names.
const MAX_KEY_BYTES = 63;

/** An object built from columns. */
function objectOf(
  given: readonly string[] | Readonly<Record<string, string>>,
  option: string,
  columnOf: (name: unknown, option: string) => Column,
): string {
  const pairs = Array.isArray(given) ? given.map((name: string) => [name, name] as const) : Object.entries(given);
  const parts = pairs.map(([key, name]) => {
    if (key === "" || key.includes("\0") || Buffer.byteLength(key) > MAX_KEY_BYTES) {
      throw new InvalidOptionError(option, `${show(key)} must have 1 to ${MAX_KEY_BYTES} bytes`);
    }
    return `l.${quote(columnOf(name, `${option}.${key}`).name)} AS ${quote(key)}`;
  });
  if (parts.length === 0) throw new InvalidOptionError(option, "must name at least one column");
  return `(SELECT pg_catalog.row_to_json(o) FROM (SELECT ${parts.join(", ")}) o)`;
}
