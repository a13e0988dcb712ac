import type { Bench, Case, Trial } from "../case.js";
import { figure, percentiles, plainRow } from "../figures.js";
import { playRole } from "../process.js";
import type { Fired } from "../roles/schedules.js";

/** The interval of the scheduler. */
const TICK_MS = 5_000;

/**
 * Many schedules that are due in the same second: the time until all are fired, and the latency of other jobs
 * meanwhile.
 */
export function schedulesDue({ bed, scale: { schedules } }: Bench): Case {
  const trial: Trial<Fired> = {
    name: "schedules due",
    about: "schedules due at the same time",
    async run() {
      const place = await bed.place([{ kind: "due schedules", count: schedules }]);
      const taken = await playRole("fireSchedules", { url: place.url, count: schedules });
      await place.remove();
      return taken;
    },
  };
  return {
    name: "schedules-due",
    trials: [trial],
    read(samples) {
      const taken = samples.of(trial);
      const all = figure(
        "ms",
        taken.map(({ ms }) => ms),
      );
      const latencies = taken.map((each) => each.latencies);
      const meanwhile = "enqueue to start of others meanwhile";
      return [
        plainRow(
          { name: "all", label: `${schedules} schedules due at the same time, all fired`, figure: all },
          { below: TICK_MS },
        ),
        plainRow({ name: "p50", label: `${meanwhile}, p50`, figure: percentiles(latencies, 0.5) }),
        plainRow({ name: "p99", label: `${meanwhile}, p99`, figure: percentiles(latencies, 0.99) }),
      ];
    },
  };
}
