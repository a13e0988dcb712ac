import type { Telemetry } from "../engine/events/telemetry.js";
import type { Logger } from "../engine/events/logger.js";
import { stackOf } from "../job/thrown.js";

/** How long running jobs may take after an uncaught error. The process may be in any state, so this is short. */
const GRACE_MS = 5_000;

/**
 * Logs an uncaught error, such as an unhandled rejection in a handler, with the jobs that were running. It listens to
 * `uncaughtException` only: a module that handles unhandled rejections itself keeps doing so.
 */
export class CrashHandler {
  readonly #logger: () => Logger;
  readonly #crash = new AbortController();
  readonly #running = new Map<object, string>();
  #endGrace: () => void = () => {};
  /** Resolves when the grace time after an uncaught error has passed. */
  readonly graceEnded: Promise<void> = new Promise((resolve) => (this.#endGrace = resolve));

  constructor(logger: () => Logger) {
    this.#logger = logger;
    process.on("uncaughtException", this.#handle);
  }

  /** Aborted by the first uncaught error. */
  get signal(): AbortSignal {
    return this.#crash.signal;
  }

  /** Passed to the client, to know which handlers are running. */
  readonly telemetry: Telemetry = {
    enqueue: () => ({ carrier: null, end: () => {} }),
    run: ({ job: { id, type } }) => {
      const key = {};
      this.#running.set(key, `${type} ${id}`);
      return { inside: (handler) => handler(), end: () => void this.#running.delete(key) };
    },
  };

  /** After a crash it keeps listening: another uncaught error must not end the process before jobs are released. */
  stop(): void {
    if (!this.signal.aborted) process.off("uncaughtException", this.#handle);
  }

  readonly #handle = (error: unknown, origin: string): void => {
    if (this.signal.aborted) return;
    const what = origin === "unhandledRejection" ? "unhandled promise rejection" : "uncaught exception";
    const at = stackOf(error)
      ?.split("\n")
      .find((line) => line.startsWith("    at "))
      ?.trim();
    this.#logger().error(
      { error, ...(at !== undefined && { at }), running: [...this.#running.values()] },
      `${what}; shutting down and releasing jobs that have not started`,
    );
    this.#crash.abort();
    setTimeout(this.#endGrace, GRACE_MS);
  };
}
