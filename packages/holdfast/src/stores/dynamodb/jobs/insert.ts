import { randomBytes } from "node:crypto";
import { LIMITS } from "../../../defaults.js";
import { isFinished, isWaiting } from "../../../job/state.js";
import type { InsertResult, NewJob, UniqueKey } from "../../../store.js";
import { itemBytes, MOST_BYTES, numberOf, textOf, type Item } from "../connection/attributes.js";
import type { ConfigKeeper } from "../connection/config.js";
import { Change } from "../connection/expressions.js";
import { isItemsFault } from "../connection/errors.js";
import {
  draftFields,
  inputItem,
  isGone,
  isLarge,
  keyItemOf,
  newInputAt,
  newItem,
  newShard,
  readItem,
  scopeOf,
  type Draft,
} from "./items.js";
import { jobKey, newListedKey, uniqueKey } from "./keys.js";
import type { Table, TransactItem } from "../connection/table.js";

const MOST_TRIES = 20;

type Keyed = NewJob & { unique: UniqueKey };

/** How a key can be had: it is free, it is held, or its holder no longer needs it and must be seen not to. */
export type KeyState =
  | { held: false; writes: (item: Item) => TransactItem[] }
  | { held: true; by: string; holder: Item | null };

export class Inserts {
  readonly #table: Table;
  readonly #config: ConfigKeeper;

  constructor(table: Table, config: ConfigKeeper) {
    this.#table = table;
    this.#config = config;
  }

