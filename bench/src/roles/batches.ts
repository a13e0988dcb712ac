import type { Store } from "holdfast";

/** The number of jobs per call. */
export interface Batches {
  claims: number;
  claimed: number;
  settles: number;
  settled: number;
}

/** Counts the calls of the engine to a store. */
export function countBatches(store: Store): Batches {
  const batches: Batches = { claims: 0, claimed: 0, settles: 0, settled: 0 };
  const claim = store.claim.bind(store);
  const settle = store.settle.bind(store);
  store.claim = async (request) => {
    const result = await claim(request);
    // An empty claim does not count for the size of batches.
    if (result.jobs.length > 0) batches.claims++;
    batches.claimed += result.jobs.length;
    return result;
  };
  store.settle = (outcomes) => {
    batches.settles++;
    batches.settled += outcomes.length;
    return settle(outcomes);
  };
  return batches;
}
