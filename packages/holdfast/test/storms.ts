import type { StoreSubject } from "#src/testing/exercise-store/index.js";

/** The cases in which many workers share a queue, and processes are killed and stopped. A storm repeats them. */
export const STORM_SUBJECTS: readonly StoreSubject[] = ["concurrency", "schedules: concurrency", "processes"];
export const STORM_ROUNDS: readonly number[] = Array.from({ length: 10 }, (_, at) => at + 1);
/** On an emulator that takes two minutes for a round. */
export const FEW_STORM_ROUNDS: readonly number[] = STORM_ROUNDS.slice(0, 3);
