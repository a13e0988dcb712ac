import { DEFAULTS } from "../../defaults.js";
import { Counts, type Depth } from "../../history/counted.js";
import { isLeased, isWaiting } from "../../job/state.js";
import type { HistoryRecord, HistoryResolution, Store, StoreStats } from "../../store.js";
import type { EngineContext } from "../context.js";
import { HOUR_MS, MINUTE_MS, readRecords, startOf } from "./records.js";

/** Minutes are stored for a day and an hour, hours for 30 days and an hour: the hour at the edge is complete. */
export const KEPT_MS: Readonly<Record<HistoryResolution, number>> = {
  minute: 25 * HOUR_MS,
  hour: (30 * 24 + 1) * HOUR_MS,
};
export const ERROR_GROUPS_KEPT_MS: number = 30 * 24 * HOUR_MS;
export const TRANSITIONS_KEPT_MS = 600_000;
// There may be thousands more each second, so that chunks of maintenance's usual size would not keep up.
const TRANSITIONS_CHUNK = 5_000;

// Processes write a minute within seconds after its end. One that is later is merged by the next run.
const MERGE_AFTER_MS = 2 * MINUTE_MS;
const MERGE_WITHIN_MS = 15 * MINUTE_MS;
// A process that cannot reach the store keeps minutes for longer than that: each hour is added up, and again an hour later.
const HOUR_AFTER_MS = 15 * MINUTE_MS;
// If no process ran maintenance for longer, the hours before that are not added up.
const LONGEST_GAP_MS = 48 * HOUR_MS;
const MERGED = "merged";
const MAX_MERGED = 50;
const MAX_MERGED_LENGTH = 400_000;
const DEPTHS = "depths";
/** How often records are merged and deleted. */
export const ROLL_UP_MS: number = 5 * MINUTE_MS;
const METERED_SAMPLE_MS = 10 * MINUTE_MS;

/** How often waiting jobs are counted. A store that charges per request is read less often. */
export function sampleMs({ capabilities }: Pick<Store, "capabilities">): number {
  return capabilities.metered ? METERED_SAMPLE_MS : MINUTE_MS;
}

/** How often transitions are deleted. A minute may have several times as many as are kept. */
export function purgeMs({ capabilities }: Pick<Store, "capabilities">): number {
  return capabilities.metered ? ROLL_UP_MS : MINUTE_MS;
}

/** Whether a duty must end after its current step, because the client closes. */
export type IsStopped = () => boolean;
export const NEVER_STOPPED: IsStopped = () => false;

/**
 * The duty that keeps history small: it samples how many jobs wait, merges the records that processes wrote for the same minute,
 * adds minutes up to hours, and deletes what is older than history, error groups and transitions are kept.
 */
export class RollUp {
  readonly #engine: Pick<EngineContext, "store" | "clock">;
  /** Hours before this one are stored already. */
  #hoursDone = Number.NEGATIVE_INFINITY;

  constructor(engine: Pick<EngineContext, "store" | "clock">) {
    this.#engine = engine;
  }

  async run(isStopped: IsStopped = NEVER_STOPPED): Promise<void> {
    const now = this.#engine.clock.now();
    await this.#mergeMinutes(now, isStopped);
    await this.#addHours(now, isStopped);
    await this.#purge(now, isStopped);
  }

  /** Counts the jobs that wait. Nothing is written if there are none. */
  async sample(): Promise<void> {
    const { store, clock } = this.#engine;
    const at = startOf("minute", clock.now());
    const counts = new Counts();
    counts.depths = depthsOf(await store.stats());
    if (counts.depths.length === 0) return;
    await store.putHistory([{ resolution: "minute", at, writer: DEPTHS, data: counts.toText() }]);
  }

