import { isFinished, type State } from "../../../job/state.js";
import type { JobFilter, PageRequest } from "../../../store.js";
import {
  executePlanAsync,
  END,
  findPage,
  plannedPage,
  rangesFrom,
  ANY_TYPE,
  BLOCK,
  type AsyncPlanExecutor,
  type Found,
  type Kind,
  type ListLimits,
  type Order,
  type SeqRange,
  type Source,
} from "../../list-plan.js";
import type { Runner } from "../connection/db.js";
import { Conditions, NOW, ofUser, rowsOf, UUID, type Sql } from "../connection/sql.js";
import { childrenEntry } from "./tag-entries.js";
import { MATCH_TYPE, TYPES_INDEX } from "../schema/types-index.js";

// A lookup takes a few microseconds. The index on live jobs is in order, so none are sorted.
const BOUNDS: ListLimits = { maxRead: 6_000, alwaysRead: 1_000, maxSorted: 0 };
/**
 * To skip jobs, one call looks at more of them, since it reads none: fewer calls have to resume. So many lookups take about 20 ms,
 * and counts check their time only between two calls.
 */
export const SKIPPING: ListLimits = { ...BOUNDS, maxRead: 10_000 };
// With many kinds, each has at least this many jobs in a step.
const MIN_PER_KIND = 20;

/**
 * With the order of the index on all jobs, the planner may scan that index until enough jobs match, which can take forever.
 * With the other order, which means the same because seq is never NULL, it uses the index on the matching jobs.
 */
const ORDERS: Readonly<Record<Order, { ofAll: string; ofSome: string; direction: string }>> = {
  newest: { ofAll: "j.seq DESC", ofSome: "j.seq DESC NULLS LAST", direction: "DESC" },
  oldest: { ofAll: "j.seq ASC", ofSome: "j.seq ASC NULLS FIRST", direction: "ASC" },
};

export interface PageFinder {
  (runner: Runner, filter: JobFilter, page: Omit<PageRequest, "payloads">, now: number | null): Promise<Found>;
}

