import type { State } from "../../../job/state.js";
import type { TransitionPage } from "../../../store.js";
import type { SharedConfig } from "../connection/config.js";
import type { Streams } from "../connection/streams.js";
import type { Table } from "../connection/table.js";
import { readCursor } from "./cursor.js";
import { RecordedTransitions } from "./recorded-transitions.js";
import { isStreamCursor, readStreamCursor } from "./stream/stream-cursor.js";
import { StreamTransitions } from "./stream/stream-transitions.js";
import { TableStream } from "./stream/table-stream.js";
import type { ChangedJob, TransitionLog } from "./transition-log.js";

interface Parts {
  config: SharedConfig;
  /** DynamoDB's time. */
  time: () => number;
  /** False under a test clock. */
  isLive: boolean;
  /** Aborted when the store closes. */
  closing: AbortSignal;
  /** Null: the stream is not read. */
  streams: Streams | null;
}

// A batch is read this long after its transitions at the latest; see reader.ts.
const OVERLAP_MS = 15_000;
const OVERLAP_KEPT_MS = 60_000;

/** Both ways of following have begun, at this time. */
interface Overlap {
  at: number;
  /** A position in the stream. */
  cursor: string;
}

/**
 * Reads the stream of the table if there is one, and otherwise the transitions that processes record.
 *
 * A follower that reads the stream does not register, so processes record nothing for it. Whether they record depends only on followers
 * that cannot read the stream: their processes lack the package or the permission, or are of an earlier version. So processes of all
 * kinds can follow at the same time, and a cursor says which way it continues.
 *
 * **The stream is switched on:** followers that read recorded transitions go on with the stream. From then on both ways overlap for some
 * seconds, until every transition from before has been recorded and returned. Those of the overlap are returned twice.
 *
 * **The stream is switched off:** its cursors expire when all of it was read, because nothing was recorded until a follower registers.
 */
export class FollowedTransitions implements TransitionLog {
  readonly #recorded: RecordedTransitions;
  readonly #tableStream: TableStream | null;
  readonly #stream: StreamTransitions | null;
  readonly #time: () => number;
  readonly #overlapMs: number;
  #overlap: Overlap | null = null;
  #starting: Promise<Overlap | null> | null = null;

  constructor(table: Table, { streams, ...parts }: Parts) {
    this.#recorded = new RecordedTransitions(table, parts);
    this.#tableStream = streams === null ? null : new TableStream(table, { streams, ...parts });
    this.#stream =
      streams === null || this.#tableStream === null
        ? null
        : new StreamTransitions(table, { streams, tableStream: this.#tableStream, ...parts });
    this.#time = parts.time;
    // Under a test clock, every transition is recorded before the call that made it returns.
    this.#overlapMs = parts.isLive ? OVERLAP_MS : 0;
  }

  add(job: ChangedJob, to: State, now: number): void {
    this.#recorded.add(job, to, now);
  }
  flush(): Promise<void> {
    return this.#recorded.flush();
  }
  stop(): Promise<void> {
    return this.#recorded.stop();
  }

  async record(forMs: number): Promise<string> {
    return (await this.#stream?.start()) ?? this.#recorded.record(forMs);
  }

  async page(cursor: string, limit: number): Promise<TransitionPage | null> {
    if (isStreamCursor(cursor)) {
      readStreamCursor(cursor); // rejects an invalid one
      return this.#stream?.page(cursor, limit) ?? null;
    }
    // It must have begun before the page is read.
    const overlap = this.#currentOverlap();
    const now = this.#time();
    const page = await this.#recorded.page(cursor, limit);
    if (page === null || (this.#tableStream?.known ?? null) === null) return page;
    if (overlap === null) {
      await this.#startOverlap();
      return page;
    }
    const end = overlap.at + this.#overlapMs;
    const isRead = page.transitions.length === 0 || readCursor(page.cursor).upTo >= end;
    return now >= end && isRead ? { transitions: page.transitions, cursor: overlap.cursor } : page;
  }

  #currentOverlap(): Overlap | null {
    const isCurrent = this.#overlap !== null && this.#time() - this.#overlap.at <= OVERLAP_KEPT_MS;
    return isCurrent ? this.#overlap : null;
  }

  #startOverlap(): Promise<Overlap | null> {
    const starting = (this.#starting ??= this.#newOverlap());
    const done = (): void => void (this.#starting = null);
    starting.then(done, done);
    return starting;
  }

  async #newOverlap(): Promise<Overlap | null> {
    // Processes must record until the end of the overlap.
    await this.#recorded.record(OVERLAP_KEPT_MS + OVERLAP_MS);
    const cursor = (await this.#stream?.start()) ?? null;
    this.#overlap = cursor === null ? null : { at: this.#time(), cursor };
    return this.#overlap;
  }

  purge(request: { before: number; limit: number }): Promise<number> {
    this.#stream?.purge(request.before);
    return this.#recorded.purge(request);
  }
}
