import type { Filling } from "../bed.js";
import type { Bench, Case } from "../case.js";
import { ratioRow } from "../figures.js";
import { drainTrial, plainDrain, runRates } from "./draining.js";

export const AT_LEAST = 0.8;

interface Burdened {
  name: string;
  label: string;
  burden: readonly Filling[];
  types?: readonly string[];
  endless?: boolean;
  held?: boolean;
  /** Null: no target. */
  atLeast?: number | null;
}

/** The plain drain, with other jobs in the store that it does not run. */
export function burdened(bench: Bench, { name, label, burden, atLeast = AT_LEAST, ...how }: Burdened): Case {
  const { jobs } = bench.scale;
  const plain = plainDrain(bench);
  const trial = drainTrial(bench, {
    name,
    about: `drain ${label}`,
    filling: [...burden, { kind: "due", count: jobs }],
    runs: jobs,
    ...how,
  });
  return {
    name,
    trials: [plain, trial],
    read: (samples) => [
      ratioRow(
        { name: "rate", label, figure: runRates(samples.of(trial)) },
        { label: "plain drain", figure: runRates(samples.of(plain)) },
        atLeast === null ? {} : { atLeast },
      ),
    ],
  };
}
