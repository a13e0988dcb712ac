import type { Store } from "holdfast";

/** How many jobs went with each call. */
export interface Batches {
  claims: number;
  claimed: number;
  settles: number;
  settled: number;
}

/** Counts what the engine asks of a store; the store goes on as before. */
export function countBatches(store: Store): Batches {
  const batches: Batches = { claims: 0, claimed: 0, settles: 0, settled: 0 };
  const claim = store.claim.bind(store);
  const settle = store.settle.bind(store);
  store.claim = async (request) => {
    const answer = await claim(request);
    // A look at an empty queue says nothing about the size of batches.
    if (answer.jobs.length > 0) batches.claims++;
    batches.claimed += answer.jobs.length;
    return answer;
  };
  store.settle = (outcomes) => {
    batches.settles++;
    batches.settled += outcomes.length;
    return settle(outcomes);
  };
  return batches;
}
