import { holdfast } from "holdfast";
import type { Stage } from "./role.js";

export interface ListOrder {
  url: string;
  filters: Record<string, object>;
  /** How often each is asked. */
  times: number;
}

const PAGE = 50;
const STATS = "stats";
const DEEP = "all jobs, from the middle";

/** Asks for a page of each filter, and for the stats. Answers the milliseconds of every time. */
export async function list({ url, filters, times }: ListOrder, stage: Stage): Promise<Record<string, number[]>> {
  const hf = await holdfast({ store: url, logger: false });
  const calls: Record<string, () => Promise<unknown>> = { [STATS]: () => hf.stats() };
  for (const [name, filter] of Object.entries(filters)) calls[name] = () => hf.list({ ...filter, limit: PAGE });
  // Cursors of these stores are the numbers of jobs.
  const { cursor } = await hf.list({ limit: 1 });
  calls[DEEP] = () => hf.list({ limit: PAGE, cursor: String(Math.floor(Number(cursor) / 2)) });
  await stage.ready();
  const taken: Record<string, number[]> = {};
  for (const [name, call] of Object.entries(calls)) {
    // The first asks what the others find prepared and in memory.
    await call();
    taken[name] = [];
    while (taken[name].length < times) {
      const begun = performance.now();
      await call();
      taken[name].push(performance.now() - begun);
    }
    stage.progress(Object.keys(taken).length / Object.keys(calls).length);
  }
  await hf.close();
  return taken;
}
