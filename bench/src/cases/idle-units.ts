import type { Bench, Case, Trial } from "../case.js";
import { figure, plainRow } from "../figures.js";
import { playRole } from "../process.js";
import type { ResultOf } from "../roles/index.js";

// Maintenance runs once a minute.
const WATCHED_MS = 60_000;
const FEW_JOBS = 1_000;

/** The billed units of an idle worker and scheduler. */
export function idleUnits({ bed, scale: { jobs, watchedMs } }: Bench): Case | null {
  if (bed.limits.units === null) return null;
  const trial: Trial<ResultOf<"idleUnits">> = {
    name: "idle units",
    about: "units of an idle worker and scheduler",
    rounds: 1,
    async run() {
      // A queue that was used and is empty.
      const place = await bed.place([{ kind: "finished", count: 1 }]);
      const watched = jobs < FEW_JOBS ? watchedMs : WATCHED_MS;
      const taken = await playRole("idleUnits", { url: place.url, watchedMs: watched });
      await place.remove();
      return taken;
    },
  };
  return {
    name: "idle-units",
    trials: [trial],
    read(samples) {
      const taken = samples.of(trial);
      const rate = (of: (each: (typeof taken)[number]) => number): number[] =>
        taken.map((each) => of(each) / each.seconds);
      return [
        plainRow({
          name: "requests",
          label: "read requests of an idle worker and scheduler",
          figure: figure(
            "queries/s",
            rate(({ units }) => units.looks),
          ),
        }),
        plainRow({
          name: "reads",
          label: "read units; the emulator charges nothing for an empty query",
          figure: figure(
            "units/s",
            rate(({ units }) => units.reads),
          ),
        }),
        plainRow({
          name: "writes",
          label: "write units",
          figure: figure(
            "units/min",
            rate(({ units: { table, live, lost, listed } }) => 60 * (table + live + lost + listed)),
          ),
        }),
      ];
    },
  };
}
