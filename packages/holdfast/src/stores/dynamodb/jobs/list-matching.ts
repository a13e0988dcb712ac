import { isLeased, type State } from "../../../job/state.js";
import type { JobFilter } from "../../../store.js";
import type { Item } from "../connection/attributes.js";
import type { Config } from "../connection/config.js";
import { storedJob } from "./items.js";
import { laneKey } from "./item-keys.js";

const MAX_KEY_BYTES = 2_048;

/** Whether no job can match. */
export function matchesNothing({ ids, states, types, queues, fingerprint }: JobFilter): boolean {
  return (
    [ids, states, types, queues].some((names) => names?.length === 0) ||
    // DynamoDB rejects it with the same error as a missing index.
    (fingerprint !== undefined && !isKeyValue(fingerprint))
  );
}

/** Whether it can be a key of an index: not empty, at most 2,048 bytes. */
function isKeyValue(text: string): boolean {
  return text.length > 0 && Buffer.byteLength(text) <= MAX_KEY_BYTES;
}

/** The partitions of the live index that may have jobs of the filter's queues and priority. */
export function lanesOf({ queues, priority }: JobFilter, config: Config): string[] {
  return config.lanes
    .filter((lane) => queues === undefined || queues.includes(lane.queue))
    .filter((lane) => priority === undefined || priority === lane.priority)
    .flatMap((lane) => Array.from({ length: config.shards }, (_, shard) => laneKey(lane.queue, lane.priority, shard)));
}

/** Whether the job may be in one of these states, by its entry in the live index. */
export function mayBe(entry: Item, states: readonly State[]): boolean {
  if (entry["held"] !== undefined) return states.some(isLeased);
  return states.includes(entry["again"] === undefined ? "pending" : "failed");
}

export function matches(item: Item, filter: JobFilter): boolean {
  const { states, types, queues, user, tag, schedule, parent, priority, fingerprint } = filter;
  const { createdAfter, createdBefore } = filter;
  const job = storedJob(item);
  return (
    (states === undefined || states.includes(job.state)) &&
    (types === undefined || types.includes(job.type)) &&
    (queues === undefined || queues.includes(job.queue)) &&
    (user === undefined || job.user === user) &&
    (tag === undefined || job.tags.includes(tag)) &&
    (schedule === undefined || job.schedule?.name === schedule) &&
    (parent === undefined || job.parent === parent) &&
    (priority === undefined || job.priority === priority) &&
    (fingerprint === undefined || job.error?.fingerprint === fingerprint) &&
    (createdAfter === undefined || job.createdAt >= createdAfter) &&
    (createdBefore === undefined || job.createdAt < createdBefore)
  );
}
