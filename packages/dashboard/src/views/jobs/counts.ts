import type { CountResult, JobConditions, StatsResult } from "holdfast/admin";
import { api, clientWithin, may } from "../../app/api.js";
import { stats } from "../../app/live.js";
import { useResource } from "../../app/resource.js";
import { STATES, type State } from "./filter.js";

export type Counts = Readonly<Record<State | "all", CountResult | null>>;

const EVERY_MS = 15_000;
/** The event stream has newer counts at once. */
const COUNTED_S = 10;

/** How many jobs match in each state, whatever states the filter has. Null: not counted. */
export function useCounts(conditions: JobConditions, isImpossible: boolean): Counts & { reload: () => void } {
  const { state: _state, ...others } = conditions;
  const isViewer = may("viewer");
  const live = isViewer ? fromStats(others, stats.value) : null;
  // A search reads the inputs or errors of many jobs, seven times as many for seven states.
  const isCounted = live === null && others.input === undefined && others.error === undefined && !isImpossible;
  const key = isCounted ? `jobs.counts ${JSON.stringify(others)}` : "jobs.counts";
  const resource = useResource(
    key,
    async () => (isCounted ? ((isViewer ? await countFromStats(others) : null) ?? countAll(others)) : undefined),
    isCounted ? { every: EVERY_MS } : {},
  );
  const counted = isCounted ? resource.data.value : undefined;
  const counts = Object.fromEntries(
    STATES.map((state) => [state, isImpossible ? exact(0) : (live?.[state] ?? counted?.[state] ?? null)]),
  ) as Record<State, CountResult | null>;
  return { ...counts, all: sum(Object.values(counts)), reload: () => void resource.reload() };
}

/** One call instead of seven, as long as the event stream has not sent any counts. */
async function countFromStats(others: JobConditions): Promise<Record<State, CountResult> | null> {
  const isKnown = stats.peek() !== null || !isOfStats(others);
  return isKnown ? null : fromStats(others, await clientWithin(COUNTED_S).jobs.stats({}));
}

async function countAll(others: JobConditions): Promise<Record<State, CountResult>> {
  const counts = await Promise.all(STATES.map((state) => api.jobs.count({ ...others, state: [state] })));
  return Object.fromEntries(STATES.map((state, at) => [state, counts[at]])) as Record<State, CountResult>;
}

/** The store's counters are enough for types alone and queues alone. They arrive all the time anyway. */
function isOfStats({ type, queue, ...others }: JobConditions): boolean {
  return Object.keys(others).length === 0 && (type === undefined || queue === undefined);
}

function fromStats(conditions: JobConditions, known: StatsResult | null): Record<State, CountResult> | null {
  if (known === null || !isOfStats(conditions)) return null;
  const { type, queue } = conditions;
  const names = type ?? queue;
  if (names === undefined) return toExact([known.states]);
  const counts = type === undefined ? known.queues : known.types;
  // Those with the fewest jobs are not listed.
  if (!names.every((name) => Object.hasOwn(counts, name))) return null;
  return toExact(names.map((name) => counts[name] as Record<State, number>));
}

function toExact(parts: readonly Readonly<Record<State, number>>[]): Record<State, CountResult> {
  const of = (state: State): number => parts.reduce((total, part) => total + part[state], 0);
  return Object.fromEntries(STATES.map((state) => [state, exact(of(state))])) as Record<State, CountResult>;
}

function exact(count: number): CountResult {
  return { count, exact: true };
}

export function sum(counts: readonly (CountResult | null)[]): CountResult | null {
  let total = exact(0);
  for (const each of counts) {
    if (each === null) return null;
    total = { count: total.count + each.count, exact: total.exact && each.exact };
  }
  return total;
}
