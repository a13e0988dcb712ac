import { CursorExpiredError } from "../../errors.js";
import { readCount } from "../../options.js";
import type { EngineContext } from "../context.js";
import { readFollowOptions, showCursor, transitionOf, type FollowOptions, type Transition } from "./follow.js";
import { RECORD_MS } from "./transition-reader.js";

/** One page of transitions, for callers that ask again and again instead of waiting. */
export interface TransitionList {
  transitions: Transition[];
  /** Where the next page begins. Valid for 10 minutes. */
  cursor: string;
}

const MAX_LIMIT = 1_000;
const RECORD_AGAIN_MS = 20_000;
// Read by one call until one has a match: a caller that polls for rare transitions of a busy store must not fall behind.
const MAX_PAGES = 20;
const METERED_MAX_PAGES = 2;

/** When each client has last prolonged the recording of transitions, as monotonic time. */
const recordedAt = new WeakMap<object, number>();

/**
 * The transitions after a cursor; without one, none yet, and the cursor to begin with. Recording continues for 10 minutes after
 * each call.
 */
export async function readTransitions(
  engine: EngineContext,
  { limit = 200, ...options }: Omit<FollowOptions, "signal"> & { limit?: number | undefined },
): Promise<TransitionList> {
  const { store, clock } = engine;
  const maxItems = readCount(limit, "limit", 1, MAX_LIMIT);
  const { position, matches } = await readFollowOptions(engine, options);
  if (position === null) {
    const cursor = await store.recordTransitions(RECORD_MS);
    recordedAt.set(store, clock.monotonic());
    return { transitions: [], cursor: await showCursor(engine, cursor) };
  }
  if (clock.monotonic() - (recordedAt.get(store) ?? Number.NEGATIVE_INFINITY) >= RECORD_AGAIN_MS) {
    // Read first: if recording had lapsed, prolonging it would hide that the cursor has expired.
    if ((await store.transitions(position, 1)) === null) throw new CursorExpiredError();
    await store.recordTransitions(RECORD_MS);
    recordedAt.set(store, clock.monotonic());
  }
  const maxPages = store.capabilities.metered ? METERED_MAX_PAGES : MAX_PAGES;
  let after = position;
  for (let pages = 1; ; pages++) {
    const page = await store.transitions(after, maxItems);
    if (page === null) throw new CursorExpiredError();
    after = page.cursor;
    const found = page.transitions.filter(matches);
    if (found.length === 0 && page.transitions.length >= maxItems && pages < maxPages) continue;
    const cursor = await showCursor(engine, after);
    return { transitions: found.map((each) => transitionOf(each, cursor)), cursor };
  }
}
