import type { JobStep } from "../../job/step-types.js";
import type { Redactor } from "../../redact.js";
import type { StepResult, StepsResult } from "../contract/api-types.js";

const MAX_STEPS = 2_000;
// A job may have thousands of results of 256 kB.
const MAX_VALUE_LENGTH = 16_384;

/** The steps of a job: times as strings, results redacted as outputs are. */
export function stepsResult(steps: readonly JobStep[], redact: Redactor): StepsResult {
  return { steps: steps.slice(0, MAX_STEPS).map((step) => stepResult(step, redact)), total: steps.length };
}

function stepResult({ startedAt, endedAt, until, value, ...step }: JobStep, redact: Redactor): StepResult {
  const { output } = redact({ output: value });
  return {
    ...step,
    value: isShort(output) ? (output ?? null) : null,
    startedAt: startedAt.toISOString(),
    endedAt: endedAt?.toISOString() ?? null,
    until: until?.toISOString() ?? null,
  };
}

function isShort(value: unknown): boolean {
  return (JSON.stringify(value)?.length ?? 0) <= MAX_VALUE_LENGTH;
}
