import { InvalidOptionError } from "../errors.js";
import { isFinished, STATE_NAMES, type FinishedState } from "../job/state.js";
import type { JobFilter, PageRequest, Skipped } from "../store.js";

/**
 * How a store with indexes finds a page of jobs, newest or oldest first, in bounded work.
 *
 * Jobs are numbered as they are enqueued (`seq`). A source lists the jobs of one index (of a user, a tag, a kind) in that
 * order. A source that holds only matching jobs returns a page directly. A source that holds others too is scanned in
 * batches, up to a limit: the page is what was found by then, and its cursor is where the scan stopped.
 *
 * The plan is written once, as a generator of steps. SQLite executes each step in process, PostgreSQL over the network.
 */
export type Plan<Result> = Generator<PlanStep, Result, unknown>;

/** Jobs with `from <= seq < below`. */
export interface SeqRange {
  from: number;
  below: number;
}

/** Finished jobs are indexed by these three, and by `seq` within them. */
export interface Kind {
  queue: string;
  type: string;
  state: FinishedState;
}

export type Source =
  | { by: "all" }
  | { by: "user"; user: string }
  | { by: "schedule"; schedule: string }
  | { by: "parent"; parent: string }
  | { by: "tag"; tag: string }
  | { by: "fingerprint"; fingerprint: string }
  /** Finished jobs of these kinds. */
  | { by: "kinds"; kinds: readonly Kind[] }
  /** Live jobs, in order. */
  | { by: "live" }
  /** Live jobs that have failed before, in order. Some of them may be running again. */
  | { by: "failed" }
  /** Live jobs of some queues (null: all), in no order: either all of them, or the first `first` without reading their rows. */
  | { by: "queues"; queues: readonly string[] | null; first: number | null }
  | { by: "seqs"; seqs: readonly number[] }
  | { by: "ids"; ids: readonly string[] };

export type Order = "newest" | "oldest";

/** The steps of a plan, as a store executes them. */
export interface PlanExecutor {
  /** Kinds of finished jobs that match a filter's states, types and queues; null if more than `max` had to be read. */
  kinds: (filter: JobFilter, max: number) => readonly Kind[] | null;
  /** Ranges that may hold jobs of the filter's types and creation time, the newest first. */
  ranges: (filter: JobFilter) => readonly SeqRange[];
  /** How many jobs a source has in the range, counted up to `max`. */
  length: (source: Source, range: SeqRange, max: number) => number;
  /** The `seq` of the nth job of a source in the range, in this order; null if it has fewer. */
  nthSeq: (source: Source, range: SeqRange, nth: number, order: Order) => number | null;
  /** The first jobs of a source that match the whole filter, in this order. */
  first: (source: Source, range: SeqRange, filter: JobFilter, limit: number, order: Order) => readonly number[];
  /** From the store's counters: live jobs of the filter's queues, those of its types, and those in its states as well. */
  liveCounts: (filter: JobFilter) => { all: number; ofTypes: number; matching: number };
  /** Live jobs of the filter's types and queues, from the index for claims by type; null if that index does not exist. */
  liveOfTypes: (filter: JobFilter) => readonly number[] | null;
  /** Live jobs that match states, types and queues, among the `max` that are due around now, where leases and retries end. */
  dueAround: (filter: JobFilter, max: number) => readonly number[];
}
export type PlanStep = {
  [Name in keyof PlanExecutor]: readonly [Name, ...Parameters<PlanExecutor[Name]>];
}[keyof PlanExecutor];

export interface ListLimits {
  /** Jobs that one call reads, roughly. */
  maxRead: number;
  /** Live jobs that are read in any case, regardless of the store's counters. */
  alwaysRead: number;
  /** Live jobs that the store can sort without reading their rows. */
  maxSorted: number;
}

export interface Found {
  /** In the order of the page. One more than the limit if there are more. */
  seqs: number[];
  /** The scan stopped here: the next page begins after this `seq`. Null: it reached the end. */
  stoppedAt: number | null;
}

