import { ApiError } from "../http/api-error.js";

/** Changes under way, up to where they are written down: when the API closes no more begin, and these are waited for. */
export class UnderWay {
  readonly #changes = new Set<Promise<unknown>>();
  #closing = false;

  async run<Answer>(change: () => Promise<Answer>): Promise<Answer> {
    if (this.#closing) {
      throw new ApiError(503, "CLOSING", "this server is closing and changes nothing more; try again when it is back", {
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
