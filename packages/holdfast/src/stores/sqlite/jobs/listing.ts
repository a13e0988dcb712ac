import type { Database, Statement } from "better-sqlite3";
import { isFinished, type State } from "../../../job/state.js";
import type { JobFilter, PageRequest } from "../../../store.js";
import {
  ANY_TYPE,
  END,
  executePlan,
  findPage,
  plannedPage,
  rangesFrom,
  type Found,
  type Kind,
  type ListLimits,
  type Order,
  type PlanExecutor,
  type SeqRange,
  type Source,
} from "../../list-plan.js";
import { TYPE_INDEX } from "./claim.js";
import type { Lanes } from "./lanes.js";

// Reading a row takes a few microseconds if its page is not cached; an index entry takes a tenth of that.
const LIMITS: ListLimits = { maxRead: 6_000, alwaysRead: 1_000, maxSorted: 200_000 };
// The SQL depends on which conditions a filter has.
const MAX_PREPARED = 100;

type Value = string | number;
type Count = Omit<Kind, "state"> & { state: State; n: number };
/** SQL conditions and the values of their placeholders. */
interface Terms {
  where: string[];
  values: Value[];
}

/** Finds the jobs of a page: see list-plan.ts. Values of the caller are always bound, never part of the SQL. */
export function pageFinder(
  db: Database,
  lanes: Lanes,
  limits: ListLimits = LIMITS,
): (filter: JobFilter, page: Omit<PageRequest, "payloads">, now: number) => Found {
  const prepared = new Map<string, Statement<Value[], number>>();
  function numbers(sql: string, values: readonly Value[]): number[] {
    let statement = prepared.get(sql);
    if (statement === undefined) {
      if (prepared.size >= MAX_PREPARED) prepared.clear();
      statement = db.prepare<Value[], number>(sql).pluck();
      prepared.set(sql, statement);
    }
    return statement.all(...values);
  }

  // From one kind to the next along the index: one or two lookups each, however many jobs a kind has. A row comparison
  // `(type, state, queue) > (?, ?, ?)` would make SQLite scan all jobs of the previous kind.
  const kindAfter = (terms: string): Statement =>
    db.prepare(
      `SELECT type, state, queue FROM holdfast_jobs INDEXED BY holdfast_jobs_finished_type
       WHERE due_at IS NULL AND ${terms} ORDER BY type, state, queue LIMIT 1`,
    );
  const ofType = kindAfter("type = ?");
  const otherQueue = kindAfter("type = ? AND state = ? AND queue > ?");
  const otherState = kindAfter("type = ? AND state > ?");
  const otherType = kindAfter("type > ?");
  const blocks = db.prepare(
    `SELECT block, max((@types IS NULL OR type = '${ANY_TYPE}' OR type IN (SELECT value FROM json_each(@types)))
       AND newest >= @after AND oldest < @before) AS mayMatch FROM holdfast_ages GROUP BY block`,
  );
  const ends = db.prepare(
    "SELECT (SELECT min(seq) FROM holdfast_jobs) AS first, (SELECT max(seq) FROM holdfast_jobs) AS last",
  );
  const counts = db.prepare("SELECT queue, type, state, n FROM holdfast_counts WHERE n > 0");
  const hasTypeIndex = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?").pluck();
  const around = (than: string, order: string): Statement =>
    db.prepare(
      `SELECT seq, type, state FROM holdfast_jobs WHERE queue = ? AND priority = ? AND due_at ${than} ? ORDER BY due_at ${order} LIMIT ?`,
    );
  const dueLater = around(">", "ASC");
  const dueBefore = around("<=", "DESC");

  function kinds({ types, states, queues }: JobFilter, max: number): Kind[] | null {
    const found: Kind[] = [];
    let steps = 0;
    const collect = (first: Kind | undefined, next: (kind: Kind) => Kind | undefined): void => {
      for (let kind = first; kind !== undefined && steps++ <= max; kind = next(kind)) {
        if ((states?.includes(kind.state) ?? true) && (queues?.includes(kind.queue) ?? true)) found.push(kind);
      }
    };
    const sameType = ({ type, state, queue }: Kind): Kind | undefined =>
      (otherQueue.get(type, state, queue) ?? otherState.get(type, state)) as Kind | undefined;
    const anyType = (kind: Kind): Kind | undefined => sameType(kind) ?? (otherType.get(kind.type) as Kind | undefined);
    if (types === undefined) collect(otherType.get("") as Kind | undefined, anyType);
    else for (const type of types) collect(ofType.get(type) as Kind | undefined, sameType);
    return steps > max ? null : found;
  }

  /** Reads `max` jobs in all: the same number in each lane, half of them due before now and half after. */
  function dueAround({ states, types, queues }: JobFilter, max: number, now: number): number[] {
    const scanned = lanes.queues().filter(({ queue }) => queues?.includes(queue) ?? true);
    const each = scanned.flatMap(({ queue, priorities }) => priorities.map((priority) => [queue, priority] as const));
    const limit = Math.ceil(max / (2 * each.length));
    return each
      .flatMap(([queue, priority]) => [dueLater, dueBefore].flatMap((due) => due.all(queue, priority, now, limit)))
      .map((row) => row as { seq: number; type: string; state: State })
      .filter(({ state, type }) => (states?.includes(state) ?? true) && (types?.includes(type) ?? true))
      .map(({ seq }) => seq);
  }

  const liveKinds = (): Count[] => (counts.all() as Count[]).filter(({ state }) => !isFinished(state));

  const executor = (now: number): PlanExecutor => ({
    kinds,
    ranges({ types, createdAfter: after = -END, createdBefore: before = END }) {
      const { first, last } = ends.get() as { first: number | null; last: number | null };
      if (first === null || last === null) return [];
      const known = blocks.all({ types: types === undefined ? null : JSON.stringify(types), after, before });
      const rows = known as { block: number; mayMatch: number }[];
      const read = rows.map(({ block, mayMatch }) => ({ block, mayMatch: mayMatch === 1 }));
      return rangesFrom(read, first, last);
    },
    length(source, range, max) {
      let length = 0;
      for (const { from, terms } of scansOf(source, range)) {
        if (length >= max) break;
        const sql = `SELECT count(*) FROM (SELECT 1 FROM ${from} ${where(terms)} LIMIT ?)`;
        length += numbers(sql, [...terms.values, max - length])[0] ?? 0;
      }
      return length;
    },
    nthSeq(source, range, nth, order) {
      const scans = scansOf(source, range);
      const each = Math.max(MIN_OF_EACH, Math.ceil(nth / scans.length));
      const seqs = scans.flatMap(({ from, seq, terms }) =>
        numbers(`SELECT ${seq} FROM ${from} ${where(terms)} ORDER BY ${seq} ${DIRECTION[order]} LIMIT 1 OFFSET ?`, [
          ...terms.values,
          each - 1,
        ]),
      );
      if (seqs.length === 0) return null;
      return order === "newest" ? Math.max(...seqs) : Math.min(...seqs);
    },
    first(source, range, filter, limit, order) {
      const direction = DIRECTION[order];
      return scansOf(source, range).flatMap(({ from, seq, terms, join, first }) => {
        if (first !== null) {
          const taken = `SELECT seq FROM ${from} ${where(terms)} ORDER BY seq ${direction} LIMIT ?`;
          const others = remainingTerms(source, filter);
          others.where.unshift(`j.seq IN (${taken})`);
          const values = [...terms.values, first, ...others.values, limit];
          return numbers(
            `SELECT j.seq FROM holdfast_jobs j ${where(others)} ORDER BY j.seq ${direction} LIMIT ?`,
            values,
          );
        }
        const others = remainingTerms(source, filter);
        const all = { where: [...terms.where, ...others.where], values: [...terms.values, ...others.values] };
        return numbers(`SELECT ${seq} FROM ${from} ${join} ${where(all)} ORDER BY ${seq} ${direction} LIMIT ?`, [
          ...all.values,
          limit,
        ]);
      });
    },
    liveCounts({ states, types, queues }) {
      let [all, ofTypes, matching] = [0, 0, 0];
      for (const row of liveKinds()) {
        if (!(queues?.includes(row.queue) ?? true)) continue;
        all += row.n;
        if (!(types?.includes(row.type) ?? true)) continue;
        ofTypes += row.n;
        if (states?.includes(row.state) ?? true) matching += row.n;
      }
      return { all, ofTypes, matching };
    },
    liveOfTypes({ types, queues }) {
      if (hasTypeIndex.get(TYPE_INDEX) === undefined) return null;
      const live = liveKinds().filter(
        ({ queue, type }) => (types?.includes(type) ?? true) && (queues?.includes(queue) ?? true),
      );
      const pairs = new Map(live.map((row) => [JSON.stringify([row.queue, row.type]), row]));
      const sql = `SELECT j.seq FROM holdfast_jobs j INDEXED BY ${TYPE_INDEX} WHERE j.due_at IS NOT NULL AND j.queue = ? AND j.type = ?`;
      return [...pairs.values()].flatMap(({ queue, type }) => numbers(sql, [queue, type]));
    },
    dueAround: (filter, max) => dueAround(filter, max, now),
  });

  return (filter, page, now) => executePlan(findPage(filter, plannedPage(page), limits), executor(now));
}

