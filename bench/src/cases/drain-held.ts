import type { Bench, Case } from "../case.js";
import { burdened } from "./burdened.js";

/** A transaction that stays open, like that of a backup, keeps the database from cleaning up during the drain. */
export function drainHeld(bench: Bench): Case {
  return burdened(bench, {
    name: "drain-held",
    label: "with a transaction held open",
    burden: [],
    held: true,
  });
}
