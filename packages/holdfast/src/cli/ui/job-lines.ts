import type { EventName } from "../../engine/events/events.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { Logger } from "../../engine/events/logger.js";

const ENDS = ["completed", "failed", "dead", "cancelled", "released", "lost", "stuck"] as const satisfies EventName[];
// An end may go untold, when the store fails; those are not remembered for ever.
const MOST_BEGUN = 10_000;

/**
 * A line in the log for each job that begins, writes a line of its own, or ends well: whoever develops wants to see that something
 * happens. Those that fail are in every log anyway. A job that ends within a moment, and writes nothing, has no line for its start.
 */
export function logJobs(hf: Holdfast, logger: Logger): void {
  /** Jobs whose start is in the log. */
  const begun = new Set<string>();
  // The store confirms a start some time after the handler began, which may have written lines by then.
  const logStart = ({ id, type, attempt }: { id: string; type: string; attempt: number }): void => {
    if (begun.has(id)) return;
    if (begun.size >= MOST_BEGUN) begun.clear();
    begun.add(id);
    logger.info({ job: id, type, attempt }, "job started");
  };
  hf.on("started", logStart);
  hf.on("log", (event) => {
    logStart(event);
    logger.info({ job: event.id, type: event.type, line: event.line }, "job says");
  });
  hf.on("completed", ({ id, type, attempt, durationMs }) => {
    logger.info({ job: id, type, attempt, durationMs: Math.round(durationMs) }, "job completed");
  });
  hf.on("cancelled", ({ id, type }) => logger.info({ job: id, type }, "job cancelled"));
  for (const name of ENDS) hf.on(name, ({ id }) => begun.delete(id));
}
