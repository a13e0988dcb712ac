import { setTimeout as sleep } from "node:timers/promises";
import { attemptsUsed, countClaim, isLeased, STALE_ERROR, type State } from "../../../job/state.js";
import type { AttemptRecord, Claim, ClaimedJob, ClaimRequest } from "../../../store.js";
import { numberOf, textOf, type Item } from "../connection/attributes.js";
import { attemptItem, inputsOf } from "./job-details.js";
import type { Config, ConfigKeeper, Lane } from "../connection/config.js";
import { Change } from "../connection/expressions.js";
import { isOurs, newToken } from "./insert.js";
import { claimedJob, errorFields, readItem, waitAgain, type JobItem } from "./items.js";
import { dueKey, idOf, jobKey, laneKey, LIVE, shardOf, timeIn } from "./keys.js";
import type { HeldJobs } from "./lease-cache.js";
import type { Patience, Table } from "../connection/table.js";

/** An entry of the live index. Only a hint: the job's item decides. */
interface Entry {
  pk: string;
  dueAt: number;
  /** The job and where it stands: another once the job is moved. */
  spot: string;
  /** Its place in the line, by when it fell due. */
  order: string;
  /** Until when somebody has it leased, as far as the index knows. */
  heldUntil: number | null;
  type: string;
  bytes: number;
}

/** A lane in one shard, being read. */
interface Source {
  key: string;
  /** Where to read on; null: nothing of it is due any more. */
  after: Item | undefined | null;
  /** All entries up to this one were seen. */
  seenTo: string;
  /** Of which to read so many at most. */
  pageLimit: number;
}

interface Taken {
  entry: Entry;
  before: Item;
  claim: Pick<ClaimedJob, "fence" | "attempt" | "losses" | "previous">;
}

export interface ClaimSettings {
  /** How far clocks of different machines may be apart. */
  marginMs: number;
}

const FIRST_PAGE = 16;
const LARGEST_PAGE = 1_000;
const FIRST_WINDOW = 4;
// For some time after somebody was met: so many more at once each time that nobody is.
const MORE_AT_ONCE = 2;
const ALONE_MS = 5_000;
// Whoever met others looks again about this much later.
const CONTENDED_MS = 25;
const MOST_DOUBLED = 4;
// With others about, entries that were read longer ago are theirs by now.
const FRESH_MS = 50;
// All move on to the next shard at the same pace, and so those who are in different ones stay apart.
const SHARD_MS = 250;
const PLACES = 2 ** 32;
// A claim that got nothing because of others is repeated so often.
const MOST_ROUNDS = 10;
// An entry that turned out to be wrong is not tried again before it may have been put right.
const LAG_MS = 3_000;
const LEAST_PATIENCE_MS = 250;
// Jobs that could not be handed out are not tried again at once: what was in the way may still be.
const GIVEN_BACK_MS = 5_000;

export class Claims {
  readonly #table: Table;
  readonly #config: ConfigKeeper;
  readonly #jobs: HeldJobs;
  readonly #marginMs: number;
  readonly #underWay = new Set<Hunt>();
  /** Where this process begins, among the shards and within one: others most likely begin elsewhere. */
  #shard = random(1_000);
  #place = random(PLACES);
  /** How many are tried at once where others may be at it as well. */
  #window = FIRST_WINDOW;
  /** How many the last claim took. */
  #lastTaken = 0;
  #metAt = Number.NEGATIVE_INFINITY;
  /** How often in a row there was nothing but what others were at. */
  #misses = 0;

  constructor(table: Table, config: ConfigKeeper, jobs: HeldJobs, { marginMs }: ClaimSettings) {
    this.#table = table;
    this.#config = config;
    this.#jobs = jobs;
    this.#marginMs = marginMs;
  }

  async claim(request: ClaimRequest, now: number): Promise<Claim> {
    const from = performance.now();
    let hunt = await this.#hunt(request, now, from);
    // Others were quicker with all that was tried: there may be more.
    for (let round = 1; hunt.met && hunt.taken.length === 0 && round <= MOST_ROUNDS; round++) {
      await sleep(random(CONTENDED_MS));
      hunt = await this.#hunt(request, now, from);
    }
    if (hunt.failure !== null && hunt.taken.length === 0) throw hunt.failure.error;
    const taken = hunt.taken.toSorted(
      (a, b) => inOrder(a.before, b.before) || (a.entry.order < b.entry.order ? -1 : 1),
    );
    const [kept, inputs] = await this.#withInputs(taken, hunt);
    const jobs = kept.map(({ before, claim }) => claimedJob(before, claim, inputs));
    for (const [at, { id, fence }] of jobs.entries()) this.#jobs.claimed(id, fence, (kept[at] as Taken).before);
    const isShort = !hunt.full && jobs.length < request.limit;
    return { at: now, jobs, nextDueAt: isShort && Number.isFinite(hunt.nextDueAt) ? Math.ceil(hunt.nextDueAt) : null };
  }

