import type { Bench, Trial } from "../case.js";
import { playRole } from "../process.js";
import type { EnqueueOrder, Timed } from "../roles/enqueue.js";

/** A process that enqueues into an empty store. */
export function enqueueTrial({ bed }: Bench, about: string, order: Omit<EnqueueOrder, "url">): Trial<Timed> {
  return {
    name: about,
    about,
    async run() {
      const place = await bed.place([]);
      const result = await playRole("enqueue", { ...order, url: place.url });
      await place.remove();
      return result;
    },
  };
}

/** The same rows without Holdfast. */
export function rawInsertTrial({ bed }: Bench, count: number, batch: number): Trial<Timed> {
  const name = `raw inserts by ${batch}`;
  return {
    name,
    about: name,
    async run() {
      const place = await bed.place([]);
      const result = await playRole("rawInsert", { url: place.url, count, batch });
      await place.remove();
      return result;
    },
  };
}

/** One row per commit: the best possible rate of a single caller. */
export function rawSingly(bench: Bench): Trial<Timed> {
  return rawInsertTrial(bench, bench.scale.singly, 1);
}

export function oneCaller(bench: Bench): Trial<Timed> {
  return enqueueTrial(bench, "enqueue one by one", { how: "singly", callers: 1, count: bench.scale.singly });
}
