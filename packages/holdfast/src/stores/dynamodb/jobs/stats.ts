import { ALL_QUEUES } from "../../../defaults.js";
import { isFinished, isLeased, STATE_NAMES, type State } from "../../../job/state.js";
import type { StoreStats } from "../../../store.js";
import { numberOf, stringOf, type Item } from "../connection/attributes.js";
import type { SharedConfig } from "../connection/config.js";
import type { Counts } from "./counts.js";
import { isDeleted, readItem } from "./items.js";
import { finishedKey, idOf, jobKey, laneKey, LIVE, ownTimeKey, timeOf } from "./item-keys.js";
import { oldestDueOf } from "../../oldest-due.js";
import type { Table } from "../connection/table.js";

interface Tally {
  queue: string;
  type: string;
  state: State;
  count: number;
}

/**
 * Counts waiting, leased, dead and cancelled jobs by reading the live index, so no crash can make these counts wrong.
 * Completed jobs have counters: they may be many, and DynamoDB deletes them without notice. With `states`, only what counts these is
 * read.
 */
export async function statsOf(
  table: Table,
  config: SharedConfig,
  counts: Counts,
  now: number,
  states: readonly State[] = STATE_NAMES,
): Promise<StoreStats> {
  const isAll = states === STATE_NAMES;
  const readsLive = states.some((state) => !isFinished(state));
  const { lanes, paused, shards, hasOwnTimes } = await config.read();
  const tallies = new Map<string, Tally>();
  const add = (queue: string, type: string, state: State, count = 1): void => {
    const name = JSON.stringify([queue, type, state]);
    const tally = tallies.get(name) ?? { queue, type, state, count: 0 };
    tallies.set(name, { ...tally, count: tally.count + count });
  };
  const leased: Item[] = [];
  const dueMs = new Map<string, number>();
  const all = Array.from({ length: shards }, (_, shard) => shard);
  const reads = [
    ...all.flatMap((shard) =>
      (readsLive ? lanes : []).map(({ queue, priority }) =>
        entriesOf(table, laneKey(queue, priority, shard), (entry) => {
          if (entry["held"] !== undefined) {
            leased.push(entry);
            return;
          }
          add(queue, stringOf(entry, "type") ?? "", numberOf(entry, "again") === null ? "pending" : "failed");
          const dueAt = timeOf(stringOf(entry, LIVE.range) ?? "");
          if (dueAt <= now && !paused.has(queue) && !paused.has(ALL_QUEUES))
            dueMs.set(queue, Math.max(dueMs.get(queue) ?? 0, now - dueAt));
        }),
      ),
    ),
    ...all.flatMap((shard) =>
      (["dead", "cancelled"] as const)
        .filter((state) => states.includes(state))
        .flatMap((state) =>
          [finishedKey(state, shard), ...(hasOwnTimes ? [ownTimeKey(state, shard)] : [])].map((lane) =>
            entriesOf(table, lane, (entry) => {
              add(stringOf(entry, "queue") ?? "", stringOf(entry, "type") ?? "", state);
            }),
          ),
        ),
    ),
  ];
  await Promise.all(reads);
  // The index does not contain whether a leased job was started: that would cost another index write per job.
  const keys = (states.some(isLeased) ? leased : []).map((entry) => jobKey(idOf(stringOf(entry, "pk") ?? "")));
  for (const item of await table.getAll(keys)) {
    if (isDeleted(item, now)) continue;
    const { queue, type, state } = readItem(item);
    if (!isFinished(state)) add(queue, type, state);
  }
  await counts.flush();
  if (states.includes("completed")) {
    for (const { queue, type, count } of await counts.total(now)) add(queue, type, "completed", count);
  }
  return {
    counts: [...tallies.values()],
    ...oldestDueOf(dueMs),
    lastMinute: isAll ? await counts.lastMinute(now) : { completed: 0, dead: 0, cancelled: 0 },
  };
}

async function entriesOf(table: Table, lane: string, each: (entry: Item) => void): Promise<void> {
  for await (const page of table.pages({ index: LIVE, hash: lane })) for (const entry of page) each(entry);
}
