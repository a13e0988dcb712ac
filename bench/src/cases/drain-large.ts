import type { Filling } from "../bed.js";
import type { Bench, Case } from "../case.js";
import { rates, ratioRow } from "../figures.js";
import { drainTrial, rawDrainTrial, runRates } from "./draining.js";

// A batch holds at most a megabyte of input.
const BATCH_BYTES = 1_048_576;

/** Inputs that are stored in a separate table. */
export function drainLarge(bench: Bench): Case {
  const { large, largeBytes } = bench.scale;
  const filling: Filling[] = [{ kind: "due", count: large, inputBytes: largeBytes }];
  const about = `${largeBytes / 1_024} KB inputs`;
  const batch = Math.floor(BATCH_BYTES / largeBytes);
  const trial = drainTrial(bench, { name: "drain-large", about: `drain with ${about}`, filling, runs: large });
  const raw = rawDrainTrial(bench, {
    name: "raw drain-large",
    about: `raw drain with ${about}`,
    filling,
    runs: large,
    batch,
  });
  return {
    name: "drain-large",
    trials: [trial, raw],
    read: (samples) => [
      ratioRow(
        {
          name: "rate",
          label: `${large.toLocaleString("en")} jobs with ${about}`,
          figure: runRates(samples.of(trial)),
        },
        { label: `raw by ${batch}`, figure: rates(samples.of(raw)) },
      ),
    ],
  };
}
