import type { Holdfast } from "../../engine/client/holdfast.js";
import type { Stats } from "../../engine/client/stats.js";

/** The counts of the store as they were read last: the event feed reads them all the time, and lists need them too. */
export class RecentStats {
  readonly #hf: Pick<Holdfast, "stats">;
  #last: { stats: Promise<Stats>; at: number } | null = null;

  constructor(hf: Pick<Holdfast, "stats">) {
    this.#hf = hf;
  }

  /** Reads them now, unless a read began at most so long ago. */
  read(maxAgeMs = 0): Promise<Stats> {
    const last = this.#last;
    if (last !== null && performance.now() - last.at < maxAgeMs) return last.stats;
    const current = { stats: this.#hf.stats(), at: performance.now() };
    this.#last = current;
    current.stats.catch(() => {
      if (this.#last === current) this.#last = last;
    });
    return current.stats;
  }

  /** Something has changed. */
  forget(): void {
    this.#last = null;
  }
}
