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
/** How many of them were counted, and where the next page begins; null at the end. */
interface PartCount {
  part: Part;
  count: number;
  after: Item | null;
}
interface OwnPlace {
  dueAt: number;
  /** With several shards, only the due time decides. */
  listed: string | null;
}

// With the other reads of `hf.explain`, at most ten requests.
const MAX_QUERIES = 6;
// If half of the counted shards have so many jobs, they stand for the others: ids are spread evenly.
const ENOUGH = 100;
const MIN_LIMIT = 100;

/**
 * Counts the jobs that a claim would take before this one, in at most six queries. Each lane in each shard takes at least one: with
 * more of them, some shards are counted and stand for the others. With one shard, the number is exact if few of the entries are leased.
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
    .slice(0, MAX_QUERIES - 1);
  const partsIn = (shard: number): Part[] => [
    ...higher.map(({ queue, priority }) => ({ hash: laneKey(queue, priority, shard), below: dueNow, own: null })),
    { hash: laneKey(before.queue, before.priority, shard), below: ownKey < dueNow ? ownKey : dueNow, own },
  ];
  // Shards are evenly filled: if all of them reach twice their share, the total does too.
  const limit = Math.min(atMost, Math.max(MIN_LIMIT, Math.ceil((2 * atMost) / shards)));
  let queries = MAX_QUERIES;
  const countIn = async (from: number, to: number): Promise<PartCount[]> => {
    const parts = Array.from({ length: to - from }, (_, at) => partsIn(from + at)).flat();
    queries -= parts.length;
    return Promise.all(parts.map((part) => countMore(table, { part, count: 0, after: null }, limit, now)));
  };
  const estimate = (parts: readonly PartCount[], from: number): number =>
    Math.min(atMost, Math.round((sumOf(parts) * shards) / from));
  const ofShards = Math.min(shards, Math.max(1, Math.floor(MAX_QUERIES / (higher.length + 1))));
  const half = Math.min(ofShards, Math.ceil(shards / 2));
  let counted = await countIn(0, half);
  if (half < shards && sumOf(counted) >= ENOUGH) return estimate(counted, half);
  counted = [...counted, ...(await countIn(half, ofShards))];
  // The first page of a part may have only leased jobs.
  for (let nth = 0; nth < counted.length && queries > 0;) {
    const part = counted[nth];
    if (part === undefined || part.after === null || part.count >= limit) nth++;
    else {
      queries--;
      counted[nth] = await countMore(table, part, limit, now);
    }
  }
  return estimate(counted, ofShards);
}

async function placeOf(table: Table, { id, dueAt }: QueuePosition, shards: number): Promise<OwnPlace> {
  const found = shards === 1 ? await table.get(jobKey(id)) : null;
  return { dueAt, listed: found === null ? null : readItem(found).listed };
}

function sumOf(parts: readonly PartCount[]): number {
  return parts.reduce((sum, { count }) => sum + count, 0);
}

/** Counts one more page of a part, up to `limit` jobs in all. */
async function countMore(table: Table, counted: PartCount, limit: number, now: number): Promise<PartCount> {
  const { part, count, after } = counted;
  const { hash, below } = part;
  const filter = (expression: Expression): string => freeBefore(part, now, expression);
  const page = await table.count({ index: LIVE, hash, below, filter, limit: limit + MIN_LIMIT, after });
  return { part, count: Math.min(limit, count + page.count), after: page.next };
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
