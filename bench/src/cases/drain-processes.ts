import type { Bench, Case, Trial } from "../case.js";
import { ratioRow, rates } from "../figures.js";
import { startRole } from "../process.js";
import type { Timed } from "../roles/enqueue.js";
import { checkEnds, plainDrain, runRates } from "./draining.js";

const PROCESSES = 4;
// Only all processes together show when the queue is empty, so each reports its progress often.
const PROGRESS_MS = 10;

/** Several worker processes on one store. */
export function drainProcesses(bench: Bench): Case {
  const plain = plainDrain(bench);
  const together = drainTogether(bench);
  return {
    name: "drain-processes",
    trials: [plain, together],
    read: (samples) => [
      ratioRow(
        { name: "rate", label: `${PROCESSES} worker processes together`, figure: rates(samples.of(together)) },
        { label: "one process", figure: runRates(samples.of(plain)) },
      ),
    ],
  };
}

function drainTogether({ bed, scale: { jobs } }: Bench): Trial<Timed> {
  return {
    name: "drain-processes",
    about: `drain by ${PROCESSES} processes`,
    async run(progress) {
      const place = await bed.place([{ kind: "due", count: jobs }]);
      const order = {
        url: place.url,
        concurrency: bed.limits.concurrency,
        types: null,
        expect: null,
        progressMs: PROGRESS_MS,
      };
      const ran = Array.from({ length: PROCESSES }, () => 0);
      let over = false;
      const workers = ran.map((_, index) =>
        startRole("drain", order, (count) => {
          ran[index] = count;
          const total = ran.reduce((sum, each) => sum + each, 0);
          progress(total / jobs);
          if (over || total < jobs) return;
          over = true;
          for (const worker of workers) worker.stop();
        }),
      );
      await Promise.all(workers.map((worker) => worker.ready));
      for (const worker of workers) worker.go();
      const results = await Promise.all(workers.map((worker) => worker.result));
      await checkEnds(place.url, { completed: jobs, dead: 0 });
      await place.remove();
      return { seconds: Math.max(...results.map(({ seconds }) => seconds)), count: jobs };
    },
  };
}
