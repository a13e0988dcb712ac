import type { Clock, Timer } from "../../clock.js";
import { STALE_FINGERPRINT } from "../../job/fingerprint.js";
import { STALE_ERROR } from "../../job/state.js";
import type { ErrorGroupRecord, Outcome, Store } from "../../store.js";
import type { LeasedJob } from "../worker/decide-outcome.js";
import type { HistoryRecorder } from "../history/recorder.js";
import type { Emitter } from "./events.js";

// Failures are counted in memory and written together: a store that fails a thousand jobs a second gets one write.
const FLUSH_MS = 1_000;
// Errors whose messages all differ must not fill the store: further groups of the same second are left out.
const MAX_GROUPS = 200;
// The same for a longer time, by type: one whose messages all differ must not hide the errors of the others. Maintenance deletes the
// oldest groups about as often.
const MAX_GROUPS_OF_TYPE = 100;
const GROUPS_OF_TYPE_MS = 300_000;

interface ErrorGroupParts {
  store: Pick<Store, "recordErrors">;
  clock: Clock;
  events: Emitter;
  history: Pick<HistoryRecorder, "failedWith">;
}

/**
 * Counts failed attempts by fingerprint, and writes the counts about once a second. A process that is killed loses the counts of
 * its last second; the jobs themselves have their fingerprints.
 */
export class ErrorGroups {
  readonly #parts: ErrorGroupParts;
  #groups = new Map<string, ErrorGroupRecord>();
  /** The fingerprints that were counted since a time, by type. */
  #counted = new Map<string | null, Set<string>>();
  #countedSince = Number.NEGATIVE_INFINITY;
  #timer: Timer | null = null;
  #writing: Promise<void> = Promise.resolve();
  #isFailing = false;

  constructor(parts: ErrorGroupParts) {
    this.#parts = parts;
  }

  /** An attempt failed, and the store has recorded its outcome. */
  record({ job, fingerprint }: LeasedJob, { error }: Outcome): void {
    if (fingerprint === null || error === null) return;
    const { id, ...parts } = fingerprint;
    this.#parts.history.failedWith(id);
    this.#add({ fingerprint: id, type: job.type, ...parts, job: job.id, example: error.message, ...this.#once() });
  }

  /** A lease expired. */
  recordStale(job: string): void {
    const { message, code } = STALE_ERROR;
    this.#parts.history.failedWith(STALE_FINGERPRINT);
    const group = { fingerprint: STALE_FINGERPRINT, type: null, name: null, code, message, frame: null };
    this.#add({ ...group, job, example: message, ...this.#once() });
  }

  /** Writes the counts so far. */
  flush(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  #once(): Pick<ErrorGroupRecord, "count" | "firstAt" | "lastAt"> {
    const now = this.#parts.clock.now();
    return { count: 1, firstAt: now, lastAt: now };
  }

  #add(group: ErrorGroupRecord): void {
    const known = this.#groups.get(group.fingerprint);
    if (known === undefined && (this.#groups.size >= MAX_GROUPS || !this.#mayCount(group))) return;
    this.#groups.set(group.fingerprint, known === undefined ? group : sum(known, group));
    this.#timer ??= this.#parts.clock.after(FLUSH_MS, () => void this.flush(), { background: true });
  }

  /** Whether a group is among the first ones of its type in this time. */
  #mayCount({ type, fingerprint }: ErrorGroupRecord): boolean {
    const now = this.#parts.clock.monotonic();
    if (now - this.#countedSince >= GROUPS_OF_TYPE_MS) {
      this.#counted = new Map();
      this.#countedSince = now;
    }
    let ofType = this.#counted.get(type);
    if (ofType === undefined) this.#counted.set(type, (ofType = new Set()));
    if (ofType.size < MAX_GROUPS_OF_TYPE) ofType.add(fingerprint);
    return ofType.has(fingerprint);
  }

  async #write(): Promise<void> {
    if (this.#groups.size === 0) return;
    const { store, events } = this.#parts;
    const groups = [...this.#groups.values()];
    this.#groups = new Map();
    try {
      await store.recordErrors(groups);
    } catch (error) {
      // Tried again with the next failure, or after a second.
      for (const group of groups) this.#add(group);
      if (!this.#isFailing) events.emit("outage", { doing: "error groups", error });
      this.#isFailing = true;
      return;
    }
    if (this.#isFailing) events.emit("outageEnded", { doing: "error groups" });
    this.#isFailing = false;
  }
}

function sum(one: ErrorGroupRecord, other: ErrorGroupRecord): ErrorGroupRecord {
  const [earlier, later] = one.lastAt <= other.lastAt ? [one, other] : [other, one];
  return { ...later, count: one.count + other.count, firstAt: Math.min(earlier.firstAt, later.firstAt) };
}
