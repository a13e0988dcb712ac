import { isThenable } from "../../callbacks.js";
import { DEFAULTS } from "../../defaults.js";
import { HoldfastError } from "../../errors.js";
import type { Redactor } from "../../redact.js";
import type { ClaimedJob, StoredJob } from "../../store.js";
import type { Logger } from "./logger.js";
import { readable } from "../client/job-view.js";

const MOST_SENDING = 1_000;

/**
 * Where failures are reported to, beside the job's own record and the log; `holdfast/sentry` has one ready. What it throws
 * or rejects with is logged and hurts no job, and no job waits for it.
 */
export interface ErrorReporter {
  /** May answer a promise. */
  report(failure: JobFailure): unknown;
  /** Sends what is still to be sent. Called when the client closes, which waits for it up to 2 s. */
  flush?(): Promise<unknown>;
}

/** One failure of a job. */
export interface JobFailure {
  /**
   * `attempt`: a handler threw, ran into its timeout, or got an input that does not fit; `stuck`: a handler ignored its
   * signal and was abandoned; `no handler`: no worker knows the type; `given up`: the attempts are used up by workers that
   * vanished or stopped, or the store refuses the outcome.
   */
  kind: "attempt" | "stuck" | "no-handler" | "given-up";
  /** As it was thrown: with its own stack, cause and fields. Not always an `Error`. */
  error: unknown;
  job: FailedJob;
  /** The input as it is stored, with what `redact` names left out. */
  input: unknown;
  /** The job is dead. Otherwise it will be tried again, or its end is another's to tell. */
  final: boolean;
  /** Null: found by maintenance. */
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

/** The engine's side of {@link ErrorReporter}: keeps its faults away from jobs. */
export class Reports {
  readonly #reporter: ErrorReporter;
  readonly #logger: Logger;
  readonly #redact: Redactor;
  readonly #sending = new Set<Promise<unknown>>();
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

  /** Reports a job whose record is still to be read. One after the other: maintenance may find hundreds at once. */
  reportStored(read: () => Promise<StoredJob | null>, failure: Omit<JobFailure, "job" | "input">): void {
    this.#reading = this.#reading.then(async () => {
      // A store that cannot be asked is told of elsewhere.
      const job = await read().catch(() => null);
      if (job !== null) this.report(job, failure);
    });
  }

  /** Waits for what is on its way, a moment at most: a service that does not answer must not hold up a shutdown. */
  async flush(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, DEFAULTS.flushMs)));
    const flushed = async (): Promise<unknown> => {
      await this.#reading;
      await Promise.allSettled(this.#sending);
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
        this.#sending.delete(settled);
      });
    // Of a service that never answers not every report is waited for.
    if (this.#sending.size < MOST_SENDING) this.#sending.add(settled);
  }

  #failed(error: unknown): void {
    this.#logger.error({ error }, "the error reporter failed");
  }
}

/** A job's input as outsiders may see it. */
export function redactedInput(redact: Redactor, stored: string): unknown {
  return redact({ input: readable(stored) }).input;
}

/** For failures that nobody threw: their stack would only show the engine. */
export function unthrown({ message, code }: { message: string; code: string | null }, cause?: unknown): HoldfastError {
  const error = new HoldfastError(code ?? "DEAD", message, cause === undefined ? undefined : { cause });
  error.stack = `${error.name}: ${message}`;
  return error;
}