/** Finds the jobs of a page: see list-plan.ts. Column names come from here, and values from the caller are bound. */
export function pageFinder(sql: Sql, bounds: ListLimits = BOUNDS): PageFinder {
  const { s } = sql;
  const kindsOf = (types: string): string => `SELECT k.queue, y.type, k.state FROM ${types}, LATERAL (
      WITH RECURSIVE known AS (
        (SELECT a.state, a.queue FROM ${s}.archive a WHERE a.type = y.type ORDER BY a.state, a.queue LIMIT 1)
        UNION ALL SELECT n.state, n.queue FROM known, LATERAL (
          SELECT a.state, a.queue FROM ${s}.archive a WHERE a.type = y.type AND (a.state, a.queue) > (known.state, known.queue)
          ORDER BY a.state, a.queue LIMIT 1) n
      ) SELECT state, queue FROM known LIMIT $1::bigint) k LIMIT $1::bigint`;
  const kindsOfAll = sql.statement("kinds", kindsOf(`(${knownTypes(sql)}) AS y`));
  const kindsOfSome = sql.statement("kinds_of_types", kindsOf("pg_catalog.unnest($2::text[]) AS y (type)"));
  // Includes changes that are not rolled up yet. Limited to the range of existing jobs, because the role enqueue writes
  // these rows and could write any numbers.
  const blocks = sql.statement(
    "blocks",
    `SELECT block::float8, pg_catalog.bool_or(($1::text[] IS NULL OR type = ANY ($1::text[]) OR type = '${ANY_TYPE}') AND newest >= $2::bigint AND oldest < $3::bigint) FROM (
       SELECT block, type, oldest, newest FROM ${s}.ages
       UNION ALL SELECT pg_catalog.generate_series(greatest(first_seq, $4::bigint) / ${BLOCK}, least(last_seq, $5::bigint) / ${BLOCK}), type, coalesce(oldest, at), coalesce(newest, at)
       FROM ${s}.deltas WHERE first_seq IS NOT NULL) b GROUP BY block`,
  );
  const ends = sql.statement(
    "ends",
    `SELECT least((SELECT pg_catalog.min(seq) FROM ${s}.live), (SELECT pg_catalog.min(seq) FROM ${s}.archive))::float8,
       greatest((SELECT pg_catalog.max(seq) FROM ${s}.live), (SELECT pg_catalog.max(seq) FROM ${s}.archive))::float8`,
  );
  const liveCounts = sql.statement(
    "live_counts",
    `SELECT queue, type, state, pg_catalog.sum(n)::float8 FROM (SELECT queue, type, state, n FROM ${s}.counts UNION ALL SELECT queue, type, state, n FROM ${s}.deltas) c
     GROUP BY queue, type, state HAVING pg_catalog.sum(n) > 0`,
  );
  const hasTypesIndex = sql.statement(
    "has_types_index",
    `SELECT (SELECT indisvalid FROM pg_catalog.pg_index WHERE indexrelid = pg_catalog.to_regclass('${s}.${TYPES_INDEX}'))`,
  );
  const liveOfTypes = sql.statement(
    "live_of_types",
    `SELECT n.seq::float8 FROM ${rowsOf("$1::text[], $2::text[]")} AS l (queue, type),
       LATERAL (SELECT j.seq FROM ${s}.live j WHERE ${MATCH_TYPE} OFFSET 0) n`,
  );
  const around = (than: string, order: string): string =>
    `(SELECT j.seq, j.type, j.state FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at ${than} (SELECT now FROM t)
      ORDER BY j.due_at ${order}, j.seq ${order} LIMIT $3::bigint / (2 * (SELECT pg_catalog.count(*) FROM lanes)) + 1)`;
  const dueAround = sql.statement(
    "due_around",
    `WITH ${NOW}, lanes AS MATERIALIZED (SELECT queue, priority FROM ${s}.lanes WHERE $2::text[] IS NULL OR queue = ANY ($2::text[]))
     SELECT n.seq::float8, n.type, n.state FROM lanes l, LATERAL (${around(">", "ASC")} UNION ALL ${around("<=", "DESC")}) n`,
  );

  /** Queue, type and state of live jobs, and how many there are. */
  const liveKinds = async (runner: Runner): Promise<[string, string, State, number][]> =>
    ((await runner.run(liveCounts, [])) as [string, string, State, number][]).filter(
      ([, , state]) => !isFinished(state),
    );

  const steps = (runner: Runner, now: number | null): AsyncPlanExecutor => ({
    async kinds({ types, states, queues }, max) {
      const rows =
        types === undefined ? await runner.run(kindsOfAll, [max + 1]) : await runner.run(kindsOfSome, [max + 1, types]);
      if (rows.length > max) return null;
      return rows
        .map(([queue, type, state]) => ({ queue, type, state }) as Kind)
        .filter((kind) => (states?.includes(kind.state) ?? true) && (queues?.includes(kind.queue) ?? true));
    },
    async ranges({ types = null, createdAfter = -END, createdBefore = END }) {
      const [[first, last] = []] = await runner.run(ends, []);
      if (typeof first !== "number" || typeof last !== "number") return [];
      const rows = await runner.run(blocks, [types, createdAfter, createdBefore, first, last]);
      const known = rows.map(([block, may]) => ({ block: block as number, mayMatch: may as boolean }));
      return rangesFrom(known, first, last);
    },
    async length(source, range, max) {
      const values: unknown[] = [max];
      const parts = scansOf(sql, source, range, "newest", values).map(
        (scan) =>
          `(SELECT 1 FROM ${scan.each}LATERAL (SELECT 1 FROM ${entriesOf(scan)} LIMIT $1::bigint) n LIMIT $1::bigint)`,
      );
      const text = `SELECT pg_catalog.count(*)::float8 FROM (${parts.join(" UNION ALL ")}) n`;
      const [row] = await runner.run(sql.statement("list_length", text), values);
      return Math.min(max, row?.[0] as number);
    },
    async nthSeq(source, range, nth, order) {
      const ofEach = source.by === "kinds" ? Math.max(MIN_PER_KIND, Math.ceil(nth / source.kinds.length)) : nth;
      const values: unknown[] = [ofEach - 1];
      const parts = scansOf(sql, source, range, order, values).map(
        (scan) =>
          `(SELECT n.seq FROM ${scan.each}LATERAL (SELECT j.seq FROM ${entriesOf(scan)} LIMIT 1 OFFSET $1::bigint) n)`,
      );
      const text = `SELECT pg_catalog.${order === "newest" ? "max" : "min"}(seq)::float8 FROM (${parts.join(" UNION ALL ")}) n`;
      const [row] = await runner.run(sql.statement("list_nth", text), values);
      return (row?.[0] as number | null | undefined) ?? null;
    },
    async first(source, range, filter, limit, order) {
      const values: unknown[] = [limit];
      const scans = scansOf(sql, source, range, order, values);
      const conditions = otherConditions(sql, source, filter, values);
      const text = scans.map((scan) => firstOf(sql, scan, conditions)).join(" UNION ALL ");
      return (await runner.run(sql.statement("list_first", text), values)).map(([seq]) => seq as number);
    },
    async liveCounts({ states, types, queues }) {
      let [all, ofTypes, matching] = [0, 0, 0];
      for (const [queue, type, state, n] of await liveKinds(runner)) {
        if (!(queues?.includes(queue) ?? true)) continue;
        all += n;
        if (!(types?.includes(type) ?? true)) continue;
        ofTypes += n;
        if (states?.includes(state) ?? true) matching += n;
      }
      return { all, ofTypes, matching };
    },
    async liveOfTypes({ types = [], queues }) {
      const [[isValid] = []] = await runner.run(hasTypesIndex, []);
      if (isValid !== true) return null;
      const live = (await liveKinds(runner)).filter(
        ([queue, type]) => types.includes(type) && (queues?.includes(queue) ?? true),
      );
      const pairs = [...new Map(live.map(([queue, type]) => [JSON.stringify([queue, type]), [queue, type]])).values()];
      const columns = [pairs.map(([queue]) => queue), pairs.map(([, type]) => type)];
      return (await runner.run(liveOfTypes, columns)).map(([seq]) => seq as number);
    },
    async dueAround({ states, types, queues = null }, max) {
      return ((await runner.run(dueAround, [now, queues, max])) as unknown as [number, string, State][])
        .filter(([, type, state]) => (states?.includes(state) ?? true) && (types?.includes(type) ?? true))
        .map(([seq]) => seq);
    },
  });

  return (runner, filter, page, now) =>
    executePlanAsync(findPage(filter, plannedPage(page), bounds), steps(runner, now));
}

