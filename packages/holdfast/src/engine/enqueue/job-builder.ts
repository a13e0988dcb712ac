import { lengthOf } from "../../duration.js";
import { newId } from "../../job/uuid.js";
import type { JobType } from "../../job/job.js";
import type { NewJob, UniqueKey } from "../../store.js";
import type { EngineContext } from "../context.js";
import type { TracedCall } from "../events/telemetry.js";
import { readNewJob, type EnqueueOptions } from "./new-job.js";
import { requiredRetentionMs } from "./unique.js";

// Types with names generated at run time must not flood the log.
const MAX_WARNED_TYPES = 20;

/** Builds the record of a new job from its type, encoded input and options. */
export class JobBuilder {
  readonly #engine: EngineContext;
  readonly #warnedTypes = new Set<string>();

  constructor(engine: EngineContext) {
    this.#engine = engine;
  }

  build(type: JobType, input: string, options: EnqueueOptions, trace: TracedCall | null): NewJob {
    const job = readNewJob(this.#engine.retry.applyTo(type), input, options, this.#engine.clock.now(), newId);
    if (job.unique?.scope === "period") this.#warnOfRetention(job.type, job.unique);
    return trace === null ? job : withTrace(job, trace);
  }

  /**
   * Warns if completed jobs are deleted before the period of their key ends. Deleting a job frees its key: with a period of a
   * month and a retention of a week, there could be four jobs in a month.
   */
  #warnOfRetention(type: string, unique: UniqueKey): void {
    const retentionMs = this.#engine.settler.retentionMs("completed");
    const periodMs = requiredRetentionMs(unique);
    if (retentionMs === null || retentionMs >= periodMs) return;
    if (this.#warnedTypes.has(type) || this.#warnedTypes.size >= MAX_WARNED_TYPES) return;
    this.#warnedTypes.add(type);
    this.#engine.logger.warn(
      { type, period: lengthOf(periodMs), retention: lengthOf(retentionMs) },
      "the period of a unique key is longer than the retention of completed jobs, and deleting a job frees its key; raise retention.completed",
    );
  }
}

/** The job with the trace context of the call that enqueues it. */
export function withTrace(job: NewJob, trace: TracedCall | null): NewJob {
  if (trace === null) return job;
  trace.jobs++;
  job.trace = trace.trace;
  return job;
}
