import type { Bench, Case, Figure } from "../case.js";
import { figure, plainRow, ratioRow, rates } from "../figures.js";
import { BATCH, plainDrain, rawDrainTrial, runRates } from "./draining.js";

const SMALL_BATCH = 100;

/** How fast one worker process gets through no-op jobs, against the same writes by hand. */
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
          { name: "cpu", label: "processor time a job, all threads", figure: cpu },
          against(BATCH, perJob(samples.of(byLarge))),
        ),
        plainRow({
          name: "claimBatch",
          label: "jobs a claim",
          figure: figure(
            "jobs",
            batches.map(({ claimed, claims }) => claimed / claims),
          ),
        }),
        plainRow({
          name: "settleBatch",
          label: "jobs a settle",
          figure: figure(
            "jobs",
            batches.map(({ settled, settles }) => settled / settles),
          ),
        }),
      ];
    },
  };
}

/** Says more than a rate where other programs share the machine. */
function perJob(drains: readonly { cpuSeconds: number; count: number }[]): Figure {
  return figure(
    "µs",
    drains.map(({ cpuSeconds, count }) => (cpuSeconds * 1e6) / count),
  );
}
