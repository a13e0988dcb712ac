import { ALL_QUEUES } from "../../../defaults.js";
import { isFinished, isLeased, STATE_NAMES, type State } from "../../../job/state.js";
import { isRequested, type StatsRequest, type StoreStats } from "../../../job/stored-queue.js";
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

/** A partition of the live index, and what to do with each of its entries. */
interface Partition {
  hash: string;
  count: (entry: Item) => void;
}

// With the shared item and the four counters of completed jobs, a count with a limit takes at most ten requests.
const MAX_REQUESTS = 9;
const COUNTER_REQUESTS = 4;
// Keys that one BatchGetItem request reads.
const MAX_KEYS = 100;

/**
 * Counts waiting, leased, dead and cancelled jobs by reading the live index, so no crash can make these counts wrong.
 * Completed jobs have counters: they may be many, and DynamoDB deletes them without notice. Only what counts the requested states and
 * queues is read.
 */
export async function statsOf(
  table: Table,
  config: SharedConfig,
  counts: Counts,
  now: number,
  request: StatsRequest = {},
): Promise<StoreStats> {
  const { states = STATE_NAMES, types, queues, atMost } = request;
  const isAll = Object.keys(request).length === 0;
  const { lanes, paused, shards, hasOwnTimes } = await config.read();
  const tallies = new Map<string, Tally>();
  let found = 0;
  let requests = atMost === undefined ? Number.POSITIVE_INFINITY : MAX_REQUESTS;
  const add = (queue: string, type: string, state: State, count = 1): void => {
    const name = JSON.stringify([queue, type, state]);
    const tally = tallies.get(name) ?? { queue, type, state, count: 0 };
    tallies.set(name, { ...tally, count: tally.count + count });
    if (isRequested(request, { queue, type, state })) found += count;
  };
  if (states.includes("completed")) {
    await counts.flush();
    requests -= COUNTER_REQUESTS;
    for (const { queue, type, count } of await counts.total(now)) add(queue, type, "completed", count);
  }
  const readsLive = states.some((state) => !isFinished(state));
  // The index does not contain whether a leased job was started: that would cost another index write per job.
  const leased: string[] = [];
  const readsLeased =
    states.some(isLeased) && (atMost === undefined || states.includes("claimed") !== states.includes("running"));
  const dueMs = new Map<string, number>();
  const live = lanes
    .filter(({ queue }) => readsLive && (queues?.includes(queue) ?? true))
    .map(({ queue, priority }) => ({
      hash: (shard: number) => laneKey(queue, priority, shard),
      count: (entry: Item): void => {
        const type = stringOf(entry, "type") ?? "";
        if (entry["held"] !== undefined) {
          if (!readsLeased) add(queue, type, "running");
          else if (types?.includes(type) ?? true) leased.push(idOf(stringOf(entry, "pk") ?? ""));
          return;
        }
        add(queue, type, numberOf(entry, "again") === null ? "pending" : "failed");
        const dueAt = timeOf(stringOf(entry, LIVE.range) ?? "");
        if (dueAt <= now && !paused.has(queue) && !paused.has(ALL_QUEUES))
          dueMs.set(queue, Math.max(dueMs.get(queue) ?? 0, now - dueAt));
      },
    }));
  const finished = (["dead", "cancelled"] as const)
    .filter((state) => states.includes(state))
    .flatMap((state) => (hasOwnTimes ? [finishedKey, ownTimeKey] : [finishedKey]).map((key) => ({ state, key })))
    .map(({ state, key }) => ({
      hash: (shard: number) => key(state, shard),
      count: (entry: Item): void => add(stringOf(entry, "queue") ?? "", stringOf(entry, "type") ?? "", state),
    }));
  const partitions = Array.from({ length: shards }, (_, shard) =>
    [...live, ...finished].map(({ hash, count }) => ({ hash: hash(shard), count })),
  );
  // One request for the leased jobs is set aside.
  if (readsLeased) requests -= 1;
  const isRead = await readPartitions(table, partitions.flat(), (wanted) => {
    const granted = found > (atMost ?? Number.POSITIVE_INFINITY) ? 0 : Math.min(wanted, requests);
    requests -= granted;
    return granted;
  });
  const looked = leased.slice(0, (requests + 1) * MAX_KEYS);
  for (const item of await table.getAll(looked.map(jobKey))) {
    if (isDeleted(item, now)) continue;
    const { queue, type, state } = readItem(item);
    if (!isFinished(state)) add(queue, type, state);
  }
  return {
    counts: [...tallies.values()],
    ...oldestDueOf(dueMs),
    lastMinute: isAll ? await counts.lastMinute(now) : { completed: 0, dead: 0, cancelled: 0 },
    ...(isRead && looked.length === leased.length ? {} : { partial: true }),
  };
}

/** Reads pages of all partitions, the first ones first, while `grant` allows requests. False if pages are left. */
async function readPartitions(
  table: Table,
  partitions: readonly Partition[],
  grant: (wanted: number) => number,
): Promise<boolean> {
  let open = partitions.map((partition) => ({ partition, after: null as Item | null }));
  while (open.length > 0) {
    const granted = grant(open.length);
    if (granted === 0) return false;
    const read = open.slice(0, granted).map(async ({ partition, after }) => {
      const page = await table.query({ index: LIVE, hash: partition.hash, after });
      for (const entry of page.items) partition.count(entry);
      return { partition, after: page.next };
    });
    const next = (await Promise.all(read)).filter(({ after }) => after !== null);
    open = [...open.slice(granted), ...next];
  }
  return true;
}
