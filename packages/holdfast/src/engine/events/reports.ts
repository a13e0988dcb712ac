import { isThenable } from "../../callbacks.js";
import { DEFAULTS } from "../../defaults.js";
import { HoldfastError } from "../../errors.js";
import type { Redactor } from "../../redact.js";
import type { ClaimedJob, StoredJob } from "../../store.js";
import type { Logger } from "./logger.js";
import { parseStored } from "../client/job-view.js";

const MAX_PENDING = 1_000;

/**
 * Receives failures, in addition to the job's record and the log. `holdfast/sentry` provides one. If it throws or rejects, the error
 * is logged; no job is affected by it or waits for it.
 */
export interface ErrorReporter {
  /** May return a promise. */
  report(failure: JobFailure): unknown;
  /** Sends pending reports. Called when the client closes, which waits for it up to 2 s. */
  flush?(): Promise<unknown>;
}

/** A failure of a job. */
export interface JobFailure {
  /**
   * `attempt`: a handler threw or timed out, or its input is invalid; `stuck`: a handler ignored its abort signal and was
   * abandoned; `no-handler`: no worker has a handler for the type; `dead-lettered`: crashed or stopped workers used up the
   * attempts, or the store refused the outcome.
   */
  kind: "attempt" | "stuck" | "no-handler" | "dead-lettered";
  /** The thrown value itself, with its stack, cause and fields. Not always an `Error`. */
  error: unknown;
  job: FailedJob;
  /** The stored input, redacted. */
  input: unknown;
  /** The job is dead. If false, it will be retried, or another worker has it. */
  final: boolean;
  /** Null: maintenance found the failure. */
  worker: string | null;
}

export interface FailedJob {
  id: string;
  type: string;
  queue: string;
  attempt: number;
  maxAttempts: number;
  user: string | null;
  tags: readonly string[];
}

/** Calls the {@link ErrorReporter}, so that its errors cannot affect jobs. */
export class Reports {
  readonly #reporter: ErrorReporter;
  readonly #logger: Logger;
  readonly #redact: Redactor;
  readonly #pending = new Set<Promise<unknown>>();
  #reading: Promise<void> = Promise.resolve();

  constructor(reporter: ErrorReporter, logger: Logger, redact: Redactor) {
    this.#reporter = reporter;
    this.#logger = logger;
    this.#redact = redact;
  }

  report(job: ClaimedJob | StoredJob, failure: Omit<JobFailure, "job" | "input">): void {
    const { id, type, queue, attempt, maxAttempts, user, tags } = job;
    try {
      const input = redactedInput(this.#redact, job.input);
      const failed = { id, type, queue, attempt, maxAttempts, user, tags };
      this.#await(this.#reporter.report({ ...failure, job: failed, input }));
    } catch (error) {
      this.#failed(error);
    }
  }

  /** Reports a job whose record has to be read first. One after the other: maintenance may find hundreds in one chunk. */
  reportStored(read: () => Promise<StoredJob | null>, failure: Omit<JobFailure, "job" | "input">): void {
    this.#reading = this.#reading.then(async () => {
      // An outage of the store is logged elsewhere.
      const job = await read().catch(() => null);
      if (job !== null) this.report(job, failure);
    });
  }

  /** Waits for pending reports, for a limited time: a service that does not respond must not block a shutdown. */
  async flush(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, DEFAULTS.flushMs)));
    const flushed = async (): Promise<unknown> => {
      await this.#reading;
      await Promise.allSettled(this.#pending);
      return this.#reporter.flush?.();
    };
    await Promise.race([flushed().catch((error: unknown) => this.#failed(error)), late]);
    clearTimeout(timer);
  }

  #await(sent: unknown): void {
    if (!isThenable(sent)) return;
    const settled = new Promise((resolve) => resolve(sent))
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#pending.delete(settled);
      });
    // A limit for services that never respond: further reports are sent, but not awaited.
    if (this.#pending.size < MAX_PENDING) this.#pending.add(settled);
  }

  #failed(error: unknown): void {
    this.#logger.error({ error }, "the error reporter failed");
  }
}

/** A job's input, redacted. */
export function redactedInput(redact: Redactor, stored: string): unknown {
  return redact({ input: parseStored(stored) }).input;
}

/** An error for failures that were not thrown. It has no stack, which would only show the engine. */
export function errorWithoutStack(
  { message, code }: { message: string; code: string | null },
  cause?: unknown,
): HoldfastError {
  const error = new HoldfastError(code ?? "DEAD", message, cause === undefined ? undefined : { cause });
  error.stack = `${error.name}: ${message}`;
  return error;
}
