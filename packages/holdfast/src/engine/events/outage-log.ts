import { messageOf } from "../../job/thrown.js";
import type { EngineContext } from "../context.js";

// During an outage the same error is logged again after this long.
const LOG_AGAIN_MS = 60_000;
const MAX_REMEMBERED = 100;

/** What `outage` events of the admin API have as `doing`. The admin API does not retry; its callers may. */
export const ADMIN_API = "admin API";

/**
 * Logs outages of the store. Every part of the engine runs into an outage, so each error is logged once when it begins, every
 * minute while it lasts, and once when it ends.
 */
export function logOutages({ events, logger, clock }: Pick<EngineContext, "events" | "logger" | "clock">): void {
  const loggedAt = new Map<string, number>();
  events.on("outage", ({ doing, error }) => {
    const message = messageOf(error);
    const now = clock.monotonic();
    if (now - (loggedAt.get(message) ?? Number.NEGATIVE_INFINITY) < LOG_AGAIN_MS) return;
    if (loggedAt.size >= MAX_REMEMBERED) loggedAt.clear();
    loggedAt.set(message, now);
    const next = doing === ADMIN_API ? "" : "; retrying";
    logger.warn({ doing, error }, `a store call failed${next}`);
  });
  // A warning too: an operator who saw the outage begin needs to see it end.
  events.on("outageEnded", ({ doing }) => {
    if (loggedAt.size === 0) return;
    loggedAt.clear();
    logger.warn({ doing }, "the store is available again");
  });
}
