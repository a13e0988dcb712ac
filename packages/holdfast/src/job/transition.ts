import type { State } from "./state.js";

/** A job's change of state, as stores record it while processes follow jobs. */
export interface TransitionRecord {
  id: string;
  type: string;
  queue: string;
  /** The new state. A new job is `pending`. */
  to: State;
  at: number;
}

/** Recorded transitions after a cursor. */
export interface TransitionPage {
  /** In an order in which each job's own transitions are in the order they happened. */
  transitions: TransitionRecord[];
  /** Where the next page begins: at most 1,000 printable ASCII characters. */
  cursor: string;
}
