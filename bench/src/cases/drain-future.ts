import type { Bench, Case } from "../case.js";
import { burdened } from "./burdened.js";

/** Jobs of a higher priority that are not yet due must cost nothing. */
export function drainFuture(bench: Bench): Case {
  const { jobs } = bench.scale;
  return burdened(bench, {
    name: "drain-future",
    label: "beside future jobs of higher priority",
    burden: { kind: "future", count: jobs },
  });
}
