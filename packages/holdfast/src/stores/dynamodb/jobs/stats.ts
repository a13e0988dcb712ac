import { isFinished, type State } from "../../../job/state.js";
import type { StoreStats } from "../../../store.js";
import { numberOf, textOf, type Item } from "../connection/attributes.js";
import type { ConfigKeeper } from "../connection/config.js";
import type { Counts } from "./counts.js";
import { isGone, readItem } from "./items.js";
import { endedKey, idOf, jobKey, laneKey, LIVE, timeIn } from "./keys.js";
import type { Table } from "../connection/table.js";

interface Tally {
  queue: string;
  type: string;
  state: State;
  count: number;
}

/**
 * Counts by the live index, which holds what waits, what is leased, and what ended badly: they are true whatever crashed.
 * Only completed jobs, which may be many and are cleared away in silence, have counters.
 */
export async function statsOf(table: Table, config: ConfigKeeper, counts: Counts, now: number): Promise<StoreStats> {
  const { lanes, paused, shards } = await config.read();
  const tallies = new Map<string, Tally>();
  const add = (queue: string, type: string, state: State, count = 1): void => {
    const name = JSON.stringify([queue, type, state]);
    const tally = tallies.get(name) ?? { queue, type, state, count: 0 };
    tallies.set(name, { ...tally, count: tally.count + count });
  };
  const leased: Item[] = [];
  let oldestDueAt = Number.POSITIVE_INFINITY;
  const all = Array.from({ length: shards }, (_, shard) => shard);
  const walks = [
    ...all.flatMap((shard) =>
      lanes.map(({ queue, priority }) =>
        entriesOf(table, laneKey(queue, priority, shard), (entry) => {
          if (entry["held"] !== undefined) {
            leased.push(entry);
            return;
          }
          add(queue, textOf(entry, "type") ?? "", numberOf(entry, "again") === null ? "pending" : "failed");
          const dueAt = timeIn(textOf(entry, LIVE.range) ?? "");
          if (dueAt <= now && !paused.has(queue)) oldestDueAt = Math.min(oldestDueAt, dueAt);
        }),
      ),
    ),
    ...all.flatMap((shard) =>
      (["dead", "cancelled"] as const).map((state) =>
        entriesOf(table, endedKey(state, shard), (entry) => {
          add(textOf(entry, "queue") ?? "", textOf(entry, "type") ?? "", state);
        }),
      ),
    ),
  ];
  await Promise.all(walks);
  // Whether a leased job was begun is not in the index: that would cost a write of its own.
  const keys = leased.map((entry) => jobKey(idOf(textOf(entry, "pk") ?? "")));
  for (const item of await table.getAll(keys)) {
    if (isGone(item, now)) continue;
    const { queue, type, state } = readItem(item);
    if (!isFinished(state)) add(queue, type, state);
  }
  await counts.flush();
  for (const { queue, type, count } of await counts.total(now)) add(queue, type, "completed", count);
  return {
    counts: [...tallies.values()],
    oldestDueMs: Number.isFinite(oldestDueAt) ? now - oldestDueAt : null,
    lastMinute: await counts.lastMinute(now),
  };
}

async function entriesOf(table: Table, lane: string, each: (entry: Item) => void): Promise<void> {
  for await (const page of table.pages({ index: LIVE, hash: lane })) for (const entry of page) each(entry);
}
