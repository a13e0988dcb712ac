import type { ClaimRequest } from "../../../store.js";

/** Before and after every time that a job can have. */
export const EARLIEST: number = Number.MIN_SAFE_INTEGER;
export const LATEST: number = Number.MAX_SAFE_INTEGER;

// With fewer claimed jobs, skipping their index entries saves less than the cursor costs.
const MIN_CLAIMED = 10_000;
// Full scans may take one twentieth of the time, but run at least once a second and at most four times.
const FULL_SCAN_SHARE = 20;
const FULL_SCAN_MIN_MS = 250;
const FULL_SCAN_MAX_MS = 1_000;

/** A lane, and the position of a job in it. */
export interface Position {
  queue: string;
  priority: number;
  /** Claims for given types scan each lane once per type. */
  type: string | null;
  dueAt: number;
  seq: number;
}

/** Where claims of a lane resume: at its `dueAt` and `seq`. */
interface Cursor extends Readonly<Position> {
  /** Jobs claimed so far. */
  readonly claimed: number;
  /** The last position, in the order of the index, from which a job was claimed. */
  readonly furthest: Position;
  /** When to scan the lane from the start again. */
  readonly fullScanAt: number;
}

type ClaimTarget = Pick<ClaimRequest, "queues" | "types">;

/** Where one claim starts in each lane. */
export interface Scan {
  lanes: ClaimTarget;
  startedAt: number;
  /** No lane is resumed: every lane is scanned from the start. */
  isFull: boolean;
  /** The cursors of the resumed lanes, one array for each column. */
  columns: unknown[];
  /** The resumed lanes. */
  resumed: ReadonlySet<string>;
  /** All cursors when the scan started. */
  before: ReadonlyMap<string, Position>;
}

/**
 * Where the claims of each lane resume.
 *
 * PostgreSQL keeps the index entries of claimed jobs while any transaction is older than the claim, for example a
 * backup. They are at the head of the index, and every claim would scan over all of them: after 100,000 jobs a claim
 * cost 15 % more, and growing (decision 0005). So a claim resumes where the previous one ended.
 *
 * A job can appear before the cursor: its transaction committed late, or its `runAt` is earlier. Two rules find it.
 * Each lane is scanned from the start at least once a second, and a claim that returns fewer jobs than requested is
 * followed by a full scan.
 */
export class ClaimCursors {
  readonly #cursors = new Map<string, Cursor>();

  startScan(lanes: ClaimTarget, now: number): Scan {
    const usable = [...this.#cursors].filter(([, cursor]) => cursor.claimed >= MIN_CLAIMED && includes(lanes, cursor));
    // All lanes of a priority together: the time limit of full scans applies to the claim, not to each lane.
    const full = new Set(usable.filter(([, { fullScanAt }]) => fullScanAt <= now).map(([, { priority }]) => priority));
    const resumed = usable.filter(([, { priority }]) => !full.has(priority));
    const column = <Value>(of: (cursor: Cursor) => Value): Value[] => resumed.map(([, cursor]) => of(cursor));
    return {
      lanes,
      startedAt: now,
      isFull: resumed.length === 0,
      columns: [
        column(({ queue }) => queue),
        column(({ priority }) => priority),
        column(({ type }) => type),
        column(({ dueAt }) => dueAt),
        column(({ seq }) => seq),
      ],
      resumed: new Set(resumed.map(([lane]) => lane)),
      before: new Map(this.#cursors),
    };
  }

  /** A full claim took the jobs at these positions, which are in order: highest priority first, then earliest due. */
  advance(scan: Scan, positions: readonly Position[], now: number): void {
    const last = positions.at(-1);
    if (last === undefined) return;
    for (const [lane, { position, count }] of lastInEachLane(positions)) {
      const cursor = this.#cursors.get(lane) ?? { ...position, claimed: 0, furthest: position, fullScanAt: 0 };
      const furthest = isBefore(cursor.furthest, position) ? position : cursor.furthest;
      this.#cursors.set(lane, { ...cursor, claimed: cursor.claimed + count, furthest });
    }
    const pauseMs = Math.min(FULL_SCAN_MAX_MS, Math.max(FULL_SCAN_MIN_MS, FULL_SCAN_SHARE * (now - scan.startedAt)));
    for (const [lane, cursor] of this.#cursors) {
      // The claim was full before it reached lower priorities.
      const wasScanned = includes(scan.lanes, cursor) && cursor.priority >= last.priority;
      if (!wasScanned || this.#movedBack(scan, lane)) continue;
      // Lanes of the last job's priority were scanned up to that job, and lanes above it to their ends.
      const end = cursor.priority === last.priority ? last : cursor.furthest;
      const fromStart = !scan.resumed.has(lane);
      const before = scan.before.get(lane);
      // A full scan that ended before the old cursor found late jobs, and there may be more: continue from there. In
      // all other cases the cursor only moves forward: of two concurrent claims, the later one may return first.
      const moveBack = fromStart && before !== undefined && end === last && isBefore(last, before);
      const { dueAt, seq } = moveBack || isBefore(cursor, end) ? end : cursor;
      this.#cursors.set(lane, { ...cursor, dueAt, seq, fullScanAt: fromStart ? now + pauseMs : cursor.fullScanAt });
    }
  }

  /** A claim of these lanes returned fewer jobs than requested: the next one scans them from the start. */
  reset(lanes: ClaimTarget): void {
    for (const [lane, cursor] of this.#cursors) if (includes(lanes, cursor)) this.#cursors.delete(lane);
  }

  /**
   * Another claim moved the cursor back after this scan started. The scan did not see the jobs there, so it must not
   * move it forward.
   */
  #movedBack({ before }: Scan, lane: string): boolean {
    const [then, now] = [before.get(lane), this.#cursors.get(lane)];
    return then !== undefined && now !== undefined && isBefore(now, then);
  }
}

// No string in PostgreSQL contains this character.
const SEPARATOR = "\0";

function laneOf({ priority, queue, type }: Position): string {
  return `${priority}${SEPARATOR}${queue}${SEPARATOR}${type ?? ""}`;
}

function includes({ queues, types }: ClaimTarget, { queue, type }: Position): boolean {
  return (queues === null || queues.includes(queue)) && (types === null || type === null || types.includes(type));
}

/** The last position in each lane, and the number of positions in it. */
function lastInEachLane(positions: readonly Position[]): Map<string, { position: Position; count: number }> {
  const ends = new Map<string, { position: Position; count: number }>();
  for (const position of positions) {
    const lane = laneOf(position);
    ends.set(lane, { position, count: (ends.get(lane)?.count ?? 0) + 1 });
  }
  return ends;
}

function isBefore(one: Position, other: Position): boolean {
  return one.dueAt < other.dueAt || (one.dueAt === other.dueAt && one.seq < other.seq);
}