const DIRECTION: Readonly<Record<Order, string>> = { newest: "DESC", oldest: "ASC" };

// With many kinds, a batch still has a few jobs of each.
const MIN_OF_EACH = 20;

/** One scan of an index. INDEXED BY names it, so that SQLite neither uses another index nor sorts. */
interface Scan {
  from: string;
  /** Joins the job, if the scan is of another table. */
  join: string;
  seq: string;
  terms: Terms;
  /** Take the first `first` entries without reading their rows. */
  first: number | null;
}

function scansOf(source: Source, { from, below }: SeqRange): Scan[] {
  const scan = (table: string, conditions: readonly string[], values: readonly Value[], seq = "j.seq"): Scan => ({
    from: table,
    join: "",
    seq,
    terms: { where: [...conditions, `${seq} >= ?`, `${seq} < ?`], values: [...values, from, below] },
    first: null,
  });
  switch (source.by) {
    case "all":
      return [scan("holdfast_jobs j NOT INDEXED", [], [])];
    case "live":
      return [scan("holdfast_jobs j NOT INDEXED", [], [])];
    case "failed":
      return [scan("holdfast_jobs j INDEXED BY holdfast_jobs_failed", ["j.state = 'failed'"], [])];
    case "user":
      return [scan("holdfast_jobs j INDEXED BY holdfast_jobs_user", ["j.user = ?"], [source.user])];
    case "schedule":
      return [scan("holdfast_jobs j INDEXED BY holdfast_jobs_schedule", ["j.schedule = ?"], [source.schedule])];
    case "parent":
      return [scan("holdfast_jobs j INDEXED BY holdfast_jobs_parent", ["j.parent = ?"], [source.parent])];
    case "fingerprint":
      return [
        scan("holdfast_jobs j INDEXED BY holdfast_jobs_fingerprint", ["j.fingerprint = ?"], [source.fingerprint]),
      ];
    case "tag":
      return [
        {
          ...scan("holdfast_tags g", ["g.tag = ?"], [source.tag], "g.job"),
          join: "CROSS JOIN holdfast_jobs j ON j.seq = g.job",
        },
      ];
    case "kinds":
      return source.kinds.map(({ type, state, queue }) =>
        scan(
          "holdfast_jobs j INDEXED BY holdfast_jobs_finished_type",
          ["j.due_at IS NULL", "j.type = ?", "j.state = ?", "j.queue = ?"],
          [type, state, queue],
        ),
      );
    case "queues": {
      const table = "holdfast_jobs j INDEXED BY holdfast_jobs_due";
      const scans =
        source.queues === null
          ? [scan(table, ["j.due_at IS NOT NULL"], [])]
          : source.queues.map((queue) => scan(table, ["j.due_at IS NOT NULL", "j.queue = ?"], [queue]));
      return scans.map((each) => ({ ...each, first: source.first }));
    }
    case "ids":
      return [scan("holdfast_jobs j", ["j.id IN (SELECT value FROM json_each(?))"], [JSON.stringify(source.ids)])];
    case "seqs":
      return [scan("holdfast_jobs j", ["j.seq IN (SELECT value FROM json_each(?))"], [JSON.stringify(source.seqs)])];
  }
}