/** One scan of an index. */
interface Scan {
  table: "live" | "archive" | "tags";
  /** A relation and a comma if the scan runs for each of its rows; otherwise empty. */
  each: string;
  /** Table and conditions. */
  from: string;
  order: string;
  /** `DESC` or `ASC`. */
  direction: string;
  /** Whether there may be entries without a job: processes of the previous version do not delete those of children. */
  mayDangle: boolean;
  /** Whether it is in the order of seq. Otherwise the bounds are applied, and the rows sorted, after it. */
  ordered: boolean;
  bounds: string;
}

function scansOf(sql: Sql, source: Source, { from, below }: SeqRange, inOrder: Order, values: unknown[]): Scan[] {
  const { s } = sql;
  const { ofAll, ofSome, direction } = ORDERS[inOrder];
  const bounds = `j.seq >= $${values.push(from)}::bigint AND j.seq < $${values.push(below)}::bigint`;
  const scan = (table: Scan["table"], order: string, term = "", each = ""): Scan => ({
    table,
    each,
    from: `${s}.${table} j WHERE ${term === "" ? "" : `${term} AND `}${bounds}`,
    order,
    direction,
    mayDangle: false,
    ordered: true,
    bounds,
  });
  /** Few rows, found by another index. */
  const unordered = (table: Scan["table"], order: string, term: string, each = ""): Scan => ({
    ...scan(table, order, "", each),
    from: `${s}.${table} j WHERE ${term}`,
    ordered: false,
  });
  const both = (order: string, term?: string): Scan[] => [scan("live", order, term), scan("archive", order, term)];
  switch (source.by) {
    case "all":
      return both(ofAll);
    case "live":
      return [scan("live", ofAll)];
    case "failed":
      return [scan("live", ofSome, "j.error_at IS NOT NULL")];
    case "user":
      return both(ofSome, ofUser(sql, "j.user_id", `$${values.push(source.user)}`));
    case "schedule":
      return both(ofSome, `j.schedule = $${values.push(source.schedule)}`);
    case "fingerprint":
      return both(ofSome, `j.fingerprint = $${values.push(source.fingerprint)}::text`);
    case "parent":
      return [{ ...scan("tags", ofAll, `j.tag = $${values.push(childrenEntry(source.parent))}`), mayDangle: true }];
    case "tag":
      return [scan("tags", ofAll, `j.tag = $${values.push(source.tag)}`)];
    case "kinds": {
      const column = (name: keyof Kind): string => `$${values.push(source.kinds.map((kind) => kind[name]))}::text[]`;
      const each = `${rowsOf(`${column("queue")}, ${column("type")}, ${column("state")}`)} AS k (queue, type, state), `;
      return [scan("archive", ofSome, "j.type = k.type AND j.state = k.state AND j.queue = k.queue", each)];
    }
    case "queues": {
      if (source.queues === null) return [scan("live", ofAll)];
      const each = `pg_catalog.unnest($${values.push(source.queues)}::text[]) AS k (queue), `;
      return [unordered("live", "j.priority, j.due_at", "j.queue = k.queue", each)];
    }
    case "ids": {
      const term = `j.id = ANY ($${values.push(source.ids.filter((id) => isUuid.test(id)))}::uuid[])`;
      return [unordered("live", "j.id", term), unordered("archive", "j.id", term)];
    }
    case "seqs":
      return [scan("live", ofAll, `j.seq = ANY ($${values.push(source.seqs)}::bigint[])`)];
  }
}

