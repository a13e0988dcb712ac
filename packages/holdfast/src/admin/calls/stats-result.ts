import type { Stats } from "../../engine/client/stats.js";
import { isCut, MAX_NAMES, OTHER } from "../../observe/names.js";
import type { State } from "../../job/state.js";
import type { StatsResult } from "../contract/api-types.js";

// Counts by queue, type and state. Names may be long, and every event stream sends all counts each second.
const MAX_COUNTS = 1_000;

type Counts = Record<State, number>;

/**
 * Limits the number of names in the counts, because callers that may enqueue can create any number of types and queues. The names
 * with the most jobs are listed; all others are added up as `other`, so that the totals stay correct.
 */
export function statsResult(stats: Stats, paused: boolean): StatsResult {
  const queues = largest(stats.queues);
  const types = largest(stats.types);
  return {
    ...stats,
    paused,
    queues: withOthers(stats.queues, queues),
    types: withOthers(stats.types, types),
    counts: limitCounts(stats.counts, queues, types),
    oldestDue: stats.oldestDue.toSorted((one, other) => other.dueMs - one.dueMs).slice(0, MAX_NAMES),
  };
}

/** The names with the most jobs. */
function largest(counts: Readonly<Record<string, Counts>>): ReadonlySet<string> {
  if (!isCut(counts)) return new Set(Object.keys(counts));
  // A real queue or type called "other" is counted with the others.
  const totals = Object.entries(counts)
    .filter(([name]) => name !== OTHER)
    .map(([name, states]) => ({ name, count: sumOf(Object.values(states)) }));
  const first = totals.toSorted((one, other) => other.count - one.count).slice(0, MAX_NAMES);
  return new Set(first.map(({ name }) => name));
}

function withOthers(counts: Readonly<Record<string, Counts>>, named: ReadonlySet<string>): Record<string, Counts> {
  const result = new Map(Object.entries(counts).filter(([name]) => named.has(name)));
  for (const [name, states] of Object.entries(counts)) {
    if (!named.has(name)) result.set(OTHER, sumCounts(result.get(OTHER), states));
  }
  return Object.fromEntries(result);
}

function sumCounts(one: Counts | undefined, other: Counts): Counts {
  if (one === undefined) return other;
  const states = Object.keys(other) as State[];
  return Object.fromEntries(states.map((state) => [state, one[state] + other[state]])) as Counts;
}

function limitCounts(
  counts: Stats["counts"],
  queues: ReadonlySet<string>,
  types: ReadonlySet<string>,
): StatsResult["counts"] {
  const named = merged(
    counts.map((each) => ({
      ...each,
      queue: queues.has(each.queue) ? each.queue : OTHER,
      type: types.has(each.type) ? each.type : OTHER,
    })),
  );
  if (named.length <= MAX_COUNTS) return named;
  const largest = new Set(named.toSorted((one, other) => other.count - one.count).slice(0, MAX_COUNTS));
  return merged(named.map((each) => (largest.has(each) ? each : { ...each, queue: OTHER, type: OTHER })));
}

/** Adds up entries with the same queue, type and state. */
function merged(counts: StatsResult["counts"]): StatsResult["counts"] {
  const known = new Map<string, StatsResult["counts"][number]>();
  for (const each of counts) {
    const name = JSON.stringify([each.queue, each.type, each.state]);
    const count = each.count + (known.get(name)?.count ?? 0);
    known.set(name, { ...each, count });
  }
  return [...known.values()];
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}
