import { randomBytes } from "node:crypto";
import { LIMITS } from "../../../defaults.js";
import { isFinished, isWaiting } from "../../../job/state.js";
import type { InsertResult, NewJob, UniqueKey } from "../../../store.js";
import { itemBytes, MAX_ITEM_BYTES, numberOf, stringOf, type Item } from "../connection/attributes.js";
import type { SharedConfig } from "../connection/config.js";
import { Change } from "../connection/expressions.js";
import { isInvalidItem } from "../connection/errors.js";
import {
  draftFields,
  inputItem,
  isDeleted,
  isLarge,
  keyItemOf,
  newInputKey,
  newItem,
  readItem,
  scopeOf,
  type Draft,
} from "./items.js";
import { jobKey, newListedKey, shardOf, uniqueKey } from "./item-keys.js";
import type { TransitionLog } from "../transitions/transition-log.js";
import type { Table, TransactItem } from "../connection/table.js";

const MAX_TRIES = 20;

type UniqueJob = NewJob & { unique: UniqueKey };

/**
 * Whether a unique key can be acquired. `writes` puts the key item. If a finished job still has the key, `writes` also
 * checks that this job has not changed.
 */
export type KeyState =
  | { held: false; writes: (item: Item) => TransactItem[] }
  | { held: true; by: string; holder: Item | null };

export class Inserts {
  readonly #table: Table;
  readonly #config: SharedConfig;
  readonly #transitions: TransitionLog;

  constructor(table: Table, config: SharedConfig, transitions: TransitionLog) {
    this.#table = table;
    this.#config = config;
    this.#transitions = transitions;
  }