/**
 * The rows of a scan, in order. Other conditions apply after the scan (`OFFSET 0` prevents pushing them down):
 * otherwise the planner may choose another plan that is fast for some filters and endless for others.
 */
function entriesOf({ from, order, direction, ordered, bounds }: Scan, conditions = "true"): string {
  if (ordered && conditions === "true") return `${from} ORDER BY ${order}`;
  const scanned = `(SELECT j.* FROM ${from} ORDER BY ${order} OFFSET 0) j`;
  return ordered
    ? `${scanned} WHERE ${conditions}`
    : `${scanned} WHERE ${bounds} AND ${conditions} ORDER BY j.seq ${direction}`;
}

/** The first rows of a scan that match. */
function firstOf({ s }: Sql, scan: Scan, conditions: string): string {
  const { table, each, direction } = scan;
  const limit = "LIMIT $1::bigint";
  if (table === "tags") {
    const entries = `(SELECT j.seq FROM ${entriesOf(scan)} OFFSET 0) g`;
    if (conditions === "true") {
      const has = (of: string): string => `(SELECT 1 FROM ${s}.${of} j WHERE j.seq = g.seq LIMIT 1) IS NOT NULL`;
      const exists = scan.mayDangle ? ` WHERE ${has("live")} OR ${has("archive")}` : "";
      return `(SELECT g.seq::float8 FROM ${entries}${exists} ${limit})`;
    }
    const job = (of: string): string =>
      `SELECT 1 FROM (SELECT j.* FROM ${s}.${of} j WHERE j.seq = g.seq OFFSET 0) j WHERE ${conditions}`;
    return `(SELECT g.seq::float8 FROM ${entries}, LATERAL (${job("live")} UNION ALL ${job("archive")}) n ${limit})`;
  }
  const first = `SELECT n.seq::float8 FROM ${each}LATERAL (SELECT j.seq FROM ${entriesOf(scan, conditions)} ${limit}) n`;
  return `(${first} ORDER BY n.seq ${direction} ${limit})`;
}

/** An id that is not valid matches no row. */
function ofParent(placeholder: string): string {
  return `j.parent = CASE WHEN ${placeholder}::text ~ '${UUID}' THEN ${placeholder}::text::uuid END`;
}
export const isUuid: RegExp = new RegExp(UUID);

/** The conditions of a filter that a source does not apply itself. */
function otherConditions(sql: Sql, source: Source, filter: JobFilter, values: unknown[]): string {
  const terms = new Conditions(values);
  if (source.by !== "kinds") {
    terms.add((v) => `j.state = ANY (${v}::text[])`, filter.states);
    terms.add((v) => `j.type = ANY (${v}::text[])`, filter.types);
    terms.add((v) => `j.queue = ANY (${v}::text[])`, filter.queues);
  }
  terms.add((v) => `j.priority = ${v}::integer`, filter.priority);
  if (source.by !== "parent") terms.add(ofParent, filter.parent);
  if (source.by !== "fingerprint") terms.add((v) => `j.fingerprint = ${v}::text`, filter.fingerprint);
  if (source.by !== "user") terms.add((v) => ofUser(sql, "j.user_id", v), filter.user);
  if (source.by !== "schedule") terms.add((v) => `j.schedule = ${v}`, filter.schedule);
  if (source.by !== "tag")
    terms.add((v) => `EXISTS (SELECT 1 FROM ${sql.s}.tags g WHERE g.tag = ${v} AND g.seq = j.seq)`, filter.tag);
  terms.add((v) => `j.created_at >= ${v}::bigint`, filter.createdAfter);
  terms.add((v) => `j.created_at < ${v}::bigint`, filter.createdBefore);
  return terms.where === "" ? "true" : terms.where.replace(/^WHERE /, "");
}

/** The types in the archive, each found by one index lookup. */
function knownTypes({ s }: Sql): string {
  return `WITH RECURSIVE known AS (
      (SELECT a.type FROM ${s}.archive a ORDER BY a.type LIMIT 1)
      UNION ALL SELECT (SELECT a.type FROM ${s}.archive a WHERE a.type > k.type ORDER BY a.type LIMIT 1) FROM known k WHERE k.type IS NOT NULL
    ) SELECT known.type FROM known WHERE known.type IS NOT NULL`;
}