/** Throws if a cursor is not one of these stores, which use job numbers. */
export function refuseForeignCursor({ cursor }: { cursor: string | null }): void {
  if (cursor === null || /^\d{1,16}$/.test(cursor)) return;
  throw new InvalidOptionError("cursor", "is not a cursor that list() returned");
}

/** The cursor of the page after this job. */
export function cursorAfter(seq: number): string {
  return String(seq);
}

/** How many of the found jobs belong to a page of `limit`, and the cursor of the next page. */
export function pageOf({ seqs, stoppedAt }: Found, limit: number): Skipped {
  const passed = Math.min(seqs.length, limit);
  const next = seqs.length > limit ? (seqs[limit - 1] ?? null) : stoppedAt;
  return { passed, cursor: next === null ? null : cursorAfter(next) };
}

interface Part {
  source: Source;
  filter: JobFilter;
  /** A page of it can be read directly, without a scan in batches. */
  bounded: boolean;
}

export const END: number = Number.MAX_SAFE_INTEGER;
const EVERYTHING: SeqRange = { from: 0, below: END };
// Each kind costs one index lookup for every page.
const MAX_KINDS = 1_000;
// If at most this many live jobs do not match, that many more are taken without reading their rows, and then filtered.
const MAX_EXCESS = 1_000;
// Batches and ranges in one call.
const MAX_STEPS = 50;
// Jobs with adjacent numbers share pages on disk: this many are read in the time of one random row.
const ADJACENT = 3;
const NOTHING: Found = { seqs: [], stoppedAt: null };

function* step<Name extends keyof PlanExecutor>(
  name: Name,
  ...args: Parameters<PlanExecutor[Name]>
): Plan<ReturnType<PlanExecutor[Name]>> {
  return (yield [name, ...args] as unknown as PlanStep) as ReturnType<PlanExecutor[Name]>;
}

/** The page that a plan finds. */
export interface PlannedPage {
  limit: number;
  cursor: number | null;
  order: Order;
}

export function plannedPage({ limit, cursor, order = "newest" }: Omit<PageRequest, "payloads">): PlannedPage {
  return { limit, cursor: cursor === null ? null : Number(cursor), order };
}

/** The jobs of a page: matching jobs after the cursor, `limit` of them and one more. */
export function* findPage(given: JobFilter, page: PlannedPage, limits: ListLimits): Plan<Found> {
  const { limit, cursor, order } = page;
  const filter = normalize(given);
  if ([filter.ids, filter.states, filter.types, filter.queues].some((names) => names?.length === 0)) return NOTHING;
  const ranges = yield* rangesOf(filter, afterCursor(cursor, order));
  const [newest] = ranges;
  const oldest = ranges.at(-1);
  if (newest === undefined || oldest === undefined) return NOTHING;
  const whole = { from: oldest.from, below: newest.below };
  const parts = yield* partsOf(filter, whole, limit + 1, limits);
  if (parts.every(({ bounded }) => bounded)) {
    return { seqs: yield* firstOf(parts, whole, limit + 1, order), stoppedAt: null };
  }

  const seqs: number[] = [];
  const inOrder = parts.every(({ source, bounded }) => bounded || source.by === "all" || source.by === "live");
  const maxRead = inOrder ? ADJACENT * limits.maxRead : limits.maxRead;
  let left = maxRead;
  // The first batches are small: most scans end there.
  let batch = Math.ceil(left / 40);
  let rest: SeqRange | null = null;
  for (const range of order === "newest" ? ranges : ranges.toReversed()) {
    rest = range;
    while (rest !== null && left > 0) {
      const length: number = yield* lengthOf(parts, rest, batch);
      const end: number | null = length < batch ? null : yield* nthSeqOf(parts, rest, batch, order);
      const [checked, unchecked]: [SeqRange, SeqRange | null] = split(rest, end, order);
      rest = unchecked;
      seqs.push(...(yield* firstOf(parts, checked, limit + 1 - seqs.length, order)));
      if (seqs.length > limit) return { seqs, stoppedAt: null };
      // A batch of few jobs costs its statements too.
      left -= Math.max(length, Math.ceil(maxRead / MAX_STEPS));
      batch = Math.max(1, Math.min(9 * batch, left));
    }
    if (left <= 0) {
      const stoppedAt = rest === null ? endOf(range, order) : startOf(rest, order);
      return { seqs, stoppedAt: isEnd(stoppedAt, whole, order) ? null : stoppedAt };
    }
  }
  return { seqs, stoppedAt: null };
}

