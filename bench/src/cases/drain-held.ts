import type { Bench, Case } from "../case.js";
import { burdened } from "./burdened.js";

/** A transaction open for the whole time, like a backup's, keeps the database from tidying up behind the drain. */
export function drainHeld(bench: Bench): Case {
  return burdened(bench, {
    name: "drain-held",
    label: "beside a transaction held open",
    burden: [],
    held: true,
  });
}
