import type { Bench, Case } from "../case.js";
import { NOOP } from "../jobs.js";
import { burdened } from "./burdened.js";

/** A worker that asks for one type must not walk over the due jobs of another. */
export function drainTypes(bench: Bench): Case {
  const { jobs } = bench.scale;
  return burdened(bench, {
    name: "drain-types",
    label: "of one type, behind due jobs of another",
    burden: { kind: "other", count: jobs },
    types: [NOOP],
  });
}
