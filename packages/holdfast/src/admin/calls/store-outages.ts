import type { EngineContext } from "../../engine/context.js";
import { ADMIN_API } from "../../engine/events/outage-log.js";
import { isOutage } from "../../errors.js";
import { isAudited } from "./audit-entry.js";
import type { RouteName } from "../contract/routes.js";

/** Calls that may succeed without the store, so their success does not end an outage. */
const WITHOUT_STORE = /^session\.|^schedules\.preview$/;

export type StoreAccess = "read" | "write";

/**
 * Emits `outage` and `outageEnded` for failed API calls, because callers see only a status. Reads still work on a store that is
 * read-only or full, so if only writes have failed, only a successful write ends the outage.
 */
export class StoreOutages {
  readonly #events: EngineContext["events"];
  #failing: StoreAccess | null = null;

  constructor(events: EngineContext["events"]) {
    this.#events = events;
  }

  failed(access: StoreAccess, error: unknown): void {
    if (this.#failing !== "read") this.#failing = access;
    this.#events.emit("outage", { doing: ADMIN_API, error });
  }

  succeeded(access: StoreAccess): void {
    if (this.#failing === null || (this.#failing === "write" && access === "read")) return;
    this.#failing = null;
    this.#events.emit("outageEnded", { doing: ADMIN_API });
  }

  /** Runs one call. Errors caused by the call itself do not count as an outage. */
  async watch<Result>(name: RouteName | "summary", work: () => Promise<Result>): Promise<Result> {
    const access = name !== "summary" && isAudited(name) ? "write" : "read";
    try {
      const result = await work();
      if (!WITHOUT_STORE.test(name)) this.succeeded(access);
      return result;
    } catch (error) {
      if (isOutage(error)) this.failed(access, error);
      throw error;
    }
  }
}
