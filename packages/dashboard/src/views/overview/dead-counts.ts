import { useMemo } from "preact/hooks";
import type { ErrorGroupResult } from "holdfast/admin";
import type { RouteClient } from "../../app/api.js";
import { stats } from "../../app/live.js";
import { useResource } from "../../app/resource.js";
import { MANY_DEAD } from "./warnings.js";

export type DeadCounts = ReadonlyMap<string, { count: number; exact: boolean }>;

const COUNTED = 3;
/** One step of the store. */
const AT_MOST = 1_000;
const EVERY_MS = 60_000;
const NONE: DeadCounts = new Map();

/** How many jobs are dead with the most frequent errors. Only groups whose type has dead jobs are counted. */
export function useDeadCounts(groups: readonly ErrorGroupResult[] | undefined): DeadCounts {
  const types = stats.value?.types;
  const wanted = (groups ?? [])
    .filter(({ count, type }) => count >= MANY_DEAD && type !== null && (types?.[type]?.dead ?? 0) >= MANY_DEAD)
    .toSorted((one, other) => other.count - one.count)
    .slice(0, COUNTED)
    .map(({ fingerprint }) => fingerprint)
    .toSorted();
  const load = async ({ jobs }: RouteClient): Promise<DeadCounts> => {
    const counts: [string, { count: number; exact: boolean }][] = [];
    for (const fingerprint of wanted) {
      counts.push([fingerprint, await jobs.count({ fingerprint, state: ["dead"], atMost: AT_MOST })]);
    }
    return new Map(counts);
  };
  const counted = useResource(`overview dead ${wanted.join(" ")}`, load, { every: EVERY_MS });
  return useMemo(() => counted.data.value ?? NONE, [counted.data.value]);
}
