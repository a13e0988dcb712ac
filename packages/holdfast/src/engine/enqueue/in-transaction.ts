import { markDone } from "../../done-promise.js";
import type { Store } from "../../store.js";

/**
 * Makes a call inside the caller's own transaction. With a synchronous driver errors are thrown, not rejected: the transaction
 * commits when the caller's function returns, before a rejected promise could be seen. With other drivers they reject.
 */
export function inTransaction<Result>(store: Store, call: () => Promise<Result>): Promise<Result> {
  if (store.capabilities.synchronous) return markDone(call());
  return new Promise((resolve) => resolve(call()));
}
