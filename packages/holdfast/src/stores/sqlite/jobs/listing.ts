import type { Database, Statement } from "better-sqlite3";
import { isFinished, type State } from "../../../job/state.js";
import type { JobFilter } from "../../../store.js";
import {
  ANY_TYPE,
  answered,
  findPage,
  END,
  stretchesFrom,
  type Answers,
  type Bounds,
  type Found,
  type Kind,
  type Source,
  type Stretch,
} from "../../list-plan.js";
import { TYPE_INDEX } from "./claim.js";
import type { Lanes } from "./lanes.js";

// A look takes a few microseconds where the page is not in memory; an entry of an index a tenth of one.
const BOUNDS: Bounds = { looks: 6_000, few: 1_000, sorts: 200_000 };
// Texts differ by which conditions a filter has; so many are kept prepared.
const MOST_PREPARED = 100;

type Value = string | number;
type Count = Omit<Kind, "state"> & { state: State; n: number };
/** A piece of SQL with the values of its places. */
interface Terms {
  where: string[];
  values: Value[];
}

/** Finds the jobs of a page: see paging.ts. Only column names from here and bound values from the caller. */
export function pageFinder(
  db: Database,
  lanes: Lanes,
  bounds: Bounds = BOUNDS,
): (filter: JobFilter, limit: number, cursor: number | null, now: number) => Found {
  const prepared = new Map<string, Statement<Value[], number>>();
  /** Numbers of a column. */
  function numbers(sql: string, values: readonly Value[]): number[] {
    let statement = prepared.get(sql);
    if (statement === undefined) {
      if (prepared.size >= MOST_PREPARED) prepared.clear();
      statement = db.prepare<Value[], number>(sql).pluck();
      prepared.set(sql, statement);
    }
    return statement.all(...values);
  }

  // A step from kind to kind along the index: each costs a look or two, however many jobs there are of it. Not by comparing
  // the three at once, for which SQLite passes all jobs of the kind before.
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
       AND newest >= @after AND oldest < @before) AS may FROM holdfast_ages GROUP BY block`,
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

  function kinds({ types, states, queues }: JobFilter, most: number): Kind[] | null {
    const found: Kind[] = [];
    let steps = 0;
    const walk = (first: Kind | undefined, next: (kind: Kind) => Kind | undefined): void => {
      for (let kind = first; kind !== undefined && steps++ <= most; kind = next(kind)) {
        if ((states?.includes(kind.state) ?? true) && (queues?.includes(kind.queue) ?? true)) found.push(kind);
      }
    };
    const sameType = ({ type, state, queue }: Kind): Kind | undefined =>
      (otherQueue.get(type, state, queue) ?? otherState.get(type, state)) as Kind | undefined;
    const anyType = (kind: Kind): Kind | undefined => sameType(kind) ?? (otherType.get(kind.type) as Kind | undefined);
    if (types === undefined) walk(otherType.get("") as Kind | undefined, anyType);
    else for (const type of types) walk(ofType.get(type) as Kind | undefined, sameType);
    return steps > most ? null : found;
  }

  /** `most` are spread over the lanes, half to either side of now. */
  function dueAround({ states, types, queues }: JobFilter, most: number, now: number): number[] {
    const walked = lanes.list().filter(({ queue }) => queues?.includes(queue) ?? true);
    const each = walked.flatMap(({ queue, priorities }) => priorities.map((priority) => [queue, priority] as const));
    const limit = Math.ceil(most / (2 * each.length));
    return each
      .flatMap(([queue, priority]) => [dueLater, dueBefore].flatMap((walk) => walk.all(queue, priority, now, limit)))
      .map((row) => row as { seq: number; type: string; state: State })
      .filter(({ state, type }) => (states?.includes(state) ?? true) && (types?.includes(type) ?? true))
      .map(({ seq }) => seq);
  }

  const liveKinds = (): Count[] => (counts.all() as Count[]).filter(({ state }) => !isFinished(state));

  const answers = (now: number): Answers => ({
    kinds,
    stretches({ types, createdAfter: after = -END, createdBefore: before = END }) {
      const { first, last } = ends.get() as { first: number | null; last: number | null };
      if (first === null || last === null) return [];
      const known = blocks.all({ types: types === undefined ? null : JSON.stringify(types), after, before });
      const told = (known as { block: number; may: number }[]).map(({ block, may }) => ({ block, may: may === 1 }));
      return stretchesFrom(told, first, last);
    },
    length(source, stretch, most) {
      let length = 0;
      for (const { from, terms } of walksOf(source, stretch)) {
        if (length >= most) break;
        const sql = `SELECT count(*) FROM (SELECT 1 FROM ${from} ${where(terms)} LIMIT ?)`;
        length += numbers(sql, [...terms.values, most - length])[0] ?? 0;
      }
      return length;
    },
    floor(source, stretch, nth) {
      const walks = walksOf(source, stretch);
      const each = Math.max(LEAST_OF_EACH, Math.ceil(nth / walks.length));
      const floors = walks.flatMap(({ from, seq, terms }) =>
        numbers(`SELECT ${seq} FROM ${from} ${where(terms)} ORDER BY ${seq} DESC LIMIT 1 OFFSET ?`, [
          ...terms.values,
          each - 1,
        ]),
      );
      return floors.length === 0 ? null : Math.max(...floors);
    },
    newest(source, stretch, filter, limit) {
      return walksOf(source, stretch).flatMap(({ from, seq, terms, join, first }) => {
        if (first !== null) {
          const newest = `SELECT seq FROM ${from} ${where(terms)} ORDER BY seq DESC LIMIT ?`;
          const rest = residue(source, filter);
          rest.where.unshift(`j.seq IN (${newest})`);
          const values = [...terms.values, first, ...rest.values, limit];
          return numbers(`SELECT j.seq FROM holdfast_jobs j ${where(rest)} ORDER BY j.seq DESC LIMIT ?`, values);
        }
        const rest = residue(source, filter);
        const all = { where: [...terms.where, ...rest.where], values: [...terms.values, ...rest.values] };
        return numbers(`SELECT ${seq} FROM ${from} ${join} ${where(all)} ORDER BY ${seq} DESC LIMIT ?`, [
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
    dueAround: (filter, most) => dueAround(filter, most, now),
  });

  return (filter, limit, cursor, now) => answered(findPage(filter, limit, cursor, bounds), answers(now));
}

// Of many kinds each has a few in every stride.
const LEAST_OF_EACH = 20;

/** One walk along an index, named so that SQLite takes no other and sorts nothing. */
interface Walk {
  from: string;
  /** What leads from there to the job, where it is another table. */
  join: string;
  seq: string;
  terms: Terms;
  /** The newest so many are taken unseen. */
  first: number | null;
}

function walksOf(source: Source, { from, below }: Stretch): Walk[] {
  const walk = (table: string, conditions: readonly string[], values: readonly Value[], seq = "j.seq"): Walk => ({
    from: table,
    join: "",
    seq,
    terms: { where: [...conditions, `${seq} >= ?`, `${seq} < ?`], values: [...values, from, below] },
    first: null,
  });
  switch (source.by) {
    case "all":
      return [walk("holdfast_jobs j NOT INDEXED", [], [])];
    case "live":
      return [walk("holdfast_jobs j NOT INDEXED", [], [])];
    case "failed":
      return [walk("holdfast_jobs j INDEXED BY holdfast_jobs_failed", ["j.state = 'failed'"], [])];
    case "user":
      return [walk("holdfast_jobs j INDEXED BY holdfast_jobs_user", ["j.user = ?"], [source.user])];
    case "schedule":
      return [walk("holdfast_jobs j INDEXED BY holdfast_jobs_schedule", ["j.schedule = ?"], [source.schedule])];
    case "tag":
      return [
        {
          ...walk("holdfast_tags g", ["g.tag = ?"], [source.tag], "g.job"),
          join: "CROSS JOIN holdfast_jobs j ON j.seq = g.job",
        },
      ];
    case "kinds":
      return source.kinds.map(({ type, state, queue }) =>
        walk(
          "holdfast_jobs j INDEXED BY holdfast_jobs_finished_type",
          ["j.due_at IS NULL", "j.type = ?", "j.state = ?", "j.queue = ?"],
          [type, state, queue],
        ),
      );
    case "queues": {
      const table = "holdfast_jobs j INDEXED BY holdfast_jobs_due";
      const walks =
        source.queues === null
          ? [walk(table, ["j.due_at IS NOT NULL"], [])]
          : source.queues.map((queue) => walk(table, ["j.due_at IS NOT NULL", "j.queue = ?"], [queue]));
      return walks.map((each) => ({ ...each, first: source.first }));
    }
    case "seqs":
      return [walk("holdfast_jobs j", ["j.seq IN (SELECT value FROM json_each(?))"], [JSON.stringify(source.seqs)])];
  }
}

/** What of a filter a source does not see to by itself. */
function residue(source: Source, filter: JobFilter): Terms {
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
