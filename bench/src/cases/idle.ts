import type { Bench, Case, Trial } from "../case.js";
import { figure, plainRow } from "../figures.js";
import { playRole } from "../process.js";
import type { Idle } from "../roles/idle.js";

/** The queries of an idle worker and scheduler. */
export function idle({ bed, scale: { watchedMs } }: Bench): Case | null {
  const { idleQueries } = bed.limits;
  if (idleQueries === null) return null;
  const trial: Trial<Idle> = {
    name: "idle",
    about: "an idle worker and scheduler",
    rounds: 1,
    async run() {
      const place = await bed.place([]);
      const taken = await playRole("idle", { url: place.url, watchedMs });
      await place.remove();
      return taken;
    },
  };
  return {
    name: "idle",
    trials: [trial],
    read: (samples) => [
      plainRow(
        {
          name: "queries",
          label: "idle worker and scheduler together",
          figure: figure(
            "queries/s",
            samples.of(trial).map(({ queriesPerSecond }) => queriesPerSecond),
          ),
        },
        { atMost: idleQueries },
      ),
    ],
  };
}
