import { holdfast } from "holdfast";
import type { Filling, Place } from "../bed.js";
import type { Bench, Figure, Trial } from "../case.js";
import { rates } from "../figures.js";
import { playRole } from "../process.js";
import type { DrainResult } from "../roles/drain.js";
import type { ResultOf } from "../roles/index.js";

/** Holdfast's largest batch, also used by the baseline. */
export const BATCH = 500;
const PROGRESS_MS = 100;

export interface DrainTrial {
  name: string;
  about: string;
  filling: readonly Filling[];
  /** How many must be completed, and how many dead. */
  runs: number;
  dead?: number;
  types?: readonly string[];
  rounds?: number;
  /** Stop the worker after this many jobs, although there are more. */
  endless?: boolean;
  /** With an open transaction that keeps an old snapshot. */
  held?: boolean;
  /** Runs beside the drain, from before its start; returns a function that ends it. */
  beside?: (place: Place) => Promise<() => Promise<void>>;
}

/** One worker process with default settings except its concurrency, from a full to an empty queue. */
export function drainTrial({ bed }: Bench, trial: DrainTrial): Trial<DrainResult> {
  const { name, about, filling, runs, types = null } = trial;
  return {
    name,
    about,
    ...(trial.rounds === undefined ? {} : { rounds: trial.rounds }),
    async run(progress) {
      const place = await bed.place(filling);
      const { concurrency } = bed.limits;
      const order = { url: place.url, concurrency, types, expect: runs, progressMs: PROGRESS_MS };
      const letGo = trial.held === true ? await bed.hold(place) : null;
      const end = await trial.beside?.(place);
      const result = await playRole("drain", order, (ran) => progress(ran / runs));
      await end?.();
      await letGo?.();
      const kept = filling.find(({ kind }) => kind === "finished")?.count ?? 0;
      const completed = kept + (trial.endless === true ? result.ran : runs);
      await checkEnds(place.url, { completed, dead: trial.dead ?? 0 });
      await place.remove();
      return result;
    },
  };
}

/** The same writes without Holdfast, in batches of this size. */
export function rawDrainTrial(
  { bed }: Bench,
  trial: Omit<DrainTrial, "dead" | "types" | "endless" | "held" | "beside"> & { batch: number },
): Trial<ResultOf<"rawDrain">> {
  const { name, about, filling, runs, batch } = trial;
  return {
    name,
    about,
    async run() {
      const place = await bed.place(filling);
      const result = await playRole("rawDrain", { url: place.url, count: runs, batch });
      await checkEnds(place.url, { completed: runs, dead: 0 });
      await place.remove();
      return result;
    },
  };
}

/** The drain that others are compared with. */
export function plainDrain(bench: Bench): Trial<DrainResult> {
  const { jobs } = bench.scale;
  const filling: Filling[] = [{ kind: "due", count: jobs }];
  return drainTrial(bench, { name: "drain", about: "drain of no-op jobs", filling, runs: jobs });
}

export function runRates(drains: readonly DrainResult[]): Figure {
  return rates(drains.map(({ ran, seconds }) => ({ seconds, count: ran })));
}

/** Checks that the work was done. */
export async function checkEnds(url: string, wanted: { completed: number; dead: number }): Promise<void> {
  const hf = await holdfast({ store: url, logger: false });
  const { completed, dead } = (await hf.stats()).states;
  await hf.close();
  if (completed === wanted.completed && dead === wanted.dead) return;
  throw new Error(
    `after the drain ${completed} jobs were completed and ${dead} dead instead of ${wanted.completed} and ${wanted.dead}`,
  );
}
