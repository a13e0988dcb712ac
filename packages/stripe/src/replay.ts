import { HoldfastError, type Holdfast, type Job } from "holdfast";
import type { Steps } from "holdfast/pack";
import { retrieveEvent } from "./api.js";
import { readEvent, type StripeEvent } from "./event.js";
import type { PackParts, ProcessInput } from "./process.js";
import { keyOf, storeEvent, type ProcessType } from "./store-event.js";

/** What a replay needs of a client. */
export type ReplayClient = Pick<Holdfast, "enqueue" | "get" | "remove" | "rerun" | "retry">;

export interface ReplayOptions {
  /** Also if the event was processed: its effect happens again. Default: false. */
  readonly force?: boolean;
}

/** What a replay did. */
export interface ReplayResult {
  readonly eventId: string;
  /**
   * `retried`: its failed, dead or cancelled job runs again. `enqueued`: it has a new job. `waiting`: its job has not ended.
   * `processed`: nothing was done, because the event was processed.
   */
  readonly result: "retried" | "enqueued" | "waiting" | "processed";
  /** The job that processes the event, or did; null if it does not exist any more. */
  readonly jobId: string | null;
}

/** No event with this id is stored, and Stripe does not have it or could not be asked. */
export class EventNotFoundError extends HoldfastError {
  readonly eventId: string;
  constructor(eventId: string, advice: string) {
    super("EVENT_NOT_FOUND", `no event ${JSON.stringify(eventId)} is stored${advice}`);
    this.eventId = eventId;
  }
}

/** Processes an event that was not processed: its job is dead, its type had no effect, or it never arrived. */
export async function replayEvent(
  parts: PackParts,
  type: ProcessType,
  hf: ReplayClient,
  eventId: string,
  { force = false }: ReplayOptions,
): Promise<ReplayResult> {
  const key = keyOf(parts, eventId);
  const holder = await hf.get({ key });
  const job = (await hf.get({ key: replayKey(key) })) ?? holder;
  const stored = await storedEvent(parts, eventId, job);
  if (stored === null) {
    await receiveFromStripe(parts, type, hf, eventId);
    return { eventId, result: "enqueued", jobId: (await hf.get({ key }))?.id ?? null };
  }
  const jobId = job?.id ?? null;
  if (stored.isProcessed && !force) return { eventId, result: "processed", jobId };
  if (job !== null && !stored.isProcessed) {
    if (isWaitingOrRunning(job)) return { eventId, result: "waiting", jobId };
    if ((await hf.retry(job.id)) === "retried") return { eventId, result: "retried", jobId };
    // It completed long ago without an effect, or another replay has retried it meanwhile.
    const now = await hf.get(job.id);
    if (now !== null && (isWaitingOrRunning(now) || now.state === "failed"))
      return { eventId, result: "waiting", jobId };
  }
  return enqueueAgain(parts, type, hf, { eventId, event: stored.event, key, job, force });
}

function isWaitingOrRunning({ state }: Job): boolean {
  return ["pending", "claimed", "running"].includes(state);
}

function replayKey(key: string): string {
  return `${key}:replay`;
}

interface Stored {
  /** Null without a database: then the job has the event. */
  readonly event: StripeEvent | null;
  readonly isProcessed: boolean;
}

async function storedEvent({ store }: PackParts, id: string, job: Job | null): Promise<Stored | null> {
  if (store === null) {
    if (job === null) return null;
    return { event: null, isProcessed: hasProcessed(job) };
  }
  const record = await store.records.find(id);
  if (record === null) return null;
  return { event: readEvent(JSON.parse(record.payload)) as StripeEvent, isProcessed: record.processedAt !== null };
}

function hasProcessed({ output }: Job): boolean {
  return (output as { processed?: unknown } | null)?.processed === true;
}

async function receiveFromStripe(
  parts: PackParts,
  type: ProcessType,
  hf: ReplayClient,
  eventId: string,
): Promise<void> {
  const { api, filter } = parts;
  if (api === null) throw new EventNotFoundError(eventId, "; with the option api it is fetched from Stripe");
  const event = await retrieveEvent(api, eventId, { account: filter.account });
  if (event === null) throw new EventNotFoundError(eventId, ", and Stripe has none; it keeps events for 30 days");
  const result = await storeEvent(parts, type, hf, { event, text: JSON.stringify(event) });
  if (result === "stored") return;
  throw new EventNotFoundError(
    eventId,
    `, but it was once: its row was deleted. To process it again, free its key with hf.freeKey(${JSON.stringify(keyOf(parts, eventId))})`,
  );
}

interface Replayed {
  readonly eventId: string;
  /** Null without a database. */
  readonly event: StripeEvent | null;
  readonly key: string;
  readonly job: Job | null;
  readonly force: boolean;
}

async function enqueueAgain(
  parts: PackParts,
  type: ProcessType,
  hf: ReplayClient,
  { eventId, event, key, job, force }: Replayed,
): Promise<ReplayResult> {
  const { store } = parts;
  if (store === null || event === null) return enqueueCopy(type, hf, { eventId, event, key, job, force });
  const enqueued = await store.db.transaction(function* (tx): Steps<{ result: Promise<{ id: string }> } | null> {
    // Another replay may have processed the event since it was read.
    const record = yield* store.records.lock(tx, eventId);
    if (record?.processedAt != null) {
      if (!force) return null;
      yield* store.records.markUnprocessed(tx, eventId);
    }
    // Without the payload: the row has it.
    const input = { eventId, eventType: event.type, payload: null };
    const result = yield* tx.call(() => hf.enqueue(type, input, { tx: tx.handle, unique: replayKey(key) }));
    return { result: Promise.resolve(result) };
  });
  if (enqueued === null) return { eventId, result: "processed", jobId: job?.id ?? null };
  return { eventId, result: "enqueued", jobId: (await enqueued.result).id };
}

/** Without a database: the job has the event, and the job of a replay holds a key of its own, so that two replays are one job. */
async function enqueueCopy(
  type: ProcessType,
  hf: ReplayClient,
  { eventId, key, job, force }: Replayed,
): Promise<ReplayResult> {
  if (force) return { eventId, result: "enqueued", jobId: (await hf.rerun(job!.id)).id };
  // Another replay may have processed the event since it was read.
  const found = (await hf.get<ProcessInput>({ key: replayKey(key) })) ?? (await hf.get<ProcessInput>(job!.id));
  // Another replay deletes the job of a replay before it enqueues its own.
  const now = found ?? (job as Job<ProcessInput>);
  if (hasProcessed(now)) return { eventId, result: "processed", jobId: now.id };
  // A replay that had no effect either. It holds the key; one that was deleted meanwhile no longer does.
  if (now.key === replayKey(key) && now.state === "completed") await hf.remove(now.id);
  const unique = { key: replayKey(key), scope: { period: "30d" } } as const;
  return { eventId, result: "enqueued", jobId: (await hf.enqueue(type, now.input, { unique })).id };
}
