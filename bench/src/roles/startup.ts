import { holdfast } from "holdfast";
import { noop } from "../jobs.js";
import type { Stage } from "./role.js";

export interface StartupOrder {
  urls: readonly string[];
}

/** Opens each store and returns the milliseconds until the result of its first call. */
export async function startup({ urls }: StartupOrder, stage: Stage): Promise<number[]> {
  await stage.ready();
  const taken: number[] = [];
  for (const url of urls) {
    const begun = performance.now();
    const hf = await holdfast({ store: url, jobs: [noop(() => {})], logger: false });
    await hf.stats();
    taken.push(performance.now() - begun);
    await hf.close();
  }
  return taken;
}
