import type { Holdfast } from "../engine/holdfast.js";
import type { Logger } from "../engine/logger.js";

/**
 * A line in the log for each job that begins, writes a line of its own, or ends well: whoever develops wants to see that something
 * happens. Those that fail are in every log anyway. A job that ends within a moment is not told as begun.
 */
export function logJobs(hf: Holdfast, logger: Logger): void {
  hf.on("started", ({ id, type, attempt }) => logger.info({ job: id, type, attempt }, "job started"));
  hf.on("log", ({ id, type, line }) => logger.info({ job: id, type, line }, "job says"));
  hf.on("completed", ({ id, type, attempt, durationMs }) =>
    logger.info({ job: id, type, attempt, durationMs: Math.round(durationMs) }, "job completed"),
  );
  hf.on("cancelled", ({ id, type }) => logger.info({ job: id, type }, "job cancelled"));
}
