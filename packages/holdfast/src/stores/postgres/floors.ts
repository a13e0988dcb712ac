/** Before and after every time a job can have. */
export const EARLIEST: number = Number.MIN_SAFE_INTEGER;
export const LATEST: number = Number.MAX_SAFE_INTEGER;

// Below this many the dead entries at the head of an index cost less than is gained by not looking at them.
const WORTH_IT = 10_000;
// Looks from the very start may take a twentieth of the time.
const SHARE = 20;
const WHOLE_EVERY_MS = 250;
const WHOLE_AT_LEAST_EVERY_MS = 1_000;

/** A lane, and the place of a job in it. */
export interface Place {
  queue: string;
  priority: number;
  /** Claims for given types walk a lane for each type. */
  type: string | null;
  dueAt: number;
  seq: number;
}

/**
 * How far claims have come in each lane. While a transaction is open somewhere, entries of claimed jobs stay at the head
 * of the index, and each claim would walk over all of them; so a claim begins where the one before it ended. A job may
 * come to lie below, if it was enqueued by a transaction that committed late: now and then a claim looks from the very
 * start, and so does the one after a claim that came back short.
 */
export class Floors {
  readonly #lanes = new Map<string, Place & { taken: number }>();
  #wholeAt = 0;

  /** From where to look, as columns; `whole`: from the very start, in every lane. */
  columns(now: number): { whole: boolean; columns: unknown[] } {
    const known = now < this.#wholeAt ? [...this.#lanes.values()].filter(({ taken }) => taken >= WORTH_IT) : [];
    return {
      whole: known.length === 0,
      columns: [
        known.map(({ queue }) => queue),
        known.map(({ priority }) => priority),
        known.map(({ type }) => type),
        known.map(({ dueAt }) => dueAt),
        known.map(({ seq }) => seq),
      ],
    };
  }

  /** A full claim that began at `begun` took these. */
  took(places: readonly Place[], begun: number, whole: boolean): void {
    if (whole) {
      const now = performance.now();
      this.#wholeAt = now + Math.min(WHOLE_AT_LEAST_EVERY_MS, Math.max(WHOLE_EVERY_MS, SHARE * (now - begun)));
    }
    for (const place of places) {
      const key = `${place.priority} ${place.queue} ${place.type ?? ""}`;
      const floor = this.#lanes.get(key);
      const taken = (floor?.taken ?? 0) + 1;
      // Two claims may be under way, and the later may have its answer first.
      const further = floor === undefined || isBefore(floor, place) ? place : floor;
      this.#lanes.set(key, { ...further, taken });
    }
  }

  clear(): void {
    this.#lanes.clear();
  }
}

function isBefore(one: Place, other: Place): boolean {
  return one.dueAt < other.dueAt || (one.dueAt === other.dueAt && one.seq < other.seq);
}
