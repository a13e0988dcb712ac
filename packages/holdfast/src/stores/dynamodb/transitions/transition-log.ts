import type { State } from "../../../job/state.js";
import type { TransitionPage } from "../../../store.js";
import type { Item } from "../connection/attributes.js";

/** A job that has changed its state. */
export interface ChangedJob {
  id: string;
  type: string;
  queue: string;
  /** After the change. */
  fence: number;
  /** The job before the change; absent for a new job. */
  item?: Item;
}

/**
 * Where transitions come from. `RecordedTransitions` writes them to the table while jobs are followed by a process that cannot read the
 * table's stream. `StreamTransitions` reads the stream, and nothing is written. `FollowedTransitions` decides.
 */
export interface TransitionLog {
  /** Every change of a job's state is passed here, after it was written. Must not wait or throw. */
  add(job: ChangedJob, to: State, now: number): void;
  /** Writes what was added. Errors are not thrown: it is written later. */
  flush(): Promise<void>;
  /** Writes what was added, once, and ends. */
  stop(): Promise<void>;
  /** See `Store.recordTransitions`. */
  record(forMs: number): Promise<string>;
  /** See `Store.transitions`. */
  page(cursor: string, limit: number): Promise<TransitionPage | null>;
  /** See `Store.purgeTransitions`. */
  purge(request: { before: number; limit: number }): Promise<number>;
}
