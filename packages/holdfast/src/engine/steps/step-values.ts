import { LIMITS } from "../../defaults.js";
import { fromJson, jsonBytes, NotJson, refuseNul, toJson } from "../../job/json.js";
import { StepResultError } from "../../job/step-errors.js";

/** The JSON of a step's result; null if there is none. */
export function encodeStepValue(step: string, value: unknown): string | null {
  if (value === undefined) return null;
  try {
    const text = toJson(value);
    refuseNul(text);
    const bytes = jsonBytes(text);
    if (bytes <= LIMITS.payloadBytes) return text;
    throw new StepResultError(
      step,
      `is ${bytes} bytes of JSON; the limit is ${LIMITS.payloadBytes}. Store it elsewhere and return a reference`,
    );
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    const { path, message } = error.issue;
    throw new StepResultError(step, `is no JSON${path === "" ? "" : ` at ${path}`}: ${message}`);
  }
}

export function decodeStepValue(text: string | null): unknown {
  return text === null ? undefined : fromJson(text);
}
