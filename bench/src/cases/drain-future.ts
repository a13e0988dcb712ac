import type { Bench, Case } from "../case.js";
import { burdened } from "./burdened.js";

/** Future jobs of a higher priority must cost nothing, and neither must a long queue. */
export function drainFuture(bench: Bench): Case {
  const { ready, future } = bench.scale.background;
  const queue = ready === 0 ? "" : `at the head of ${ready.toLocaleString("en")} due jobs, `;
  return burdened(bench, {
    name: "drain-future",
    label: `${queue}with ${future.toLocaleString("en")} future ones of higher priority`,
    burden: [
      { kind: "future", count: future },
      { kind: "due", count: ready },
    ],
    endless: ready > 0,
  });
}
