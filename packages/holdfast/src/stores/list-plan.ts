import { InvalidOptionError } from "../errors.js";
import { isFinished, STATE_NAMES, type FinishedState } from "../job/state.js";
import type { JobFilter, Skipped } from "../store.js";

/**
 * How a store with indexes finds a page of jobs, the newest first, in bounded work.
 *
 * Jobs are numbered as they are enqueued (`seq`), and every page is read off sources that give the jobs of something (a
 * user, a tag, a kind) in that order. A source that has just what is asked for gives a page at once. One that has more is
 * walked in strides, and only so far: what was found by then is the page, and its cursor is where the walk stopped.
 *
 * The plan is written once, as a generator of questions: one store answers them at once, another over a wire.
 */
export type Plan<Answer> = Generator<Question, Answer, unknown>;

/** Jobs with `from <= seq < below`. */
export interface Stretch {
  from: number;
  below: number;
}

/** Finished jobs have an index by these three, in order. */
export interface Kind {
  queue: string;
  type: string;
  state: FinishedState;
}

export type Source =
  /** Everything. */
  | { by: "all" }
  | { by: "user"; user: string }
  | { by: "schedule"; schedule: string }
  | { by: "tag"; tag: string }
  /** Finished jobs of these kinds. */
  | { by: "kinds"; kinds: readonly Kind[] }
  /** Live jobs, in order. */
  | { by: "live" }
  /** Live jobs that have failed before, in order, perhaps with some that are at it again. */
  | { by: "failed" }
  /** Live jobs of some queues (null: of all), in no order: read whole, or as many as the newest `first` without a look at them. */
  | { by: "queues"; queues: readonly string[] | null; first: number | null }
  | { by: "seqs"; seqs: readonly number[] };

/** What a store is asked, and what it answers. */
export interface Answers {
  /** Kinds of finished jobs that fit a filter's states, types and queues; null if there are more than `most` to look through. */
  kinds: (filter: JobFilter, most: number) => readonly Kind[] | null;
  /** Where jobs of the filter's types and time may be, the newest first. */
  stretches: (filter: JobFilter) => readonly Stretch[];
  /** How many a source has there, counted up to `most`. */
  length: (source: Source, stretch: Stretch, most: number) => number;
  /** Where the `nth` job of a source is there; null if it has no more than that. */
  floor: (source: Source, stretch: Stretch, nth: number) => number | null;
  /** The newest of a source that fit the whole filter. */
  newest: (source: Source, stretch: Stretch, filter: JobFilter, limit: number) => readonly number[];
  /** Live jobs of the filter's queues, those of them that are of its types, and those that fit its states as well, by the store's counters. */
  liveCounts: (filter: JobFilter) => { all: number; ofTypes: number; matching: number };
  /** Live jobs of the filter's types and queues, by the index of claims for given types; null where nobody has made such claims. */
  liveOfTypes: (filter: JobFilter) => readonly number[] | null;
  /** Live jobs that fit states, types and queues, among the `most` that are due around now, where leases and retries end. */
  dueAround: (filter: JobFilter, most: number) => readonly number[];
}
export type Question = { [Name in keyof Answers]: readonly [Name, ...Parameters<Answers[Name]>] }[keyof Answers];

export interface Bounds {
  /** Jobs that one call looks at, roughly. */
  looks: number;
  /** Live jobs that are looked at, whatever the store's counters say of them. */
  few: number;
  /** Live jobs that the store can sort without a look at each. */
  sorts: number;
}

export interface Found {
  /** The newest first, one more than asked for if there are more. */
  seqs: number[];
  /** Everything from here on was looked at; null: everything. */
  floor: number | null;
}

/** Places in the order of jobs are their numbers. */
export function refuseForeignCursor({ cursor }: { cursor: string | null }): void {
  if (cursor === null || /^\d{1,16}$/.test(cursor)) return;
  throw new InvalidOptionError("cursor", "is not a cursor that list gave");
}

