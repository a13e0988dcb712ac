import type { QueuePosition } from "../../../store.js";
import type { Expression } from "../connection/expressions.js";
import type { Config } from "../connection/config.js";
import type { Item } from "../connection/attributes.js";
import type { Table } from "../connection/table.js";
import { readItem } from "./items.js";
import { dueKey, endOfMillisecond, jobKey, laneKey, LIVE, sortableTime } from "./item-keys.js";

/** The entries of a lane in one shard that come first. */
interface Part {
  hash: string;
  below: string;
}

// Queries of one call. With more lanes and shards, some shards are counted and stand for the others.
const MAX_PARTS = 16;
// If half of the shards have so many jobs, they stand for the other half: ids are spread evenly.
const ENOUGH = 100;
const MIN_LIMIT = 100;
const MAX_PAGES = 3;

/**
 * Counts the jobs that a claim would take before this one. Small numbers are exact. Larger ones are estimated from some of
 * the shards, because each lane in each shard takes a request.
 */
export async function countAhead(
  table: Table,
  { lanes, shards }: Pick<Config, "lanes" | "shards">,
  before: QueuePosition,
  atMost: number,
  now: number,
): Promise<number> {
  if (atMost <= 0) return 0;
  const dueNow = endOfMillisecond(now);
  const own = await ownKey(table, before, shards);
  const higher = lanes
    .filter(({ queue, priority }) => queue === before.queue && priority > before.priority)
    .toSorted((a, b) => b.priority - a.priority)
    .slice(0, MAX_PARTS - 1);
  const partsIn = (shard: number): Part[] => [
    ...higher.map(({ queue, priority }) => ({ hash: laneKey(queue, priority, shard), below: dueNow })),
    { hash: laneKey(before.queue, before.priority, shard), below: own < dueNow ? own : dueNow },
  ];
  // Shards are evenly filled: if all of them reach twice their share, the total does too.
  const limit = Math.min(atMost, Math.max(MIN_LIMIT, Math.ceil((2 * atMost) / shards)));
  const countIn = async (from: number, to: number): Promise<number> => {
    const parts = Array.from({ length: to - from }, (_, at) => partsIn(from + at)).flat();
    const counts = await Promise.all(parts.map((part) => countPart(table, part, limit, now)));
    return counts.reduce((sum, count) => sum + count, 0);
  };
  const counted = Math.min(shards, Math.max(1, Math.floor(MAX_PARTS / (higher.length + 1))));
  const half = Math.min(counted, Math.ceil(shards / 2));
  const first = await countIn(0, half);
  if (first >= ENOUGH || half === counted) return Math.min(atMost, Math.round((first * shards) / half));
  return Math.min(atMost, Math.round(((first + (await countIn(half, counted))) * shards) / counted));
}

/** The sort key of the job in its lane. With several shards, only the due time decides. */
async function ownKey(table: Table, { id, dueAt }: QueuePosition, shards: number): Promise<string> {
  if (shards > 1) return sortableTime(dueAt);
  const found = await table.get(jobKey(id));
  return found === null ? sortableTime(dueAt) : dueKey(dueAt, readItem(found).listed);
}

/** A leased job stays at its place in the index. Its entry has the end of its lease. */
async function countPart(table: Table, { hash, below }: Part, limit: number, now: number): Promise<number> {
  const filter = (expression: Expression): string => `attribute_not_exists(#held) OR #held <= ${expression.value(now)}`;
  let count = 0;
  let after: Item | null = null;
  for (let page = 0; page < MAX_PAGES && count < limit; page++) {
    const counted = await table.count({ index: LIVE, hash, below, filter, limit: limit + MIN_LIMIT, after });
    count += counted.count;
    after = counted.next;
    if (after === null) break;
  }
  return Math.min(count, limit);
}
