import { isFinished, STATE_NAMES } from "../../state.js";
import type { JobFilter } from "../../store.js";
import { Conditions, ofUser, type Sql } from "./sql.js";

/**
 * The newest first. By the order of the index on all jobs the planner would walk those until enough fit, which may be never;
 * asked for the other order, which means the same, it takes the index on those that fit.
 */
const OF_ALL = "j.seq DESC";
const OF_SOME = "j.seq DESC NULLS LAST";

interface Wanted {
  filter: JobFilter;
  /** The place of the value that limits it. */
  limit: string;
  cursor: string | null;
}

/**
 * The newest jobs that fit a filter, of either table that may have some: parts of one statement, which add to its values.
 * Only column names from here and bound values from the caller.
 */
export function listParts(sql: Sql, columns: (live: boolean) => string, wanted: Wanted, values: unknown[]): string[] {
  const { filter, limit } = wanted;
  const states = filter.states ?? STATE_NAMES;
  const finished = states.filter(isFinished);
  const parts: string[] = [];
  if (finished.length < states.length) {
    const terms = conditions(sql, wanted, values);
    terms.add((v) => `j.state = ANY (${v}::text[])`, filter.states);
    terms.add((v) => `j.type = ANY (${v}::text[])`, filter.types);
    const order = hasOwner(filter) ? OF_SOME : OF_ALL;
    parts.push(`(SELECT ${columns(true)} FROM ${sql.s}.live j ${terms.where} ORDER BY ${order} LIMIT ${limit})`);
  }
  if (finished.length > 0) parts.push(archivePart(sql, columns(false), wanted, values, finished));
  return parts;
}

function archivePart(
  sql: Sql,
  columns: string,
  wanted: Wanted,
  values: unknown[],
  finished: readonly string[],
): string {
  const { filter, limit } = wanted;
  const terms = conditions(sql, wanted, values);
  const found = (order: string): string =>
    `(SELECT ${columns} FROM ${sql.s}.archive j ${terms.where} ORDER BY ${order} LIMIT ${limit})`;
  if (hasOwner(filter) || filter.tag !== undefined || (filter.types === undefined && filter.states === undefined)) {
    terms.add((v) => `j.state = ANY (${v}::text[])`, filter.states);
    terms.add((v) => `j.type = ANY (${v}::text[])`, filter.types);
    return found(hasOwner(filter) ? OF_SOME : OF_ALL);
  }
  // Looked up for each type and state by itself: an index gives the newest of a pair at once, while for several at a time
  // it would have to be read whole, or the archive be walked for what may be rare in it.
  terms.always("j.type = y.type AND j.state = z.state");
  const each = (names: readonly string[], as: string): string =>
    `unnest($${values.push([...new Set(names)])}::text[]) AS ${as}`;
  const types = filter.types === undefined ? `(${knownTypes(sql)}) AS y` : each(filter.types, "y (type)");
  return `(SELECT n.* FROM ${types}, ${each(finished, "z (state)")}, LATERAL ${found(OF_SOME)} AS n)`;
}

/** Users and schedules have indexes of their own, on both tables. */
function hasOwner({ user, schedule }: JobFilter): boolean {
  return user !== undefined || schedule !== undefined;
}

/** The types in the archive, each found by one look at an index. */
function knownTypes({ s }: Sql): string {
  return `WITH RECURSIVE known AS (
      (SELECT a.type FROM ${s}.archive a ORDER BY a.type LIMIT 1)
      UNION ALL SELECT (SELECT a.type FROM ${s}.archive a WHERE a.type > k.type ORDER BY a.type LIMIT 1) FROM known k WHERE k.type IS NOT NULL
    ) SELECT known.type FROM known WHERE known.type IS NOT NULL`;
}

/** All but states and types. */
function conditions(sql: Sql, { filter, cursor }: Wanted, values: unknown[]): Conditions {
  const terms = new Conditions(values);
  terms.add((v) => `j.queue = ANY (${v}::text[])`, filter.queues);
  terms.add((v) => ofUser(sql, "j.user_id", v), filter.user);
  terms.add((v) => `j.seq IN (SELECT g.seq FROM ${sql.s}.tags g WHERE g.tag = ${v})`, filter.tag);
  terms.add((v) => `j.schedule = ${v}`, filter.schedule);
  terms.add((v) => `j.created_at >= ${v}::bigint`, filter.createdAfter);
  terms.add((v) => `j.created_at < ${v}::bigint`, filter.createdBefore);
  terms.add((v) => `j.seq < ${v}::bigint`, cursor);
  return terms;
}
