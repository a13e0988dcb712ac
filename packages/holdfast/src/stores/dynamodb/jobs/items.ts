import { LIMITS } from "../../../defaults.js";
import { jsonBytes } from "../../../job/json.js";
import type { State } from "../../../job/state.js";
import type { AttemptRecord, ClaimedJob, NewJob, StoredError, StoredJob, UniqueKey } from "../../../store.js";
import { itemOf, numberOf, text, textOf, texts, textsOf, type Attribute, type Item } from "../connection/attributes.js";
import type { Change } from "../connection/expressions.js";
import { BESIDE, dueKey, endedKey, expiryKey, jobKey, laneKey, listKey, shardOf, timeText, uniqueKey } from "./keys.js";

/**
 * The item of a job. Its key never changes; `lane` and `due` say where it stands in the live index, `list` and `listed`
 * where in the lists. While it is leased, `due_at` is the end of the lease, and `held` the time until which others need not
 * look at its entry in the index: that is a copy which may lag, and `due_at` decides.
 */
export type Fields = Record<string, Attribute | string | number | boolean | null>;

/** A job that is about to be written. */
export interface Draft {
  job: NewJob;
  createdAt: number;
  listed: string;
  now: number;
  shard: number;
  /** Tells a repeated request from somebody else's: what it finds there may be its own work. */
  token: string;
  /** Where the input is, if that is too large to travel with the job. */
  inputAt: string | null;
}

export function isLarge({ input }: NewJob): boolean {
  return jsonBytes(input) > LIMITS.inlineInputBytes;
}

/** What an enqueue sets, also on a job that it replaces. */
export function draftFields({ job, listed, now, shard, inputAt }: Draft): Fields {
  const dueAt = (job.runAt ?? now) + job.delayMs;
  return {
    type: job.type,
    queue: job.queue,
    priority: job.priority,
    state: "pending",
    owner: job.user,
    input: inputAt === null ? job.input : null,
    input_at: inputAt,
    bytes: jsonBytes(job.input),
    attempt: 0,
    max_attempts: job.maxAttempts,
    losses: null,
    releases: null,
    run_at: dueAt,
    due_at: dueAt,
    expires_at: job.expiresAt,
    updated_at: now,
    unique: job.unique?.key ?? null,
    scope: job.unique?.scope ?? null,
    tags: job.tags.length === 0 ? null : texts(job.tags),
    schedule: job.schedule?.name ?? null,
    slot: job.schedule?.slot ?? null,
    trace: job.trace,
    lane: laneKey(job.queue, job.priority, shard),
    due: dueKey(dueAt, listed),
    list: listKey("pending", job.type, shard),
    ...expiryFields(job.id, job.expiresAt, shard),
  };
}

export function expiryFields(id: string, expiresAt: number | null, shard: number): Fields {
  return {
    expiry: expiresAt === null ? null : expiryKey(shard),
    expires: expiresAt === null ? null : `${timeText(expiresAt)}#${id}`,
  };
}

export function newItem(draft: Draft): Item {
  const { job, createdAt, listed, token, shard } = draft;
  return itemOf({
    ...jobKey(job.id),
    ...draftFields(draft),
    fence: 0,
    created_at: createdAt,
    listed,
    shard,
    token,
  });
}

export function inputItem(job: NewJob, inputAt: string, now: number): Item {
  return itemOf({ pk: jobKey(job.id).pk, sk: inputAt, input: job.input, at: now });
}

/** A place for an input, one of its own for every enqueue: one that comes to nothing must not leave its input to another. */
export function newInputAt(token: string): string {
  return `${BESIDE.input}${token}`;
}

/** The item of a unique key: who holds it, since which enqueue, and in which scope. */
export function keyItemOf(
  { id, listed }: Pick<JobItem, "id" | "listed">,
  { key, scope, periodMs }: UniqueKey,
  now: number,
): Item {
  const until = scope === "period" ? now + periodMs : null;
  return itemOf({
    ...uniqueKey(key),
    job: id,
    listed,
    scope,
    until,
    // DynamoDB clears it away some time after that.
    ttl: until === null ? null : ttlSeconds(until),
  });
}

/** Rounded up: nothing goes before its time. */
export function ttlSeconds(ms: number): number {
  return Math.ceil(ms / 1_000);
}

/** What was deleted, and what DynamoDB has yet to clear away, is gone all the same. */
export function isGone(item: Item, now: number): boolean {
  const ttl = numberOf(item, "ttl");
  return item["dropped"] !== undefined || (ttl !== null && ttl * 1_000 <= now);
}

/** The scope of a job's unique key. Earlier builds stored `ever` for `forever`. */
export function scopeOf(item: Item): UniqueKey["scope"] | null {
  const stored = textOf(item, "scope");
  return stored === "ever" ? "forever" : (stored as UniqueKey["scope"] | null);
}

export interface JobItem {
  item: Item;
  id: string;
  state: State;
  fence: number;
  attempt: number;
  maxAttempts: number;
  losses: number;
  releases: number;
  dueAt: number | null;
  cancelAt: number | null;
  shard: number;
  listed: string;
  queue: string;
  priority: number;
  type: string;
  user: string | null;
  key: string | null;
  scope: UniqueKey["scope"] | null;
  expiresAt: number | null;
  inputAt: string | null;
}

