import { LIMITS } from "../../../defaults.js";
import { jsonBytes } from "../../../job/json.js";
import type { FinishedState, State } from "../../../job/state.js";
import type {
  AttemptRecord,
  ClaimedJob,
  JobSettings,
  NewJob,
  Outcome,
  StoredError,
  StoredJob,
  StoredProgress,
  UniqueKey,
} from "../../../store.js";
import {
  itemOf,
  numberOf,
  stringAttribute,
  stringOf,
  stringList,
  stringsOf,
  type Attribute,
  type Item,
} from "../connection/attributes.js";
import type { Change } from "../connection/expressions.js";
import {
  DETAILS,
  dueKey,
  ERRORS,
  finishedKey,
  expiryKey,
  jobKey,
  laneKey,
  listKey,
  ownTimeKey,
  sortableTime,
  uniqueKey,
  wakesKey,
} from "./item-keys.js";
import { readScope, readSettings, storedScope, type StoredScope } from "../../stored-values.js";

/**
 * The attributes of a job's item. Its key never changes. `lane` and `due` are its position in the live index, `list`
 * and `listed` its position in the lists. While the job is leased, `due_at` is the end of the lease, and `held` is the
 * time until which claims skip its index entry. The index has a copy of `held` that may lag, so `due_at` decides.
 */
export type Fields = Record<string, Attribute | string | number | boolean | null>;

/** A job that is about to be inserted. */
export interface Draft {
  job: NewJob;
  createdAt: number;
  listed: string;
  now: number;
  shard: number;
  /** Request token: if the response is lost and the request is sent again, it recognizes its own write. */
  requestToken: string;
  /** The sort key of the input item, if the input is too large for the item of the job. */
  inputKey: string | null;
}

export function isLarge({ input }: Pick<NewJob, "input">): boolean {
  return jsonBytes(input) > LIMITS.inlineInputBytes;
}

/** The attributes that an enqueue sets, also on a job that it replaces. */
export function draftFields({ job, listed, now, shard, inputKey }: Draft): Fields {
  const dueAt = (job.runAt ?? now) + job.delayMs;
  return {
    type: job.type,
    queue: job.queue,
    priority: job.priority,
    state: "pending",
    owner: job.user,
    input: inputKey === null ? job.input : null,
    input_at: inputKey,
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
    scope: job.unique === null ? null : storedScope(job.unique.scope),
    tags: tagsAttribute(job.tags),
    schedule: job.schedule?.name ?? null,
    slot: job.schedule?.slot ?? null,
    parent: job.parent,
    settings: job.settings === null ? null : JSON.stringify(job.settings),
    trace: job.trace,
    lane: laneKey(job.queue, job.priority, shard),
    due: dueKey(dueAt, listed),
    list: listKey("pending", job.type, shard),
    ...expiryFields(job.id, job.expiresAt, shard),
  };
}

export function tagsAttribute(tags: readonly string[]): Attribute | null {
  return tags.length === 0 ? null : stringList(tags);
}

export function expiryFields(id: string, expiresAt: number | null, shard: number): Fields {
  return {
    expiry: expiresAt === null ? null : expiryKey(shard),
    expires: expiresAt === null ? null : `${sortableTime(expiresAt)}#${id}`,
  };
}

export function newItem(draft: Draft): Item {
  const { job, createdAt, listed, requestToken, shard } = draft;
  return itemOf({
    ...jobKey(job.id),
    ...draftFields(draft),
    fence: 0,
    created_at: createdAt,
    listed,
    shard,
    token: requestToken,
  });
}

export function inputItem(job: Pick<NewJob, "id" | "input">, inputKey: string, now: number): Item {
  return itemOf({ pk: jobKey(job.id).pk, sk: inputKey, input: job.input, at: now });
}

/**
 * A sort key for an input. Each enqueue and update has its own, so that a failed one cannot leave its input to another
 * job.
 */
export function newInputKey(requestToken: string): string {
  return `${DETAILS.input}${requestToken}`;
}

