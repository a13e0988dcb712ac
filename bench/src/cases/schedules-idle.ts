import type { Bench, Case, Trial } from "../case.js";
import { figure, ratioRow } from "../figures.js";
import { playRole } from "../process.js";

const FEW = 100;

/** A look for due schedules must not cost more for those that rest. */
export function schedulesIdle({ bed, scale: { idleSchedules } }: Bench): Case {
  const looks = (count: number): Trial<{ seconds: number; count: number }> => ({
    name: `looks at ${count} schedules`,
    about: `looks beside ${count} idle schedules`,
    async run() {
      const place = await bed.place([{ kind: "idle schedules", count }]);
      const taken = await playRole("lookForDue", { url: place.url });
      await place.remove();
      return taken;
    },
  });
  const few = looks(FEW);
  const many = looks(idleSchedules);
  const rate = (taken: readonly { seconds: number; count: number }[]): ReturnType<typeof figure> =>
    figure(
      "looks/s",
      taken.map(({ seconds, count }) => count / seconds),
    );
  return {
    name: "schedules-idle",
    trials: [few, many],
    read: (samples) => [
      ratioRow(
        { name: "rate", label: `looks of the scheduler beside ${idleSchedules} idle`, figure: rate(samples.of(many)) },
        { label: `beside ${FEW}`, figure: rate(samples.of(few)) },
        { atLeast: 0.8 },
      ),
    ],
  };
}
