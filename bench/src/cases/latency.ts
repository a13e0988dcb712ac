import type { Bench, Case, Trial } from "../case.js";
import { differenceRow, percentiles, ratioRow } from "../figures.js";
import { playRole } from "../process.js";

/** From `enqueue` to the first line of the handler, in one process with an idle worker. */
export function latency({ bed, scale: { samples: count } }: Bench): Case {
  const trial: Trial<number[]> = {
    name: "latency",
    about: "enqueue to start",
    async run() {
      const place = await bed.place([]);
      const taken = await playRole("latency", { url: place.url, samples: count });
      await place.remove();
      return taken;
    },
  };
  const raw: Trial<number[]> = {
    name: "raw two commits",
    about: "raw insert and claim",
    async run() {
      const place = await bed.place([]);
      const taken = await playRole("rawTwoCommits", { url: place.url, count, batch: 1 });
      await place.remove();
      return taken;
    },
  };
  return {
    name: "latency",
    trials: [trial, raw],
    read(samples) {
      const line = (name: string, fraction: number): Parameters<typeof differenceRow> => [
        { name, label: `enqueue to start, ${name}`, figure: percentiles(samples.of(trial), fraction) },
        { label: "two raw commits", figure: percentiles(samples.of(raw), fraction) },
      ];
      const [p50, p50Raw] = line("p50", 0.5);
      const { latency: most } = bed.limits;
      const first =
        "times" in most
          ? ratioRow(p50, p50Raw, { atMost: most.times })
          : differenceRow(p50, p50Raw, { atMost: most.moreMs });
      return [first, differenceRow(...line("p99", 0.99))];
    },
  };
}
