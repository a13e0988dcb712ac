import type { Bench, Case } from "../case.js";
import { burdened } from "./burdened.js";

/** Finished jobs that are kept must not slow down those that come after. */
export function drainFinished(bench: Bench): Case {
  const { finished } = bench.scale.beside;
  return burdened(bench, {
    name: "drain-finished",
    label: `beside ${finished.toLocaleString("en")} finished jobs`,
    burden: [{ kind: "finished", count: finished }],
  });
}
