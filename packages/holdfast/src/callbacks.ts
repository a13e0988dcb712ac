/**
 * Calls the application's callbacks: listeners, loggers, backoff functions, telemetry. A callback may throw, return a promise that
 * rejects, or return an object whose `then` throws. None of these may stop a worker or end the process.
 */

/** Called with the error of a failed callback. Must not throw. */
export type OnFailure = (error: unknown) => void;

/** Whether a value has a `then` method: a promise of another realm is not `instanceof Promise`. Throws if reading `then` throws. */
export function isThenable<Value>(value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  if (typeof value !== "object" && typeof value !== "function") return false;
  return value !== null && typeof (value as { then?: unknown }).then === "function";
}

/** Calls a callback without waiting for its result. Never throws; an error or rejection is passed to `failed`. */
export function callSafely(call: () => unknown, failed: OnFailure): void {
  try {
    watchResult(call(), failed);
  } catch (error) {
    failed(error);
  }
}

/** If a callback returned a promise, passes its rejection to `failed` instead of ending the process. Never throws. */
export function watchResult(result: unknown, failed: OnFailure): void {
  // Most callbacks return nothing.
  if ((typeof result !== "object" && typeof result !== "function") || result === null) return;
  // Not Promise.resolve(result): that reads `result.constructor`, which may throw here.
  new Promise((resolve) => resolve(result)).catch(failed);
}
