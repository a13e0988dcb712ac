import type { Bench, Case, Figure } from "../case.js";
import { figure, plainRow, ratioRow, rates } from "../figures.js";
import { BATCH, plainDrain, rawDrainTrial, runRates } from "./draining.js";

const SMALL_BATCH = 100;

/** The throughput of one worker process with no-op jobs, compared with the same writes without Holdfast. */
export function drain(bench: Bench): Case {
  const { jobs } = bench.scale;
  const plain = plainDrain(bench);
  const raw = (batch: number): ReturnType<typeof rawDrainTrial> =>
    rawDrainTrial(bench, {
      name: `raw drain by ${batch}`,
      about: `raw drain in batches of ${batch}`,
      filling: [{ kind: "due", count: jobs }],
      runs: jobs,
      batch,
    });
  const [byLarge, bySmall] = [raw(BATCH), raw(SMALL_BATCH)];
  return {
    name: "drain",
    trials: [plain, byLarge, bySmall],
    read(samples) {
      const drains = samples.of(plain);
      const batches = drains.map((result) => result.batches);
      const rate = runRates(drains);
      const against = (batch: number, figures: Figure): { label: string; figure: Figure } => ({
        label: `raw by ${batch}`,
        figure: figures,
      });
      const cpu = perJob(drains.map(({ cpuSeconds, ran }) => ({ cpuSeconds, count: ran })));
      return [
        ratioRow(
          { name: "rate", label: "no-op jobs, one worker process", figure: rate },
          against(BATCH, rates(samples.of(byLarge))),
          { atLeast: bench.bed.limits.drain },
        ),
        ratioRow(
          { name: "rateToSmallBatch", label: "the same", figure: rate },
          against(SMALL_BATCH, rates(samples.of(bySmall))),
        ),
        ratioRow(
          { name: "cpu", label: "CPU time per job, all threads", figure: cpu },
          against(BATCH, perJob(samples.of(byLarge))),
        ),
        plainRow({
          name: "claimBatch",
          label: "jobs per claim",
          figure: figure(
            "jobs",
            batches.map(({ claimed, claims }) => claimed / claims),
          ),
        }),
        plainRow({
          name: "settleBatch",
          label: "jobs per settle",
          figure: figure(
            "jobs",
            batches.map(({ settled, settles }) => settled / settles),
          ),
        }),
      ];
    },
  };
}

/** More reliable than a rate if other programs run on the machine. */
function perJob(drains: readonly { cpuSeconds: number; count: number }[]): Figure {
  return figure(
    "µs",
    drains.map(({ cpuSeconds, count }) => (cpuSeconds * 1e6) / count),
  );
}
