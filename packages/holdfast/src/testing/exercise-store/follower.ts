import assert from "node:assert/strict";
import type { Clock } from "../../clock.js";
import type { State } from "../../job/state.js";
import type { Store, TransitionRecord } from "../../store.js";
import type { FakeClock } from "../clock.js";
import { pollInterval, until } from "./until.js";

interface Followed {
  store: Store;
  clock: Clock;
}

const SECOND = 1_000;
/** How long a store may take to return a transition: one on a server waits for open transactions, or finds it by polling. */
const SOON_MS = 1_000;
const LATE_MS = 30_000;
/** Polls after all expected transitions were returned, to see that no others follow. */
const EXTRA_POLLS = 3;

/** Starts recording. A store may wait until every process records, so a fake clock moves meanwhile. */
export async function recordFor({ store, clock }: Followed, forMs: number): Promise<string> {
  let isDone = false;
  const done = (): void => void (isDone = true);
  const recording = store.recordTransitions(forMs);
  recording.then(done, done);
  if (isFake(clock)) {
    await until("the beginning of the recording", async () => {
      await clock.settle();
      if (!isDone) await clock.advance(SECOND);
      return isDone;
    });
  }
  return recording;
}

/** Reads a store's transitions from a cursor on. A store may return them some seconds late. */
export class Follower {
  readonly first: string;
  readonly seen: TransitionRecord[] = [];
  readonly #followed: Followed;
  readonly #limit: number;
  #cursor: string;

  constructor(followed: Followed, cursor: string, limit = 100) {
    this.#followed = followed;
    this.#limit = limit;
    this.first = this.#cursor = cursor;
  }

  static async start(followed: Followed, forMs: number): Promise<Follower> {
    return new Follower(followed, await recordFor(followed, forMs));
  }

  /** Reads a page. Returns how many transitions it has. */
  async poll(): Promise<number> {
    const page = await this.#followed.store.transitions(this.#cursor, this.#limit);
    assert.ok(page !== null, "the cursor must not have expired");
    assert.match(page.cursor, /^[ -~]{1,1000}$/, "the cursor is printable ASCII");
    assert.ok(
      page.transitions.length === 0 || page.cursor !== this.#cursor,
      "the next page begins after the transitions of this one",
    );
    this.#cursor = page.cursor;
    this.seen.push(...page.transitions);
    return page.transitions.length;
  }

  /** Reads until it is complete, at most for some seconds without a transition, and then whether others follow. */
  async readUntil(isComplete: () => boolean): Promise<void> {
    const { store, clock } = this.#followed;
    const patienceMs = store.capabilities.synchronous ? SOON_MS : LATE_MS;
    let deadline = performance.now() + patienceMs;
    while (!isComplete() && performance.now() < deadline) {
      if ((await this.poll()) > 0) deadline = performance.now() + patienceMs;
      else if (isFake(clock)) await clock.advance(SECOND);
      else await pollInterval();
    }
    for (let polls = 0; polls < EXTRA_POLLS; polls++) await this.poll();
  }

  #read(count: number): Promise<void> {
    return this.readUntil(() => this.seen.length >= count);
  }

  /** Asserts that exactly these transitions are returned from the first cursor on, in this order for each job. */
  async assertSeen(expected: readonly TransitionRecord[]): Promise<void> {
    await this.#read(expected.length);
    assert.deepEqual(byJob(this.seen), byJob(expected));
  }

  /** Asserts that exactly these states of each job are returned from the first cursor on, in this order. */
  async assertStates(expected: ReadonlyMap<string, readonly State[]>): Promise<void> {
    await this.#read([...expected.values()].flat().length);
    const states = new Map([...byJob(this.seen)].map(([id, all]) => [id, all.map(({ to }) => to)]));
    assert.deepEqual(sorted(states), sorted(expected));
  }

  /** Asserts that the first cursor has expired, perhaps after a moment. */
  async assertExpired(): Promise<void> {
    const { store } = this.#followed;
    await until("the end of the cursor", async () => (await store.transitions(this.first, this.#limit)) === null);
  }
}

function isFake(clock: Clock): clock is FakeClock {
  return "advance" in clock;
}

function byJob(transitions: readonly TransitionRecord[]): Map<string, TransitionRecord[]> {
  const jobs = new Map<string, TransitionRecord[]>();
  for (const transition of transitions) jobs.set(transition.id, [...(jobs.get(transition.id) ?? []), transition]);
  return sorted(jobs);
}

function sorted<T>(byId: ReadonlyMap<string, T>): Map<string, T> {
  return new Map([...byId].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
