import type { Bench, Case, Trial } from "../case.js";
import { percentiles, plainRow } from "../figures.js";
import { listedFilters } from "../listed.js";
import { playRole } from "../process.js";

const TIMES = 20;
const MAX_MS = 100;

/** A page of 50 must be fast for every filter and any number of jobs, and so must the stats. */
export function list({ bed, scale: { listed } }: Bench): Case {
  const trial: Trial<Record<string, number[]>> = {
    name: "list",
    about: `lists among ${listed} jobs`,
    rounds: 1,
    async run(progress) {
      const place = await bed.place([{ kind: "listed", count: listed }]);
      const order = { url: place.url, filters: listedFilters(listed, Date.now()), times: TIMES };
      const taken = await playRole("list", order, progress);
      await place.remove();
      return taken;
    },
  };
  return {
    name: "list",
    trials: [trial],
    read(samples) {
      const rounds = samples.of(trial);
      return Object.keys(rounds[0] ?? {}).map((name) => {
        const taken = rounds.map((round) => round[name] ?? []);
        const label = `${name}, of ${listed.toLocaleString("en")} jobs, p90`;
        return plainRow({ name, label, figure: percentiles(taken, 0.9) }, { atMost: MAX_MS });
      });
    },
  };
}
