/** The keys of the table and of its indexes. All are strings. */

export const TABLE_KEY: { name?: undefined; hash: "pk"; range: "sk" } = { hash: "pk", range: "sk" };

/** Live jobs and schedules by due time, and finished jobs that a purge will delete. */
export const LIVE = { name: "live", hash: "lane", range: "due" } as const;
/** All jobs by type and time of enqueue. Dead and cancelled jobs are in separate partitions. */
export const LISTED = { name: "listed", hash: "list", range: "listed" } as const;
/** A user's jobs by time of enqueue. */
export const OWNED = { name: "owned", hash: "owner", range: "listed" } as const;
/** The jobs that a job's handler enqueued, by time of enqueue. Most jobs have no parent and no entry here. */
export const CHILDREN = { name: "children", hash: "parent", range: "listed" } as const;
/** Jobs by the group of their error, by time of enqueue. Jobs that never failed have no entry here. */
export const ERRORS = { name: "errors", hash: "fingerprint", range: "listed" } as const;
/** Jobs with an expiry time, by that time; and notes that waits of other jobs have to be ended. */
export const EXPIRING = { name: "expiring", hash: "expiry", range: "expires" } as const;

export interface Key {
  pk: string;
  sk: string;
}

export const CONFIG: Key = { pk: "config", sk: "config" };
export const WORKERS = "workers";
/** When each maintenance duty was last acquired. */
export const DUTIES = "turns";
export const SCHEDULES = "schedules";
export const TOKENS = "tokens";
/** The number of API tokens. */
export const TOKEN_COUNT: Key = { pk: "token-count", sk: "token-count" };
/** The key that encrypts cursors. */
export const CURSOR_KEY: Key = { pk: "cursor-key", sk: "cursor-key" };
/** Groups of errors, by fingerprint. */
export const ERROR_GROUPS = "error-groups";
/** Operations of the admin API. */
export const OPERATIONS = "operations";
/** Whether jobs are followed, and the number of the last batch of recorded transitions. */
export const FOLLOWING: Key = { pk: "following", sk: "following" };
/** The months that have audit entries. */
export const AUDIT = "audit";

export function jobKey(id: string): Key {
  return { pk: `job#${id}`, sk: "job" };
}
export function idOf(pk: string): string {
  return pk.slice(4);
}
export function isJobKey(pk: string, sk: string): boolean {
  return sk === "job" && pk.startsWith("job#");
}
export function uniqueKey(key: string): Key {
  return { pk: `key#${key}`, sk: "key" };
}
/** Prefixes of the sort keys of a job's other items. They have the same `pk` as the job. */
export const DETAILS = { input: "input#", attempt: "attempt#", log: "log#" } as const;

/** Prefixes of the sort keys of a job's steps, which sort after its other items, and of the marks of children that it waits for. */
export const STEPS = "step#";
export const OPEN_CHILDREN = "wait#";

/** The name comes with its length, so that a prefix never matches the beginning of another name. */
export function stepKey(job: string, name: string, member: number): Key {
  return { pk: jobKey(job).pk, sk: `${stepsNamed(name)}${member}` };
}
/** The prefix of all members of a set. */
export function stepsNamed(name: string): string {
  return `${STEPS}${name.length}#${name}#`;
}
/** An item that exists while a step waits for its child, so that one query shows whether a set has such steps. */
export function openChildKey(job: string, name: string, member: number): Key {
  return { pk: jobKey(job).pk, sk: `${openChildrenNamed(name)}${member}` };
}
export function openChildrenNamed(name: string): string {
  return `${OPEN_CHILDREN}${name.length}#${name}#`;
}

/** An event, or a note that jobs wait for it. */
export function eventKey(name: string): Key {
  return { pk: `event#${name}`, sk: "event" };
}
/** A step that waits for an event, in the partition of the event. */
export function waiterKey(event: string, job: string, name: string, member: number): Key {
  return { pk: eventKey(event).pk, sk: `${WAITERS}${job}#${member}#${name}` };
}
export const WAITERS = "wait#";

