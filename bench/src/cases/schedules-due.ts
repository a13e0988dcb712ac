import type { Bench, Case, Trial } from "../case.js";
import { figure, percentiles, plainRow } from "../figures.js";
import { playRole } from "../process.js";
import type { Fired } from "../roles/schedules.js";

/** One look of the scheduler to the next. */
const TICK_MS = 5_000;

/** Many schedules due in the same second: how long until each has its job, and what other jobs feel of it. */
export function schedulesDue({ bed, scale: { schedules } }: Bench): Case {
  const trial: Trial<Fired> = {
    name: "schedules due",
    about: "schedules due at once",
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
          { name: "all", label: `${schedules} schedules due at once, all fired`, figure: all },
          { below: TICK_MS },
        ),
        plainRow({ name: "p50", label: `${meanwhile}, p50`, figure: percentiles(latencies, 0.5) }),
        plainRow({ name: "p99", label: `${meanwhile}, p99`, figure: percentiles(latencies, 0.99) }),
      ];
    },
  };
}