/** The numbers of the jobs after a cursor. A cursor is a number that the previous pages have passed. */
function afterCursor(cursor: number | null, order: Order): SeqRange {
  if (cursor === null) return EVERYTHING;
  return order === "newest" ? { from: 0, below: cursor } : { from: cursor + 1, below: END };
}

/** Divides a range after the job `end`: the part that is checked now, and the rest. */
function split(range: SeqRange, end: number | null, order: Order): [SeqRange, SeqRange | null] {
  if (end === null) return [range, null];
  const border = order === "newest" ? end : end + 1;
  const [lower, upper] = [
    { from: range.from, below: border },
    { from: border, below: range.below },
  ];
  const [checked, rest] = order === "newest" ? [upper, lower] : [lower, upper];
  return [checked, rest.from < rest.below ? rest : null];
}

/** The cursor before the first job of this range. */
function startOf({ from, below }: SeqRange, order: Order): number {
  return order === "newest" ? below : from - 1;
}
/** The cursor after the last job of this range. */
function endOf({ from, below }: SeqRange, order: Order): number {
  return order === "newest" ? from : below - 1;
}
function isEnd(cursor: number, whole: SeqRange, order: Order): boolean {
  return order === "newest" ? cursor <= whole.from : cursor >= whole.below - 1;
}

/** Narrowed by types and creation times only; jobs that match the other conditions may be anywhere. */
function* rangesOf(filter: JobFilter, within: SeqRange): Plan<SeqRange[]> {
  const isNarrowed = hasTime(filter) || filter.types !== undefined;
  const known = isNarrowed ? yield* step("ranges", filter) : [EVERYTHING];
  return known
    .map((range) => ({ from: Math.max(range.from, within.from), below: Math.min(range.below, within.below) }))
    .filter((range) => range.from < range.below);
}

/** Removes duplicate names. A filter on all states is no filter. */
function normalize(filter: JobFilter): JobFilter {
  const once = <Name>(names: readonly Name[] | undefined): Name[] | undefined => names && [...new Set(names)];
  const states = once(filter.states);
  return {
    ...filter,
    states: states?.length === STATE_NAMES.length ? undefined : states,
    ids: once(filter.ids),
    types: once(filter.types),
    queues: once(filter.queues),
  };
}

function hasTime({ createdAfter, createdBefore }: JobFilter): boolean {
  return createdAfter !== undefined || createdBefore !== undefined;
}
function hasKind({ states, types, queues }: JobFilter): boolean {
  return states !== undefined || types !== undefined || queues !== undefined;
}
/** A condition for which there is no index. */
function hasOther(filter: JobFilter): boolean {
  return hasTime(filter) || filter.priority !== undefined;
}
/** The parent, fingerprint, user, schedule and tag of a filter. Each has an index with its jobs in order. */
function ownersOf({ parent, fingerprint, user, schedule, tag }: JobFilter): Source[] {
  const owners: Source[] = [];
  if (parent !== undefined) owners.push({ by: "parent", parent });
  if (fingerprint !== undefined) owners.push({ by: "fingerprint", fingerprint });
  if (user !== undefined) owners.push({ by: "user", user });
  if (schedule !== undefined) owners.push({ by: "schedule", schedule });
  if (tag !== undefined) owners.push({ by: "tag", tag });
  return owners;
}

