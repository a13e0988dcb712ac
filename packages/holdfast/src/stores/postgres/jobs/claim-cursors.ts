import type { ClaimRequest } from "../../../store.js";

/** Before and after every time a job can have. */
export const EARLIEST: number = Number.MIN_SAFE_INTEGER;
export const LATEST: number = Number.MAX_SAFE_INTEGER;

// Below this many the dead entries at the head of an index cost less than is gained by not looking at them.
const WORTH_IT = 10_000;
// Looks from the very start may take a twentieth of the time, but there is always one in so long.
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

/** How far claims have come in a lane. */
interface Floor extends Readonly<Place> {
  readonly taken: number;
  /** The furthest place that a job was taken from. */
  readonly top: Place;
  /** When to look at the lane from the very start again. */
  readonly wholeAt: number;
}

type Lanes = Pick<ClaimRequest, "queues" | "types">;

/** From where a claim looks. */
export interface Look {
  lanes: Lanes;
  begunAt: number;
  /** From the very start in every lane. */
  whole: boolean;
  /** The lanes that it looks at from a floor, column by column. */
  columns: unknown[];
  /** Those lanes. */
  fromFloor: ReadonlySet<string>;
  /** Every floor as it was when it began. */
  before: ReadonlyMap<string, Place>;
}

/**
 * How far claims have come in each lane. While a transaction is open somewhere, entries of claimed jobs stay at the head
 * of the index, and each claim would walk over all of them; so a claim begins where the one before it ended. A job may
 * come to lie below, if it was enqueued by a transaction that committed late: now and then a claim looks from the very
 * start, and so does the one after a claim that came back short.
 */
export class Floors {
  readonly #lanes = new Map<string, Floor>();

  look(lanes: Lanes, now: number): Look {
    const known = [...this.#lanes].filter(([, floor]) => floor.taken >= WORTH_IT && isOf(lanes, floor));
    // All of a priority at once: the time that a look may take is that of the whole claim, and not of each lane.
    const due = new Set(known.filter(([, { wholeAt }]) => wholeAt <= now).map(([, { priority }]) => priority));
    const from = known.filter(([, { priority }]) => !due.has(priority));
    const column = <Value>(of: (floor: Floor) => Value): Value[] => from.map(([, floor]) => of(floor));
    return {
      lanes,
      begunAt: now,
      whole: from.length === 0,
      columns: [
        column(({ queue }) => queue),
        column(({ priority }) => priority),
        column(({ type }) => type),
        column(({ dueAt }) => dueAt),
        column(({ seq }) => seq),
      ],
      fromFloor: new Set(from.map(([key]) => key)),
      before: new Map(this.#lanes),
    };
  }

  /** A full claim took these, in their order: from the highest priority down, and the first due first. */
  took(look: Look, places: readonly Place[], now: number): void {
    const last = places.at(-1);
    if (last === undefined) return;
    for (const [key, { place, count }] of endsOf(places)) {
      const floor = this.#lanes.get(key) ?? { ...place, taken: 0, top: place, wholeAt: 0 };
      const top = isBefore(floor.top, place) ? place : floor.top;
      this.#lanes.set(key, { ...floor, taken: floor.taken + count, top });
    }
    const restMs = Math.min(WHOLE_AT_LEAST_EVERY_MS, Math.max(WHOLE_EVERY_MS, SHARE * (now - look.begunAt)));
    for (const [key, floor] of this.#lanes) {
      // Of what is below the last job's priority it has seen nothing.
      const isSeen = isOf(look.lanes, floor) && floor.priority >= last.priority;
      if (!isSeen || this.#wentDown(look, key)) continue;
      // Lanes of that priority it has seen as far as that job, and those above to their ends. If that is not as far as
      // the floor was, there may be more below. Otherwise two claims may be under way, and the later answered first.
      const end = floor.priority === last.priority ? last : floor.top;
      const fromStart = !look.fromFloor.has(key);
      const before = look.before.get(key);
      const isLower = fromStart && before !== undefined && end === last && isBefore(last, before);
      const { dueAt, seq } = isLower || isBefore(floor, end) ? end : floor;
      this.#lanes.set(key, { ...floor, dueAt, seq, wholeAt: fromStart ? now + restMs : floor.wholeAt });
    }
  }

  /** A claim of these lanes came back short. */
  clear(lanes: Lanes): void {
    for (const [key, floor] of this.#lanes) if (isOf(lanes, floor)) this.#lanes.delete(key);
  }

  /** Since the look began another has found that there is more below: what this one took says nothing of that. */
  #wentDown({ before }: Look, key: string): boolean {
    const [then, now] = [before.get(key), this.#lanes.get(key)];
    return then !== undefined && now !== undefined && isBefore(now, then);
  }
}

// PostgreSQL has no text with this character in it.
const BETWEEN = "\0";

function keyOf({ priority, queue, type }: Place): string {
  return `${priority}${BETWEEN}${queue}${BETWEEN}${type ?? ""}`;
}

function isOf({ queues, types }: Lanes, { queue, type }: Place): boolean {
  return (queues === null || queues.includes(queue)) && (types === null || type === null || types.includes(type));
}

/** The last place of each lane, and how many there are of it. */
function endsOf(places: readonly Place[]): Map<string, { place: Place; count: number }> {
  const ends = new Map<string, { place: Place; count: number }>();
  for (const place of places) {
    const key = keyOf(place);
    ends.set(key, { place, count: (ends.get(key)?.count ?? 0) + 1 });
  }
  return ends;
}

function isBefore(one: Place, other: Place): boolean {
  return one.dueAt < other.dueAt || (one.dueAt === other.dueAt && one.seq < other.seq);
}
