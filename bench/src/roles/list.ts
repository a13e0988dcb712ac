import { holdfast } from "holdfast";
import { admin, adminClient, type JobConditions } from "holdfast/admin";
import type { Stage } from "./role.js";

export interface ListOrder {
  url: string;
  filters: Record<string, JobConditions>;
  /** How often each list is requested. */
  times: number;
}

const PAGE = 50;
const STATS = "stats";
const DEEP = "all jobs, from the middle";
const DEPTH = 5_000;

/** Requests a page for each filter and the stats from the admin API. Returns the milliseconds of every request. */
export async function list({ url, filters, times }: ListOrder, stage: Stage): Promise<Record<string, number[]>> {
  const hf = await holdfast({ store: url, logger: false });
  const api = admin(hf, { auth: () => ({ name: "bench", role: "viewer", user: null }), metrics: false });
  const client = adminClient({ url: "http://localhost", fetch: (request) => api.fetch(request) });
  const calls: Record<string, () => Promise<unknown>> = { [STATS]: () => client.jobs.stats() };
  for (const [name, filter] of Object.entries(filters))
    calls[name] = () => client.jobs.list({ ...filter, limit: PAGE });
  // A cursor is found by its number, so its depth makes no difference.
  const { cursor } = await client.jobs.list({ limit: 1, offset: DEPTH });
  if (cursor === null) throw new Error(`there are fewer than ${DEPTH} jobs`);
  calls[DEEP] = () => client.jobs.list({ limit: PAGE, cursor });
  await stage.ready();
  const taken: Record<string, number[]> = {};
  for (const [name, call] of Object.entries(calls)) {
    // The first request prepares statements and fills caches for the others.
    await call();
    taken[name] = [];
    while (taken[name].length < times) {
      const begun = performance.now();
      await call();
      taken[name].push(performance.now() - begun);
    }
    stage.progress(Object.keys(taken).length / Object.keys(calls).length);
  }
  await api.close();
  await hf.close();
  return taken;
}
