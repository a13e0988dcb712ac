// What can be done with the jobs of a group.
import { serverNow } from "../../app/now.js";
import { signal, type ReadonlySignal } from "../../app/signals.js";
import type { ErrorGroupResult } from "holdfast/admin";
import { ACTIONS, type Action, type Target } from "../jobs/actions.js";

/** `first`: some of the dead jobs, and then the others. */
export type GroupAction = "first" | "retry" | "cancel" | "delete";

export interface Chosen {
  action: Action;
  target: Target;
  isTrial: boolean;
}

const chosen = signal<Chosen | null>(null);
/** What the dialog asks about. */
export const chosenAction: ReadonlySignal<Chosen | null> = chosen;

export function closeAction(): void {
  chosen.value = null;
}

export function openAction({ fingerprint }: Pick<ErrorGroupResult, "fingerprint">, name: GroupAction): void {
  const isTrial = name === "first";
  const action = ACTIONS.find((each) => each.name === (isTrial ? "retry" : name));
  if (action === undefined) return;
  const conditions = { fingerprint, state: [name === "cancel" ? "failed" : "dead"] } as const;
  const createdBefore = new Date(serverNow()).toISOString();
  chosen.value = { action, target: { kind: "filter", conditions, createdBefore }, isTrial };
}
