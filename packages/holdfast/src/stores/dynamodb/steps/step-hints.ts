import type { Hint, NewJob, Outcome, StepResult, StepWrite } from "../../../store.js";
import { insertHints } from "../../hints.js";

/** Wake-up hints of `saveSteps`: when the first of the children becomes due. */
export function childHints(writes: readonly StepWrite[], results: readonly StepResult[], now: number): readonly Hint[] {
  const isStored = (at: number): boolean => results[at]?.status === "kept" || results[at]?.status === "cancel";
  const children = writes.flatMap(({ child }, at): NewJob[] => (child !== null && isStored(at) ? [child] : []));
  return insertHints(children, [], now);
}

/** An outcome for hints. A parked job is due when its wait ends by itself, or not at all. */
export function outcomeForHints({ to, delayMs, park }: Outcome, now: number): Pick<Outcome, "to" | "delayMs">[] {
  if (park === undefined) return [{ to, delayMs }];
  return park.until === null ? [] : [{ to, delayMs: Math.max(0, park.until - now) }];
}
