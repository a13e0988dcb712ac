import type { Bench, Case } from "../case.js";
import { rates, ratioRow } from "../figures.js";
import { BATCH } from "./draining.js";
import { enqueueTrial, rawInsertTrial } from "./enqueuing.js";

/** One `enqueueMany`. */
export function enqueueMany(bench: Bench): Case {
  const { jobs } = bench.scale;
  const atLeast = bench.bed.limits.enqueueMany;
  const bulk = enqueueTrial(bench, "enqueueMany", { how: "in bulk", callers: 1, count: jobs });
  const raw = rawInsertTrial(bench, jobs, BATCH);
  return {
    name: "enqueue-many",
    trials: [bulk, raw],
    read: (samples) => [
      ratioRow(
        { name: "rate", label: "enqueueMany", figure: rates(samples.of(bulk)) },
        { label: `raw by ${BATCH}`, figure: rates(samples.of(raw)) },
        atLeast === null ? {} : { atLeast },
      ),
    ],
  };
}