  async #mergeMinutes(now: number, isStopped: IsStopped): Promise<void> {
    const { store } = this.#engine;
    const from = startOf("minute", now - MERGE_WITHIN_MS);
    const to = startOf("minute", now - MERGE_AFTER_MS);
    const byMinute = new Map<number, HistoryRecord[]>();
    for (const record of await readRecords(store, { resolution: "minute", from, to })) {
      byMinute.set(record.at, [...(byMinute.get(record.at) ?? []), record]);
    }
    for (const [at, all] of byMinute) {
      if (isStopped()) return;
      const records = atOnce([...all.filter(isMerged), ...all.filter((record) => !isMerged(record))]);
      if (records.length < 2) continue;
      // Another process may merge the same minute: the store lets one of them.
      const merged = { resolution: "minute", at, writer: MERGED, data: merge(records).toText() } as const;
      await store.mergeHistory({ record: merged, replaced: records });
    }
  }

  /** An hour is computed from all of its minutes and replaces the earlier result, so that a repeated run counts nothing twice. */
  async #addHours(now: number, isStopped: IsStopped): Promise<void> {
    const { store } = this.#engine;
    const to = startOf("hour", now - HOUR_AFTER_MS);
    if (to <= this.#hoursDone) return;
    let at = Math.max(this.#hoursDone - HOUR_MS, startOf("hour", now - LONGEST_GAP_MS));
    const known = new Set((await readRecords(store, { resolution: "hour", from: at, to })).map((hour) => hour.at));
    for (;;) {
      const { records } = await store.history({ resolution: "minute", from: at, to, limit: 1, after: null });
      const [next] = records;
      if (next === undefined) break;
      if (isStopped()) return;
      at = startOf("hour", next.at);
      if (!known.has(at) || at >= to - 2 * HOUR_MS) {
        const minutes = await readRecords(store, { resolution: "minute", from: at, to: at + HOUR_MS });
        await store.putHistory([{ resolution: "hour", at, writer: MERGED, data: merge(minutes).toText() }]);
      }
      at += HOUR_MS;
    }
    this.#hoursDone = to;
  }

  async #purge(now: number, isStopped: IsStopped): Promise<void> {
    const { store } = this.#engine;
    const limit = DEFAULTS.maintenance.chunk;
    for (const resolution of ["minute", "hour"] as const) {
      const before = now - KEPT_MS[resolution];
      while (!isStopped() && (await store.purgeHistory({ resolution, before, limit })) >= limit);
    }
    if (!isStopped()) await store.purgeErrorGroups(now - ERROR_GROUPS_KEPT_MS);
  }

  async purgeTransitions(isStopped: IsStopped = NEVER_STOPPED): Promise<void> {
    const { store, clock } = this.#engine;
    const before = clock.now() - TRANSITIONS_KEPT_MS;
    const limit = store.capabilities.metered ? DEFAULTS.maintenance.chunk : TRANSITIONS_CHUNK;
    while ((await store.purgeTransitions({ before, limit })) >= limit && !isStopped());
  }
}

/** The sum of records of the same minute or hour, in their order. */
export function merge(records: readonly HistoryRecord[]): Counts {
  const sum = new Counts();
  for (const { data } of records) sum.merge(Counts.parse(data));
  return sum;
}

/** As many as a store can replace at a time. The rest is merged by the next run. */
function atOnce(records: readonly HistoryRecord[]): HistoryRecord[] {
  let length = 0;
  return records.slice(0, MAX_MERGED).filter(({ data }) => (length += data.length) <= MAX_MERGED_LENGTH);
}

function isMerged({ writer }: HistoryRecord): boolean {
  return writer === MERGED;
}

function depthsOf({ counts, oldestDue }: StoreStats): Depth[] {
  const depths = new Map<string, Depth>();
  const depthOf = (queue: string): Depth => {
    let depth = depths.get(queue);
    if (depth === undefined) depths.set(queue, (depth = { queue, waiting: 0, leased: 0, oldestDueMs: null }));
    return depth;
  };
  for (const { queue, state, count } of counts) {
    if (isWaiting(state)) depthOf(queue).waiting += count;
    else if (isLeased(state)) depthOf(queue).leased += count;
  }
  for (const { queue, dueMs } of oldestDue) depthOf(queue).oldestDueMs = dueMs;
  return [...depths.values()].toSorted((a, b) => b.waiting - a.waiting);
}