/** The item of a unique key: the job that holds it, the enqueue of that job, and the scope. */
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
    scope: storedScope(scope),
    until,
    // DynamoDB deletes it some time after that.
    ttl: until === null ? null : ttlSeconds(until),
  });
}

/** Rounded up, so that nothing is deleted too early. */
export function ttlSeconds(ms: number): number {
  return Math.ceil(ms / 1_000);
}

/** Whether the item is a tombstone, or its time to live is over and DynamoDB has not deleted it yet. */
export function isDeleted(item: Item, now: number): boolean {
  const ttl = numberOf(item, "ttl");
  return item["dropped"] !== undefined || (ttl !== null && ttl * 1_000 <= now);
}

/** The scope of a job's unique key. */
export function scopeOf(item: Item): UniqueKey["scope"] | null {
  const stored = stringOf(item, "scope") as StoredScope | null;
  return stored === null ? null : readScope(stored);
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
  inputKey: string | null;
  settings: JobSettings | null;
}

/** Reads the attributes that operations need. */
export function readItem(item: Item): JobItem {
  return {
    item,
    id: (stringOf(item, "pk") ?? "").slice(4),
    state: stringOf(item, "state") as State,
    fence: numberOf(item, "fence") ?? 0,
    attempt: numberOf(item, "attempt") ?? 0,
    maxAttempts: numberOf(item, "max_attempts") ?? 1,
    losses: numberOf(item, "losses") ?? 0,
    releases: numberOf(item, "releases") ?? 0,
    dueAt: numberOf(item, "due_at"),
    cancelAt: numberOf(item, "cancel_at"),
    shard: numberOf(item, "shard") ?? 0,
    listed: stringOf(item, "listed") ?? "",
    queue: stringOf(item, "queue") ?? "",
    priority: numberOf(item, "priority") ?? 0,
    type: stringOf(item, "type") ?? "",
    user: stringOf(item, "owner"),
    key: stringOf(item, "unique"),
    scope: scopeOf(item),
    expiresAt: numberOf(item, "expires_at"),
    inputKey: stringOf(item, "input_at"),
    settings: readSettings(stringOf(item, "settings")),
  };
}

/** The own purge time of a job that finishes now; null for most jobs. `purgeMs` overrides its settings. */
export function purgeTime(
  { settings }: Pick<JobItem, "settings">,
  state: FinishedState,
  now: number,
  purgeMs: number | null = null,
): number | null {
  const keptMs = purgeMs ?? settings?.keepMs?.[state] ?? null;
  return keptMs === null ? null : Math.ceil(now + keptMs);
}

/** The position of a finished job in the indexes, until it is purged. */
export function finishedFields(
  job: Pick<JobItem, "id" | "shard"> & { type?: string },
  state: FinishedState,
  now: number,
  purgeAt: number | null,
): Fields {
  return {
    lane: purgeAt === null ? finishedKey(state, job.shard) : ownTimeKey(state, job.shard),
    due: `${sortableTime(purgeAt ?? now)}#${job.id}`,
    ...(state === "completed" ? {} : { list: listKey(state, job.type ?? "", job.shard) }),
  };
}

/** Ends the lease. The job waits until `dueAt`. Only of a parked job, `runAt` is earlier. */
export function makeWaiting(
  change: Change,
  { listed }: Pick<JobItem, "listed">,
  dueAt: number,
  runAt: number = dueAt,
): Change {
  return change
    .set({ due_at: dueAt, run_at: runAt, due: dueKey(dueAt, listed) })
    .remove("held", "worker", "token", "was");
}

/** How often a wait of its steps ended while the job was leased. */
export function wakesOfItem(item: Item): number {
  return numberOf(item, "wakes") ?? 0;
}

/** The change applies only if no other wait has ended. */
export function ifSameWakes(change: Change, wakes: number): void {
  change.when(wakes === 0 ? "attribute_not_exists(#wakes)" : `#wakes = ${change.value(wakes)}`);
}

