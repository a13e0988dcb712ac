import type { Bench, Case, Figure, Row, Trial } from "../case.js";
import { figure, plainRow } from "../figures.js";
import { playRole } from "../process.js";
import type { Units } from "../roles/meter.js";

const WORKERS = 8;
const MAX_JOBS = 400;

/** The cost of a job from enqueue to completion, with competing workers. */
export function units({ bed, scale }: Bench): Case | null {
  const { units: limits, concurrency } = bed.limits;
  if (limits === null) return null;
  const jobs = Math.min(MAX_JOBS, scale.jobs);
  const trial = (keyed: boolean): Trial<Units> => {
    const about = keyed ? "units of jobs with unique keys" : "units of jobs";
    return {
      name: about,
      about,
      async run(progress) {
        const place = await bed.place([]);
        const order = { url: place.url, jobs, workers: WORKERS, concurrency, keyed };
        const taken = await playRole("meteredJobs", order, (ran) => progress(ran / jobs));
        await place.remove();
        return taken;
      },
    };
  };
  const [plain, keyed] = [trial(false), trial(true)];
  return {
    name: "units",
    trials: [plain, keyed],
    read(samples) {
      const perJob = (of: Trial<Units>, value: (taken: Units) => number): Figure =>
        figure(
          "units",
          samples.of(of).map((taken) => value(taken) / jobs),
        );
      const writes = ({ table, live, lost }: Units): number => table + live + lost;
      const part = (name: keyof Units, label: string, of: Trial<Units> = plain): Row =>
        plainRow({ name, label, figure: perJob(of, (taken) => taken[name]) });
      return [
        plainRow(
          { name: "job", label: `write units per job, ${WORKERS} workers`, figure: perJob(plain, writes) },
          { atMost: limits.job },
        ),
        part("lost", "of which lost conditions"),
        part("listed", "additional units for lists"),
        part("counts", "additional units for counters"),
        part("reads", "read units a job"),
        plainRow(
          { name: "keyedJob", label: "write units per job with a unique key", figure: perJob(keyed, writes) },
          { atMost: limits.keyedJob },
        ),
        part("keys", "additional units to delete the key", keyed),
      ];
    },
  };
}
