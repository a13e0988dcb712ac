import type { State } from "../../../job/state.js";

/** What this connection remembers of a lease it gave out. */
export interface LeasedRow {
  seq: number;
  fence: number;
  queue: string;
  type: string;
  state: State;
}

const MOST = 20_000;

/**
 * Leases are settled where they were claimed, almost always. Remembering the row saves settling from looking it up
 * first, a third of its cost. Only a memory: every use is guarded by the row itself, and a miss takes the long way.
 */
export class LeasedRows {
  readonly #rows = new Map<string, LeasedRow>();

  remember(id: string, row: LeasedRow): void {
    if (this.#rows.size >= MOST) {
      // Leases that were lost are never settled here; the oldest go first.
      for (const oldest of this.#rows.keys()) {
        this.#rows.delete(oldest);
        break;
      }
    }
    this.#rows.set(id, row);
  }

  get(id: string): LeasedRow | undefined {
    return this.#rows.get(id);
  }

  forget(id: string): void {
    this.#rows.delete(id);
  }
}
