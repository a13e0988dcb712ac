import type { State } from "../../../job/state.js";

/** A lease that this connection has claimed. */
export interface CachedLease {
  seq: number;
  fence: number;
  queue: string;
  type: string;
  state: State;
  attempt: number;
  releases: number;
  /** The job has settings of its own, so its purge time must be computed. */
  hasSettings: boolean;
}

const MAX_LEASES = 20_000;

/**
 * Leases are nearly always settled by the connection that claimed them. The cache saves settle the lookup of the row, a third
 * of its cost. The UPDATE checks the row itself, so a stale entry does no harm, and a miss reads the row.
 */
export class LeaseCache {
  readonly #rows = new Map<string, CachedLease>();

  remember(id: string, row: CachedLease): void {
    if (this.#rows.size >= MAX_LEASES) {
      // Lost leases are never settled here, so the oldest are dropped.
      for (const oldest of this.#rows.keys()) {
        this.#rows.delete(oldest);
        break;
      }
    }
    this.#rows.set(id, row);
  }

  get(id: string): CachedLease | undefined {
    return this.#rows.get(id);
  }

  forget(id: string): void {
    this.#rows.delete(id);
  }
}
