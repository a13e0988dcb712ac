import type { Stats } from "../../engine/client/stats.js";
import { isCut, MAX_NAMES, OTHER } from "../../observe/names.js";
import type { State } from "../../job/state.js";
import type { StatsResult } from "../contract/api-types.js";

// By queue, type and state. Names may be long, and each viewer of the events is sent all of them each second.
const MOST_COUNTS = 1_000;

type Counts = Record<State, number>;

/**
 * Counts as the API answers them. Whoever may enqueue may make up any number of types and queues: those with the most jobs are
 * named, and the rest are told together, so that the sums stay true.
 */
export function statsAnswer(stats: Stats): StatsResult {
  const queues = largest(stats.queues);
  const types = largest(stats.types);
  return {
    ...stats,
    queues: summed(stats.queues, queues),
    types: summed(stats.types, types),
    counts: countsOf(stats.counts, queues, types),
  };
}

/** The names with the most jobs. */
function largest(counts: Readonly<Record<string, Counts>>): ReadonlySet<string> {
  if (!isCut(counts)) return new Set(Object.keys(counts));
  // One that is called like the rest is told with the rest.
  const jobs = Object.entries(counts)
    .filter(([name]) => name !== OTHER)
    .map(([name, states]) => ({ name, count: sumOf(Object.values(states)) }));
  const first = jobs.toSorted((one, other) => other.count - one.count).slice(0, MAX_NAMES);
  return new Set(first.map(({ name }) => name));
}

function summed(counts: Readonly<Record<string, Counts>>, named: ReadonlySet<string>): Record<string, Counts> {
  const kept = new Map(Object.entries(counts).filter(([name]) => named.has(name)));
  for (const [name, states] of Object.entries(counts)) {
    if (!named.has(name)) kept.set(OTHER, together(kept.get(OTHER), states));
  }
  return Object.fromEntries(kept);
}

function together(one: Counts | undefined, other: Counts): Counts {
  if (one === undefined) return other;
  const states = Object.keys(other) as State[];
  return Object.fromEntries(states.map((state) => [state, one[state] + other[state]])) as Counts;
}

function countsOf(
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
  if (named.length <= MOST_COUNTS) return named;
  const largest = new Set(named.toSorted((one, other) => other.count - one.count).slice(0, MOST_COUNTS));
  return merged(named.map((each) => (largest.has(each) ? each : { ...each, queue: OTHER, type: OTHER })));
}

/** Those of one queue, type and state as one. */
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