/** Events and finished jobs with waits that have not ended, in the index of expiring jobs. */
export function wakesKey(shard: number): string {
  return `wakes#${shard}`;
}

/** After all keys with a prefix that ends with `#`. */
export function endOfPrefix(prefix: string): string {
  return `${prefix.slice(0, -1)}$`;
}

export function slotsKey(schedule: string): string {
  return `slots#${schedule}`;
}

/** The partition of all history records of a resolution. */
export function historyKey(resolution: string): string {
  return `history#${resolution}`;
}
/** A batch of recorded transitions. Each is in a partition of its own, so that no partition limits them. */
export function transitionsKey(number: number): Key {
  return { pk: `transitions#${number}`, sk: "transitions" };
}

/** A position in the table's stream that does not fit into a cursor. */
export function positionKey(id: string): Key {
  return { pk: `position#${id}`, sk: "position" };
}

/** The partition of a month's audit entries. */
export function auditKey(month: string): string {
  return `audit#${month}`;
}
/** An item that exists if an audit entry with this id exists in any month. */
export function auditIdKey(id: string): Key {
  return { pk: `audit-id#${id}`, sk: "audit-id" };
}

const DIGITS = 15;
/** A time as a string that sorts in the order of time. Times before 1970 become 0. */
export function sortableTime(ms: number): string {
  return String(Math.max(0, Math.floor(ms))).padStart(DIGITS, "0");
}
/** Sorts after all keys of this millisecond. */
export function endOfMillisecond(ms: number): string {
  return `${sortableTime(ms)}~`;
}
export function timeOf(sortKey: string): number {
  return Number(sortKey.slice(0, DIGITS));
}

/** A lane of the live index. The queue comes last, because it may contain any character. */
export function laneKey(queue: string, priority: number, shard: number): string {
  return `live#${shard}#${priority}#${queue}`;
}
/** Finished jobs in the live index, by the time they finished. */
export function finishedKey(state: string, shard: number): string {
  return `ended#${shard}#${state}`;
}
/** Finished jobs with their own purge time in the live index, by that time. */
export function ownTimeKey(state: string, shard: number): string {
  return `${OWN_TIME}${shard}#${state}`;
}
/** Whether this position in the live index is that of a finished job with its own purge time. */
export function isOwnTimeKey(lane: string): boolean {
  return lane.startsWith(OWN_TIME);
}
const OWN_TIME = "own#";
export function schedulesLane(shard: number): string {
  return `schedules#${shard}`;
}
/** The sort key in a lane: due time, then time of enqueue. */
export function dueKey(dueAt: number, listed: string): string {
  return `${sortableTime(dueAt)}#${listed}`;
}
/** The job of a sort key of lists. */
export function idOfListed(listed: string): string {
  return listed.slice(listed.indexOf("#", DIGITS + 1) + 1);
}
let lastCreated = 0;
let sequence = 0;
/** The sort key of lists: time of enqueue, then the order of the calls in this process. */
export function newListedKey(createdAt: number, id: string): string {
  sequence = createdAt === lastCreated ? sequence + 1 : 0;
  lastCreated = createdAt;
  return `${sortableTime(createdAt)}#${String(sequence).padStart(SEQUENCE_DIGITS, "0")}#${id}`;
}
const SEQUENCE_DIGITS = 6;

/** Which list partitions a job is in. Dead and cancelled jobs are few and often listed, so they have their own. */
export type ListClass = "job" | "dead" | "cancelled";
export const LIST_CLASSES: readonly ListClass[] = ["job", "dead", "cancelled"];
export function classOf(state: string): ListClass {
  return state === "dead" || state === "cancelled" ? state : "job";
}
export function listKey(state: string, type: string, shard: number): string {
  return `${classOf(state)}#${shard}#${type}`;
}
export function expiryKey(shard: number): string {
  return `expiry#${shard}`;
}

/** The shard of an id (FNV-1a): the same in every process, evenly distributed. */
export function shardOf(id: string, shards: number): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193);
  return (hash >>> 0) % shards;
}
