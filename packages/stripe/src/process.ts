import { job, NotRetryable, type JobType, type RunContext } from "holdfast";
import type { Clock, Database, Steps, Transaction } from "holdfast/pack";
import { z } from "zod";
import { retrieveEvent, retrieveLatest, type StripeClient } from "./api.js";
import type { CheckedEffect, EffectContext, Latest, LoadContext } from "./effects.js";
import { readEvent, refusalOf, type EventFilter, type StripeEvent } from "./event.js";
import type { EventRecords } from "./records.js";

/** The input of the job. */
export interface ProcessInput {
  eventId: string;
  eventType: string;
  /** The event; null if it is too large for an input. */
  payload: Record<string, unknown> | null;
}

const name = z.string().min(1).max(255);
const input = z.strictObject({
  eventId: name,
  eventType: name,
  payload: z.record(z.string(), z.unknown()).nullable(),
});

/** What became of an event. */
export type ProcessOutput =
  | { readonly processed: true }
  /** Its effect was committed before. */
  | { readonly duplicate: true }
  /** No effect is defined for its type, or it belongs to another account or mode. */
  | { readonly ignored: true; readonly reason?: "account" | "livemode" };

/** What jobs and routes of one pack share. */
export interface PackParts {
  readonly type: string;
  readonly effects: ReadonlyMap<string, CheckedEffect>;
  /** Before the unique keys of jobs. */
  readonly keyPrefix: string;
  readonly filter: EventFilter;
  readonly api: StripeClient | null;
  readonly clock: Clock;
  /** Null: effects have no transaction. */
  readonly store: { readonly db: Database; readonly records: EventRecords } | null;
}

/** Calls the effect of an event: in one transaction with its mark and the completion of the job, if there is a database. */
export function processJob(parts: PackParts): JobType<ProcessInput, ProcessOutput> {
  return job({
    type: parts.type,
    input,
    // Without a database, the job holds the key that refuses a repeated event for 30 days.
    ...(parts.store === null && { retention: { completed: "30d", dead: "30d", cancelled: "30d" } }),
    run: (context) => processEvent(parts, context),
  });
}

async function processEvent(parts: PackParts, context: RunContext<ProcessInput>): Promise<ProcessOutput> {
  const { eventId, payload } = context.input;
  const event = payload === null ? await largeEvent(parts, eventId, context.signal) : checked(payload);
  const reason = refusalOf(parts.filter, event);
  if (reason !== null) return { ignored: true, reason };
  const effect = parts.effects.get(event.type);
  if (effect === undefined) return { ignored: true };
  const { idempotencyKey, signal, hf } = context;
  const latest: Latest = (thing) => retrieveLatest(parts.api, thing, { event, signal });
  const given = { event, effect, context: { idempotencyKey, signal, hf, latest } };
  if (parts.store !== null) return inTransaction(parts.store, parts.clock, given, context);
  const loaded = await effect.load?.(event, given.context);
  await effect.apply(event, { ...given.context, tx: undefined, loaded });
  return { processed: true };
}

interface Given {
  readonly event: StripeEvent;
  readonly effect: CheckedEffect;
  readonly context: LoadContext;
}

async function inTransaction(
  { db, records }: NonNullable<PackParts["store"]>,
  clock: Clock,
  { event, effect, context }: Given,
  { job: { id }, completeIn }: RunContext<ProcessInput>,
): Promise<ProcessOutput> {
  const isProcessed = (await records.find(event.id))?.processedAt != null;
  const loaded = isProcessed ? undefined : await effect.load?.(event, context);
  return db.transaction(
    function* (tx): Steps<ProcessOutput> {
      const now = new Date(clock.now());
      let record = yield* records.lock(tx, event.id);
      if (record === null) {
        // The row was deleted, or the job was enqueued without the route.
        yield* records.insert(tx, event, JSON.stringify(event), now);
        record = yield* records.lock(tx, event.id);
      }
      let output: ProcessOutput = { duplicate: true };
      if (record?.processedAt == null) {
        yield* apply(tx, effect, event, { ...context, tx: tx.handle, loaded });
        yield* records.markProcessed(tx, event.id, id, now);
        output = { processed: true };
      }
      // Throws if the lease was lost: then the effect is rolled back, and the other worker's counts.
      yield* tx.call(() => completeIn(tx.handle, output));
      return output;
    },
    { signal: context.signal },
  );
}

function* apply(
  tx: Transaction,
  effect: CheckedEffect,
  event: StripeEvent,
  context: EffectContext & { loaded: unknown },
): Steps<void> {
  yield* tx.effect(() => {
    const result = effect.apply(event, context);
    if (tx.dialect === "postgres" || !isThenable(result)) return result;
    // What it does from now on is outside of the transaction. It must neither end the process nor be repeated.
    void Promise.resolve(result).catch(() => {});
    throw new NotRetryable(
      `the effect of ${event.type} returned a promise; on SQLite an effect must be synchronous, ` +
        "because the transaction ends when it returns: write without await, and wait in load of effect({ load, apply })",
    );
  });
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

async function largeEvent({ store, api, filter }: PackParts, id: string, signal: AbortSignal): Promise<StripeEvent> {
  const record = (await store?.records.find(id)) ?? null;
  if (record !== null) return checked(JSON.parse(record.payload));
  const event = api === null ? null : await retrieveEvent(api, id, { account: filter.account, signal });
  if (event === null) throw new NotRetryable(`event ${id} is not stored any more, and its job has no payload`);
  return event;
}

function checked(payload: unknown): StripeEvent {
  const event = readEvent(payload);
  if ("problem" in event) throw new NotRetryable(`the payload is not an event: ${event.problem}`);
  return event;
}
