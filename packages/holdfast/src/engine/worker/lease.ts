import { durationMs, type Duration } from "../../duration.js";
import { LeaseLostError } from "../../errors.js";
import { encodeOutput } from "../../job/job.js";
import { fromJson } from "../../job/json.js";
import type { Outcome, SettleResult } from "../../store.js";
import { announce } from "../events/publish.js";
import { completedIn } from "./completion.js";
import { failurePolicy, type EngineContext, type HeldLease } from "../context.js";
import { inTransaction } from "../enqueue/in-transaction.js";
import { readCarrier, type TraceCarrier } from "../events/telemetry.js";
import { unlocked } from "./retry-busy.js";
import { cancelled, completed, failed, released } from "./outcome.js";

/**
 * A right to one job for a limited time, for people who write their own runner. Every call proves the lease with its
 * fence: once the lease is lost, calls throw {@link LeaseLostError} and change nothing.
 *
 * All of it is own and enumerable, and no function needs its `this`: `{ ...lease }` and `const { input, complete } = lease` work.
 */
export class Lease {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly user: string | null;
  /** As stored; not checked against a schema. Throws if it was damaged in the store. */
  declare readonly input: unknown;
  /** The trace context of the enqueue, for a runner that traces; null if there was none. */
  readonly carrier: TraceCarrier | null;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly fence: number;
  readonly #engine: EngineContext;
  readonly #held: HeldLease;
  readonly #leaseMs: number;

  constructor(engine: EngineContext, held: HeldLease, leaseMs: number) {
    this.#engine = engine;
    this.#held = held;
    this.#leaseMs = leaseMs;
    const { job } = held;
    this.id = job.id;
    this.type = job.type;
    this.queue = job.queue;
    this.user = job.user;
    this.attempt = job.attempt;
    this.maxAttempts = job.maxAttempts;
    this.fence = job.fence;
    this.carrier = readCarrier(job.trace);
    // Read when asked for: a damaged input must not keep its job from being claimed, and failed.
    Object.defineProperty(this, "input", { enumerable: true, get: () => fromJson(job.input) });
  }

  /** claimed → running. Answers whether someone asked for the job to be cancelled. */
  readonly start = async (): Promise<{ cancelRequested: boolean }> => {
    const startedAt = (this.#held.startedAt ??= this.#engine.clock.now());
    const answer = await unlocked(this.#engine, this.#held, () =>
      this.#engine.store.start([{ id: this.id, fence: this.fence, startedAt }]),
    );
    if (answer === "lost") throw new LeaseLostError(this.id);
    return { cancelRequested: answer === "cancel" };
  };

  /** Holds the job for this long from now; by default as long as the claim did. */
  readonly extend = async (by: Duration = this.#leaseMs): Promise<{ cancelRequested: boolean }> => {
    const leaseMs = durationMs(by, "extend");
    let sentAt = 0;
    const answer = await unlocked(this.#engine, this.#held, () => {
      sentAt = this.#engine.clock.monotonic();
      return this.#engine.store.extend([{ id: this.id, fence: this.fence }], leaseMs);
    });
    if (answer === "lost") throw new LeaseLostError(this.id);
    this.#held.deadline = sentAt + leaseMs;
    return { cancelRequested: answer === "cancel" };
  };

  readonly complete = async (output?: unknown): Promise<void> => {
    await this.#settle(completed(this.#held, encodeOutput(this.type, output)));
  };

  /**
   * Completes the job inside your own transaction, on the database that holds the jobs: it is completed once that
   * commits. With a synchronous driver it is settled, or the error thrown, before this returns.
   */
  readonly completeIn = (tx: unknown, output?: unknown): Promise<void> =>
    inTransaction(this.#engine.store, () => {
      const settled = completedIn(this.#engine, this.#held, tx, output);
      return settled instanceof Promise ? settled.then(() => {}) : Promise.resolve();
    });

  /** The attempt failed: the job waits for its retry, or is dead. Answers which. */
  readonly fail = async (
    error: unknown,
    options: { retry?: boolean } = {},
  ): Promise<"failed" | "dead" | "cancelled"> => {
    this.#held.thrown = { error };
    const policy = { ...failurePolicy(this.#engine, this.#held), retry: options.retry ?? true };
    const outcome = failed(this.#held, error, policy);
    const answer = await this.#settle(outcome);
    return answer === "cancelled" ? "cancelled" : (outcome.to as "failed" | "dead");
  };

  /** Confirms a cancellation that `start` or `extend` told of. */
  readonly cancel = async (): Promise<void> => {
    await this.#settle(cancelled(this.#held));
  };

  /** Hands the job back for another worker, after `delay`. */
  readonly release = async (options: { delay?: Duration } = {}): Promise<void> => {
    await this.#settle(released(this.#held, durationMs(options.delay ?? 0, "delay")));
  };

  async #settle(outcome: Outcome): Promise<SettleResult> {
    const answer = await this.#engine.settler.settle(outcome, this.#held.deadline);
    announce(this.#engine, this.#held, outcome, answer);
    if (answer === "lost") throw new LeaseLostError(this.id);
    return answer;
  }
}
