import { LIMITS } from "../defaults.js";
import { Histogram, isCount } from "./histogram.js";

/** What happened to the jobs of one queue and type in a period. */
export interface Counted {
  queue: string;
  type: string;
  enqueued: number;
  completed: number;
  /** Attempts that failed, including those that will be retried. */
  failed: number;
  dead: number;
  cancelled: number;
  /** From the due time until the handler started. */
  wait: Histogram;
  /** How long handlers ran. */
  run: Histogram;
}

/** How many jobs of a queue waited or ran when it was sampled, and how long its oldest due job had been due. */
export interface Depth {
  queue: string;
  waiting: number;
  leased: number;
  oldestDueMs: number | null;
}

export const COUNTERS = ["enqueued", "completed", "failed", "dead", "cancelled"] as const;
export type Counter = (typeof COUNTERS)[number];

/** In place of a queue and type: those beyond the limit of a record. */
export const OTHERS = "…";
const OTHER_PAIR = { queue: OTHERS, type: OTHERS };
// The pairs of a queue and type that are counted in memory. A record has fewer: the busiest of them, which may come late.
const MAX_COUNTED_PAIRS = 3_000;
// The pairs, and the queues, that a record has at most.
const MAX_PAIRS = 300;
const MAX_DEPTHS = 300;
// The error groups that are counted in memory, and those that a record has: the ones with the most failed attempts.
const MAX_COUNTED_ERRORS = 1_000;
const MAX_ERRORS = 200;
// A character may take three bytes.
const MAX_TEXT_LENGTH = Math.floor(LIMITS.historyBytes / 3);

/** The content of a record of history: counts by queue and type, failed attempts by error group, and depths if one was sampled. */
export class Counts {
  readonly #pairs = new Map<string, Counted>();
  readonly #errors = new Map<string, number>();
  depths: readonly Depth[] | null = null;

  get isEmpty(): boolean {
    return this.#pairs.size === 0 && this.#errors.size === 0 && this.depths === null;
  }

  values(): Iterable<Counted> {
    return this.#pairs.values();
  }

  /** Failed attempts by fingerprint. */
  get errors(): ReadonlyMap<string, number> {
    return this.#errors;
  }