function* partsOf(filter: JobFilter, range: SeqRange, wanted: number, limits: ListLimits): Plan<Part[]> {
  if (filter.ids !== undefined) return [{ source: { by: "ids", ids: filter.ids }, filter, bounded: true }];
  const owners = ownersOf(filter);
  const [owner] = owners;
  if (owner === undefined) {
    if (hasKind(filter)) return yield* partsByKind(filter, range, wanted, limits);
    return [{ source: { by: "all" }, filter, bounded: !hasOther(filter) }];
  }
  if (owners.length === 1 && !hasKind(filter) && !hasOther(filter)) return [{ source: owner, filter, bounded: true }];
  // If one of them has few jobs, all of those are read.
  for (const source of owners) if (yield* isShort(source, range, limits)) return [{ source, filter, bounded: true }];
  if (hasKind(filter)) {
    const parts = yield* partsByKind(filter, range, wanted, limits);
    if (parts.every(({ bounded }) => bounded)) return parts;
  }
  return [{ source: owner, filter, bounded: false }];
}

function* isShort(source: Source, range: SeqRange, { maxRead }: ListLimits): Plan<boolean> {
  return (yield* step("length", source, range, maxRead + 1)) <= maxRead;
}

/** Finished and live jobs, each by their own indexes. */
function* partsByKind(filter: JobFilter, range: SeqRange, wanted: number, limits: ListLimits): Plan<Part[]> {
  const states = filter.states ?? STATE_NAMES;
  const finished = states.filter((state) => isFinished(state));
  const live = states.filter((state) => !isFinished(state));
  const parts: Part[] = [];
  if (finished.length > 0) {
    const finishedOnly = { ...filter, states: finished };
    const kinds = yield* step("kinds", finishedOnly, MAX_KINDS);
    if (kinds === null) return [{ source: { by: "all" }, filter, bounded: false }];
    if (kinds.length > 0) {
      const source: Source = { by: "kinds", kinds };
      const hasMore = hasOther(filter) || ownersOf(filter).length > 0;
      parts.push({ source, filter: finishedOnly, bounded: !hasMore || (yield* isShort(source, range, limits)) });
    }
  }
  // Failed jobs have their own index: they are listed most often, and any number of pending jobs may be newer. A filter
  // that includes pending jobs reads both from the index of live jobs.
  const isFailedApart = live.includes("failed") && !live.includes("pending");
  if (isFailedApart) {
    const source: Source = { by: "failed" };
    const bounded = yield* isShort(source, range, limits);
    parts.push({ source, filter: { ...filter, states: ["failed"] }, bounded });
  }
  const others = isFailedApart ? live.filter((state) => state !== "failed") : live;
  const ofLive = others.length === 0 ? null : yield* livePart({ ...filter, states: others }, wanted, limits);
  return ofLive === null ? parts : [...parts, ofLive];
}

function* livePart(filter: JobFilter, wanted: number, limits: ListLimits): Plan<Part | null> {
  const queues = filter.queues ?? null;
  const whole: Source = { by: "queues", queues, first: null };
  const max = Math.max(limits.maxRead, limits.maxSorted);
  const length = yield* step("length", whole, EVERYTHING, max + 1);
  if (length === 0) return null;
  if (length <= limits.alwaysRead) return { source: whole, filter, bounded: true };
  const { all, ofTypes, matching } = yield* step("liveCounts", filter);
  if (matching === 0) return null;
  if (filter.types !== undefined && ofTypes <= limits.maxRead) {
    const seqs = yield* step("liveOfTypes", filter);
    if (seqs !== null) return { source: { by: "seqs", seqs }, filter, bounded: true };
  }
  if (matching <= limits.maxRead) {
    const seqs = yield* step("dueAround", filter, limits.maxRead);
    if (seqs.length === matching) return { source: { by: "seqs", seqs }, filter, bounded: true };
  }
  const excess = all - matching;
  if (length <= limits.maxSorted && excess <= MAX_EXCESS && !hasOther(filter) && ownersOf(filter).length === 0) {
    return { source: { by: "queues", queues, first: wanted + excess }, filter, bounded: true };
  }
  if (length <= limits.maxRead) return { source: whole, filter, bounded: true };
  return { source: length <= limits.maxSorted ? whole : { by: "live" }, filter, bounded: false };
}

