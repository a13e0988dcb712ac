/** How items are found: the keys of the table and of its indexes, as text. */

export const TABLE_KEY: { name?: undefined; hash: "pk"; range: "sk" } = { hash: "pk", range: "sk" };

/** Live jobs and due schedules by time; finished jobs that wait for their purge. */
export const LIVE = { name: "live", hash: "lane", range: "due" } as const;
/** Every job by type and the time of its enqueue; those that ended badly apart. */
export const LISTED = { name: "listed", hash: "list", range: "listed" } as const;
/** A user's jobs by the time of their enqueue. */
export const OWNED = { name: "owned", hash: "owner", range: "listed" } as const;
/** Jobs that expire, by when. */
export const EXPIRING = { name: "expiring", hash: "expiry", range: "expires" } as const;

export interface Key {
  pk: string;
  sk: string;
}

export const CONFIG: Key = { pk: "config", sk: "config" };
export const WORKERS = "workers";
export const TURNS = "turns";
export const SCHEDULES = "schedules";
export const TOKENS = "tokens";
/** How many tokens there are. */
export const TOKEN_COUNT: Key = { pk: "token-count", sk: "token-count" };
/** What cursors are sealed with. */
export const CURSOR_KEY: Key = { pk: "cursor-key", sk: "cursor-key" };
/** The months that have entries of the audit log. */
export const AUDIT = "audit";

export function jobKey(id: string): Key {
  return { pk: `job#${id}`, sk: "job" };
}
export function idOf(pk: string): string {
  return pk.slice(4);
}
export function uniqueKey(key: string): Key {
  return { pk: `key#${key}`, sk: "key" };
}
/** What a job has beside itself, under the job's own `pk`. */
export const BESIDE = { input: "input#", attempt: "attempt#", log: "log#" } as const;

export function slotsKey(schedule: string): string {
  return `slots#${schedule}`;
}

/** Entries of the audit log in a month. */
export function auditKey(month: string): string {
  return `audit#${month}`;
}
/** Says that an entry is there, wherever. */
export function auditIdKey(id: string): Key {
  return { pk: `audit-id#${id}`, sk: "audit-id" };
}

const DIGITS = 15;
/** Times as text that sorts as they do. Nothing is due before 1970. */
export function timeText(ms: number): string {
  return String(Math.max(0, Math.floor(ms))).padStart(DIGITS, "0");
}
/** Sorts after everything of that time. */
export function endOf(ms: number): string {
  return `${timeText(ms)}~`;
}
export function timeIn(sortKey: string): number {
  return Number(sortKey.slice(0, DIGITS));
}

/** A lane of the live index. The queue stands last: it may hold any character. */
export function laneKey(queue: string, priority: number, shard: number): string {
  return `live#${shard}#${priority}#${queue}`;
}
/** Finished jobs, by when they ended. */
export function endedKey(state: string, shard: number): string {
  return `ended#${shard}#${state}`;
}
export function schedulesLane(shard: number): string {
  return `schedules#${shard}`;
}
/** Within a lane by due time, then oldest first. */
export function dueKey(dueAt: number, listed: string): string {
  return `${timeText(dueAt)}#${listed}`;
}
let lastCreated = 0;
let sequence = 0;
/** By the time of the enqueue; of one millisecond and one process, in the order of the calls. */
export function newListedKey(createdAt: number, id: string): string {
  sequence = createdAt === lastCreated ? sequence + 1 : 0;
  lastCreated = createdAt;
  return `${timeText(createdAt)}#${String(sequence).padStart(SEQUENCE_DIGITS, "0")}#${id}`;
}
export const LISTED_FORM: RegExp = /^\d{15}#\d{6,}#[0-9a-f-]{36}$/;
const SEQUENCE_DIGITS = 6;

/** Where a job is listed. Jobs that ended badly are few and looked for often: they stand apart. */
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

/** The shard of an id: the same everywhere, and any as likely as another. */
export function shardOf(id: string, shards: number): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193);
  return (hash >>> 0) % shards;
}