  addErrors(fingerprint: string, count: number): void {
    const known = this.#errors.get(fingerprint);
    if (known === undefined && this.#errors.size >= MAX_COUNTED_ERRORS) return;
    this.#errors.set(fingerprint, (known ?? 0) + count);
  }

  of(queue: string, type: string): Counted {
    const key = `${queue}\n${type}`;
    const known = this.#pairs.get(key);
    if (known !== undefined) return known;
    if (this.#pairs.size >= MAX_COUNTED_PAIRS && (queue !== OTHERS || type !== OTHERS)) return this.of(OTHERS, OTHERS);
    const counted = newCounted(queue, type);
    this.#pairs.set(key, counted);
    return counted;
  }

  /** Adds the counts of another. The depths are those of the later one. */
  merge(later: Counts): void {
    for (const from of later.values()) this.#merge(from, from);
    for (const [fingerprint, count] of later.errors) this.addErrors(fingerprint, count);
    this.depths = later.depths ?? this.depths;
  }

  #merge(from: Counted, { queue, type }: { queue: string; type: string }): void {
    const to = this.of(queue, type);
    for (const counter of COUNTERS) to[counter] += from[counter];
    to.wait.merge(from.wait);
    to.run.merge(from.run);
  }

  /** JSON of at most `MAX_PAIRS` and `LIMITS.historyBytes`: if there is more, the pairs with the fewest jobs are added up. */
  toText(): string {
    // What was added up already is not the busiest pair, however much it is.
    const busiestFirst = [...this.values()].toSorted((a, b) => rankOf(b) - rankOf(a));
    const errors = [...this.#errors].toSorted(([, a], [, b]) => b - a).slice(0, MAX_ERRORS);
    for (let kept = Math.min(busiestFirst.length, MAX_PAIRS); ; kept = Math.floor(kept * 0.8)) {
      const shown = new Counts();
      shown.depths = this.depths === null ? null : shortened(this.depths);
      for (const [fingerprint, count] of errors) shown.addErrors(fingerprint, count);
      for (const [at, counted] of busiestFirst.entries()) shown.#merge(counted, at < kept ? counted : OTHER_PAIR);
      const text = JSON.stringify(shown);
      if (text.length <= MAX_TEXT_LENGTH || kept === 0) return text;
    }
  }

  toJSON(): unknown {
    const counts = [...this.values()].map((each) => [
      each.queue,
      each.type,
      ...COUNTERS.map((counter) => each[counter]),
      each.wait,
      each.run,
    ]);
    const depths = this.depths?.map(({ queue, waiting, leased, oldestDueMs }) => [queue, waiting, leased, oldestDueMs]);
    return {
      counts,
      ...(this.#errors.size > 0 && { errors: Object.fromEntries(this.#errors) }),
      ...(depths !== undefined && { depths }),
    };
  }

  /** Reads a record. Entries that are not valid are left out, so that a damaged record does not hide the others. */
  static parse(json: string): Counts {
    const read = new Counts();
    const { counts, errors, depths } = readJson(json);
    for (const row of arrayOf(counts)) read.#add(arrayOf(row));
    for (const [fingerprint, count] of errorsOf(errors)) read.addErrors(fingerprint, count);
    if (Array.isArray(depths)) read.depths = depths.flatMap((row) => readDepth(arrayOf(row)));
    return read;
  }

  /** The failed attempts by fingerprint of a record, without reading the rest of it. */
  static parseErrors(json: string): readonly [fingerprint: string, count: number][] {
    return errorsOf(readJson(json).errors);
  }

  #add([queue, type, ...rest]: readonly unknown[]): void {
    if (typeof queue !== "string" || typeof type !== "string") return;
    const counted = this.of(queue, type);
    for (const [at, counter] of COUNTERS.entries()) {
      const count = rest[at];
      if (isCount(count)) counted[counter] += count;
    }
    counted.wait.merge(Histogram.fromJSON(rest[COUNTERS.length]));
    counted.run.merge(Histogram.fromJSON(rest[COUNTERS.length + 1]));
  }
}

function readJson(json: string): { counts?: unknown; errors?: unknown; depths?: unknown } {
  try {
    return (JSON.parse(json) ?? {}) as object;
  } catch {
    return {};
  }
}

function errorsOf(errors: unknown): [fingerprint: string, count: number][] {
  if (typeof errors !== "object" || errors === null) return [];
  return Object.entries(errors).flatMap(([name, count]) => (isCount(count) ? [[name, count]] : []));
}

export function newCounted(queue: string, type: string): Counted {
  return {
    queue,
    type,
    enqueued: 0,
    completed: 0,
    failed: 0,
    dead: 0,
    cancelled: 0,
    wait: new Histogram(),
    run: new Histogram(),
  };
}

function rankOf(counted: Counted): number {
  if (counted.queue === OTHERS && counted.type === OTHERS) return -1;
  return COUNTERS.reduce((sum, counter) => sum + counted[counter], 0);
}

/** The first ones, and the sum of the others, so that the depth of all queues stays right. */
function shortened(depths: readonly Depth[]): readonly Depth[] {
  if (depths.length <= MAX_DEPTHS) return depths;
  const rest: Depth = { queue: OTHERS, waiting: 0, leased: 0, oldestDueMs: null };
  for (const { waiting, leased, oldestDueMs } of depths.slice(MAX_DEPTHS - 1)) {
    rest.waiting += waiting;
    rest.leased += leased;
    if (oldestDueMs !== null) rest.oldestDueMs = Math.max(rest.oldestDueMs ?? 0, oldestDueMs);
  }
  return [...depths.slice(0, MAX_DEPTHS - 1), rest];
}

function readDepth([queue, waiting, leased, oldestDueMs]: readonly unknown[]): Depth[] {
  if (typeof queue !== "string" || !isCount(waiting) || !isCount(leased)) return [];
  return [{ queue, waiting, leased, oldestDueMs: isCount(oldestDueMs) ? oldestDueMs : null }];
}

function arrayOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
