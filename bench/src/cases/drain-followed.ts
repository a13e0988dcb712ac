import type { Bench, Case, Trial } from "../case.js";
import { ratioRow } from "../figures.js";
import { startRole } from "../process.js";
import type { DrainResult } from "../roles/drain.js";
import { drainTrial, plainDrain, runRates } from "./draining.js";

const AT_LEAST = 0.97;

/** The plain drain, while another process follows all jobs. */
export function drainFollowed(bench: Bench): Case {
  const { jobs } = bench.scale;
  const plain = plainDrain(bench);
  const trial: Trial<DrainResult> = drainTrial(bench, {
    name: "drain-followed",
    about: "drain that another process follows",
    filling: [{ kind: "due", count: jobs }],
    runs: jobs,
    async beside({ url }) {
      const follower = startRole("follow", { url });
      await follower.ready;
      follower.go();
      return async () => {
        follower.stop();
        const received = await follower.result;
        if (received === 0) throw new Error("the follower received no transitions");
      };
    },
  });
  return {
    name: "drain-followed",
    trials: [plain, trial],
    read: (samples) => [
      ratioRow(
        { name: "rate", label: "that another process follows", figure: runRates(samples.of(trial)) },
        { label: "plain drain", figure: runRates(samples.of(plain)) },
        { atLeast: AT_LEAST },
      ),
    ],
  };
}
