import type { Bench, Case, Trial } from "../case.js";
import { percentiles, plainRow } from "../figures.js";
import { playRole } from "../process.js";

const OPEN_MS = 20;
const MAX_SAMPLES = 100;

/** A job that is enqueued in a longer transaction: from its commit to the handler. */
export function afterCommit({ bed, scale: { samples } }: Bench): Case | null {
  const { afterCommitMs } = bed.limits;
  if (afterCommitMs === null) return null;
  const trial: Trial<number[]> = {
    name: "after-commit",
    about: "commit to start",
    async run() {
      const place = await bed.place([]);
      const order = { url: place.url, samples: Math.min(samples, MAX_SAMPLES), openMs: OPEN_MS };
      const taken = await playRole("afterCommit", order);
      await place.remove();
      return taken;
    },
  };
  return {
    name: "after-commit",
    trials: [trial],
    read(samplesOf) {
      const label = `commit of a ${OPEN_MS} ms transaction to start`;
      return [
        plainRow(
          { name: "p50", label: `${label}, p50`, figure: percentiles(samplesOf.of(trial), 0.5) },
          { atMost: afterCommitMs },
        ),
        plainRow({ name: "p99", label: "the same, p99", figure: percentiles(samplesOf.of(trial), 0.99) }),
      ];
    },
  };
}
