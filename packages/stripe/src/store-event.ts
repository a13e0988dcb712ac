import type { Holdfast, JobType } from "holdfast";
import type { Steps } from "holdfast/pack";
import type { StripeEvent } from "./event.js";
import type { PackParts, ProcessInput, ProcessOutput } from "./process.js";

export type ProcessType = JobType<ProcessInput, ProcessOutput>;

/** What the route needs of a client. */
export type EnqueueClient = Pick<Holdfast, "enqueue">;

/** An event with the body as Stripe sent it. */
export interface ReceivedEvent {
  readonly event: StripeEvent;
  readonly text: string;
}

/** The unique key of the job of an event. */
export function keyOf(parts: Pick<PackParts, "keyPrefix">, eventId: string): string {
  return `${parts.keyPrefix}stripe:${eventId}`;
}

/** Stores an event with its job, or neither. `duplicate`: it is stored already, or was once. */
export async function storeEvent(
  parts: PackParts,
  type: ProcessType,
  hf: EnqueueClient,
  { event, text }: ReceivedEvent,
): Promise<"stored" | "duplicate"> {
  try {
    return await insert(parts, type, hf, { event, text, payload: { ...event } });
  } catch (error) {
    const code = codeOf(error);
    if (code === "DUPLICATE_JOB") return "duplicate";
    // Too large for an input, or with characters that no input may have. The job reads it from the table, or from Stripe.
    if (code !== "PAYLOAD_TOO_LARGE" && code !== "INVALID_INPUT") throw error;
    if (parts.store === null && parts.api === null) throw error;
  }
  try {
    return await insert(parts, type, hf, { event, text, payload: null });
  } catch (error) {
    if (codeOf(error) === "DUPLICATE_JOB") return "duplicate";
    throw error;
  }
}

async function insert(
  parts: PackParts,
  type: ProcessType,
  hf: EnqueueClient,
  { event, text, payload }: ReceivedEvent & Pick<ProcessInput, "payload">,
): Promise<"stored" | "duplicate"> {
  const input = { eventId: event.id, eventType: event.type, payload };
  const key = keyOf(parts, event.id);
  if (parts.store === null) {
    const { duplicate } = await hf.enqueue(type, input, { unique: { key, scope: { period: "30d" } } });
    return duplicate ? "duplicate" : "stored";
  }
  const { db, records } = parts.store;
  return db.transaction(function* (tx): Steps<"stored" | "duplicate"> {
    const isNew = yield* records.insert(tx, event, text, new Date(parts.clock.now()));
    if (!isNew) return "duplicate";
    // Rejects an event whose row was deleted: keys of this scope stay. The transaction is then rolled back.
    const unique = { key, scope: "forever", onConflict: "reject" } as const;
    yield* tx.call(() => hf.enqueue(type, input, { tx: tx.handle, unique }));
    return "stored";
  });
}

/** By its code: the application may have several copies of Holdfast. */
function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code;
}
