import type { EngineContext } from "../../engine/context.js";
import { ADMIN_API } from "../../engine/events/outage-log.js";
import { isOutage } from "../../errors.js";
import { isDeed } from "./audit-entry.js";
import type { RouteName } from "../contract/routes.js";

/** Calls that may be answered without the store: that they are answered proves nothing. */
const WITHOUT_STORE = /^(?:session|operations)\.|^schedules\.preview$/;

/** What a call asks of the store: to look, or to change something. */
export type Asks = "look" | "change";

/**
 * Tells that the store fails calls of the API, and when it is over: callers see no more than a status. A store that is read-only
 * or full still answers looks, so that only a change shows that it takes changes again.
 */
export class Outages {
  readonly #events: EngineContext["events"];
  #failing: Asks | null = null;

  constructor(events: EngineContext["events"]) {
    this.#events = events;
  }

  failed(asks: Asks, error: unknown): void {
    if (this.#failing !== "look") this.#failing = asks;
    this.#events.emit("outage", { doing: ADMIN_API, error });
  }

  answered(asks: Asks): void {
    if (this.#failing === null || (this.#failing === "change" && asks === "look")) return;
    this.#failing = null;
    this.#events.emit("outageEnded", { doing: ADMIN_API });
  }

  /** Watches one call. What is wrong with the call itself says nothing of the store. */
  async watch<Answer>(name: RouteName | "summary", work: () => Promise<Answer>): Promise<Answer> {
    const asks = name !== "summary" && isDeed(name) ? "change" : "look";
    try {
      const answer = await work();
      if (!WITHOUT_STORE.test(name)) this.answered(asks);
      return answer;
    } catch (error) {
      if (isOutage(error)) this.failed(asks, error);
      throw error;
    }
  }
}