/** The end of a batch, in which no scanned part has more than `nth` jobs. Null: none has that many. */
function* nthSeqOf(parts: readonly Part[], range: SeqRange, nth: number, order: Order): Plan<number | null> {
  let first: number | null = null;
  for (const { source, bounded } of parts) {
    const seq = bounded ? null : yield* step("nthSeq", source, range, nth, order);
    if (seq !== null) first = first === null ? seq : order === "newest" ? Math.max(first, seq) : Math.min(first, seq);
  }
  return first;
}

/** How many jobs the scanned parts have in the range. */
function* lengthOf(parts: readonly Part[], range: SeqRange, max: number): Plan<number> {
  let length = 0;
  for (const { source, bounded } of parts) if (!bounded) length += yield* step("length", source, range, max);
  return length;
}

function* firstOf(parts: readonly Part[], range: SeqRange, limit: number, order: Order): Plan<number[]> {
  const found = new Set<number>();
  for (const { source, filter } of parts)
    for (const seq of yield* step("first", source, range, filter, limit, order)) found.add(seq);
  return [...found].toSorted((a, b) => (order === "newest" ? b - a : a - b)).slice(0, limit);
}

/** A block of job numbers, and whether it may hold matching jobs. */
export interface Block {
  block: number;
  mayMatch: boolean;
}
export const BLOCK = 8_192;
/** A block records this many types by name. Further types share the entry `ANY_TYPE`. */
export const MAX_TYPES = 64;
export const ANY_TYPE = "";
const MAX_RANGES = 100;

/**
 * Ranges that may hold jobs of some types and creation time. Clocks are set back and old jobs are imported, so job numbers
 * say nothing about times: each block has a record, written with its jobs, and a block without one may hold any jobs.
 */
export function rangesFrom(known: readonly Block[], first: number, last: number): SeqRange[] {
  const mayMatch = new Map(known.map((each) => [each.block, each.mayMatch]));
  const found: SeqRange[] = [];
  for (let block = Math.floor(last / BLOCK); block >= Math.floor(first / BLOCK); block--) {
    if (mayMatch.get(block) === false) continue;
    const before = found.at(-1);
    const from = block * BLOCK;
    if (before?.from === from + BLOCK || (before !== undefined && found.length === MAX_RANGES)) before.from = from;
    else found.push({ from, below: from + BLOCK });
  }
  return found;
}

/** Executes the steps of a plan one by one. */
export function executePlan<Result>(plan: Plan<Result>, executor: PlanExecutor): Result {
  let current = plan.next();
  while (current.done !== true) {
    const [name, ...args] = current.value;
    current = plan.next((executor[name] as (...args: unknown[]) => unknown)(...args));
  }
  return current.value;
}

export type AsyncPlanExecutor = {
  [Name in keyof PlanExecutor]: (...args: Parameters<PlanExecutor[Name]>) => Promise<ReturnType<PlanExecutor[Name]>>;
};

/** The same for a store that executes each step asynchronously. */
export async function executePlanAsync<Result>(plan: Plan<Result>, executor: AsyncPlanExecutor): Promise<Result> {
  let current = plan.next();
  while (current.done !== true) {
    const [name, ...args] = current.value;
    current = plan.next(await (executor[name] as (...args: unknown[]) => Promise<unknown>)(...args));
  }
  return current.value;
}
