import { randomUUID } from "node:crypto";
import { InvalidOptionError, job, type HandlerClient, type Holdfast, type JobType } from "holdfast";
import { instantMs, optionKeys, refuseUnknown } from "holdfast/pack";
import { z } from "zod";
import { readFrom, type MailPack } from "../mail.js";
import { readMessage } from "../message.js";
import { readClient, readFunction, readPort, readStorage, type StorageOptions, type WallClock } from "../options.js";
import { dispatchDue, type DispatchedRun, type DispatchOptions } from "./dispatch-due.js";
import {
  NewsletterNotFoundError,
  NewsletterSentError,
  SendRunNotFoundError,
  SendRunNotScheduledError,
} from "./errors.js";
import { defaultMessage, newsletterTemplate, type NewsletterMessage, type Subscriber } from "./mails.js";
import type { DeliveryCounts, Newsletter, NewsletterRecords, SendRun } from "./records.js";
import { reconcile } from "./reconcile.js";
import { sendRun, type SendRunInput, type SendRunOutput, type SendRunParts } from "./send-run.js";
import { sqlRecords } from "./sql-records.js";

/** Options of {@link newsletter}. */
export interface NewsletterOptions extends StorageOptions<NewsletterRecords> {
  /** What `mail()` returned. */
  mail: MailPack;
  /** The subscribers of a run, one after the other, so that they need not fit into memory. Called again if the run is continued. */
  subscribers: (run: SendRun, signal: AbortSignal) => AsyncIterable<Subscriber> | Iterable<Subscriber>;
  /** How many subscribers there are, for the progress of the job. */
  countSubscribers?: (run: SendRun, signal: AbortSignal) => number | Promise<number>;
  /** Builds the mail to a subscriber. Default: the newsletter, with `{{unsubscribeUrl}}` replaced in its bodies. */
  message?: NewsletterMessage;
  /** The sender. Default: that of the mail pack. */
  from?: string;
  /** The queue of the runs and of their mails. Default `"newsletter"`. */
  queue?: string;
  /** Default: the system's. */
  clock?: WallClock;
}

/** The text of a newsletter. At least one of `textBody` and `htmlBody` is required. */
export interface NewsletterContent {
  subject: string;
  textBody?: string;
  htmlBody?: string;
}

/** When a run is sent. */
export interface SendTime {
  /** A `Date`, milliseconds since 1970, or an ISO 8601 string with its zone. */
  at: Date | number | string;
}

/** A run with the status of its mails. */
export interface SendRunReport extends SendRun {
  readonly deliveries: DeliveryCounts;
}

/** What {@link newsletter} returns. */
export interface NewsletterPack {
  /** Pass them to `holdfast({ jobs })`. */
  readonly jobs: readonly JobType[];
  /** The job type `newsletter.send`. */
  readonly send: JobType<SendRunInput, SendRunOutput>;
  /** Creates the tables. Call it at every start. */
  install(hf: Holdfast): Promise<void>;
  /** Stores a newsletter. */
  create(content: NewsletterContent): Promise<Newsletter>;
  /** Replaces the content of a newsletter that was not sent yet. */
  update(id: string, content: NewsletterContent): Promise<void>;
  /** A newsletter, or null. */
  get(id: string): Promise<Newsletter | null>;
  /** The newest newsletters, at most 100. */
  list(): Promise<Newsletter[]>;
  /** Schedules the sending of a newsletter. The same newsletter can be sent several times. */
  schedule(hf: Holdfast, newsletterId: string, time: SendTime): Promise<SendRun>;
  /** Changes the time of a scheduled run. */
  move(hf: Holdfast, sendRunId: string, time: SendTime): Promise<SendRun>;
  /** Cancels a scheduled run. */
  cancel(hf: Holdfast, sendRunId: string): Promise<SendRun>;
  /** A run with the counts of its mails, or null. */
  run(sendRunId: string): Promise<SendRunReport | null>;
  /** The runs of a newsletter with the counts of their mails, the latest first, at most 100. Two statements, however many runs there are. */
  runs(newsletterId: string): Promise<SendRunReport[]>;
  /**
   * Counts mails as failed whose job was cancelled, deleted, or is dead because its last worker crashed: nothing else reports those. Call it when a
   * run should have ended. Returns how many mails it corrected. Reads the mails of the run that are still queued, and their jobs.
   */
  reconcile(hf: Holdfast, sendRunId: string): Promise<number>;
  /** Enqueues the job of every due run that has none, for example because it was deleted. */
  dispatchDue(hf: Holdfast, options?: DispatchOptions): Promise<DispatchedRun[]>;
}

