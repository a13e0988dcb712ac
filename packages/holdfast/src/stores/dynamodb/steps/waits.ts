import { isFinished, isLeased } from "../../../job/state.js";
import { childFailure, eventTopic, jobTopic } from "../../../job/stored-step.js";
import type { EmitResult, NewEvent, Outcome } from "../../../store.js";
import { numberOf, stringOf, type Item } from "../connection/attributes.js";
import type { SharedConfig } from "../connection/config.js";
import { Change } from "../connection/expressions.js";
import { inParts } from "../connection/in-parts.js";
import type { Table } from "../connection/table.js";
import { newRequestToken, waitForAll } from "../jobs/insert.js";
import {
  dueKey,
  endOfMillisecond,
  endOfPrefix,
  eventKey,
  EXPIRING,
  idOfListed,
  jobKey,
  openChildKey,
  openChildrenNamed,
  shardOf,
  stepKey,
  wakesKey,
  WAITERS,
  type Key,
} from "../jobs/item-keys.js";
import { ifSameWakes, isDeleted, readItem, ttlSeconds, wakeNote, wakesOfItem, type JobItem } from "../jobs/items.js";
import { awaitersOf, type Awaiter } from "./awaiters.js";
import { eventItem, ifNotKept, ifSameVersion, isNoted, keptPayload, withoutNote } from "./events.js";
import { readFailure, stepEnd, type TopicEnd } from "./step-items.js";

// Waiters of one event, or of one job, whose waits are ended at a time. Most of the connections are left to the workers.
const CONCURRENT = 16;
const PAGE = 100;
// A note younger than this is probably being worked on by the process that wrote it.
const REPAIR_AFTER_MS = 5_000;
// Longer than an enqueue whose response was lost is sent again.
const TOMBSTONE_MS = 300_000;

/** How many waits were ended, and how many jobs were woken. `isDone`: no wait is left. */
interface EndedWaits {
  ended: number;
  woken: number;
  isDone: boolean;
}

/**
 * Ends waits for events and jobs, and makes their parked jobs due.
 *
 * What ends a wait (an event, the end of a job) first writes a note, in the write of the event or of the job itself: an attribute that
 * places the item in an index. Then it ends each wait, in writes that may be repeated: the step ends, the mark that it waits is
 * deleted, the job is woken if no member of the set is left, and what names the waiter is deleted. Then the note goes. After a crash,
 * `repair` finds the note and repeats what may be missing. A job may be woken without need; its handler then parks again.
 *
 * No wait is missed. An event and those that wait for it write the same item (see events.ts), and a job ends on the condition that its
 * waiters are those that were read. Of the last members of a set that end together, each deletes its mark before it looks for others.
 */
export class Waits {
  readonly #table: Table;
  readonly #config: SharedConfig;
  readonly #onWoken: () => void;

  constructor(table: Table, config: SharedConfig, onWoken: () => void) {
    this.#table = table;
    this.#config = config;
    this.#onWoken = onWoken;
  }

  async emit(events: readonly NewEvent[], now: number): Promise<EmitResult[]> {
    const results: EmitResult[] = [];
    const names = [...new Set(events.map(({ name }) => name))];
    await inParts(names, CONCURRENT, async (name) => {
      for (const [at, event] of events.entries()) if (event.name === name) results[at] = await this.#emit(event, now);
    });
    return results;
  }

  /** One unit without waiters: then the event needs no note, because a job that begins to wait later finds the event. */
  async #emit(event: NewEvent, now: number): Promise<EmitResult> {
    const { name } = event;
    const version = newRequestToken();
    const shard = shardOf(name, await this.#config.shards(now));
    for (;;) {
      // The waiters are in the partition of the event, after it.
      const { items } = await this.#table.query({ hash: eventKey(name).pk, consistent: true, limit: 2 });
      const head = items.find(isEvent) ?? null;
      const hasWaiters = items.some((item) => !isEvent(item));
      if (head !== null && (isNoted(head) || (hasWaiters && keptPayload(head, now) !== null)))
        await this.#endEventWaits(head, now);
      if (keptPayload(head, now) !== null) return { first: false };
      // The waits for the last event have just ended, and its time is over.
      if (isNoted(head)) continue;
      const item = eventItem(event, { version, shard, hasWaiters }, now);
      const when = hasWaiters ? ifNotKept(new Change(), now) : ifSameVersion(head);
      const written = await this.#table.put(item, when);
      const isOwn = !written.done && written.found !== null && stringOf(written.found, "version") === version;
      if (!written.done && !isOwn) continue;
      if (hasWaiters) await this.#endEventWaits(item, now);
      return { first: true };
    }
  }

