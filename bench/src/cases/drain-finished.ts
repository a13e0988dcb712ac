import type { Bench, Case } from "../case.js";
import { burdened } from "./burdened.js";

/** Stored finished jobs must not slow down later jobs. */
export function drainFinished(bench: Bench): Case {
  const { finished } = bench.scale.background;
  return burdened(bench, {
    name: "drain-finished",
    label: `with ${finished.toLocaleString("en")} finished jobs`,
    burden: [{ kind: "finished", count: finished }],
  });
}