  async insert(jobs: readonly NewJob[], now: number): Promise<InsertResult[]> {
    const { shards, refused } = await this.#config.ensureEach(jobs, now);
    const results: InsertResult[] = [];
    // In the order of the jobs, because drafts get their position in lists here.
    const drafts = jobs.map((job) => this.draftOf(job, shards, now));
    for (const round of concurrentRounds(jobs)) {
      const some = await waitForAll(round.map((at) => this.#insertOne(drafts[at] as Draft, refused)));
      for (const [index, at] of round.entries()) results[at] = some[index] as InsertResult;
    }
    return results;
  }

  draftOf(job: NewJob, shards: number, now: number): Draft {
    const requestToken = newRequestToken();
    const inputKey = isLarge(job) ? newInputKey(requestToken) : null;
    return {
      job,
      createdAt: now,
      listed: newListedKey(now, job.id),
      now,
      shard: shardOf(job.id, shards),
      requestToken,
      inputKey,
    };
  }

  async #insertOne(draft: Draft, refused: ReadonlyMap<NewJob, string>): Promise<InsertResult> {
    const refusal = refusalOf(draft, refused);
    if (refusal !== null) return refusal;
    try {
      await this.writeInput(draft);
      const result = await (draft.job.unique === null
        ? this.#insertPlain(draft)
        : this.#insertUnique(draft as Draft & { job: UniqueJob }));
      // No job refers to this input, and nothing else would delete it.
      const used = result.status === "inserted" || (result.status === "duplicate" && result.replaced);
      if (!used) await this.dropInput(draft);
      if (result.status === "inserted") this.recordInserted(draft);
      return result;
    } catch (error) {
      if (!isInvalidItem(error)) throw error;
      await this.dropInput(draft);
      return { status: "refused", reason: "not-stored", error: (error as Error).message };
    }
  }

  /** Call it after the job was inserted. */
  recordInserted({ job, now }: Draft): void {
    this.#transitions.add({ ...job, fence: 0 }, "pending", now);
  }

  /** Call it before the job is written, so that every job that can be read has its input. */
  async writeInput({ job, inputKey, now }: Draft): Promise<void> {
    if (inputKey !== null) await this.#table.put(inputItem(job, inputKey, now));
  }
  async dropInput({ job, inputKey }: Draft): Promise<void> {
    if (inputKey !== null) await this.#table.delete({ pk: jobKey(job.id).pk, sk: inputKey });
  }

  async #insertPlain(draft: Draft): Promise<InsertResult> {
    const { job, requestToken, listed } = draft;
    const written = await this.#table.put(newItem(draft), idIsFree(draft));
    if (written.done || isOwnWrite(written.found, requestToken)) return INSERTED;
    // Lost response: the job is ours. A claim has replaced its request token since, but `listed` stays.
    if (written.resent && written.found !== null && stringOf(written.found, "listed") === listed) return INSERTED;
    return { status: "duplicate", of: job.id, replaced: false };
  }

  async #insertUnique(draft: Draft & { job: UniqueJob }): Promise<InsertResult> {
    const { job, now, requestToken } = draft;
    const { unique } = job;
    let key: Item | null | undefined;
    for (let trial = 0; trial < MAX_TRIES; trial++) {
      // The key is probably free, so it is read only after the write failed.
      const state: KeyState = key === undefined ? freeKey() : await this.keyState(key, now);
      if (state.held) {
        const result = await this.#conflict(draft, state);
        if (result !== null) return result;
        key = await this.#table.get(uniqueKey(unique.key));
        continue;
      }
      const written = await this.#table.transact([
        { put: newItem(draft), when: idIsFree(draft) },
        ...state.writes(keyItemOf({ id: job.id, listed: draft.listed }, unique, now)),
      ]);
      if (written.done) return INSERTED;
      const [foundJob, foundKey] = written.failed;
      if (foundJob !== undefined) {
        return isOwnWrite(foundJob, requestToken) ? INSERTED : { status: "duplicate", of: job.id, replaced: false };
      }
      key = foundKey === undefined || foundKey === null ? await this.#table.get(uniqueKey(unique.key)) : foundKey;
    }
    throw new Error(
      `unique key ${JSON.stringify(unique.key)}: gave up after ${MAX_TRIES} conflicts with concurrent changes`,
    );
  }

  /**
   * Whether a key can be acquired. A job whose scope has ended does not free its key by itself. The next job acquires the
   * key in a transaction that also checks the old holder, because that one may have been retried.
   */
  async keyState(key: Item | null, now: number): Promise<KeyState> {
    if (key === null) return freeKey();
    const [of, scope] = [stringOf(key, "job") ?? "", scopeOf(key)];
    // A new job with the holder's id already has a condition on that item, and a transaction allows only one per item.
    const take = (checks: TransactItem[] = []): KeyState => ({
      held: false,
      writes: (item) => [{ put: item, when: sameHolder(key) }, ...(stringOf(item, "job") === of ? [] : checks)],
    });
    const until = numberOf(key, "until");
    if (scope === "period" && until !== null && until <= now) return take();
    const holder = await this.find(of, now);
    if (scope === "forever") return { held: true, by: of, holder };
    if (holder === null)
      return take([
        { check: jobKey(of), when: new Change().when("attribute_not_exists(#pk) OR attribute_exists(#ttl)") },
      ]);
    if (scope === "period") return { held: true, by: of, holder };
    const { state, fence } = readItem(holder);
    const isOver = isFinished(state) || (scope === "waiting" && fence > (numberOf(key, "fence") ?? 0));
    if (!isOver) return { held: true, by: of, holder };
    const check = new Change();
    check.when(`#fence = ${check.value(fence)}`, `#state = ${check.value(state)}`);
    return take([{ check: jobKey(of), when: check }]);
  }

  /** A job by id; null if it does not exist or is deleted. */
  async find(id: string, now: number): Promise<Item | null> {
    const found = await this.#table.get(jobKey(id));
    return found === null || isDeleted(found, now) ? null : found;
  }

  /** The result for a job whose key is held; null if the holder has changed. */
  async #conflict(
    draft: Draft & { job: UniqueJob },
    { by, holder }: KeyState & { held: true },
  ): Promise<InsertResult | null> {
    const { job } = draft;
    if (by === job.id && holder !== null) return { status: "duplicate", of: by, replaced: false };
    if (job.unique.onConflict === "reject") return { status: "refused", reason: "key-held", of: by };
    const canReplace = holder !== null && isWaiting(readItem(holder).state) && holder["steps"] === undefined;
    if (job.unique.onConflict === "keep" || !canReplace) {
      return { status: "duplicate", of: by, replaced: false };
    }
    return (await this.#replace(draft, holder)) ? { status: "duplicate", of: by, replaced: true } : null;
  }

  /** Replaces a waiting job without steps, if it has not changed since it was read. */
  async #replace({ job, now, shard: _, ...draft }: Draft & { job: UniqueJob }, holder: Item): Promise<boolean> {
    const before = readItem(holder);
    const createdAt = numberOf(holder, "created_at") ?? now;
    const inputKey = draft.inputKey === null ? null : await this.#moveInput(job, before.id, draft.inputKey, now);
    const fields = draftFields({
      ...draft,
      job: { ...job, id: before.id },
      createdAt,
      listed: before.listed,
      now,
      shard: before.shard,
      inputKey,
    });
    const change = new Change().set(fields);
    change.remove(...REPLACED);
    change.when(
      `#fence = ${change.value(before.fence)}`,
      `#state = ${change.value(before.state)}`,
      `#updated_at = ${change.value(numberOf(holder, "updated_at") ?? 0)}`,
    );
    const key = keyItemOf(before, job.unique, now);
    // The scope `waiting` ends with the first claim after this one.
    if (job.unique.scope === "waiting") key["fence"] = { N: String(before.fence) };
    const sameJob = new Change();
    sameJob.when(`#job = ${sameJob.value(before.id)}`);
    const written = await this.#table.transact([
      { update: jobKey(before.id), change },
      { put: key, when: sameJob },
    ]);
    if (written.done) {
      const { type, queue } = job;
      this.#transitions.add({ ...before, type, queue }, "pending", now);
    }
    const stale = written.done ? before.inputKey : inputKey;
    if (stale !== null) await this.#table.delete({ pk: jobKey(before.id).pk, sk: stale });
    if (written.done && draft.inputKey !== null) await this.dropInput({ ...draft, job, now, shard: before.shard });
    return written.done;
  }

  /** Stores the new input under the id of the job that is replaced. */
  async #moveInput(job: NewJob, to: string, inputKey: string, now: number): Promise<string> {
    await this.#table.put(inputItem({ ...job, id: to }, inputKey, now));
    return inputKey;
  }
}