  async insert(jobs: readonly NewJob[], now: number): Promise<InsertResult[]> {
    const { shards, refused } = await this.#config.ensureEach(jobs, now);
    const answers: InsertResult[] = [];
    // All in their order, which they are listed in.
    const drafts = jobs.map((job) => this.draftOf(job, shards, now));
    for (const round of roundsOf(jobs)) {
      const some = await settled(round.map((at) => this.#insertOne(drafts[at] as Draft, refused)));
      for (const [index, at] of round.entries()) answers[at] = some[index] as InsertResult;
    }
    return answers;
  }

  draftOf(job: NewJob, shards: number, now: number): Draft {
    const token = newToken();
    const inputAt = isLarge(job) ? newInputAt(token) : null;
    return {
      job,
      createdAt: now,
      listed: newListedKey(now, job.id),
      now,
      shard: newShard(job.id, shards),
      token,
      inputAt,
    };
  }

  async #insertOne(draft: Draft, refused: ReadonlyMap<NewJob, string>): Promise<InsertResult> {
    const refusal = refusalOf(draft, refused);
    if (refusal !== null) return refusal;
    try {
      await this.writeInput(draft);
      const answer = await (draft.job.unique === null
        ? this.#plain(draft)
        : this.#keyed(draft as Draft & { job: Keyed }));
      // An input that no job refers to is in nobody's way, but it would stay for good.
      const used = answer.status === "inserted" || (answer.status === "duplicate" && answer.replaced);
      if (!used) await this.dropInput(draft);
      return answer;
    } catch (error) {
      if (!isItemsFault(error)) throw error;
      await this.dropInput(draft);
      return { status: "refused", reason: "not-stored", error: (error as Error).message };
    }
  }

  /** Before the job: whoever sees the job finds its input. */
  async writeInput({ job, inputAt, now }: Draft): Promise<void> {
    if (inputAt !== null) await this.#table.put(inputItem(job, inputAt, now));
  }
  async dropInput({ job, inputAt }: Draft): Promise<void> {
    if (inputAt !== null) await this.#table.delete({ pk: jobKey(job.id).pk, sk: inputAt });
  }

  async #plain(draft: Draft): Promise<InsertResult> {
    const { job, token, listed } = draft;
    const written = await this.#table.put(newItem(draft), isNew(draft));
    if (written.done || isOurs(written.found, token)) return INSERTED;
    // Our own, although its answer got lost, and a worker may have begun with it since.
    if (written.repeated && written.found !== null && textOf(written.found, "listed") === listed) return INSERTED;
    return { status: "duplicate", of: job.id, replaced: false };
  }

  async #keyed(draft: Draft & { job: Keyed }): Promise<InsertResult> {
    const { job, now, token } = draft;
    const { unique } = job;
    let key: Item | null | undefined;
    for (let trial = 0; trial < MOST_TRIES; trial++) {
      // The key is most likely free: it is looked at when it turns out not to be.
      const state: KeyState = key === undefined ? freeKey() : await this.keyState(key, now);
      if (state.held) {
        const answer = await this.#conflict(draft, state);
        if (answer !== null) return answer;
        key = await this.#table.get(uniqueKey(unique.key));
        continue;
      }
      const written = await this.#table.transact([
        { put: newItem(draft), when: isNew(draft) },
        ...state.writes(keyItemOf({ id: job.id, listed: draft.listed }, unique, now)),
      ]);
      if (written.done) return INSERTED;
      const [job_, key_] = written.failed;
      if (job_ !== undefined) {
        return isOurs(job_, token) ? INSERTED : { status: "duplicate", of: job.id, replaced: false };
      }
      key = key_ === undefined || key_ === null ? await this.#table.get(uniqueKey(unique.key)) : key_;
    }
    throw new Error(`the unique key ${JSON.stringify(unique.key)} is taken and freed all the time`);
  }

  /**
   * Whether a key can be had. A holder whose scope is over is not told of it: whoever wants the key next takes it, in one
   * transaction with a look at the holder, which might have been retried meanwhile.
   */
  async keyState(key: Item | null, now: number): Promise<KeyState> {
    if (key === null) return freeKey();
    const [of, scope] = [textOf(key, "job") ?? "", scopeOf(key)];
    // A new job of the holder's own id is written on the condition that there is none: DynamoDB takes no second one.
    const take = (more: TransactItem[] = []): KeyState => ({
      held: false,
      writes: (item) => [{ put: item, when: sameHolder(key) }, ...(textOf(item, "job") === of ? [] : more)],
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

  /** A job by its id; null: it is not there, or as good as gone. */
  async find(id: string, now: number): Promise<Item | null> {
    const found = await this.#table.get(jobKey(id));
    return found === null || isGone(found, now) ? null : found;
  }

  /** The answer to a job whose key is held; null: the holder is no longer what it was. */
  async #conflict(
    draft: Draft & { job: Keyed },
    { by, holder }: KeyState & { held: true },
  ): Promise<InsertResult | null> {
    const { job } = draft;
    if (by === job.id && holder !== null) return { status: "duplicate", of: by, replaced: false };
    if (job.unique.onConflict === "reject") return { status: "refused", reason: "key-held", of: by };
    if (job.unique.onConflict === "keep" || holder === null || !isWaiting(readItem(holder).state)) {
      return { status: "duplicate", of: by, replaced: false };
    }
    return (await this.#replace(draft, holder)) ? { status: "duplicate", of: by, replaced: true } : null;
  }

  /** Rewrites a waiting holder, if it is still as it was read. */
  async #replace({ job, now, shard: _, ...draft }: Draft & { job: Keyed }, holder: Item): Promise<boolean> {
    const before = readItem(holder);
    const createdAt = numberOf(holder, "created_at") ?? now;
    const inputAt = draft.inputAt === null ? null : await this.#moveInput(job, before.id, draft.inputAt, now);
    const fields = draftFields({
      ...draft,
      job: { ...job, id: before.id },
      createdAt,
      listed: before.listed,
      now,
      shard: before.shard,
      inputAt,
    });
    const change = new Change().set(fields);
    change.remove(...REPLACED);
    change.when(
      `#fence = ${change.value(before.fence)}`,
      `#state = ${change.value(before.state)}`,
      `#updated_at = ${change.value(numberOf(holder, "updated_at") ?? 0)}`,
    );
    const key = keyItemOf(before, job.unique, now);
    // For a scope that ends with the first claim: the first from now on.
    if (job.unique.scope === "waiting") key["fence"] = { N: String(before.fence) };
    const held = new Change();
    held.when(`#job = ${held.value(before.id)}`);
    const written = await this.#table.transact([
      { update: jobKey(before.id), change },
      { put: key, when: held },
    ]);
    const stale = written.done ? before.inputAt : inputAt;
    if (stale !== null) await this.#table.delete({ pk: jobKey(before.id).pk, sk: stale });
    if (written.done && draft.inputAt !== null) await this.dropInput({ ...draft, job, now, shard: before.shard });
    return written.done;
  }

  /** The input of a job that is replaced belongs to the job that stays. */
  async #moveInput(job: NewJob, to: string, inputAt: string, now: number): Promise<string> {
    await this.#table.put(inputItem({ ...job, id: to }, inputAt, now));
    return inputAt;
  }
}

