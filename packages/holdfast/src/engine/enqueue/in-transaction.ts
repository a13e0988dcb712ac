import type { Store } from "../../store.js";

/**
 * Makes a call inside the caller's own transaction. With a synchronous driver it throws what goes wrong: only that rolls the
 * caller's transaction back, which may be over by the next turn of the event loop. Otherwise it rejects, like every other call.
 */
export function inTransaction<Result>(store: Store, call: () => Promise<Result>): Promise<Result> {
  if (store.capabilities.synchronous) return call();
  return new Promise((resolve) => resolve(call()));
}
