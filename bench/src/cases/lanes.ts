import type { Bench, Case, Row, Trial } from "../case.js";
import { differenceRow, figure, percentiles, ratioRow } from "../figures.js";
import { playRole } from "../process.js";
import type { Idle } from "../roles/idle.js";

const MAX_TIMES = 1.5;
const MAX_MORE_PERCENT = 1;

/** Empty queues that were used before, such as one per tenant, must cost other jobs nothing. */
export function lanes({ bed, scale: { lanes: empty, samples: count, watchedMs } }: Bench): Case {
  const withLanes = `with ${empty.toLocaleString("en")} empty lanes`;
  const trials = (lanesThere: number, about: string): { results: Trial<number[]>; idle: Trial<Idle> } => {
    const filling = [{ kind: "empty lanes", count: lanesThere }] as const;
    return {
      results: {
        name: `results ${about}`,
        about: `enqueue to result ${about}`,
        async run() {
          const place = await bed.place(filling);
          const taken = await playRole("results", { url: place.url, samples: count });
          await place.remove();
          return taken;
        },
      },
      idle: {
        // Without empty lanes, the case `idle` measures the same.
        name: lanesThere === 0 ? "idle" : `idle ${about}`,
        about: `an idle worker and scheduler ${about}`,
        rounds: 1,
        async run() {
          const place = await bed.place(filling);
          const taken = await playRole("idle", { url: place.url, watchedMs });
          await place.remove();
          return taken;
        },
      },
    };
  };
  const many = trials(empty, withLanes);
  const none = trials(0, "without empty lanes");
  return {
    name: "lanes",
    trials: [none.results, many.results, none.idle, many.idle],
    read(samples) {
      const row = (name: string, fraction: number, limits: { atMost?: number }): Row =>
        ratioRow(
          {
            name,
            label: `enqueue to result ${withLanes}, ${name}`,
            figure: percentiles(samples.of(many.results), fraction),
          },
          { label: "without empty lanes", figure: percentiles(samples.of(none.results), fraction) },
          limits,
        );
      const busy = (trial: Trial<Idle>): ReturnType<typeof figure> =>
        figure(
          "%",
          samples.of(trial).map(({ busyPercent }) => busyPercent),
        );
      return [
        row("p50", 0.5, { atMost: MAX_TIMES }),
        row("p99", 0.99, {}),
        differenceRow(
          { name: "idle", label: `idle ${withLanes}, share of one core`, figure: busy(many.idle) },
          { label: "without empty lanes", figure: busy(none.idle) },
          { atMost: MAX_MORE_PERCENT },
        ),
      ];
    },
  };
}