/** Attributes that only a live job has. */
const LIVE_ONLY: readonly string[] = ["held", "due_at", "again", "token", "was"];
const EXPIRY: readonly string[] = ["expiry", "expires"];

/** The job finishes. If steps of other jobs wait for that, it has a note in an index until their waits have ended. */
export function removeLiveFields(
  change: Change,
  job: Pick<JobItem, "id" | "shard">,
  isAwaited: boolean,
  now: number,
): Change {
  change.remove(...LIVE_ONLY);
  return isAwaited ? change.set(wakeNote(job, now)) : change.remove(...EXPIRY);
}

/** The position in the index of items with waits that have not ended. */
export function wakeNote({ id, shard }: Pick<JobItem, "id" | "shard">, now: number): Fields {
  return { expiry: wakesKey(shard), expires: `${sortableTime(now)}#${id}` };
}

/** What is stored in other items of a job. */
export interface JobDetails {
  /** Inputs in separate items, by `inputMapKey`. */
  inputs?: ReadonlyMap<string, string>;
  attempts?: readonly AttemptRecord[];
  log?: readonly { at: number; line: string }[];
}

export function inputMapKey(pk: string, inputKey: string): string {
  return `${pk} ${inputKey}`;
}

/**
 * A missing input becomes an empty string, which is invalid JSON: the job is dead-lettered instead of running without
 * it.
 */
function inputOf(item: Item, inputs: ReadonlyMap<string, string> | undefined): string {
  const at = stringOf(item, "input_at");
  const found = at === null ? stringOf(item, "input") : inputs?.get(inputMapKey(stringOf(item, "pk") ?? "", at));
  return found ?? "";
}

function errorOf(item: Item): StoredError | null {
  const message = stringOf(item, "error");
  if (message === null) return null;
  return {
    message,
    code: stringOf(item, "error_code"),
    at: numberOf(item, "error_at") ?? 0,
    fingerprint: stringOf(item, ERRORS.hash),
  };
}

/** The error without its group, which a claim does not return. */
function claimedErrorOf(item: Item): ClaimedJob["error"] {
  const error = errorOf(item);
  if (error === null) return null;
  const { fingerprint: _, ...rest } = error;
  return rest;
}

export function errorFields({ message, code, fingerprint }: NonNullable<Outcome["error"]>, at: number): Fields {
  return { error: stringAttribute(message), error_code: code, error_at: at, fingerprint: fingerprint ?? null };
}

function slotOf(item: Item): StoredJob["schedule"] {
  const name = stringOf(item, "schedule");
  return name === null ? null : { name, slot: numberOf(item, "slot") ?? 0 };
}

function progressOf(item: Item): StoredProgress | null {
  const fraction = numberOf(item, "progress");
  if (fraction === null) return null;
  return { fraction, note: stringOf(item, "progress_note"), data: stringOf(item, "progress_data") };
}

export function storedJob(item: Item, { inputs, attempts = [], log = [] }: JobDetails = {}): StoredJob {
  const job = readItem(item);
  return {
    id: job.id,
    type: job.type,
    queue: job.queue,
    state: job.state,
    priority: job.priority,
    user: job.user,
    input: inputOf(item, inputs),
    output: stringOf(item, "output"),
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
    worker: stringOf(item, "worker"),
    key: job.key,
    tags: stringsOf(item, "tags"),
    schedule: slotOf(item),
    parent: stringOf(item, "parent"),
    settings: job.settings,
    trace: stringOf(item, "trace"),
    progress: progressOf(item),
    attempts,
    log,
  };
}

/** The result of a claim. `item` is the job before the claim. */
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
    error: claimedErrorOf(item),
    tags: stringsOf(item, "tags"),
    schedule: slotOf(item),
    parent: stringOf(item, "parent"),
    settings: job.settings,
    trace: stringOf(item, "trace"),
    ...claim,
  };
}
