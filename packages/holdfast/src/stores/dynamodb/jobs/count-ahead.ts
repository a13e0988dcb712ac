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
  /** The job that they come before; null in lanes of higher priority. */
  own: OwnPlace | null;
}
interface OwnPlace {
  dueAt: number;
  /** With several shards, only the due time decides. */
  listed: string | null;
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
  const own = await placeOf(table, before, shards);
  const ownKey = own.listed === null ? sortableTime(own.dueAt) : dueKey(own.dueAt, own.listed);
  const higher = lanes
    .filter(({ queue, priority }) => queue === before.queue && priority > before.priority)
    .toSorted((a, b) => b.priority - a.priority)
    .slice(0, MAX_PARTS - 1);
  const partsIn = (shard: number): Part[] => [
    ...higher.map(({ queue, priority }) => ({ hash: laneKey(queue, priority, shard), below: dueNow, own: null })),
    { hash: laneKey(before.queue, before.priority, shard), below: ownKey < dueNow ? ownKey : dueNow, own },
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

async function placeOf(table: Table, { id, dueAt }: QueuePosition, shards: number): Promise<OwnPlace> {
  const found = shards === 1 ? await table.get(jobKey(id)) : null;
  return { dueAt, listed: found === null ? null : readItem(found).listed };
}

async function countPart(table: Table, part: Part, limit: number, now: number): Promise<number> {
  const { hash, below } = part;
  const filter = (expression: Expression): string => freeBefore(part, now, expression);
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

/** A leased job stays at its place in the index. It is due when its lease has expired, and since then. */
function freeBefore({ own }: Part, now: number, expression: Expression): string {
  const terms = [`#held <= ${expression.value(now)}`];
  if (own !== null) {
    const dueAt = expression.value(own.dueAt);
    const isEarlier = `#held < ${dueAt}`;
    const listed = own.listed === null ? null : expression.value(own.listed);
    terms.push(listed === null ? isEarlier : `(${isEarlier} OR (#held = ${dueAt} AND #listed < ${listed}))`);
  }
  return `attribute_not_exists(#held) OR (${terms.join(" AND ")})`;
}
