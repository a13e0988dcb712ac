import { openStore } from "../open-store.js";
import type { Stage } from "./role.js";

export interface ClaimTypesOrder {
  url: string;
  types: readonly string[];
  claims: number;
  limit: number;
}

const BYTES = 1_048_576;
const LEASE_MS = 30_000;
// The first claim by type creates an index and is not measured.
const QUICK_MS = 20;
const PATIENCE_MS = 60_000;

/** Claims a few jobs of given types repeatedly. Returns the milliseconds of each claim. */
export async function claimTypes(order: ClaimTypesOrder, stage: Stage): Promise<number[]> {
  const store = await openStore(order.url);
  const { types, limit } = order;
  const once = async (): Promise<number> => {
    const begun = performance.now();
    const request = { queues: null, types, limit, bytes: BYTES, worker: "bench", leaseMs: LEASE_MS };
    const { jobs } = await store.claim(request);
    if (jobs.length !== limit) throw new Error(`a claim of ${limit} jobs gave ${jobs.length}`);
    return performance.now() - begun;
  };
  const until = performance.now() + PATIENCE_MS;
  for (let quick = 0; quick < 10 && performance.now() < until;) quick = (await once()) < QUICK_MS ? quick + 1 : 0;
  await stage.ready();
  const taken: number[] = [];
  while (taken.length < order.claims) taken.push(await once());
  await store.close();
  return taken;
}