/** How many of what was found belong to a page of `limit`, and where the next begins. */
export function pageOf({ seqs, floor }: Found, limit: number): Skipped {
  const passed = Math.min(seqs.length, limit);
  const next = seqs.length > limit ? (seqs[limit - 1] ?? null) : floor;
  return { passed, cursor: next === null ? null : String(next) };
}

interface Part {
  source: Source;
  filter: JobFilter;
  /** It can be asked for a page without a floor. */
  bounded: boolean;
}

export const END: number = Number.MAX_SAFE_INTEGER;
const EVERYWHERE: Stretch = { from: 0, below: END };
// Each costs a look at an index for every page.
const MOST_KINDS = 1_000;
// Live jobs that do not fit, passed over where the newest are taken without a look.
const MOST_PASSED = 1_000;
// From stretch to stretch, in one call.
const MOST_STEPS = 50;
// Jobs with numbers next to each other lie next to each other: so many are looked at in the time of one that lies anywhere.
const ADJACENT = 3;
const NOTHING: Found = { seqs: [], floor: null };

function* ask<Name extends keyof Answers>(
  name: Name,
  ...args: Parameters<Answers[Name]>
): Plan<ReturnType<Answers[Name]>> {
  return (yield [name, ...args] as unknown as Question) as ReturnType<Answers[Name]>;
}

/** The jobs of a page: those that fit before the cursor, `limit` of them and one more. */
export function* findPage(given: JobFilter, limit: number, cursor: number | null, bounds: Bounds): Plan<Found> {
  const filter = plainOf(given);
  if ([filter.states, filter.types, filter.queues].some((names) => names?.length === 0)) return NOTHING;
  const stretches = yield* stretchesOf(filter, cursor ?? END);
  const [newest] = stretches;
  const oldest = stretches.at(-1);
  if (newest === undefined || oldest === undefined) return NOTHING;
  const whole = { from: oldest.from, below: newest.below };
  const parts = yield* partsOf(filter, whole, limit + 1, bounds);
  if (parts.every(({ bounded }) => bounded)) return { seqs: yield* newestOf(parts, whole, limit + 1), floor: null };

  const seqs: number[] = [];
  let { below } = newest;
  const inOrder = parts.every(({ source, bounded }) => bounded || source.by === "all" || source.by === "live");
  const looks = inOrder ? ADJACENT * bounds.looks : bounds.looks;
  let left = looks;
  // The first strides are short: most walks end there.
  let stride = Math.ceil(left / 40);
  for (const stretch of stretches) {
    below = stretch.below;
    while (below > stretch.from && left > 0) {
      const here = { from: stretch.from, below };
      const length = yield* lengthOf(parts, here, stride);
      const floor = length < stride ? null : yield* floorOf(parts, here, stride);
      below = floor ?? stretch.from;
      seqs.push(...(yield* newestOf(parts, { from: below, below: here.below }, limit + 1 - seqs.length)));
      if (seqs.length > limit) return { seqs, floor: null };
      // To go from stretch to stretch takes its time as well.
      left -= Math.max(length, Math.ceil(looks / MOST_STEPS));
      stride = Math.max(1, Math.min(9 * stride, left));
    }
    if (left <= 0) break;
  }
  return { seqs, floor: below > whole.from ? below : null };
}

/** Only what types and times tell; the rest of a filter may be anywhere. */
function* stretchesOf(filter: JobFilter, below: number): Plan<Stretch[]> {
  const told = hasTime(filter) || filter.types !== undefined;
  const known = told ? yield* ask("stretches", filter) : [EVERYWHERE];
  return known
    .map((stretch) => ({ from: stretch.from, below: Math.min(stretch.below, below) }))
    .filter((stretch) => stretch.from < stretch.below);
}

