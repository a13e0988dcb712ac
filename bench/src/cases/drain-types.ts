import type { Bench, Case } from "../case.js";
import { NOOP } from "../jobs.js";
import { burdened } from "./burdened.js";

/** A worker that asks for one type must not walk over the due jobs of another. */
export function drainTypes(bench: Bench): Case {
  const { other } = bench.scale.beside;
  return burdened(bench, {
    name: "drain-types",
    label: `of one type, behind ${other.toLocaleString("en")} due jobs of another`,
    burden: [{ kind: "other", count: other }],
    types: [NOOP],
    atLeast: bench.bed.limits.drainTypes,
  });
}
