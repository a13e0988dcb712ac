import type { JobSummary } from "holdfast/admin";
import type { JSX } from "preact";
import { Icon } from "./icon.js";

export type State = JobSummary["state"];
export const STATES: readonly State[] = ["running", "claimed", "pending", "failed", "dead", "completed", "cancelled"];

/** A state by its icon and its word. In tables, states that need no attention have a neutral word. */
export function StateLabel({ state }: { state: State }): JSX.Element {
  return (
    <span class={`state s-${state}`}>
      <Icon name={state} />
      <span>{state}</span>
    </span>
  );
}

export function StatePill({ state }: { state: State }): JSX.Element {
  return (
    <span class={`pill s-${state}`}>
      <Icon name={state} />
      {state}
    </span>
  );
}