/** What operations ask of a job. */
export function readItem(item: Item): JobItem {
  return {
    item,
    id: (textOf(item, "pk") ?? "").slice(4),
    state: textOf(item, "state") as State,
    fence: numberOf(item, "fence") ?? 0,
    attempt: numberOf(item, "attempt") ?? 0,
    maxAttempts: numberOf(item, "max_attempts") ?? 1,
    losses: numberOf(item, "losses") ?? 0,
    releases: numberOf(item, "releases") ?? 0,
    dueAt: numberOf(item, "due_at"),
    cancelAt: numberOf(item, "cancel_at"),
    shard: numberOf(item, "shard") ?? 0,
    listed: textOf(item, "listed") ?? "",
    queue: textOf(item, "queue") ?? "",
    priority: numberOf(item, "priority") ?? 0,
    type: textOf(item, "type") ?? "",
    user: textOf(item, "owner"),
    key: textOf(item, "unique"),
    scope: scopeOf(item),
    expiresAt: numberOf(item, "expires_at"),
    inputAt: textOf(item, "input_at"),
  };
}

/** Where a finished job stands until it is purged. */
export function endedFields(job: Pick<JobItem, "id" | "shard"> & { type?: string }, state: State, now: number): Fields {
  return {
    lane: endedKey(state, job.shard),
    due: `${timeText(now)}#${job.id}`,
    ...(state === "completed" ? {} : { list: listKey(state, job.type ?? "", job.shard) }),
  };
}

/** A job that is leased waits again, until `dueAt`. */
export function waitAgain(change: Change, { listed }: Pick<JobItem, "listed">, dueAt: number): Change {
  return change
    .set({ due_at: dueAt, run_at: dueAt, due: dueKey(dueAt, listed) })
    .remove("held", "worker", "token", "was");
}

/** Attributes that only a live job has. */
export const LIVE_ONLY: readonly string[] = ["held", "due_at", "worker", "expiry", "expires", "again", "token", "was"];

export interface Beside {
  /** The inputs of jobs that have them elsewhere, by `pk` and place. */
  inputs?: ReadonlyMap<string, string>;
  attempts?: readonly AttemptRecord[];
  log?: readonly { at: number; line: string }[];
}

export function inputName(pk: string, inputAt: string): string {
  return `${pk} ${inputAt}`;
}

/** One that is missing is no JSON: the job goes dead instead of running on something else. */
function inputOf(item: Item, inputs: ReadonlyMap<string, string> | undefined): string {
  const at = textOf(item, "input_at");
  const found = at === null ? textOf(item, "input") : inputs?.get(inputName(textOf(item, "pk") ?? "", at));
  return found ?? "";
}

function errorOf(item: Item): StoredError | null {
  const message = textOf(item, "error");
  if (message === null) return null;
  return { message, code: textOf(item, "error_code"), at: numberOf(item, "error_at") ?? 0 };
}

export function errorFields(error: { message: string; code: string | null }, at: number): Fields {
  return { error: text(error.message), error_code: error.code, error_at: at };
}

function slotOf(item: Item): StoredJob["schedule"] {
  const name = textOf(item, "schedule");
  return name === null ? null : { name, slot: numberOf(item, "slot") ?? 0 };
}

export function storedJob(item: Item, { inputs, attempts = [], log = [] }: Beside = {}): StoredJob {
  const job = readItem(item);
  const fraction = numberOf(item, "progress");
  return {
    id: job.id,
    type: job.type,
    queue: job.queue,
    state: job.state,
    priority: job.priority,
    user: job.user,
    input: inputOf(item, inputs),
    output: textOf(item, "output"),
    error: errorOf(item),
    attempt: job.attempt,
    maxAttempts: job.maxAttempts,
    losses: job.losses,
    releases: job.releases,
    fence: job.fence,
    runAt: numberOf(item, "run_at") ?? 0,
    dueAt: job.dueAt,
    expiresAt: job.expiresAt,
    createdAt: numberOf(item, "created_at") ?? 0,
    updatedAt: numberOf(item, "updated_at") ?? 0,
    claimedAt: numberOf(item, "claimed_at"),
    startedAt: numberOf(item, "started_at"),
    finishedAt: numberOf(item, "finished_at"),
    cancelRequestedAt: job.cancelAt,
    worker: textOf(item, "worker"),
    key: job.key,
    tags: textsOf(item, "tags"),
    schedule: slotOf(item),
    trace: textOf(item, "trace"),
    progress: fraction === null ? null : { fraction, note: textOf(item, "progress_note") },
    attempts,
    log,
  };
}

/** What a claim tells of the job as it was before. */
export function claimedJob(
  item: Item,
  claim: Pick<ClaimedJob, "fence" | "attempt" | "losses" | "previous">,
  inputs: ReadonlyMap<string, string>,
): ClaimedJob {
  const job = readItem(item);
  return {
    id: job.id,
    type: job.type,
    queue: job.queue,
    priority: job.priority,
    user: job.user,
    input: inputOf(item, inputs),
    maxAttempts: job.maxAttempts,
    releases: job.releases,
    runAt: numberOf(item, "run_at") ?? 0,
    expiresAt: job.expiresAt,
    createdAt: numberOf(item, "created_at") ?? 0,
    cancelRequested: job.cancelAt !== null,
    error: errorOf(item),
    tags: textsOf(item, "tags"),
    schedule: slotOf(item),
    trace: textOf(item, "trace"),
    ...claim,
  };
}

/** The shard a new job goes to. */
export function newShard(id: string, shards: number): number {
  return shardOf(id, shards);
}
