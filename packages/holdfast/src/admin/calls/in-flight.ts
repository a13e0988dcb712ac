import { ApiError } from "../http/api-error.js";

/** Tracks changes until they are recorded in the audit log. `close` rejects new changes and waits for those in flight. */
export class InFlightChanges {
  readonly #changes = new Set<Promise<unknown>>();
  #closing = false;

  async run<Result>(change: () => Promise<Result>): Promise<Result> {
    if (this.#closing) {
      throw new ApiError(503, "SHUTTING_DOWN", "the server is shutting down and accepts no more changes; retry later", {
        headers: { "retry-after": "5" },
      });
    }
    const running = change();
    this.#changes.add(running);
    try {
      return await running;
    } finally {
      this.#changes.delete(running);
    }
  }

  async close(): Promise<void> {
    this.#closing = true;
    await Promise.allSettled(this.#changes);
  }
}
