/** The same symbol in all copies of this package. */
const DONE: unique symbol = Symbol.for("holdfast.doneInTransaction") as never;

/** Marks the promise of a call in the caller's transaction that has done its work already, because the driver is synchronous. */
export function markDone<Result>(promise: Promise<Result>): Promise<Result> {
  return Object.assign(promise, { [DONE]: true });
}

/** Whether {@link markDone} marked it. A promise that was made from a marked one is not marked. */
export function isDone(promise: PromiseLike<unknown>): boolean {
  return (promise as { [DONE]?: unknown })[DONE] === true;
}
