import type { Bench, Case } from "../case.js";
import { rates, ratioRow } from "../figures.js";
import { AT_LEAST } from "./burdened.js";
import { drainTrial, plainDrain, runRates } from "./draining.js";

/**
 * Expired jobs are claimed and dead-lettered without running. Each costs about as much as a run, so they are counted
 * too.
 */
export function drainExpired(bench: Bench): Case {
  const { jobs, background } = bench.scale;
  const { expired } = background;
  const plain = plainDrain(bench);
  const trial = drainTrial(bench, {
    name: "drain-expired",
    about: "drain behind expired jobs",
    filling: [
      { kind: "expired", count: expired },
      { kind: "due", count: jobs },
    ],
    runs: jobs,
    dead: expired,
  });
  return {
    name: "drain-expired",
    trials: [plain, trial],
    read(samples) {
      const drains = samples.of(trial);
      const settled = rates(drains.map(({ ran, seconds }) => ({ seconds, count: ran + expired })));
      const baseline = { label: "plain drain", figure: runRates(samples.of(plain)) };
      return [
        ratioRow(
          {
            name: "settledRate",
            label: `behind ${expired.toLocaleString("en")} expired jobs, all settled`,
            figure: settled,
          },
          baseline,
          {
            atLeast: AT_LEAST,
          },
        ),
        ratioRow({ name: "runRate", label: "behind expired jobs, only those run", figure: runRates(drains) }, baseline),
      ];
    },
  };
}
