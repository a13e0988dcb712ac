import type { AttributeValue } from "@aws-sdk/client-dynamodb";
import { NOOP } from "./jobs.js";

export type Item = Record<string, AttributeValue>;

export const SHARDS = 8;
const DIGITS = 15;
const DAY_MS = 86_400_000;

export function text(value: string): AttributeValue {
  return { S: value };
}
export function number(value: number): AttributeValue {
  return { N: String(value) };
}
export function timeText(ms: number): string {
  return String(ms).padStart(DIGITS, "0");
}
export function keyOf(id: string): Item {
  return { pk: text(`job#${id}`), sk: text("job") };
}
export function laneOf(shard: number, priority: number): string {
  return `live#${shard}#${priority}#default`;
}

/** The same function as in Holdfast. */
export function shardOf(id: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < id.length; at++) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193);
  return (hash >>> 0) % SHARDS;
}

export interface WaitingJob {
  id: string;
  type: string;
  input: string;
  priority: number;
  createdAt: number;
  dueAt: number;
  /** Distinguishes jobs of the same millisecond. */
  nth: number;
}

/** The item of a waiting job, as Holdfast writes it. */
export function waitingItem({ id, type, input, priority, createdAt, dueAt, nth }: WaitingJob): Item {
  const shard = shardOf(id);
  const listed = `${timeText(createdAt)}#${String(nth).padStart(6, "0")}#${id}`;
  return {
    ...keyOf(id),
    type: text(type),
    queue: text("default"),
    priority: number(priority),
    state: text("pending"),
    input: text(input),
    bytes: number(input.length),
    attempt: number(0),
    max_attempts: number(4),
    run_at: number(dueAt),
    due_at: number(dueAt),
    updated_at: number(createdAt),
    lane: text(laneOf(shard, priority)),
    due: text(`${timeText(dueAt)}#${listed}`),
    list: text(`job#${shard}#${type}`),
    fence: number(0),
    created_at: number(createdAt),
    listed: text(listed),
    shard: number(shard),
    token: text("rawrawrawraw"),
  };
}

const LIVE_ONLY = ["lane", "due", "due_at", "token"];

/** The item of a completed job with a time to live. */
export function completedItem(job: WaitingJob, endedAt: number): Item {
  const left = Object.entries(waitingItem(job)).filter(([name]) => !LIVE_ONLY.includes(name));
  return {
    ...Object.fromEntries(left),
    state: text("completed"),
    attempt: number(1),
    fence: number(1),
    output: text("{}"),
    claimed_at: number(endedAt),
    started_at: number(endedAt),
    finished_at: number(endedAt),
    updated_at: number(endedAt),
    ttl: number(Math.ceil(endedAt / 1_000) + 604_800),
  };
}

/** The counter item of completed jobs. */
export function countItem(completed: number, now: number): Item {
  const goneOn = Math.floor((now + 7 * DAY_MS) / DAY_MS);
  return {
    pk: text("counts#0"),
    sk: text(`${goneOn}#7#default#${NOOP}`),
    queue: text("default"),
    type: text(NOOP),
    gone_on: number(goneOn),
    ttl: number(((goneOn + 1) * DAY_MS) / 1_000),
    n: number(completed),
  };
}