const OPTIONS = optionKeys<NewsletterOptions>({
  mail: true,
  db: true,
  records: true,
  schema: true,
  subscribers: true,
  countSubscribers: true,
  message: true,
  from: true,
  queue: true,
  clock: true,
});

const TEMPLATE = "newsletter";
const MAX_LISTED = 100;
const NO_DELIVERIES: DeliveryCounts = Object.freeze({ queued: 0, sent: 0, failed: 0, skipped: 0 });
/** Mails of other queues go first, where one worker serves all of them. The run itself is before the mails of other runs. */
const PRIORITY = { run: -5, mail: -10 } as const;

/** Marks what `newsletter()` returned, also for another copy of this package. */
const BRAND: unique symbol = Symbol.for("@holdfast/mail.newsletter") as never;

/**
 * Newsletters: send runs at a time, and one mail to each subscriber through any crash.
 *
 * ```ts
 * const news = newsletter({ mail: post, db, subscribers: readSubscribers });
 * const { id } = await news.create({ subject: "Spring", textBody: "… {{unsubscribeUrl}}" });
 * await news.schedule(hf, id, { at: "2026-05-01T08:00:00Z" });
 * ```
 */
export function newsletter(options: NewsletterOptions): NewsletterPack {
  refuseUnknown(options, OPTIONS, "newsletter");
  const { message = defaultMessage, from, queue = "newsletter", countSubscribers } = options;
  const mail = readPort(options.mail, "mail", ["addTemplate"], "pass what mail({ … }) returned");
  const subscribers = readFunction(options.subscribers, "subscribers", "async function* (run) { yield subscriber; }");
  readFunction(message, "message", "(newsletter, subscriber) => ({ subject, htmlBody })");
  if (countSubscribers !== undefined) readFunction(countSubscribers, "countSubscribers", "() => 1000");
  if (from !== undefined) readFrom(from);
  const storage = readStorage(options, { sql: sqlRecords, methods: ["install", "schedule", "start", "finish"] });
  const { records } = storage;
  const clock = options.clock ?? { now: () => Date.now() };
  const now = (): Date => new Date(clock.now());

  const parts: SendRunParts = {
    records,
    mail: mail.send,
    template: TEMPLATE,
    queue,
    priority: PRIORITY.mail,
    subscribers,
    countSubscribers,
    keyOf: (run, subscriber) => `${mail.prefix}newsletter:${run}:${subscriber}`,
    enqueueRun,
    now: () => clock.now(),
  };
  const send: JobType<SendRunInput, SendRunOutput> = job({
    type: `${mail.prefix}newsletter.send`,
    input: z.strictObject({ sendRunId: z.string().min(1).max(100) }),
    queue,
    priority: PRIORITY.run,
    retry: { maxAttempts: 10 },
    timeout: "1h",
    run: (context) => sendRun(context, parts),
  });
  mail.addTemplate(TEMPLATE, newsletterTemplate(records, message, from), ({ run, subscriber }, { jobId }) =>
    records.setDelivery(run, { subscriber, jobId, status: "failed" }),
  );

  /** The scope ends with the first claim: a run that was moved meanwhile enqueues its next job under the same key. */
  async function enqueueRun(hf: Pick<HandlerClient, "enqueue">, run: SendRun): Promise<string> {
    return (await enqueueIn(hf, run, undefined)).id;
  }
  /** Not async: on SQLite an error must be thrown before the transaction commits. */
  function enqueueIn(
    hf: Pick<HandlerClient, "enqueue">,
    { id, scheduledFor }: Pick<SendRun, "id" | "scheduledFor">,
    tx: unknown,
    jobId?: string,
  ): Promise<{ id: string }> {
    return hf.enqueue(
      send,
      { sendRunId: id },
      {
        runAt: scheduledFor,
        unique: { key: `${mail.prefix}newsletter:${id}`, scope: "waiting", onConflict: "replace" },
        ...(jobId !== undefined && { id: jobId }),
        ...(tx !== undefined && { tx }),
      },
    );
  }

  async function requireRun(id: string): Promise<SendRun> {
    const run = await records.run(id);
    if (run === null) throw new SendRunNotFoundError(id);
    return run;
  }

  async function reportsOf(runs: readonly SendRun[]): Promise<SendRunReport[]> {
    if (runs.length === 0) return [];
    const counts = await records.counts(runs.map(({ id }) => id));
    return runs.map((run) => ({ ...run, deliveries: counts.get(run.id) ?? NO_DELIVERIES }));
  }

  const pack: NewsletterPack = {
    jobs: Object.freeze([send]),
    send,
    async install(hf) {
      readClient(hf);
      await storage.install(hf, send);
    },

    async create(content) {
      const created = { ...readContent(content), id: randomUUID(), createdAt: now() };
      await records.create(created);
      return created;
    },
    async update(id, content) {
      if (await records.update({ ...readContent(content), id })) return;
      throw (await records.newsletter(id)) === null ? new NewsletterNotFoundError(id) : new NewsletterSentError(id);
    },
    get: async (id) => records.newsletter(id),
    list: async () => records.newsletters(MAX_LISTED),

    async schedule(hf, newsletterId, { at }) {
      readClient(hf);
      const scheduledFor = new Date(instantMs(at, "at"));
      if ((await records.newsletter(newsletterId)) === null) throw new NewsletterNotFoundError(newsletterId);
      const run = { id: randomUUID(), newsletterId, scheduledFor, jobId: randomUUID() };
      await records.schedule(run, (tx) => enqueueIn(hf, run, tx, run.jobId));
      return requireRun(run.id);
    },
    async move(hf, sendRunId, { at }) {
      readClient(hf);
      const scheduledFor = new Date(instantMs(at, "at"));
      const before = await requireRun(sendRunId);
      let enqueued: Promise<{ id: string }> | undefined;
      const moved = await records.move(
        sendRunId,
        scheduledFor,
        (tx) => (enqueued = enqueueIn(hf, { ...before, scheduledFor }, tx)),
      );
      if (!moved) throw new SendRunNotScheduledError(sendRunId, (await requireRun(sendRunId)).status);
      // If the job had been deleted, there is a new one.
      const jobId = (await enqueued)?.id;
      if (jobId !== undefined && jobId !== before.jobId) await records.setJob(sendRunId, jobId);
      return requireRun(sendRunId);
    },
    async cancel(hf, sendRunId) {
      readClient(hf);
      if (!(await records.cancel(sendRunId, now())))
        throw new SendRunNotScheduledError(sendRunId, (await requireRun(sendRunId)).status);
      const run = await requireRun(sendRunId);
      // A job that runs nevertheless finds the run cancelled.
      await hf.cancel(run.jobId);
      return run;
    },
    async run(sendRunId) {
      const run = await records.run(sendRunId);
      return run === null ? null : ((await reportsOf([run]))[0] ?? null);
    },
    runs: async (newsletterId) => reportsOf(await records.runs(newsletterId, MAX_LISTED)),
    async reconcile(hf, sendRunId) {
      readClient(hf);
      await requireRun(sendRunId);
      return reconcile(hf, records, sendRunId);
    },
    async dispatchDue(hf, given = {}) {
      readClient(hf);
      return dispatchDue(hf, { records, enqueueRun: (run) => enqueueRun(hf, run), now: now() }, given);
    },
  };
  return Object.freeze(Object.assign(pack, { [BRAND]: true }));
}

/** Whether this was returned by `newsletter()`. */
export function isNewsletter(value: unknown): value is NewsletterPack {
  return typeof value === "object" && value !== null && BRAND in value;
}

function readContent(content: NewsletterContent): Pick<Newsletter, "subject" | "textBody" | "htmlBody"> {
  refuseUnknown(content, CONTENT, "the newsletter");
  const { subject, textBody, htmlBody } = content;
  try {
    // As a mail that it will become.
    readMessage({ ...content, to: "subscriber@example.com" });
  } catch (error) {
    throw new InvalidOptionError("newsletter", (error as Error).message);
  }
  return { subject, textBody: textBody ?? null, htmlBody: htmlBody ?? null };
}

const CONTENT = optionKeys<NewsletterContent>({ subject: true, textBody: true, htmlBody: true });