const INSERTED: InsertResult = { status: "inserted" };
/** What a replaced job has of its past that the new one must not have. */
const REPLACED = [
  "again",
  "held",
  "error",
  "error_code",
  "error_at",
  "progress",
  "progress_note",
  "claimed_at",
  "started_at",
  "token",
  "was",
];

export function newToken(): string {
  return randomBytes(9).toString("base64url");
}

/** No job has this id, or one that is gone; but not one that came from this very enqueue. */
export function isNew({ now, listed }: Draft): Change {
  const change = new Change();
  const isOver = `#ttl <= ${change.value(Math.floor(now / 1_000))}`;
  const isDeleted = `attribute_exists(#dropped) AND #listed <> ${change.value(listed)}`;
  return change.when(`attribute_not_exists(#pk) OR ${isOver} OR (${isDeleted})`);
}

export function isOurs(found: Item | null, token: string): boolean {
  return found !== null && textOf(found, "token") === token;
}

export function freeKey(): KeyState & { held: false } {
  return { held: false, writes: (item) => [{ put: item, when: new Change().when("attribute_not_exists(#pk)") }] };
}

/** The key is as it was read. */
function sameHolder(key: Item): Change {
  const change = new Change();
  change.when(
    `#job = ${change.value(textOf(key, "job") ?? "")}`,
    `#listed = ${change.value(textOf(key, "listed") ?? "")}`,
    `#scope = ${change.value(textOf(key, "scope") ?? "")}`,
  );
  const until = numberOf(key, "until");
  return until === null ? change : change.when(`#until = ${change.value(until)}`);
}

type Refusal = InsertResult & { status: "refused"; reason: "not-stored" };

/** Why a job cannot be stored. Elsewhere the database says so; DynamoDB takes anything that fits. */
export function refusalOf(draft: Draft, unnamed: ReadonlyMap<NewJob, string>): Refusal | null {
  const { maxAttempts, priority } = draft.job;
  const refused = (error: string): Refusal => ({ status: "refused", reason: "not-stored", error });
  const problem = unnamed.get(draft.job);
  if (problem !== undefined) return refused(problem);
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1)
    return refused(`maxAttempts: ${maxAttempts} is not a number from 1`);
  if (!Number.isInteger(priority) || Math.abs(priority) > LIMITS.priority)
    return refused(`priority: ${priority} is none`);
  const bytes = Math.max(
    itemBytes(newItem(draft)),
    draft.inputAt === null ? 0 : itemBytes(inputItem(draft.job, draft.inputAt, draft.now)),
  );
  if (bytes <= MOST_BYTES) return null;
  return refused(
    `the job is ${bytes} bytes; an item of DynamoDB holds ${MOST_BYTES}. Store the input elsewhere and pass a reference`,
  );
}

/** All are waited for, so that nothing is under way any more when one has failed. */
export async function settled<Answer>(calls: readonly Promise<Answer>[]): Promise<Answer[]> {
  const answers = await Promise.allSettled(calls);
  const failed = answers.find((answer) => answer.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  return answers.map((answer) => (answer as PromiseFulfilledResult<Answer>).value);
}

/** Parts that can be written at once: of those with the same id or key one. In their order. */
function roundsOf(jobs: readonly NewJob[]): number[][] {
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
