import { DEFAULTS } from "../../defaults.js";
import { CursorExpiredError, isOutage } from "../../errors.js";
import type { TransitionPage } from "../../store.js";
import type { EngineContext } from "../context.js";
import { TRANSITIONS_KEPT_MS } from "../history/roll-up.js";

type Parts = Pick<EngineContext, "store" | "clock" | "events">;

// A read costs as much as 1,000 of its transitions.
const PAGE = 2_000;
// Transitions are read this soon after a hint, so that those of one burst are read together.
const HINT_DELAY_MS = 100;
const MAX_RETRY_MS = 5_000;
// Reads at a time. Followers at hundreds of different cursors must not take the connections of workers.
const MAX_READS = 3;
// The pause between reads while all followers are calm: as long as nothing changes, and on a store where jobs change.
const CALM_MS = { quiet: 1_000, busy: 2_000 } as const;
const REFRESH_MS = 20_000;
/**
 * Recording continues this long after the last refresh: cursors are valid as long as transitions are kept, also if their follower was
 * the only one and restarts.
 */
export const RECORD_MS: number = TRANSITIONS_KEPT_MS + REFRESH_MS;
// A new follower starts where the others are, unless they have not read for this long.
const MAX_START_AGE_MS = 3_000;

/** To read transitions, or to prolong their recording. */
type FollowCall = "read" | "record";

/** The next page after a cursor. */
interface Read {
  page: Promise<TransitionPage>;
  /** How many wait for it. */
  followers: number;
  /** Ends its pause, while there is one. */
  end: (() => void) | null;
}

/**
 * Reads transitions for all followers of a client. Followers at the same cursor share each read, so that any number of them costs
 * as much as one; those that resumed at their own cursor poll less often, the more of them there are. While there is a follower,
 * recording is prolonged every 20 s.
 */
export class TransitionReader {
  readonly #parts: Parts;
  /** The next pages, by cursor. */
  readonly #reads = new Map<string, Read>();
  #reading = 0;
  /** Reads that wait until another has ended. */
  readonly #queued: (() => void)[] = [];
  #followers = 0;
  /** How many of them are content with a read every second or two. */
  #calm = 0;
  /** Where a new follower starts: the cursor of the newest read, and its monotonic time. */
  #newest: { cursor: string; at: number } | null = null;
  #starting: Promise<string> | null = null;
  #refreshTimer: { cancel(): void } | null = null;
  /** When recording was last prolonged, as monotonic time. */
  #recordedAt = Number.NEGATIVE_INFINITY;
  /** The calls that fail at present. */
  readonly #failing = new Set<FollowCall>();
  #stopListening: (() => void) | null = null;
  /** The cursor of the last page that was not full: there is probably nothing after it yet. */
  #end: string | null = null;
  readonly #wakers = new Set<() => void>();
  #isWakeScheduled = false;
  #closed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** After that, followers end. */
  get closed(): boolean {
    return this.#closed;
  }
  get followers(): number {
    return this.#followers;
  }

