import type { Bench, Case } from "../case.js";
import { figure, plainRow } from "../figures.js";
import { drainTrial, runRates } from "./draining.js";

const MAX_MB = 200;

/** Resident memory of a worker process over a long drain. */
export function memory(bench: Bench): Case {
  const { memory: jobs } = bench.scale;
  const trial = drainTrial(bench, {
    name: "memory",
    about: `drain of ${jobs.toLocaleString("en")} jobs, memory watched`,
    filling: [{ kind: "due", count: jobs }],
    runs: jobs,
    rounds: 1,
  });
  return {
    name: "memory",
    trials: [trial],
    read(samples) {
      const drains = samples.of(trial);
      const peaks = figure(
        "MB",
        drains.map(({ peakRssMb }) => peakRssMb),
      );
      const over = `over ${jobs.toLocaleString("en")} jobs`;
      return [
        plainRow({ name: "peakRss", label: `peak resident memory ${over}`, figure: peaks }, { below: MAX_MB }),
        plainRow({ name: "rate", label: `rate ${over}`, figure: runRates(drains) }),
      ];
    },
  };
}
