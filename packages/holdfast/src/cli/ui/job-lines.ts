import type { EventName } from "../../engine/events/events.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { Logger } from "../../engine/events/logger.js";

const ENDS = ["completed", "failed", "dead", "cancelled", "released", "lost", "stuck"] as const satisfies EventName[];
// Some jobs end without an event, when the store fails. This bounds how many starts are remembered.
const MAX_STARTED = 10_000;

/**
 * Logs each job that starts, writes a log line, completes or is cancelled. Failures are in every log anyway. A job that
 * completes before the store confirms its start, and writes nothing, has no line for its start.
 */
export function logJobs(hf: Holdfast, logger: Logger): void {
  /** Jobs whose start is in the log. */
  const started = new Set<string>();
  // The store confirms a start after the handler was called, which may have written lines by then.
  const logStart = ({ id, type, attempt }: { id: string; type: string; attempt: number }): void => {
    if (started.has(id)) return;
    if (started.size >= MAX_STARTED) started.clear();
    started.add(id);
    logger.info({ job: id, type, attempt }, "job started");
  };
  hf.on("started", logStart);
  hf.on("log", (event) => {
    logStart(event);
    logger.info({ job: event.id, type: event.type, line: event.line }, "job log");
  });
  hf.on("completed", ({ id, type, attempt, durationMs }) => {
    logger.info({ job: id, type, attempt, durationMs: Math.round(durationMs) }, "job completed");
  });
  hf.on("cancelled", ({ id, type }) => logger.info({ job: id, type }, "job cancelled"));
  for (const name of ENDS) hf.on(name, ({ id }) => started.delete(id));
}
