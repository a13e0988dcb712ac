import type { Telemetry } from "../engine/events/telemetry.js";
import type { Logger } from "../engine/events/logger.js";
import { stackOf } from "../job/thrown.js";

/** What jobs under way have to end after a fault: the process may be in any state, and others wait for its jobs. */
const LAST_MS = 5_000;

/**
 * Hears of what nobody caught, a floating rejection in a handler say, and knows the jobs that were under way. Only
 * `uncaughtException` is heard: a module that deals with unhandled rejections itself keeps doing so.
 */
export class Faults {
  readonly #logger: () => Logger;
  readonly #fault = new AbortController();
  readonly #underWay = new Map<object, string>();
  #over: () => void = () => {};
  /** Resolved when the time to end in good order has passed. */
  readonly over: Promise<void> = new Promise((resolve) => (this.#over = resolve));

  constructor(logger: () => Logger) {
    this.#logger = logger;
    process.on("uncaughtException", this.#hear);
  }

  /** Aborted by the first fault. */
  get signal(): AbortSignal {
    return this.#fault.signal;
  }

  /** Given to the client, it tells which handlers run. */
  readonly telemetry: Telemetry = {
    enqueue: () => ({ carrier: null, end: () => {} }),
    run: ({ job: { id, type } }) => {
      const key = {};
      this.#underWay.set(key, `${type} ${id}`);
      return { inside: (handler) => handler(), end: () => void this.#underWay.delete(key) };
    },
  };

  /** After a fault it goes on listening: the next must not end the process before its jobs are given back. */
  stop(): void {
    if (!this.signal.aborted) process.off("uncaughtException", this.#hear);
  }

  readonly #hear = (error: unknown, origin: string): void => {
    if (this.signal.aborted) return;
    const what =
      origin === "unhandledRejection" ? "a promise was rejected and nobody caught it" : "nobody caught an error";
    const at = stackOf(error)
      ?.split("\n")
      .find((line) => line.startsWith("    at "))
      ?.trim();
    this.#logger().error(
      { error, ...(at !== undefined && { at }), underWay: [...this.#underWay.values()] },
      `${what}; this process ends, and gives back what it has not begun`,
    );
    this.#fault.abort();
    setTimeout(this.#over, LAST_MS);
  };
}