/** The conditions of a filter that the source does not already meet. */
function remainingTerms(source: Source, filter: JobFilter): Terms {
  const terms: Terms = { where: [], values: [] };
  const add = (term: string, value: Value | undefined): void => {
    if (value === undefined) return;
    terms.where.push(term);
    terms.values.push(value);
  };
  const oneOf = (column: string, names: readonly string[] | undefined): void => {
    if (names?.length === 1) add(`j.${column} = ?`, names[0]);
    else if (names !== undefined) add(`j.${column} IN (SELECT value FROM json_each(?))`, JSON.stringify(names));
  };
  if (source.by !== "kinds") {
    oneOf("state", filter.states);
    oneOf("type", filter.types);
    oneOf("queue", filter.queues);
  }
  add("j.priority = ?", filter.priority);
  if (source.by !== "parent") add("j.parent = ?", filter.parent);
  if (source.by !== "fingerprint") add("j.fingerprint = ?", filter.fingerprint);
  if (source.by !== "user") add("j.user = ?", filter.user);
  if (source.by !== "schedule") add("j.schedule = ?", filter.schedule);
  if (source.by !== "tag") add("EXISTS (SELECT 1 FROM holdfast_tags g WHERE g.tag = ? AND g.job = j.seq)", filter.tag);
  add("j.created_at >= ?", filter.createdAfter);
  add("j.created_at < ?", filter.createdBefore);
  return terms;
}

function where({ where: terms }: Terms): string {
  return terms.length === 0 ? "" : `WHERE ${terms.join(" AND ")}`;
}
