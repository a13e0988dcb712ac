import type { Bench, Case, Trial } from "../case.js";
import { figure, ratioRow } from "../figures.js";
import { playRole } from "../process.js";

const FEW = 100;

/** Polling for due schedules must not become slower with idle schedules. */
export function schedulesIdle({ bed, scale: { idleSchedules } }: Bench): Case {
  const looks = (count: number): Trial<{ seconds: number; count: number }> => ({
    name: `polls with ${count} schedules`,
    about: `polls with ${count} idle schedules`,
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
      "polls/s",
      taken.map(({ seconds, count }) => count / seconds),
    );
  return {
    name: "schedules-idle",
    trials: [few, many],
    read: (samples) => [
      ratioRow(
        { name: "rate", label: `polls of the scheduler with ${idleSchedules} idle`, figure: rate(samples.of(many)) },
        { label: `with ${FEW}`, figure: rate(samples.of(few)) },
        { atLeast: 0.8 },
      ),
    ],
  };
}
