import type { StepFailure, StepKind, StepState, StepWrite, StoredStep } from "../../../store.js";
import { itemOf, numberOf, stringOf, type Item } from "../connection/attributes.js";
import { Change } from "../connection/expressions.js";
import { stepKey } from "../jobs/item-keys.js";

/** How the wait for a topic ended. */
export interface TopicEnd {
  value: string | null;
  /** Null: it succeeded. */
  failure: StepFailure | null;
}

/**
 * The item of a step after a write. A wait that is stored again keeps the time at which it ends, unless it waits for its own retry.
 * `listed` identifies its job, and not a later one with the same id.
 */
export function stepItem(
  step: StepWrite,
  listed: string,
  before: Item | null,
  end: TopicEnd | null,
  now: number,
): Item {
  const state = end === null ? step.to : stateOf(end);
  const failure = end === null ? step.failure : end.failure;
  const keepsTime = before !== null && step.to === "waiting" && step.kind !== "run";
  const until = step.forMs === null ? null : now + step.forMs;
  return itemOf({
    ...stepKey(step.id, step.name, step.member),
    listed,
    name: step.name,
    member: step.member,
    place: (before === null ? null : numberOf(before, "place")) ?? step.order,
    kind: step.kind,
    state,
    fence: step.fence,
    tries: step.tries,
    topic: step.topic,
    value: end === null ? step.value : end.value,
    failure: failure === null ? null : JSON.stringify(failure),
    started_at: (before === null ? null : numberOf(before, "started_at")) ?? now,
    ended_at: state === "waiting" ? null : now,
    until: keepsTime ? numberOf(before, "until") : until,
  });
}

export function readStep(item: Item): StoredStep {
  return {
    name: stringOf(item, "name") ?? "",
    member: numberOf(item, "member") ?? 0,
    order: numberOf(item, "place") ?? 0,
    kind: stringOf(item, "kind") as StepKind,
    state: stringOf(item, "state") as StepState,
    fence: numberOf(item, "fence") ?? 0,
    tries: numberOf(item, "tries") ?? 0,
    topic: stringOf(item, "topic"),
    value: stringOf(item, "value"),
    failure: readFailure(item),
    startedAt: numberOf(item, "started_at") ?? 0,
    endedAt: numberOf(item, "ended_at"),
    until: numberOf(item, "until"),
  };
}

export function readFailure(item: Item): StepFailure | null {
  const failure = stringOf(item, "failure");
  return failure === null ? null : (JSON.parse(failure) as StepFailure);
}

export function isWaitingStep(item: Item): boolean {
  return stringOf(item, "state") === "waiting";
}

/** Ends a step that still waits for this topic. */
export function stepEnd(topic: string, listed: string, end: TopicEnd, now: number): Change {
  const { value, failure } = end;
  const change = new Change().set({
    state: stateOf(end),
    value,
    failure: failure === null ? null : JSON.stringify(failure),
    ended_at: now,
  });
  return change.when(
    `#state = ${change.value("waiting")}`,
    `#topic = ${change.value(topic)}`,
    `#listed = ${change.value(listed)}`,
  );
}

function stateOf({ failure }: TopicEnd): "done" | "failed" {
  return failure === null ? "done" : "failed";
}
