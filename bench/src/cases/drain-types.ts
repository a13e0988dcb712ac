import type { Bench, Case } from "../case.js";
import { NOOP } from "../jobs.js";
import { burdened } from "./burdened.js";

/** A worker for one type must not read the due jobs of another. */
export function drainTypes(bench: Bench): Case {
  const { other } = bench.scale.background;
  return burdened(bench, {
    name: "drain-types",
    label: `of one type, behind ${other.toLocaleString("en")} due jobs of another`,
    burden: [{ kind: "other", count: other }],
    types: [NOOP],
    atLeast: bench.bed.limits.drainTypes,
  });
}