  /** Ends the waits for an event, also if its time is over since, at most about `limit`. */
  async #endEventWaits(event: Item, now: number, limit: number = Number.POSITIVE_INFINITY): Promise<EndedWaits> {
    const name = stringOf(event, "name") ?? "";
    const end = { value: stringOf(event, "payload"), failure: null };
    const bounds = { from: WAITERS, below: endOfPrefix(WAITERS), limit: PAGE, consistent: true };
    let ended = 0;
    let woken = 0;
    for await (const page of this.#table.pages({ hash: eventKey(name).pk, ...bounds })) {
      const done = await inParts(page, CONCURRENT, (item) => this.#endWait(item, eventTopic(name), end, now));
      ended += done.length;
      woken += done.filter(Boolean).length;
      if (ended >= limit) return { ended, woken, isDone: false };
    }
    if (isNoted(event)) await this.#table.update(eventKey(name), withoutNote(event));
    return { ended, woken, isDone: true };
  }

  /** A step that waits for an event has no other members. True: its job was woken. */
  async #endWait(waiter: Item, topic: string, end: TopicEnd, now: number): Promise<boolean> {
    const listed = stringOf(waiter, "listed") ?? "";
    const [name, member] = [stringOf(waiter, "name") ?? "", numberOf(waiter, "member") ?? 0];
    await this.#table.update(stepKey(idOfListed(listed), name, member), stepEnd(topic, listed, end, now));
    const isWoken = await this.#wake(listed, now);
    await this.#table.delete(keyOf(waiter), ifOf(listed));
    return isWoken;
  }

  /** Registers that this table has waits, so that `repair` looks for notes. Call it before a step waits for an event or job. */
  prepare(): Promise<void> {
    return this.#config.ensureWaits();
  }

  /** Ends the waits for an event that has a note, so that other jobs can wait for the next event of this name. */
  async completeEvent(event: Item, now: number): Promise<void> {
    await this.#endEventWaits(event, now);
  }

  /** Ends the waits for a job that has ended or was deleted, if it has a note, so that another job can have its id. */
  async completeJob(item: Item, now: number): Promise<void> {
    const [end, note] = [endedAs(item), stringOf(item, EXPIRING.range)];
    if (end !== null && note !== null) await this.#endJobWaits(readItem(item), note, end, now);
  }

  /**
   * A job has ended, or was deleted, with a note. An error here must not fail the call, because the job cannot end again. The note is
   * still there, and `repair` ends the waits.
   *
   * `item`: the job before its end or after it, with its waiters. `at`: the time of its end.
   */
  async jobEnded(item: Item, end: TopicEnd, at: number): Promise<void> {
    const job = readItem(item);
    const note = wakeNote(job, at)["expires"] as string;
    await this.#endJobWaits(job, note, end, at).catch(() => {});
  }

  async #endJobWaits(job: JobItem, note: string, end: TopicEnd, now: number): Promise<EndedWaits> {
    const awaiters = awaitersOf(job.item);
    const topic = jobTopic(job.id);
    await inParts(awaiters, CONCURRENT, async ({ listed, name, member }) => {
      const parent = idOfListed(listed);
      await this.#table.update(stepKey(parent, name, member), stepEnd(topic, listed, end, now));
      await this.#table.delete(openChildKey(parent, name, member), ifOf(listed));
    });
    const sets = new Map(awaiters.map((awaiter) => [JSON.stringify([awaiter.listed, awaiter.name]), awaiter]));
    const woken = await inParts([...sets.values()], CONCURRENT, async (awaiter) =>
      (await this.#isOver(awaiter, end)) ? this.#wake(awaiter.listed, now) : false,
    );
    const change = new Change().remove("expiry", "expires", "awaited");
    if (job.item["dropped"] !== undefined) change.set({ ttl: ttlSeconds(now + TOMBSTONE_MS) });
    change.when(`#expires = ${change.value(note)}`);
    await this.#table.update(jobKey(job.id), change);
    return { ended: awaiters.length, woken: woken.filter(Boolean).length, isDone: true };
  }

  /** Whether the job of a set goes on. Members that end together have all deleted their marks before they look. */
  async #isOver({ listed, name, wake }: Awaiter, { failure }: TopicEnd): Promise<boolean> {
    if (wake === "failure" && failure !== null) return true;
    const prefix = openChildrenNamed(name);
    const bounds = { from: prefix, below: endOfPrefix(prefix), limit: 1, consistent: true };
    const { items } = await this.#table.query({ hash: jobKey(idOfListed(listed)).pk, ...bounds });
    return items.length === 0;
  }

  /**
   * Makes a parked job due, or counts a wake for its holder, who then does not park it. A job is parked if it is due later than it was
   * to run. Most are, so that is tried first. True: it was made due.
   */
  async #wake(listed: string, now: number): Promise<boolean> {
    const key = jobKey(idOfListed(listed));
    const token = newRequestToken();
    for (;;) {
      // `changed`: followers must not take it for a job that another has replaced.
      const due = new Change().set({ due_at: now, due: dueKey(now, listed), updated_at: now, changed: token });
      due.when(
        `#listed = ${due.value(listed)}`,
        `#state = ${due.value("pending")}`,
        "#due_at > #run_at",
        `#due_at > ${due.value(now)}`,
      );
      const made = await this.#table.update(key, due);
      if (made.done || (made.found !== null && stringOf(made.found, "changed") === token)) {
        this.#onWoken();
        return true;
      }
      if (made.found === null || stringOf(made.found, "listed") !== listed) return false;
      const { state, fence } = readItem(made.found);
      if (!isLeased(state)) {
        // A job that waits for its time, or has finished. Parked meanwhile: try again.
        if (!isParked(made.found, now)) return false;
        continue;
      }
      const wakes = wakesOfItem(made.found);
      const mark = new Change().set({ wakes: wakes + 1 });
      ifSameWakes(mark, wakes);
      mark.when(`#listed = ${mark.value(listed)}`, `#fence = ${mark.value(fence)}`);
      mark.when(mark.isIn("state", ["claimed", "running"]));
      const marked = await this.#table.update(key, mark);
      if (marked.done) return false;
    }
  }

  /**
   * Reads notes that are older than the writes that follow them take, oldest first, and ends the waits. Costs half a read unit per
   * shard while there are none, and one in a table without waits.
   */
  async repair(limit: number, now: number): Promise<number> {
    const { shards, hasWaits } = await this.#config.read();
    if (!hasWaits || limit <= 0) return 0;
    const bounds = { index: EXPIRING, below: endOfMillisecond(now - REPAIR_AFTER_MS), limit };
    const pages = await waitForAll(
      Array.from({ length: shards }, (_, shard) => this.#table.query({ hash: wakesKey(shard), ...bounds })),
    );
    const notes = pages
      .flatMap(({ items }) => items)
      .toSorted((a, b) => ((stringOf(a, EXPIRING.range) ?? "") < (stringOf(b, EXPIRING.range) ?? "") ? -1 : 1));
    let ended = 0;
    let woken = 0;
    let failure: { error: unknown } | null = null;
    for (const note of notes.slice(0, limit)) {
      if (ended >= limit) break;
      try {
        const done = await this.#repairNote(keyOf(note), limit - ended, now);
        ended += Math.max(1, done.ended);
        woken += done.woken;
      } catch (error) {
        // The others must not wait for it.
        failure ??= { error };
      }
    }
    if (failure !== null) throw failure.error;
    return woken;
  }

  async #repairNote(key: Key, limit: number, now: number): Promise<EndedWaits> {
    const item = await this.#table.get(key);
    const note = item === null ? null : stringOf(item, EXPIRING.range);
    // The index lags: the note is gone.
    if (item === null || note === null || !isNoted(item)) return { ended: 0, woken: 0, isDone: true };
    if (isEvent(item)) return this.#endEventWaits(item, now, limit);
    const end = endedAs(item);
    if (end === null) return { ended: 0, woken: 0, isDone: true };
    return this.#endJobWaits(readItem(item), note, end, now);
  }
}

