/**
 * Calling what the user gave us: listeners, loggers, backoff functions, telemetry. Such a function may throw, return a promise
 * that rejects, or return an object whose `then` throws; none of that may stop a worker or end the process.
 */

/** Told of a callback that failed. Must not throw. */
export type OnFailure = (error: unknown) => void;

/** Whether a value can be awaited. By its shape: a promise of another realm is no `instanceof Promise`. Throws if reading `then` does. */
export function isThenable<Value>(value: Value | PromiseLike<Value>): value is PromiseLike<Value> {
  if (typeof value !== "object" && typeof value !== "function") return false;
  return value !== null && typeof (value as { then?: unknown }).then === "function";
}

/** Calls a callback whose result nobody waits for. Never throws; `failed` is told of a throw or a rejection. */
export function callSafely(call: () => unknown, failed: OnFailure): void {
  try {
    watchResult(call(), failed);
  } catch (error) {
    failed(error);
  }
}

/** Keeps a rejection of a callback's result, should it be a promise, from ending the process. Never throws. */
export function watchResult(result: unknown, failed: OnFailure): void {
  // Most callbacks return nothing.
  if ((typeof result !== "object" && typeof result !== "function") || result === null) return;
  // Not Promise.resolve(result): that reads `result.constructor`, which may throw here.
  new Promise((resolve) => resolve(result)).catch(failed);
}
