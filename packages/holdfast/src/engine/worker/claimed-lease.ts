import { durationMs, type Duration } from "../../duration.js";
import { LeaseLostError } from "../../errors.js";
import { encodeOutput } from "../../job/job.js";
import { fromJson } from "../../job/json.js";
import type { Outcome, SettleResult } from "../../store.js";
import { completeInTransaction } from "./completion.js";
import type { EngineContext, HeldLease } from "../context.js";
import { retrySettings } from "./retry-settings.js";
import { inTransaction } from "../enqueue/in-transaction.js";
import { readCarrier, type TraceCarrier } from "../events/telemetry.js";
import { retryUntilExpired } from "../retry-busy.js";
import { cancelled, completed, failed, released } from "./decide-outcome.js";
import { settleAndWait } from "./settle-outcome.js";

/**
 * A claimed job for a program that runs it itself; `hf.claim` returns it. A lease is the exclusive right to run the job until
 * a deadline. Every call is checked against the fencing token in the store: once the lease is lost, calls throw
 * {@link LeaseLostError} and change nothing.
 *
 * All properties are own and enumerable, and no function uses `this`: `{ ...lease }` and `const { input, complete } = lease` work.
 */
export interface Lease {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly user: string | null;
  /** As stored; not validated by a schema. Reading it throws if it was damaged in the store. */
  readonly input: unknown;
  /** The trace context of the enqueue; null if there was none. */
  readonly carrier: TraceCarrier | null;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly fence: number;
  /** Marks the job as running. Returns whether its cancellation was requested. */
  readonly start: () => Promise<{ cancelRequested: boolean }>;
  /** Extends the lease to this long from now; by default as long as the claim. Returns whether cancellation was requested. */
  readonly extend: (by?: Duration) => Promise<{ cancelRequested: boolean }>;
  readonly complete: (output?: unknown) => Promise<void>;
  /**
   * Completes the job inside your own transaction, on the database that stores the jobs: it is completed if and only if the
   * transaction commits. With a synchronous driver the job is settled, or the error thrown, before this returns.
   */
  readonly completeIn: (tx: unknown, output?: unknown) => Promise<void>;
  /** Records a failed attempt: the job waits for its retry, or is dead. Returns which. */
  readonly fail: (error: unknown, options?: { retry?: boolean }) => Promise<"failed" | "dead" | "cancelled">;
  /** Confirms a cancellation that `start` or `extend` returned. */
  readonly cancel: () => Promise<void>;
  /** Releases the job for another worker, due after `delay`. */
  readonly release: (options?: { delay?: Duration }) => Promise<void>;
}

export function newLease(engine: EngineContext, held: HeldLease, leaseMs: number): Lease {
  const { clock, store } = engine;
  const { id, type, queue, user, attempt, maxAttempts, fence } = held.job;

  const settle = async (outcome: Outcome): Promise<SettleResult> => {
    const result = await settleAndWait(engine, held, outcome);
    if (result === "lost" || result === "dropped") throw new LeaseLostError(id);
    return result;
  };

  return {
    id,
    type,
    queue,
    user,
    attempt,
    maxAttempts,
    fence,
    carrier: readCarrier(held.job.trace),
    // Parsed when read: a damaged input must not prevent the job from being claimed and failed.
    get input(): unknown {
      return fromJson(held.job.input);
    },

    start: async () => {
      const startedAt = (held.startedAt ??= clock.now());
      const result = await retryUntilExpired(engine, held, () => store.start([{ id, fence, startedAt }]));
      if (result === "lost") throw new LeaseLostError(id);
      return { cancelRequested: result === "cancel" };
    },

    extend: async (by = leaseMs) => {
      const extendMs = durationMs(by, "extend");
      let sentAt = 0;
      const result = await retryUntilExpired(engine, held, () => {
        sentAt = clock.monotonic();
        return store.extend([{ id, fence }], extendMs);
      });
      if (result === "lost") throw new LeaseLostError(id);
      held.deadline = sentAt + extendMs;
      return { cancelRequested: result === "cancel" };
    },

    complete: async (output) => {
      await settle(completed(held, encodeOutput(type, output)));
    },

    completeIn: (tx, output) =>
      inTransaction(store, () => {
        const settled = completeInTransaction(engine, held, tx, output);
        return settled instanceof Promise ? settled.then(() => {}) : Promise.resolve();
      }),

    fail: async (error, options = {}) => {
      held.thrown = { error };
      const policy = { ...retrySettings(engine, held), retry: options.retry ?? true };
      const outcome = await failed(held, error, policy);
      const result = await settle(outcome);
      return result === "cancelled" ? "cancelled" : (outcome.to as "failed" | "dead" | "cancelled");
    },

    cancel: async () => {
      await settle(cancelled(held, clock.now()));
    },

    release: async (options = {}) => {
      await settle(released(held, engine.clock.now(), durationMs(options.delay ?? 0, "delay")));
    },
  };
}
