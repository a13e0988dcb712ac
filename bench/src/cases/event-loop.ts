import type { Bench, Case } from "../case.js";
import { figure, plainRow } from "../figures.js";
import { plainDrain } from "./draining.js";

/** The event-loop delay during a drain, which affects all other code in the process. */
export function eventLoop(bench: Bench): Case {
  const plain = plainDrain(bench);
  return {
    name: "event-loop",
    trials: [plain],
    read(samples) {
      const delays = samples.of(plain).map(({ loopDelay }) => loopDelay);
      const longest = delays.map(({ maxMs }) => maxMs);
      return [
        plainRow({
          name: "p99",
          label: "event-loop delay while draining, p99",
          figure: figure(
            "ms",
            delays.map(({ p99Ms }) => p99Ms),
          ),
        }),
        plainRow({ name: "max", label: "the same, max", figure: figure("ms", longest, Math.max(...longest)) }),
      ];
    },
  };
}