  /** What was taken, with its inputs. Where those cannot be read, the jobs that have theirs: the others go back. */
  async #withInputs(taken: readonly Taken[], hunt: Hunt): Promise<[Taken[], Map<string, string>]> {
    const items = taken.map(({ before }) => before);
    try {
      return [[...taken], await inputsOf(this.#table, items, patience(hunt))];
    } catch (error) {
      const isWhole = ({ before }: Taken): boolean => before["input_at"] === undefined;
      await Promise.allSettled(taken.filter((each) => !isWhole(each)).map((each) => this.#giveBack(each, hunt)));
      const whole = taken.filter(isWhole);
      if (whole.length === 0) throw error;
      return [whole, new Map()];
    }
  }

  /** A job that was claimed and cannot be handed out was never begun: it keeps its attempt. */
  async #giveBack({ before, claim }: Taken, hunt: Hunt): Promise<void> {
    const { now } = hunt;
    const job = readItem(before);
    const change = new Change().set({ state: "pending", attempt: claim.previous.attempt, updated_at: now });
    waitAgain(change, job, now + GIVEN_BACK_MS);
    change.when(
      `#fence = ${change.value(claim.fence)}`,
      `#state = ${change.value("claimed")}`,
      // Somebody who asked for that meanwhile is told by the next claim.
      "attribute_not_exists(#cancel_at)",
    );
    // Those that are handed out wait for this, and their leases run.
    await this.#table.update(jobKey(job.id), change, patience(hunt));
  }

  async #hunt(request: ClaimRequest, now: number, from: number): Promise<Hunt> {
    const config = await this.#config.read();
    const hunt: Hunt = {
      request,
      now,
      from,
      token: newToken(),
      taken: [],
      seen: new Set(),
      gone: new Set(),
      bytes: 0,
      full: false,
      late: false,
      met: false,
      failure: null,
      nextDueAt: Number.POSITIVE_INFINITY,
    };
    this.#underWay.add(hunt);
    try {
      for (const lanes of byPriority(config, request)) {
        if (isOver(hunt)) break;
        await this.#takeFrom(lanes, config.shards, hunt);
      }
    } catch (error) {
      hunt.failure = { error };
    } finally {
      this.#underWay.delete(hunt);
    }
    this.#lastTaken = hunt.taken.length;
    return hunt;
  }

  /** Lanes of one priority. In one shard their jobs come strictly in order; of several, one shard after the other. */
  async #takeFrom(lanes: readonly Lane[], shards: number, hunt: Hunt): Promise<void> {
    const pageLimit = Math.max(FIRST_PAGE, 2 * this.#lastTaken);
    const sourcesIn = (shard: number): Source[] =>
      lanes.map(({ queue, priority }) => ({
        key: laneKey(queue, priority, shard),
        after: undefined,
        seenTo: "",
        pageLimit,
      }));
    const first = (this.#shard + Math.floor(hunt.now / SHARD_MS)) % shards;
    await this.#exhaust(sourcesIn(first), hunt, shards > 1);
    if (shards === 1 || isOver(hunt)) return;
    const rest = Array.from({ length: shards - 1 }, (_, step) => sourcesIn((first + 1 + step) % shards));
    // All that are left at once, each for its part of what is wanted. With others about, what was read is soon out of date.
    const pages = this.#isAlone(hunt)
      ? await Promise.all(rest.map((sources) => this.#readAll(sources, hunt, rest.length)))
      : [];
    for (let left = rest.length, at = random(left); left > 0 && !isOver(hunt); left--, at = (at + 1) % rest.length) {
      await this.#exhaust(rest[at] as Source[], hunt, true, pages[at]);
    }
  }

  #isAlone({ now }: Hunt): boolean {
    return now - this.#metAt > ALONE_MS;
  }

  async #readAll(sources: readonly Source[], hunt: Hunt, parts = 1): Promise<Entry[]> {
    return (await Promise.all(sources.map((source) => this.#read(source, hunt, parts)))).flat();
  }

  /**
   * Reads on until enough was taken, or nothing is due any more. Where others are at it as well (`contended`), it is left to
   * them: there are more shards, and every condition that is lost costs as much as one that holds.
   */
  async #exhaust(sources: readonly Source[], hunt: Hunt, contended: boolean, read?: Entry[]): Promise<void> {
    let open = sources;
    let seen = read ?? (await this.#readAll(open, hunt));
    for (;;) {
      open = open.filter(({ after }) => after !== null);
      // A lost lease is due since its end, but stands where its job was due first: what lies between comes before it.
      const known = contended ? undefined : open.map(({ seenTo }) => seenTo).toSorted()[0];
      const ripe = seen.filter(({ order }) => known === undefined || order <= known);
      const later = seen.filter(({ order }) => known !== undefined && order > known);
      if (contended) {
        if (!(await this.#takeAny(ripe, hunt))) return;
      } else
        await this.#takeThese(
          ripe.toSorted((a, b) => (a.order < b.order ? -1 : 1)),
          hunt,
        );
      if (isOver(hunt) || (open.length === 0 && later.length === 0)) return;
      seen = [...later, ...(await this.#readAll(open, hunt))];
    }
  }

  /**
   * From a place of our own on, around the shard: others have places of theirs, and are met where theirs begins, not all
   * over. The more at once the longer nobody was met, and never many more than the last claim got. False: somebody was met.
   */
  async #takeAny(entries: readonly Entry[], hunt: Hunt): Promise<boolean> {
    const left = aroundFrom(this.#place, entries);
    const isAlone = this.#isAlone(hunt);
    const readAt = performance.now();
    while (left.length > 0 && !isOver(hunt)) {
      const before = hunt.taken.length;
      const some = left
        .splice(0, Math.ceil(Math.min(this.#window, hunt.request.limit - before)))
        .filter(({ pk }) => !hunt.gone.has(pk));
      await this.#takeThese(some, hunt);
      if (hunt.full || hunt.failure !== null) return true;
      if (hunt.taken.length - before < some.length) {
        this.#meet(hunt);
        return false;
      }
      this.#misses = 0;
      if (!isAlone && left.length > 0 && hunt.taken.length > 0 && performance.now() - readAt > FRESH_MS) {
        hunt.late = true;
        hunt.nextDueAt = hunt.now;
        return true;
      }
      const most = Math.max(FIRST_PAGE, this.#lastTaken);
      this.#window = Math.min(most, isAlone ? this.#window * 2 : this.#window + MORE_AT_ONCE);
    }
    return true;
  }

  /** Somebody else was at the same jobs: next time elsewhere, and a little later. */
  #meet(hunt: Hunt): void {
    if (hunt.taken.length > 0) this.#misses = 0;
    else if (!hunt.met) this.#misses++;
    const waitMs = CONTENDED_MS * 2 ** Math.min(MOST_DOUBLED, this.#misses);
    hunt.met = true;
    this.#metAt = hunt.now;
    this.#window = Math.max(1, Math.floor(this.#window / 4));
    this.#shard = random(1_000);
    this.#place = random(PLACES);
    hunt.nextDueAt = Math.min(hunt.nextDueAt, hunt.now + waitMs * (1 + Math.random()));
  }

  /** The next due entries of a source that may be claimed. */
  async #read(source: Source, hunt: Hunt, parts: number): Promise<Entry[]> {
    const { request, now } = hunt;
    const wanted = (request.limit - hunt.taken.length) / parts;
    // Entries that are not due yet cost as much to read as others: where there was little to take, little is read.
    const limit = Math.min(LARGEST_PAGE, source.pageLimit, Math.ceil(wanted * 1.25) + 5);
    source.pageLimit *= 4;
    const page = await this.#table.query({ index: LIVE, hash: source.key, limit, after: source.after ?? null });
    source.after = page.next;
    const due: Entry[] = [];
    for (const item of page.items) {
      const entry = readEntry(item);
      source.seenTo = textOf(item, LIVE.range) ?? "";
      if (entry.dueAt > now) {
        // What is not due yet tells when there is something to look for, and that all before it was seen.
        hunt.nextDueAt = Math.min(hunt.nextDueAt, entry.dueAt);
        source.after = null;
        break;
      }
      const freeAt = Math.max(
        entry.heldUntil === null ? 0 : entry.heldUntil + this.#marginMs,
        this.#jobs.passedByUntil(idOf(entry.pk), entry.spot),
      );
      if (freeAt > now) hunt.nextDueAt = Math.min(hunt.nextDueAt, freeAt);
      // A job that moves while the pages are read may stand on two of them.
      else if (hunt.seen.has(entry.pk)) continue;
      else if (request.types === null || request.types.includes(entry.type)) {
        hunt.seen.add(entry.pk);
        due.push(entry);
      }
    }
    return due;
  }

  /** Claims entries in their order, as many at once as are still wanted. */
  async #takeThese(entries: readonly Entry[], hunt: Hunt): Promise<void> {
    let at = 0;
    while (at < entries.length && !isOver(hunt)) {
      const some: Entry[] = [];
      let bytes = hunt.bytes;
      for (; at < entries.length && hunt.taken.length + some.length < hunt.request.limit; at++) {
        const entry = entries[at] as Entry;
        bytes += entry.bytes;
        if (hunt.taken.length + some.length > 0 && bytes > hunt.request.bytes) {
          // Those before may yet turn out to be somebody else's.
          hunt.full = some.length === 0;
          break;
        }
        some.push(entry);
      }
      for (const { gone } of this.#underWay) for (const { pk } of some) gone.add(pk);
      for (const tried of await Promise.allSettled(some.map((entry) => this.#take(entry, hunt)))) {
        if (tried.status === "rejected") hunt.failure ??= { error: tried.reason };
        else if (tried.value !== null) {
          const { entry } = tried.value;
          hunt.taken.push(tried.value);
          hunt.bytes += entry.bytes;
          // The index may not know for a while, and would have us try for our own.
          this.#jobs.passBy(idOf(entry.pk), entry.spot, hunt.now + hunt.request.leaseMs + this.#marginMs);
        }
      }
    }
  }

  async #take(entry: Entry, hunt: Hunt): Promise<Taken | null> {
    // What the index knows to be leased was lost, and that goes into its history.
    if (entry.heldUntil !== null) {
      const found = await this.#table.get(jobKey(idOf(entry.pk)), patience(hunt));
      return found === null ? null : this.#takeLost(entry, found, hunt);
    }
    const { request, now, token } = hunt;
    const change = leaseChange(request, now, token);
    const one = change.value(1);
    change.setTo("was", "#state").setTo("fence", `#fence + ${one}`).setTo("attempt", `#attempt + ${one}`);
    change.when(
      change.isIn("state", ["pending", "failed"]),
      `#due_at <= ${change.value(now)}`,
      "#attempt < #max_attempts",
    );
    const written = await this.#table.update(jobKey(idOf(entry.pk)), change, patience(hunt));
    if (written.done) return written.old === null ? null : takenFrom(entry, written.old);
    if (written.found === null) return null;
    if (isOurs(written.found, token)) return takenBefore(entry, written.found);
    return this.#takeLost(entry, written.found, hunt);
  }

  /** A lease that ran out, or whatever else is not a plain job that waits. */
  async #takeLost(entry: Entry, found: Item, hunt: Hunt): Promise<Taken | null> {
    const { request, now, token } = hunt;
    const job = readItem(found);
    const isOver = job.dueAt !== null && job.dueAt + (isLeased(job.state) ? this.#marginMs : 0) <= now;
    if (!isOver) {
      // Somebody has it, or it has ended, and the index does not know yet: as long as the entry stays, so does that.
      const until = job.dueAt !== null && isLeased(job.state) ? job.dueAt + this.#marginMs : now + LAG_MS;
      this.#jobs.passBy(job.id, entry.spot, until);
      return null;
    }
    const count = countClaim(job);
    const change = leaseChange(request, now, token).set({
      was: job.state,
      fence: job.fence + 1,
      attempt: count.attempt,
      losses: count.losses === 0 ? null : count.losses,
    });
    change.when(
      `#fence = ${change.value(job.fence)}`,
      `#state = ${change.value(job.state)}`,
      `#due_at = ${change.value(job.dueAt ?? 0)}`,
    );
    const taken = takenFrom(entry, found);
    if (!count.lost) {
      const written = await this.#table.update(jobKey(job.id), change, patience(hunt));
      return written.done || isOurs(written.found, token) ? taken : null;
    }
    const history = lostAttempt(job, change, now);
    const writes = [{ update: jobKey(job.id), change }, { put: history }];
    const written = await this.#table.transact(writes, patience(hunt));
    if (written.done) return taken;
    const [meanwhile] = written.failed;
    return meanwhile !== undefined && isOurs(meanwhile, token) ? taken : null;
  }
}

/** One claim under way. */
interface Hunt {
  readonly request: ClaimRequest;
  readonly now: number;
  /** When it began, by this machine's own clock: its leases run from then on. */
  readonly from: number;
  readonly token: string;
  readonly taken: Taken[];
  readonly seen: Set<string>;
  /** Jobs that a claim of this process has been at since this one began: what was read before does not tell. */
  readonly gone: Set<string>;
  bytes: number;
  /** No more bytes may be taken. */
  full: boolean;
  /** What was read is out of date. */
  late: boolean;
  /** Others were at the same jobs. */
  met: boolean;
  /** What went wrong: no more are taken, but those that were are not lost for it. */
  failure: { error: unknown } | null;
  nextDueAt: number;
}

/** A lease that is written when half of it is over is of little use, and one that has ended uses an attempt up. */
function patience({ request, from }: Hunt): Patience {
  return { withinMs: Math.max(LEAST_PATIENCE_MS, request.leaseMs / 2 - (performance.now() - from)) };
}

/** What every claim sets. */
function leaseChange({ worker, leaseMs }: ClaimRequest, now: number, token: string): Change {
  return new Change()
    .set({
      state: "claimed",
      due_at: now + leaseMs,
      held: now + leaseMs,
      worker,
      claimed_at: now,
      updated_at: now,
      token,
    })
    .remove("started_at", "again");
}

function takenFrom(entry: Entry, before: Item): Taken {
  const job = readItem(before);
  const { attempt, losses, exhausted } = countClaim(job);
  const previous = { state: job.state, attempt: attemptsUsed(job), exhausted };
  return { entry, before, claim: { fence: job.fence + 1, attempt, losses, previous } };
}

/** From the item as our own claim has left it, whose answer got lost. */
function takenBefore(entry: Entry, after: Item): Taken {
  const job = readItem(after);
  const previous = { state: textOf(after, "was") as State, attempt: job.attempt - 1, exhausted: false };
  return { entry, before: after, claim: { fence: job.fence, attempt: job.attempt, losses: job.losses, previous } };
}

/** The history of a lost lease, and what it leaves with the job. */
export function lostAttempt(job: JobItem, change: Change, now: number): Item {
  const nth = numberOf(job.item, "tries") ?? 0;
  change.set({ ...errorFields(STALE_ERROR, now), tries: nth + 1, beside: true });
  const record: AttemptRecord = {
    attempt: job.attempt,
    worker: textOf(job.item, "worker"),
    claimedAt: numberOf(job.item, "claimed_at"),
    startedAt: numberOf(job.item, "started_at"),
    endedAt: now,
    error: { ...STALE_ERROR, stack: null },
  };
  return attemptItem(job.id, nth, record);
}

function readEntry(item: Item): Entry {
  const due = textOf(item, LIVE.range) ?? "";
  const heldUntil = numberOf(item, "held");
  return {
    pk: textOf(item, "pk") ?? "",
    spot: `${textOf(item, "pk")} ${due}`,
    dueAt: timeIn(due),
    order: heldUntil === null ? due : dueKey(Math.max(heldUntil, timeIn(due)), due.slice(due.indexOf("#") + 1)),
    heldUntil,
    type: textOf(item, "type") ?? "",
    bytes: numberOf(item, "bytes") ?? 0,
  };
}

/** Lanes that the request asks for, the highest priority first. */
function byPriority({ lanes, paused }: Config, { queues }: ClaimRequest): Lane[][] {
  const wanted = lanes.filter(({ queue }) => !paused.has(queue) && (queues === null || queues.includes(queue)));
  const groups = new Map<number, Lane[]>();
  for (const lane of wanted) groups.set(lane.priority, [...(groups.get(lane.priority) ?? []), lane]);
  return [...groups].toSorted(([a], [b]) => b - a).map(([, group]) => group);
}

function inOrder(a: Item, b: Item): number {
  return (numberOf(b, "priority") ?? 0) - (numberOf(a, "priority") ?? 0);
}

/** Enough was taken, or with others about something: nothing at all is only the answer where nothing could be had. */
function isOver({ full, late, failure, taken, request, met }: Hunt): boolean {
  return failure !== null || full || late || taken.length >= request.limit || (met && taken.length > 0);
}

function random(below: number): number {
  return Math.floor(Math.random() * below);
}

/** By a place that follows from the job, the same for everybody; those from `place` on first. */
function aroundFrom(place: number, entries: readonly Entry[]): Entry[] {
  return entries
    .map((entry) => ({ entry, at: (shardOf(entry.pk, PLACES) - place + PLACES) % PLACES }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ entry }) => entry);
}
