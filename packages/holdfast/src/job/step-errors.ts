import { brand, HoldfastError } from "../errors.js";
import type { StepFailure } from "./stored-step.js";

/** A step failed, in this run or an earlier one. `code` is that of the error which its function threw, or `STEP_FAILED`. */
export class StepFailedError extends HoldfastError {
  readonly step: string;
  constructor(step: string, { message, code }: StepFailure, options?: { cause?: unknown }) {
    super(code ?? "STEP_FAILED", `step ${JSON.stringify(step)} failed: ${message}`, options);
    this.step = step;
  }
}

/** A child job that a step waited for did not complete. The job is dead, because its child has used its own attempts. */
export class ChildFailedError extends HoldfastError {
  static {
    brand(this, "NotRetryable");
  }
  readonly step: string;
  readonly child: string;
  readonly state: "dead" | "cancelled" | "missing";
  constructor(step: string, child: string, { message, state = "dead" }: StepFailure) {
    super("CHILD_FAILED", `step ${JSON.stringify(step)}: job ${child} ended ${state}: ${message}`);
    this.step = step;
    this.child = child;
    this.state = state;
  }
}

/** Two steps of a handler have the same name. A result could then be given to the wrong one. */
export class DuplicateStepError extends HoldfastError {
  static {
    brand(this, "NotRetryable");
  }
  constructor(step: string) {
    super(
      "DUPLICATE_STEP",
      `two steps of this job are named ${JSON.stringify(step)}; in a loop, pass an array as the name, such as ["${step}", id]`,
    );
  }
}

/** A step of this name was stored by an earlier run, but it was a step of another kind. */
export class StepChangedError extends HoldfastError {
  static {
    brand(this, "NotRetryable");
  }
  constructor(step: string, was: string, is: string) {
    super(
      "STEP_CHANGED",
      `step ${JSON.stringify(step)} of this job began as ${was} and is now ${is}; give the new step another name`,
    );
  }
}

/** A job has as many steps, or as large results of steps, as it may have. */
export class TooManyStepsError extends HoldfastError {
  static {
    brand(this, "NotRetryable");
  }
  constructor(problem: string) {
    super("TOO_MANY_STEPS", `${problem}; enqueue another job to continue`);
  }
}

/** The result of a step cannot be stored: JSON cannot represent it, or it is too large. Its function ran, so it is not repeated. */
export class StepResultError extends HoldfastError {
  static {
    brand(this, "NotRetryable");
  }
  constructor(step: string, problem: string) {
    super("INVALID_STEP_RESULT", `the result of step ${JSON.stringify(step)} cannot be stored: it ${problem}`);
  }
}

/** The function of a step took longer than its `timeout`. */
export class StepTimeoutError extends HoldfastError {
  constructor(step: string, ms: number) {
    super("STEP_TIMEOUT", `step ${JSON.stringify(step)} took longer than ${ms / 1_000} s`);
  }
}

/** A step called `keepIn`, but its function returned before the transaction was committed. */
export class StepNotCommittedError extends HoldfastError {
  constructor(step: string) {
    super(
      "STEP_NOT_COMMITTED",
      `the transaction that keeps the result of step ${JSON.stringify(step)} is not committed; commit it before the function returns`,
    );
  }
}

/**
 * The job is parked: it waits without a worker, and its handler runs again from the top when it goes on. Thrown from `sleep`, `waitFor`
 * and `spawn`, so that `finally` blocks run. Do not catch it: whatever the handler does after it is ignored.
 */
export class ParkedError extends HoldfastError {
  constructor(id: string) {
    super("PARKED", `job ${id} waits, and continues in another run of its handler`);
  }
}

/** A step was called after its handler had ended. */
export class StepTooLateError extends HoldfastError {
  constructor(step: string, id: string) {
    super(
      "STEP_TOO_LATE",
      `step ${JSON.stringify(step)} was called after the handler of job ${id} had ended; await all steps before it returns`,
    );
  }
}
