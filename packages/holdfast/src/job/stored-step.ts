import type { NewJob } from "./stored-job.js";

/**
 * What a step is: `run` a function of the handler, `sleep` a wait for a time, `event` a wait for an event, `job` a wait for a child
 * job.
 */
export type StepKind = "run" | "sleep" | "event" | "job";

/**
 * `waiting`: for its topic, or until its time; a `run` waits for its own retry. `done` and `failed` steps have ended: their values
 * and errors never change, except that a settle can reopen failed ones.
 */
export type StepState = "waiting" | "done" | "failed";

/** Why a step failed. `state` is how a child job ended. */
export interface StepFailure {
  message: string;
  code: string | null;
  state?: "dead" | "cancelled" | "missing";
}

/**
 * A named step of a job. A handler that runs again gets the results of steps that have ended from here. `member` numbers the
 * children of a set, which share a name; otherwise it is 0.
 */
export interface StoredStep {
  name: string;
  member: number;
  /** Its place in the order in which the handler began the steps of the job. */
  order: number;
  kind: StepKind;
  state: StepState;
  /** The fencing token under which it was last stored by a handler. */
  fence: number;
  /** How often its function failed. */
  tries: number;
  /** What it waits for, or waited for: `event:<name>` or `job:<id>`. Null for `run` and `sleep`. */
  topic: string | null;
  /** JSON; null if it has not succeeded, or if its function returned nothing. */
  value: string | null;
  failure: StepFailure | null;
  startedAt: number;
  /** Null: it has not ended. A reopened step that waits again keeps the time when it failed. */
  endedAt: number | null;
  /** When a wait ends by itself: a `sleep` is over, an `event` has timed out, a `run` is retried. Null: never. */
  until: number | null;
}

/**
 * The steps of a job, by `order` and `member`. `wakes` is how often a wait of them ended while the job was leased: a park that knows
 * of fewer is refused.
 */
export interface JobSteps {
  steps: StoredStep[];
  wakes: number;
}

/** A step as its handler stores it. */
export interface StepWrite {
  /** The lease: the job, and the fencing token of its claim. */
  id: string;
  fence: number;
  name: string;
  member: number;
  order: number;
  kind: StepKind;
  to: StepState;
  tries: number;
  topic: string | null;
  value: string | null;
  failure: StepFailure | null;
  /** A wait ends by itself this long from now, by the store's clock. */
  forMs: number | null;
  /**
   * For members of a set of children: when the job is woken. `last`: once no member waits any more. `failure`: also when one
   * fails.
   */
  wake: "last" | "failure";
  /** The child job, which is inserted in the same transaction. Has no unique key. One whose id exists is not inserted again. */
  child: NewJob | null;
}

/**
 * `kept`: the step as it is stored now, which is the earlier one if it had ended. `cancel`: the same, and cancellation of the job
 * was requested. `lost`: the lease is no longer held. `busy`: another transaction has locked the job's row; try again. In the last
 * two cases nothing was written. `refused`: the store cannot store this step or its child, whenever it is tried.
 */
export type StepResult =
  | { status: "kept" | "cancel"; step: StoredStep }
  | { status: "lost" }
  | { status: "busy" }
  | { status: "refused"; error: string };

/** An event that jobs can wait for. */
export interface NewEvent {
  name: string;
  /** JSON. */
  payload: string;
  /** How long it is kept for jobs that wait for it later. */
  keepMs: number;
}

/** `first`: false if an event of this name is kept already. Jobs that wait for it get that one. */
export interface EmitResult {
  first: boolean;
}

/**
 * The due time of a parked job that waits without a time limit: later than every instant that a `Date` of this millennium has, with
 * 15 digits, so that it sorts last in every store. It is no due time for hints and statistics.
 */
export const PARKED_AT = 999_999_999_999_999;

export function eventTopic(name: string): string {
  return `event:${name}`;
}
export function jobTopic(id: string): string {
  return `job:${id}`;
}

/** What the column `ties` of a job consists of; NULL for jobs without any. */
export const TIES = {
  /** Bit: it has steps. */
  steps: 1,
  /** Bit: another job waits for its end. */
  awaited: 2,
  /** Added for each wait of its steps that ended while it was leased. */
  wake: 4,
} as const;

/** How often a wait of a job's steps ended while it was leased. */
export function wakesOf(ties: number | null): number {
  return Math.floor((ties ?? 0) / TIES.wake);
}

/** The failure of a wait for a child job that did not complete. */
export function childFailure(
  state: "dead" | "cancelled" | "missing",
  error: { message: string; code: string | null } | null,
): StepFailure {
  const message = error?.message ?? (state === "missing" ? "the job does not exist any more" : "the job was cancelled");
  return { message, code: error?.code ?? null, state };
}
