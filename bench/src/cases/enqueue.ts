import type { Bench, Case } from "../case.js";
import { rates, ratioRow } from "../figures.js";
import { oneCaller, rawSingly } from "./enqueuing.js";

/** One caller that awaits each enqueue: nothing to batch, one commit each. */
export function enqueue(bench: Bench): Case {
  const one = oneCaller(bench);
  const raw = rawSingly(bench);
  return {
    name: "enqueue",
    trials: [one, raw],
    read: (samples) => [
      ratioRow(
        { name: "rate", label: "one by one", figure: rates(samples.of(one)) },
        { label: "raw one-row commits", figure: rates(samples.of(raw)) },
      ),
    ],
  };
}
