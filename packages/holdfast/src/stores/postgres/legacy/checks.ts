import { LIMITS } from "../../../defaults.js";
import { InvalidOptionError } from "../../../errors.js";
import { show } from "../../../options.js";
import { type Transaction, unnamed } from "../connection/db.js";
import { isDataError } from "../connection/errors.js";
import type { Sql } from "../connection/sql.js";
import type { Reading } from "./columns.js";
import type { ImportPlan } from "./options.js";
import { STAGED } from "./rows.js";
import type { Table } from "./table.js";

const one = async (runner: Transaction, text: string, values: readonly unknown[] = []): Promise<readonly unknown[]> =>
  (await runner.run(unnamed(text), values))[0] ?? [];

/** Throws if a row has no id or an unknown status. Resolves to the number of rows. */
export async function checkRows(
  runner: Transaction,
  plan: ImportPlan,
  table: Table,
  { sql }: Reading,
): Promise<number> {
  const text = `SELECT pg_catalog.lower(pg_catalog.btrim(${sql.status})), pg_catalog.count(*)::float8, pg_catalog.count(*) FILTER (WHERE ${sql.id} IS NULL)::float8
    FROM ${table.quoted} l GROUP BY 1 ORDER BY 2 DESC`;
  const groups = (await runner.run(unnamed(text), [])) as [string | null, number, number][];
  const nameless = groups.reduce((sum, [, , missing]) => sum + missing, 0);
  if (nameless > 0) throw new InvalidOptionError("map.id", `${nameless} rows of ${table.title} have no id`);
  const unknown = groups.filter(([word]) => word === null || !plan.words.has(word));
  if (unknown.length > 0) {
    const examples = unknown.slice(0, 10).map(([word, rows]) => `${show(word)} (${rows} rows)`);
    throw new InvalidOptionError(
      "statuses",
      `${table.title} has unknown statuses: ${examples.join(", ")}; map each to a state, for example { ${JSON.stringify(unknown[0]?.[0] ?? "word")}: "pending" }`,
    );
  }
  return groups.reduce((sum, [, rows]) => sum + rows, 0);
}

/** Throws if a value is out of range for a job. */
export async function checkValues(runner: Transaction, table: Table, { sql }: Reading): Promise<void> {
  const text = `SELECT pg_catalog.min(${sql.priority}), pg_catalog.max(${sql.priority}), pg_catalog.max(pg_catalog.length(${sql.queue})), pg_catalog.max(pg_catalog.length((${sql.user})::text)), pg_catalog.max(pg_catalog.length(${sql.id}))
    FROM ${table.quoted} l`;
  const [lowest, highest, queue, user, id] = (await one(runner, text)) as (number | null)[];
  for (const priority of [lowest, highest]) {
    if (Math.abs(priority ?? 0) <= LIMITS.priority) continue;
    throw new InvalidOptionError(
      "map.priority",
      `${table.title} has the priority ${priority}; priorities must be -${LIMITS.priority} to ${LIMITS.priority}. Remove map.priority and set priority for all rows`,
    );
  }
  refuseLonger("map.queue", queue, LIMITS.queueLength);
  refuseLonger("map.user", user, LIMITS.userLength);
  refuseLonger("map.id", id, LIMITS.tagLength - "legacy:".length);
}

function refuseLonger(field: string, length: number | null | undefined, max: number): void {
  if ((length ?? 0) > max)
    throw new InvalidOptionError(field, `a value is ${length} characters long; the limit is ${max}`);
}

/** Throws if two rows have the same id, if an id belongs to a job of another type, or if an input is too large. */
export async function checkStaged(runner: Transaction, { s }: Sql, plan: ImportPlan, table: Table): Promise<void> {
  const [twice] = await one(
    runner,
    `SELECT id::text FROM ${STAGED} GROUP BY id HAVING pg_catalog.count(*) > 1 LIMIT 1`,
  );
  if (twice !== undefined)
    throw new InvalidOptionError("map.id", `${table.title} has the id ${show(twice)} more than once`);
  const [taken, type] = await one(
    runner,
    `SELECT g.id::text, j.type FROM ${STAGED} g JOIN (SELECT id, type FROM ${s}.live UNION ALL SELECT id, type FROM ${s}.archive) j
       ON j.id = g.id WHERE j.type <> $1 LIMIT 1`,
    [plan.type],
  );
  if (taken !== undefined) {
    throw new InvalidOptionError("map.id", `${show(taken)} is already the id of a job of type ${show(type)}`);
  }
  const [large, bytes] = await one(
    runner,
    `SELECT id::text, input_bytes FROM ${STAGED} WHERE input_bytes > ${LIMITS.payloadBytes}
       AND state NOT IN ('completed', 'dead', 'cancelled') LIMIT 1`,
  );
  if (large !== undefined) {
    throw new InvalidOptionError(
      "map.input",
      `the input of ${show(large)} is ${String(bytes)} bytes of JSON; the limit for a live job is ${LIMITS.payloadBytes}`,
    );
  }
}

/** Finds the column of a value that PostgreSQL could not read: its error names only the value. */
export async function blame(runner: Transaction, error: unknown, table: Table, reading: Reading): Promise<unknown> {
  if (!isDataError(error)) return error;
  await runner.script("ROLLBACK TO SAVEPOINT holdfast_read");
  for (const { field, otherwise } of reading.mapped) {
    try {
      await one(runner, `SELECT pg_catalog.count((${reading.sql[field]})::text) FROM ${table.quoted} l`);
    } catch (found) {
      return new InvalidOptionError(
        `map.${field}`,
        `${table.title} has a value that ${otherwise}: ${(found as Error).message}`,
      );
    }
  }
  return error;
}
