import type { Bench, Case, Trial } from "../case.js";
import { percentiles, plainRow } from "../figures.js";
import { NOOP } from "../jobs.js";
import { playRole } from "../process.js";

const LIMIT = 10;

/** A few jobs of one type, behind many due ones of another. */
export function claimTypes({ bed, scale: { jobs, background, samples: claims } }: Bench): Case {
  const trial: Trial<number[]> = {
    name: "claim-types",
    about: "claims for one type",
    async run() {
      const place = await bed.place([
        { kind: "other", count: background.other },
        { kind: "due", count: jobs },
      ]);
      const taken = await playRole("claimTypes", { url: place.url, types: [NOOP], claims, limit: LIMIT });
      await place.remove();
      return taken;
    },
  };
  return {
    name: "claim-types",
    trials: [trial],
    read(samples) {
      const { claimTypesMs } = bed.limits;
      const label = `a claim of ${LIMIT} of one type, behind ${background.other.toLocaleString("en")} of another`;
      const taken = samples.of(trial);
      return [
        plainRow(
          { name: "p50", label: `${label}, p50`, figure: percentiles(taken, 0.5) },
          claimTypesMs === null ? {} : { below: claimTypesMs },
        ),
        plainRow({ name: "p99", label: "the same, p99", figure: percentiles(taken, 0.99) }),
      ];
    },
  };
}
