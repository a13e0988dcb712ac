// What can be done with the jobs of a group.
import { signal, type ReadonlySignal } from "../../app/signals.js";
import type { ErrorGroupResult } from "holdfast/admin";
import { api } from "../../app/api.js";
import { act, toast } from "../../app/toasts.js";
import { ACTIONS, type Action, type Target } from "../jobs/actions.js";

/** `first`: a trial with a few of the dead jobs. */
export type GroupAction = "first" | "retry" | "cancel" | "delete";

export interface Chosen {
  action: Action;
  target: Target;
}

const chosen = signal<Chosen | null>(null);
/** What the dialog asks about. */
export const chosenAction: ReadonlySignal<Chosen | null> = chosen;

/** The size of a trial. */
export const FIRST = 10;

export function closeAction(): void {
  chosen.value = null;
}

export async function openAction(
  { fingerprint }: Pick<ErrorGroupResult, "fingerprint">,
  name: GroupAction,
): Promise<void> {
  const action = ACTIONS.find((each) => each.name === (name === "first" ? "retry" : name));
  if (action === undefined) return;
  if (name !== "first") {
    const state = name === "cancel" ? "failed" : "dead";
    chosen.value = {
      action,
      target: { kind: "filter", conditions: { fingerprint, state: [state] }, createdBefore: new Date().toISOString() },
    };
    return;
  }
  await act(async () => {
    const { jobs } = await api.jobs.list({ fingerprint, state: ["dead"], limit: FIRST });
    if (jobs.length === 0) toast("No job is dead with this error now.", { kind: "info" });
    else chosen.value = { action, target: { kind: "ids", jobs } };
  });
}