/** Each name once; every state is as good as none named. */
function plainOf(filter: JobFilter): JobFilter {
  const once = <Name>(names: readonly Name[] | undefined): Name[] | undefined => names && [...new Set(names)];
  const states = once(filter.states);
  return {
    ...filter,
    states: states?.length === STATE_NAMES.length ? undefined : states,
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
/** Users, schedules and tags have their jobs in order. */
function ownersOf({ user, schedule, tag }: JobFilter): Source[] {
  const owners: Source[] = [];
  if (user !== undefined) owners.push({ by: "user", user });
  if (schedule !== undefined) owners.push({ by: "schedule", schedule });
  if (tag !== undefined) owners.push({ by: "tag", tag });
  return owners;
}

function* partsOf(filter: JobFilter, stretch: Stretch, wanted: number, bounds: Bounds): Plan<Part[]> {
  const owners = ownersOf(filter);
  const [owner] = owners;
  if (owner === undefined) {
    if (hasKind(filter)) return yield* partsByKind(filter, stretch, wanted, bounds);
    return [{ source: { by: "all" }, filter, bounded: !hasTime(filter) }];
  }
  if (owners.length === 1 && !hasKind(filter) && !hasTime(filter)) return [{ source: owner, filter, bounded: true }];
  // Whichever is short is read whole.
  for (const source of owners) if (yield* isShort(source, stretch, bounds)) return [{ source, filter, bounded: true }];
  if (hasKind(filter)) {
    const parts = yield* partsByKind(filter, stretch, wanted, bounds);
    if (parts.every(({ bounded }) => bounded)) return parts;
  }
  return [{ source: owner, filter, bounded: false }];
}

function* isShort(source: Source, stretch: Stretch, { looks }: Bounds): Plan<boolean> {
  return (yield* ask("length", source, stretch, looks + 1)) <= looks;
}

/** Finished jobs and live ones, each where they can be found. */
function* partsByKind(filter: JobFilter, stretch: Stretch, wanted: number, bounds: Bounds): Plan<Part[]> {
  const states = filter.states ?? STATE_NAMES;
  const finished = states.filter((state) => isFinished(state));
  const live = states.filter((state) => !isFinished(state));
  const parts: Part[] = [];
  if (finished.length > 0) {
    const ofThese = { ...filter, states: finished };
    const kinds = yield* ask("kinds", ofThese, MOST_KINDS);
    if (kinds === null) return [{ source: { by: "all" }, filter, bounded: false }];
    if (kinds.length > 0) {
      const source: Source = { by: "kinds", kinds };
      const hasMore = hasTime(filter) || ownersOf(filter).length > 0;
      parts.push({ source, filter: ofThese, bounded: !hasMore || (yield* isShort(source, stretch, bounds)) });
    }
  }
  // Those that failed are asked for most, and may wait behind any number of others. Where all that wait are asked for, they
  // are among them.
  const byThemselves = live.includes("failed") && !live.includes("pending");
  if (byThemselves) {
    const source: Source = { by: "failed" };
    const bounded = yield* isShort(source, stretch, bounds);
    parts.push({ source, filter: { ...filter, states: ["failed"] }, bounded });
  }
  const rest = byThemselves ? live.filter((state) => state !== "failed") : live;
  const liveOne = rest.length === 0 ? null : yield* livePart({ ...filter, states: rest }, wanted, bounds);
  return liveOne === null ? parts : [...parts, liveOne];
}

function* livePart(filter: JobFilter, wanted: number, bounds: Bounds): Plan<Part | null> {
  const queues = filter.queues ?? null;
  const whole: Source = { by: "queues", queues, first: null };
  const most = Math.max(bounds.looks, bounds.sorts);
  const length = yield* ask("length", whole, EVERYWHERE, most + 1);
  if (length === 0) return null;
  if (length <= bounds.few) return { source: whole, filter, bounded: true };
  const { all, ofTypes, matching } = yield* ask("liveCounts", filter);
  if (matching === 0) return null;
  if (filter.types !== undefined && ofTypes <= bounds.looks) {
    const seqs = yield* ask("liveOfTypes", filter);
    if (seqs !== null) return { source: { by: "seqs", seqs }, filter, bounded: true };
  }
  if (matching <= bounds.looks) {
    const seqs = yield* ask("dueAround", filter, bounds.looks);
    if (seqs.length === matching) return { source: { by: "seqs", seqs }, filter, bounded: true };
  }
  const passed = all - matching;
  if (length <= bounds.sorts && passed <= MOST_PASSED && !hasTime(filter) && ownersOf(filter).length === 0) {
    return { source: { by: "queues", queues, first: wanted + passed }, filter, bounded: true };
  }
  if (length <= bounds.looks) return { source: whole, filter, bounded: true };
  return { source: length <= bounds.sorts ? whole : { by: "live" }, filter, bounded: false };
}

/** Where the first of those that are walked comes to the end of its stride. */
function* floorOf(parts: readonly Part[], stretch: Stretch, nth: number): Plan<number | null> {
  let highest: number | null = null;
  for (const { source, bounded } of parts) {
    const floor = bounded ? null : yield* ask("floor", source, stretch, nth);
    if (floor !== null) highest = Math.max(highest ?? 0, floor);
  }
  return highest;
}

/** What the walked ones have there. */
function* lengthOf(parts: readonly Part[], stretch: Stretch, most: number): Plan<number> {
  let length = 0;
  for (const { source, bounded } of parts) if (!bounded) length += yield* ask("length", source, stretch, most);
  return length;
}

function* newestOf(parts: readonly Part[], stretch: Stretch, limit: number): Plan<number[]> {
  const found = new Set<number>();
  for (const { source, filter } of parts)
    for (const seq of yield* ask("newest", source, stretch, filter, limit)) found.add(seq);
  return [...found].toSorted((a, b) => b - a).slice(0, limit);
}

/** Jobs by blocks of numbers: whether a block may have some that are asked for, as far as it is known. */
export interface Block {
  block: number;
  may: boolean;
}
export const BLOCK = 8_192;
/** So many types of a block are told by name. Any further ones are told together, as `ANY_TYPE`. */
export const MOST_TYPES = 64;
export const ANY_TYPE = "";
const MOST_STRETCHES = 100;

/**
 * Where jobs of some types and a time may be. Clocks are set back and old jobs are imported, so no order is taken for
 * granted: what is known of each block was written with its jobs, and a block of which nothing is known may have any.
 */
export function stretchesFrom(known: readonly Block[], first: number, last: number): Stretch[] {
  const may = new Map(known.map((each) => [each.block, each.may]));
  const found: Stretch[] = [];
  for (let block = Math.floor(last / BLOCK); block >= Math.floor(first / BLOCK); block--) {
    if (may.get(block) === false) continue;
    const before = found.at(-1);
    const from = block * BLOCK;
    if (before?.from === from + BLOCK || (before !== undefined && found.length === MOST_STRETCHES)) before.from = from;
    else found.push({ from, below: from + BLOCK });
  }
  return found;
}

/** Answers a plan's questions one by one. */
export function answered<Answer>(plan: Plan<Answer>, answers: Answers): Answer {
  let step = plan.next();
  while (step.done !== true) {
    const [name, ...args] = step.value;
    step = plan.next((answers[name] as (...args: unknown[]) => unknown)(...args));
  }
  return step.value;
}

export type LaterResults = {
  [Name in keyof Answers]: (...args: Parameters<Answers[Name]>) => Promise<ReturnType<Answers[Name]>>;
};

/** The same where each answer takes its time. */
export async function answeredLater<Answer>(plan: Plan<Answer>, answers: LaterResults): Promise<Answer> {
  let step = plan.next();
  while (step.done !== true) {
    const [name, ...args] = step.value;
    step = plan.next(await (answers[name] as (...args: unknown[]) => Promise<unknown>)(...args));
  }
  return step.value;
}