const INSERTED: InsertResult = { status: "inserted" };
/** Attributes that are removed from a replaced job. */
const REPLACED = [
  "again",
  "held",
  "error",
  "error_code",
  "error_at",
  "fingerprint",
  "progress",
  "progress_note",
  "progress_data",
  "claimed_at",
  "started_at",
  "token",
  "was",
];

/** A random token that a write stores in the item, so that it recognizes its own write after a lost response. */
export function newRequestToken(): string {
  return randomBytes(9).toString("base64url");
}

/** A condition: no job has this id, or a deleted one that was not created by this same enqueue. */
export function idIsFree({ now, listed }: Draft): Change {
  const change = new Change();
  const ttlIsOver = `#ttl <= ${change.value(Math.floor(now / 1_000))}`;
  const isOtherTombstone = `attribute_exists(#dropped) AND #listed <> ${change.value(listed)}`;
  return change.when(`attribute_not_exists(#pk) OR ${ttlIsOver} OR (${isOtherTombstone})`);
}

export function isOwnWrite(found: Item | null, requestToken: string): boolean {
  return found !== null && stringOf(found, "token") === requestToken;
}

export function freeKey(): KeyState & { held: false } {
  return { held: false, writes: (item) => [{ put: item, when: new Change().when("attribute_not_exists(#pk)") }] };
}

/** A condition: the key item has not changed since it was read. */
export function sameHolder(key: Item): Change {
  const change = new Change();
  change.when(
    `#job = ${change.value(stringOf(key, "job") ?? "")}`,
    `#listed = ${change.value(stringOf(key, "listed") ?? "")}`,
    `#scope = ${change.value(stringOf(key, "scope") ?? "")}`,
  );
  const until = numberOf(key, "until");
  return until === null ? change : change.when(`#until = ${change.value(until)}`);
}

/** The field that is out of its limits, and why. */
export function outOfLimits({
  maxAttempts,
  priority,
}: Pick<NewJob, "maxAttempts" | "priority">): [field: string, why: string] | null {
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1)
    return ["maxAttempts", `${maxAttempts} must be an integer of at least 1`];
  if (!Number.isInteger(priority) || Math.abs(priority) > LIMITS.priority)
    return ["priority", `${priority} must be an integer from -${LIMITS.priority} to ${LIMITS.priority}`];
  return null;
}

type Refusal = InsertResult & { status: "refused"; reason: "not-stored" };

/** Why a job cannot be stored. Other databases check this with constraints; DynamoDB has none. */
export function refusalOf(draft: Draft, unregistered: ReadonlyMap<NewJob, string>): Refusal | null {
  const refused = (error: string): Refusal => ({ status: "refused", reason: "not-stored", error });
  const problem = unregistered.get(draft.job);
  if (problem !== undefined) return refused(problem);
  const invalid = outOfLimits(draft.job);
  if (invalid !== null) return refused(invalid.join(": "));
  const bytes = Math.max(
    itemBytes(newItem(draft)),
    draft.inputKey === null ? 0 : itemBytes(inputItem(draft.job, draft.inputKey, draft.now)),
  );
  if (bytes <= MAX_ITEM_BYTES) return null;
  return refused(
    `the job has ${bytes} bytes; a DynamoDB item holds ${MAX_ITEM_BYTES}. Store the input elsewhere and pass a reference`,
  );
}

/** Like `Promise.all`, but waits for all calls even if one fails, so that no request is in flight afterwards. */
export async function waitForAll<Result>(calls: readonly Promise<Result>[]): Promise<Result[]> {
  const results = await Promise.allSettled(calls);
  const failed = results.find((result) => result.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  return results.map((result) => (result as PromiseFulfilledResult<Result>).value);
}

/** Groups of jobs that can be written concurrently: jobs with the same id or key are in different groups, in order. */
function concurrentRounds(jobs: readonly NewJob[]): number[][] {
  const rounds: number[][] = [];
  const used: { ids: Set<string>; keys: Set<string> }[] = [];
  for (const [at, { id, unique }] of jobs.entries()) {
    let last = used.length;
    while (last > 0 && !used[last - 1]?.ids.has(id) && !(unique !== null && used[last - 1]?.keys.has(unique.key)))
      last--;
    rounds[last] ??= [];
    used[last] ??= { ids: new Set(), keys: new Set() };
    rounds[last]?.push(at);
    used[last]?.ids.add(id);
    if (unique !== null) used[last]?.keys.add(unique.key);
  }
  return rounds;
}