  /** All are content with a read every second or two, whatever happens in between. */
  get #isCalm(): boolean {
    return this.#calm === this.#followers;
  }

  /** Call it once for each follower, and `leave` once when it ends. While all are calm, there is a read per second at most. */
  join({ isCalm = false }: { isCalm?: boolean } = {}): void {
    const wasCalm = this.#isCalm;
    this.#followers++;
    if (isCalm) this.#calm++;
    this.#updateListening();
    if (this.#followers === 1) this.#refreshLater();
    // A long pause may be in progress.
    else if (wasCalm && !isCalm) this.#wake(0);
  }

  leave({ isCalm = false }: { isCalm?: boolean } = {}): void {
    this.#followers--;
    if (isCalm) this.#calm--;
    this.#updateListening();
    if (this.#followers > 0) return;
    this.#refreshTimer?.cancel();
    this.#newest = null;
    this.#end = null;
    this.#starting = null;
    this.#reads.clear();
    this.#wake(0);
  }

  close(): void {
    this.#closed = true;
    this.#refreshTimer?.cancel();
    this.#wake(0);
  }

  /** Calm followers wait for no hints. To receive them costs SQLite hundreds of small reads a second, and PostgreSQL a connection. */
  #updateListening(): void {
    if (!this.#isCalm) {
      this.#stopListening ??= this.#parts.store.listen(() => this.#wake(HINT_DELAY_MS));
      return;
    }
    this.#stopListening?.();
    this.#stopListening = null;
  }

  /** The cursor of a new follower. */
  start(): Promise<string> {
    const { clock } = this.#parts;
    if (this.#newest !== null && clock.monotonic() - this.#newest.at <= MAX_START_AGE_MS) {
      return Promise.resolve(this.#newest.cursor);
    }
    const forget = (): void => void (this.#starting = null);
    this.#starting ??= this.#record().then((cursor) => this.#setNewest(cursor));
    this.#starting.then(forget, forget);
    return this.#starting;
  }

  /** The next transitions after a cursor; waits for them. Throws `CursorExpiredError`. */
  async next(cursor: string, signal: AbortSignal): Promise<TransitionPage> {
    const read = this.#reads.get(cursor) ?? this.#begin(cursor);
    read.followers++;
    try {
      return await untilAborted(read.page, signal);
    } finally {
      // The last one has left: it would otherwise poll until the next transition.
      if (--read.followers === 0) read.end?.();
    }
  }

  #begin(cursor: string): Read {
    const read: Read = { page: Promise.resolve({ transitions: [], cursor }), followers: 0, end: null };
    this.#reads.set(cursor, read);
    const forget = (): void => {
      if (this.#reads.get(cursor) === read) this.#reads.delete(cursor);
    };
    read.page = this.#read(cursor, read);
    read.page.then(forget, forget);
    return read;
  }

  #setNewest(cursor: string): string {
    this.#newest = { cursor, at: this.#parts.clock.monotonic() };
    return cursor;
  }

  async #read(from: string, read: Read): Promise<TransitionPage> {
    const isNewest = from === this.#newest?.cursor;
    let cursor = from;
    // Without the pause, a busy store would be read all the time, a few transitions at a time.
    if (from === this.#end) {
      await this.#pause(0, read, "busy");
      if (read.followers === 0) return { transitions: [], cursor };
    }
    for (let failures = 0; ;) {
      try {
        const page = await this.#page(cursor);
        failures = 0;
        this.#succeeded("read");
        if (page === null) throw new CursorExpiredError();
        // A follower that resumed at its cursor. Not before the read: if recording had ended, prolonging it would hide that.
        if (this.#parts.clock.monotonic() - this.#recordedAt > 2 * REFRESH_MS) await this.#refresh();
        if (isNewest) this.#setNewest(page.cursor);
        if (page.transitions.length < PAGE) this.#end = page.cursor;
        if (page.transitions.length > 0 || read.followers === 0 || this.#closed) return page;
        cursor = page.cursor;
      } catch (error) {
        if (!isOutage(error) || read.followers === 0 || this.#closed) throw error;
        failures++;
        this.#failed("read", error);
      }
      await this.#pause(failures, read, "quiet");
      if (read.followers === 0) return { transitions: [], cursor };
    }
  }

  async #page(cursor: string): Promise<TransitionPage | null> {
    if (this.#reading >= MAX_READS) await new Promise<void>((resolve) => void this.#queued.push(resolve));
    else this.#reading++;
    try {
      return await this.#parts.store.transitions(cursor, PAGE);
    } finally {
      // The next one takes its place.
      const next = this.#queued.shift();
      if (next === undefined) this.#reading--;
      else next();
    }
  }

  /** Waits for a hint or the poll interval. `busy`: the last page had transitions. */
  #pause(failures: number, read: Read, pace: keyof typeof CALM_MS): Promise<void> {
    const { capabilities } = this.#parts.store;
    const shortestMs = capabilities.metered ? 2 * DEFAULTS.pollMs : DEFAULTS.pollMs / 4;
    const calmMs = capabilities.metered ? 2 * CALM_MS[pace] : CALM_MS[pace];
    const pollMs = this.#isCalm ? Math.max(shortestMs, calmMs) : shortestMs;
    // Each read of followers at different cursors is one request.
    const spreadMs = Math.max(pollMs, this.#reads.size * 20);
    const delayMs = failures === 0 ? spreadMs : Math.min(pollMs * 2 ** failures, MAX_RETRY_MS);
    return new Promise((resolve) => {
      const done = (): void => {
        this.#wakers.delete(done);
        read.end = null;
        timer.cancel();
        resolve();
      };
      // Not in the background: a program that only follows jobs must not end.
      const timer = this.#parts.clock.after(delayMs, done);
      read.end = done;
      if (failures === 0 && this.#reads.size <= 2) this.#wakers.add(done);
    });
  }

  #wake(delayMs: number): void {
    const wake = (): void => {
      this.#isWakeScheduled = false;
      for (const waker of this.#wakers) waker();
    };
    if (delayMs === 0) wake();
    else if (this.#wakers.size > 0 && !this.#isWakeScheduled) {
      this.#isWakeScheduled = true;
      this.#parts.clock.after(delayMs, wake, { background: true });
    }
  }

  #refreshLater(): void {
    const refresh = (): void => {
      void this.#refresh().then(() => {
        if (this.#followers > 0 && !this.#closed) this.#refreshLater();
      });
    };
    this.#refreshTimer = this.#parts.clock.after(REFRESH_MS, refresh, { background: true });
  }

  async #record(): Promise<string> {
    const cursor = await this.#parts.store.recordTransitions(RECORD_MS);
    this.#recordedAt = this.#parts.clock.monotonic();
    return cursor;
  }

  /** Prolongs recording. An error is reported: recording continues for minutes, and the next refresh is soon. */
  async #refresh(): Promise<void> {
    try {
      await this.#record();
      this.#succeeded("record");
    } catch (error) {
      this.#failed("record", error);
    }
  }

  /** Reports the beginning of an outage. */
  #failed(call: FollowCall, error: unknown): void {
    const isNew = this.#failing.size === 0;
    this.#failing.add(call);
    if (isNew && !this.#closed) this.#parts.events.emit("outage", { doing: "follow", error });
  }

  /** Reports the end of an outage, when no call fails any more. */
  #succeeded(call: FollowCall): void {
    const hasEnded = this.#failing.delete(call) && this.#failing.size === 0;
    if (hasEnded && !this.#closed) this.#parts.events.emit("outageEnded", { doing: "follow" });
  }
}

/** Rejects with the signal's reason when it aborts; the work itself continues for others. */
function untilAborted<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  if (signal.aborted) return Promise.reject(signal.reason as Error);
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
