import type { Bench, Case, Trial } from "../case.js";
import { figure, percentile, percentiles, plainRow } from "../figures.js";
import { playRole } from "../process.js";

const TIMES = 20;
const MAX_JOBS = 2_000;

/** Searches, counts, explanations, error groups and history must be bounded, however many jobs there are. */
export function insight({ bed, scale: { listed } }: Bench): Case {
  const { insightMs, units } = bed.limits;
  const isMetered = units !== null;
  const trial: Trial<Record<string, number[]>> = {
    name: "insight",
    about: `searches, counts and reasons among ${listed} jobs`,
    rounds: 1,
    async run(progress) {
      const place = await bed.place([{ kind: bed.limits.shown, count: listed }]);
      const jobs = Math.min(MAX_JOBS, Math.ceil(listed / 20));
      const taken = await playRole("insight", { url: place.url, times: TIMES, jobs, isMetered }, progress);
      await place.remove();
      return taken;
    },
  };
  return {
    name: "insight",
    trials: [trial],
    read(samples) {
      const rounds = samples.of(trial);
      return Object.keys(rounds[0] ?? {}).flatMap((name) => {
        const taken = rounds.map((round) => round[name] ?? []);
        const label = `${name}, of ${listed.toLocaleString("en")} jobs`;
        if (units !== null) {
          const most = taken.map((requests) => percentile(requests, 1));
          return [plainRow({ name, label, figure: figure("requests", most) }, { atMost: units.call })];
        }
        const limits = insightMs === null ? {} : { atMost: insightMs };
        return [
          plainRow({ name, label: `${label}, p50`, figure: percentiles(taken, 0.5) }, limits),
          plainRow({ name: `${name}, worst`, label: "the slowest", figure: percentiles(taken, 1) }, limits),
        ];
      });
    },
  };
}
