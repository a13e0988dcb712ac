import type { Place } from "../bed.js";
import type { Bench, Case, Trial } from "../case.js";
import { figure, plainRow } from "../figures.js";
import { playRole } from "../process.js";

/** From opening the store to its first result. The package itself is already loaded. */
export function startup({ bed, scale: { jobs, starts } }: Bench): Case {
  const trial = (name: string, about: string, place: () => Promise<Place>): Trial<number[]> => ({
    name,
    about,
    rounds: 1,
    async run() {
      const places: Place[] = [];
      for (let index = 0; index < starts; index++) places.push(await place());
      const taken = await playRole("startup", { urls: places.map(({ url }) => url) });
      for (const each of places) await each.remove();
      return taken;
    },
  });
  const fresh = trial("startup on new", "start-up on a new store", async () => bed.nowhere());
  const known = trial("startup on existing", "start-up on a store with jobs", () =>
    bed.place([{ kind: "due", count: jobs }]),
  );
  return {
    name: "startup",
    trials: [fresh, known],
    read: (samples) =>
      [
        { name: "new", label: "start-up on a new store", trial: fresh },
        { name: "existing", label: "start-up on a store with jobs", trial: known },
      ].map(({ name, label, trial: each }) =>
        plainRow({ name, label, figure: figure("ms", samples.of(each).flat()) }, { below: bed.limits.startupMs }),
      ),
  };
}
