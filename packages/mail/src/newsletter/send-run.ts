import { NotRetryable, type JobType, type RunContext } from "holdfast";
import { isOneLine, parseAddress } from "../address.js";
import { untilAborted } from "../attempt.js";
import type { MailData, Subscriber } from "./mails.js";
import type { Delivery, NewsletterRecords, SendRun } from "./records.js";

/** The input of `newsletter.send`. */
export interface SendRunInput {
  sendRunId: string;
}

/** The output of `newsletter.send`: how many mails are enqueued, and how many subscribers have an address that no mail can be sent to. */
export type SendRunOutput = { enqueued: number; failed: number } | { skipped: true; reason: string };

/** What a run is sent with. */
export interface SendRunParts {
  readonly records: NewsletterRecords;
  /** The job type of the mails. */
  readonly mail: JobType;
  readonly template: string;
  readonly queue: string;
  readonly priority: number;
  readonly subscribers: (run: SendRun, signal: AbortSignal) => AsyncIterable<Subscriber> | Iterable<Subscriber>;
  readonly countSubscribers: ((run: SendRun, signal: AbortSignal) => number | Promise<number>) | undefined;
  /** The unique key of a mail. */
  readonly keyOf: (run: string, subscriber: string) => string;
  /** Enqueues the job of a run for its time, in place of a job that waits. Returns its id. */
  readonly enqueueRun: (hf: RunContext<SendRunInput>["hf"], run: SendRun) => Promise<string>;
  readonly now: () => number;
}

/** As many deliveries are stored in one statement as jobs are enqueued in one batch. */
const BATCH = 500;
const MAX_ID = 200;
/** A line of a mail has at most 998 characters, and a URL cannot be folded. */
const MAX_URL = 990;
/** Errors of one subscriber, whose mail can never be enqueued. */
const INVALID: ReadonlySet<string> = new Set(["INVALID_INPUT", "INVALID_OPTION", "PAYLOAD_TOO_LARGE"]);

/** The handler of `newsletter.send`. */
export async function sendRun(context: RunContext<SendRunInput>, parts: SendRunParts): Promise<SendRunOutput> {
  const { records, now, enqueueRun } = parts;
  const id = context.input.sendRunId;
  // The clock of the process that claimed the job may be ahead of this one.
  const due = new Date(Math.max(now(), context.job.runAt.getTime()));
  for (;;) {
    context.signal.throwIfAborted();
    const run = await records.run(id);
    if (run === null) return { skipped: true, reason: "the send run does not exist" };
    if (run.status === "sent" || run.status === "cancelled")
      return { skipped: true, reason: `the send run is ${run.status}` };
    if (run.status === "scheduled" && run.scheduledFor > due) {
      await records.setJob(id, await enqueueRun(context.hf, run));
      return { skipped: true, reason: `the send run was moved to ${run.scheduledFor.toISOString()}` };
    }
    // If the run was moved or cancelled meanwhile, it is read again.
    if (run.status === "sending" || (await records.start(id, due, new Date(now())))) return sendTo(run, context, parts);
  }
}

/** Enqueues the mails. Safe to repeat: each mail has a key, and each delivery is stored once. */
async function sendTo(run: SendRun, context: RunContext<SendRunInput>, parts: SendRunParts): Promise<SendRunOutput> {
  const { hf, signal, progress } = context;
  const { records, queue, priority, keyOf, now } = parts;
  const total = (await untilAborted(parts.countSubscribers?.(run, signal), signal)) ?? null;
  const counts = { enqueued: 0, failed: 0 };
  /** Subscribers whose job is being enqueued, in order: at most those of three batches. */
  const enqueuing: string[] = [];
  let deliveries: Delivery[] = [];

  async function store(): Promise<void> {
    const stored = deliveries;
    deliveries = [];
    await records.addDeliveries(run.id, stored);
    const { enqueued, failed } = counts;
    const done = total === null || total <= 0 ? 0 : Math.min(1, (enqueued + failed) / total);
    progress(done, { enqueued, failed });
  }
  async function add(delivery: Delivery): Promise<void> {
    deliveries.push(delivery);
    counts[delivery.status === "queued" ? "enqueued" : "failed"]++;
    if (deliveries.length >= BATCH) await store();
  }
  async function* inputs(): AsyncGenerator<{ template: string; data: MailData }> {
    for await (const given of parts.subscribers(run, signal)) {
      signal.throwIfAborted();
      const { id, email, unsubscribeUrl } = checkSubscriber(given);
      if (!canReceive(given)) {
        await add({ subscriber: id, jobId: null, status: "failed" });
        continue;
      }
      enqueuing.push(id);
      yield { template: parts.template, data: { run: run.id, subscriber: id, email, unsubscribeUrl } };
    }
  }

  await hf.enqueueMany(parts.mail, inputs(), {
    queue,
    priority,
    each: (input) => {
      const { data } = input as { data: MailData };
      return { unique: { key: keyOf(run.id, data.subscriber), scope: "forever" } };
    },
    onResult: ({ id, error }) => {
      const subscriber = enqueuing.shift();
      if (subscriber === undefined) return undefined;
      if (error === null) return add({ subscriber, jobId: id, status: "queued" });
      if (!INVALID.has(error.code)) throw error;
      return add({ subscriber, jobId: null, status: "failed" });
    },
  });
  await store();
  await records.finish(run.id, new Date(now()));
  progress(1, { ...counts });
  return counts;
}

/** A subscriber without an id cannot be recognized when the run is repeated. */
function checkSubscriber(subscriber: Subscriber): Subscriber {
  const { id, email, unsubscribeUrl } = subscriber;
  if (typeof id !== "string" || id === "" || id.length > MAX_ID)
    throw new NotRetryable(`a subscriber has an id that is not a string of 1 to ${MAX_ID} characters`);
  if (typeof email !== "string" || typeof unsubscribeUrl !== "string")
    throw new NotRetryable("a subscriber has no email or no unsubscribeUrl");
  return subscriber;
}

function canReceive({ email, unsubscribeUrl }: Subscriber): boolean {
  const isUrl = /^https?:\/\/[^\s<>]+$/.test(unsubscribeUrl) && isOneLine(unsubscribeUrl);
  return (
    parseAddress(email) !== null &&
    isUrl &&
    URL.canParse(unsubscribeUrl) &&
    new URL(unsubscribeUrl).href.length <= MAX_URL
  );
}
