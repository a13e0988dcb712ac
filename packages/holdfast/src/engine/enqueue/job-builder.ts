import type { EnqueueOptions } from "../../job/enqueue-types.js";
import { lengthOf } from "../../duration.js";
import { newId } from "../../job/uuid.js";
import type { JobType } from "../../job/job.js";
import type { ClaimedJob, NewJob, UniqueKey } from "../../store.js";
import type { EngineContext } from "../context.js";
import type { TracedCall } from "../events/telemetry.js";
import { readNewJob } from "./new-job.js";
import { requiredRetentionMs } from "./unique.js";

/** The job whose handler enqueues others. They carry its id, and its trace if the call is not traced itself. */
export type ParentJob = Pick<ClaimedJob, "id" | "trace">;

// Types with names generated at run time must not flood the log.
const MAX_WARNED_TYPES = 20;

/** Builds the record of a new job from its type, encoded input and options. */
export class JobBuilder {
  readonly #engine: EngineContext;
  readonly #parent: ParentJob | null;
  readonly #warnedTypes: Set<string>;

  constructor(engine: EngineContext, parent: ParentJob | null = null, warnedTypes: Set<string> = new Set()) {
    this.#engine = engine;
    this.#parent = parent;
    this.#warnedTypes = warnedTypes;
  }

  /** Builds the jobs that a handler enqueues. */
  forParent(parent: ParentJob): JobBuilder {
    return new JobBuilder(this.#engine, parent, this.#warnedTypes);
  }

  build(type: JobType, input: string, options: EnqueueOptions, trace: TracedCall | null): NewJob {
    const job = readNewJob(this.#engine.retry.applyTo(type), input, options, this.#engine.clock.now(), newId);
    if (this.#parent !== null) {
      job.parent = this.#parent.id;
      job.trace = this.#parent.trace;
    }
    if (job.unique?.scope === "period") this.#warnOfRetention(job, job.unique);
    return trace === null ? job : withTrace(job, trace);
  }

  /**
   * Warns if completed jobs are deleted before the period of their key ends. Deleting a job frees its key: with a period of a
   * month and a retention of a week, there could be four jobs in a month.
   */
  #warnOfRetention({ type, settings }: NewJob, unique: UniqueKey): void {
    const retentionMs = settings?.keepMs?.completed ?? this.#engine.settler.retentionMs("completed");
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
