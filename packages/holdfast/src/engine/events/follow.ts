import { LIMITS } from "../../defaults.js";
import { dateOf } from "../../duration.js";
import { InvalidOptionError, TooManyFollowersError } from "../../errors.js";
import { isState, STATE_NAMES, type State } from "../../job/state.js";
import { optionKeys, readName, readQueue, refuseUnknown, show } from "../../options.js";
import type { TransitionRecord } from "../../store.js";
import type { EngineContext } from "../context.js";

/** What `hf.follow` takes. Without conditions it follows all jobs. */
export interface FollowOptions {
  types?: readonly string[];
  queues?: readonly string[];
  /** Only transitions to these states. */
  states?: readonly State[];
  /** Continues after a transition: its `cursor`. Valid for 10 minutes. */
  cursor?: string;
  /** Ends the iterator. */
  signal?: AbortSignal;
}

/** A job changed its state, in any process. */
export interface Transition {
  id: string;
  type: string;
  queue: string;
  /** The new state. A new job is `pending`. */
  to: State;
  at: Date;
  /** Continues here: `hf.follow({ cursor })` may repeat up to 2,000 transitions, and misses none. */
  cursor: string;
}

/** Transitions of all processes. `for await` ends it when the loop is left. */
export type Followed = AsyncGenerator<Transition, void, undefined>;

const FOLLOW_KEYS: ReadonlySet<string> = optionKeys<FollowOptions>({
  types: true,
  queues: true,
  states: true,
  cursor: true,
  signal: true,
});
/** Distinguishes these cursors from those of lists. */
const LABEL = "follow:";
const MAX_NAMES = 1_000;
const MAX_CURSOR_LENGTH = 4_000;

interface ReadOptions {
  cursor: string | null;
  matches: (transition: TransitionRecord) => boolean;
  signal: AbortSignal | undefined;
}

interface Pace {
  /** A read every second or two is enough, also after hints; for a follower that shows changes to people. */
  isCalm?: boolean;
}

/** Reads the options at once, so that a mistake throws where `hf.follow` is called. */
export function follow(engine: EngineContext, options: FollowOptions, pace: Pace = {}): Followed {
  const { signal: given, ...read } = readOptions(options);
  const ended = new AbortController();
  const signal = given === undefined ? ended.signal : AbortSignal.any([given, ended.signal]);
  const transitions = followed(engine, read, signal, pace);
  // A generator that waits would return only after the next transition.
  const returnNow = transitions.return.bind(transitions);
  transitions.return = (value) => {
    ended.abort();
    return returnNow(value);
  };
  return transitions;
}

async function* followed(
  engine: EngineContext,
  { cursor, matches }: Omit<ReadOptions, "signal">,
  signal: AbortSignal,
  pace: Pace,
): Followed {
  const { transitions: reader } = engine;
  if (reader.followers >= LIMITS.followers) throw new TooManyFollowersError(LIMITS.followers);
  reader.join(pace);
  try {
    let position = cursor === null ? await reader.start() : await positionOf(engine, cursor);
    let shown = await showCursor(engine, position);
    while (!signal.aborted && !reader.closed) {
      const page = await reader.next(position, signal);
      position = page.cursor;
      const next = await showCursor(engine, position);
      const found = page.transitions.filter(matches);
      for (const [index, transition] of found.entries()) {
        // Only after the last one is everything of the page delivered.
        yield transitionOf(transition, index === found.length - 1 ? next : shown);
        if (signal.aborted) return;
      }
      shown = next;
    }
  } catch (error) {
    // A read that fails because the store is closed, or during an outage, must not hide that this was asked for.
    if (!signal.aborted && !reader.closed) throw error;
  } finally {
    reader.leave(pace);
  }
}

export function transitionOf({ id, type, queue, to, at }: TransitionRecord, cursor: string): Transition {
  return { id, type, queue, to, at: dateOf(at), cursor };
}

/** A position in the store, as callers see it. */
export function showCursor({ cursors }: Pick<EngineContext, "cursors">, position: string): Promise<string> {
  return cursors.encrypt(`${LABEL}${position}`);
}

async function positionOf({ cursors }: Pick<EngineContext, "cursors">, cursor: string): Promise<string> {
  const position = await cursors.decrypt(cursor);
  if (position.startsWith(LABEL)) return position.slice(LABEL.length);
  throw new InvalidOptionError("cursor", "is not a cursor of hf.follow()");
}

/** The options, with the position of the cursor. */
export async function readFollowOptions(
  engine: EngineContext,
  options: FollowOptions,
): Promise<{ position: string | null; matches: ReadOptions["matches"] }> {
  const { cursor, matches } = readOptions(options);
  return { position: cursor === null ? null : await positionOf(engine, cursor), matches };
}

function readOptions(options: FollowOptions): ReadOptions {
  refuseUnknown(options, FOLLOW_KEYS, "follow");
  const { cursor, signal } = options;
  const types = readNames(options.types, "types", (name, field) => readName(name, field, LIMITS.typeLength));
  const queues = readNames(options.queues, "queues", (name, field) => readQueue(name, field));
  const states = readNames(options.states, "states", readState);
  if (cursor !== undefined && (typeof cursor !== "string" || cursor.length > MAX_CURSOR_LENGTH)) {
    throw new InvalidOptionError("cursor", "is not a cursor of hf.follow()");
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new InvalidOptionError("signal", `${show(signal)} is not an AbortSignal`);
  }
  const matches = ({ type, queue, to }: TransitionRecord): boolean =>
    (types?.has(type) ?? true) && (queues?.has(queue) ?? true) && (states?.has(to) ?? true);
  return { cursor: cursor ?? null, matches, signal };
}

function readNames<Name extends string>(
  names: readonly unknown[] | undefined,
  field: string,
  read: (name: unknown, field: string) => Name,
): ReadonlySet<string> | null {
  if (names === undefined) return null;
  if (!Array.isArray(names) || names.length === 0 || names.length > MAX_NAMES) {
    throw new InvalidOptionError(field, `must be an array of 1 to ${MAX_NAMES} names`);
  }
  return new Set(names.map((name, index) => read(name, `${field}.${index}`)));
}

function readState(value: unknown, field: string): State {
  if (!isState(value)) throw new InvalidOptionError(field, `${show(value)} is none of ${STATE_NAMES.join(", ")}`);
  return value;
}
