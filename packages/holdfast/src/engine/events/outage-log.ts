import { messageOf } from "../../job/thrown.js";
import type { EngineContext } from "../context.js";

// The same trouble is told again after this long: not by everyone who met it, and not for ever.
const AGAIN_MS = 60_000;
const MOST_KNOWN = 100;

/** What an outage is met at by the admin API, which leaves it to its callers to try again. */
export const ADMIN_API = "admin API";

/**
 * Logs outages of the store: each trouble once when it begins and now and then while it lasts, though every part of the
 * engine meets it, and once that it is over.
 */
export function tellOutages({ events, logger, clock }: Pick<EngineContext, "events" | "logger" | "clock">): void {
  const told = new Map<string, number>();
  events.on("outage", ({ doing, error }) => {
    const trouble = messageOf(error);
    const now = clock.monotonic();
    if (now - (told.get(trouble) ?? Number.NEGATIVE_INFINITY) < AGAIN_MS) return;
    if (told.size >= MOST_KNOWN) told.clear();
    told.set(trouble, now);
    const next = doing === ADMIN_API ? "" : "; trying again";
    logger.warn({ doing, error }, `the store failed a call${next}`);
  });
  // As loud as the outage: who saw that begin wants to see it end.
  events.on("outageEnded", ({ doing }) => {
    if (told.size === 0) return;
    told.clear();
    logger.warn({ doing }, "the store answers again");
  });
}
