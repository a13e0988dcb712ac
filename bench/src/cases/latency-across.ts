import { setTimeout as sleep } from "node:timers/promises";
import { holdfast } from "holdfast";
import type { Bench, Case, Trial } from "../case.js";
import { percentiles, plainRow } from "../figures.js";
import { noop, payload } from "../jobs.js";
import { startRole } from "../process.js";

const WARM_UP = 5;
// Random pauses, so that the samples are not in step with the worker's polls.
const MAX_PAUSE_MS = 20;

/** From `enqueue` in this process to the handler in another. */
export function latencyAcross(bench: Bench): Case {
  const trial = acrossTrial(bench);
  return {
    name: "latency-across",
    trials: [trial],
    read(samples) {
      const line = (name: string, fraction: number): Parameters<typeof plainRow> => [
        { name, label: `across two processes, ${name}`, figure: percentiles(samples.of(trial), fraction) },
      ];
      return [plainRow(...line("p50", 0.5)), plainRow(...line("p99", 0.99))];
    },
  };
}

function acrossTrial({ bed, scale: { samples: count } }: Bench): Trial<number[]> {
  return {
    name: "latency-across",
    about: "enqueue to start in another process",
    async run(progress) {
      const place = await bed.place([]);
      let began: (ms: number) => void = () => {};
      const worker = startRole("listen", { url: place.url }, (ms) => began(ms));
      await worker.ready;
      worker.go();
      const type = noop(() => {});
      const hf = await holdfast({ store: place.url, logger: false });
      const taken: number[] = [];
      for (let index = 0; index < WARM_UP + count; index++) {
        const start = new Promise<number>((resolve) => (began = resolve));
        const sentAt = String(process.hrtime.bigint());
        await Promise.race([hf.enqueue(type, { ...payload(), sentAt }), worker.result]);
        // A worker that exits early never responds; its own error is more useful.
        const ms = await Promise.race([start, worker.result]);
        if (index >= WARM_UP && ms !== undefined) taken.push(ms);
        progress(index / count);
        await sleep(Math.random() * MAX_PAUSE_MS);
      }
      await hf.close();
      worker.stop();
      await worker.result;
      await place.remove();
      return taken;
    },
  };
}