/** How a job, or its tombstone, has ended; null if it has not. */
export function endedAs(item: Item): TopicEnd | null {
  if (item["dropped"] !== undefined) {
    const failure = readFailure(item);
    if (failure === null && stringOf(item, "ended") !== "completed") return MISSING;
    return { value: stringOf(item, "value"), failure };
  }
  const job = readItem(item);
  if (!isFinished(job.state)) return null;
  if (job.state === "completed") return { value: stringOf(item, "output"), failure: null };
  return failureEnd(job, job.state, null);
}

/** How a job ends that does not complete. `error`: its new error; null if it keeps the one that it has. */
export function failureEnd({ item }: JobItem, to: "dead" | "cancelled", error: Outcome["error"]): TopicEnd {
  const message = stringOf(item, "error");
  const before = message === null ? null : { message, code: stringOf(item, "error_code") };
  return { value: null, failure: childFailure(to, error ?? before) };
}

/** The end of a job as far as it is known; null if it lives. */
export function endOfJob(item: Item | null, now: number): TopicEnd | null {
  return item === null || isDeleted(item, now) ? MISSING : endedAs(item);
}

export const MISSING: TopicEnd = { value: null, failure: childFailure("missing", null) };

function isParked(item: Item, now: number): boolean {
  const [dueAt, runAt] = [numberOf(item, "due_at") ?? 0, numberOf(item, "run_at") ?? 0];
  return stringOf(item, "state") === "pending" && dueAt > runAt && dueAt > now;
}

function isEvent(item: Item): boolean {
  return stringOf(item, "sk") === eventKey("").sk;
}

function keyOf(item: Item): Key {
  return { pk: stringOf(item, "pk") ?? "", sk: stringOf(item, "sk") ?? "" };
}

/** A condition: the item belongs to this job, and not to a later one with the same id. */
function ifOf(listed: string): Change {
  const change = new Change();
  return change.when(`#listed = ${change.value(listed)}`);
}
