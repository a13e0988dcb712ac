/** A newsletter. At least one of its bodies is set. */
export interface Newsletter {
  readonly id: string;
  readonly subject: string;
  readonly textBody: string | null;
  readonly htmlBody: string | null;
  readonly createdAt: Date;
}

/**
 * - `scheduled`: waits for its time
 * - `sending`: its mails are being enqueued
 * - `sent`: all its mails are enqueued
 * - `cancelled`: was cancelled before its time
 */
export type SendRunStatus = "scheduled" | "sending" | "sent" | "cancelled";

/** The sending of a newsletter at a time. */
export interface SendRun {
  readonly id: string;
  readonly newsletterId: string;
  readonly scheduledFor: Date;
  readonly status: SendRunStatus;
  /** The job that starts or continues the run. */
  readonly jobId: string;
  /** How many subscribers the newsletter was sent to; null until all mails are enqueued. */
  readonly recipients: number | null;
  readonly startedAt: Date | null;
  /** When the run was sent or cancelled. */
  readonly finishedAt: Date | null;
}

/**
 * The mail of a run to one subscriber. `failed`: it is not retried any more, or the address of the subscriber is invalid. `skipped`: the
 * option `message` returned `skip`.
 */
export type DeliveryStatus = "queued" | "sent" | "failed" | "skipped";

/** How many mails of a run have which status. */
export type DeliveryCounts = Readonly<Record<DeliveryStatus, number>>;

/** The mail of a run to one subscriber. */
export interface Delivery {
  readonly subscriber: string;
  /** Null if no job could be enqueued. */
  readonly jobId: string | null;
  readonly status: DeliveryStatus;
}

/** A run that is created. */
export type NewSendRun = Pick<SendRun, "id" | "newsletterId" | "scheduledFor" | "jobId">;

/**
 * Where newsletters, runs and deliveries are stored. `newsletter({ db })` uses tables on SQLite and PostgreSQL. `enqueue` is called with
 * the open transaction; without transactions, with undefined, after the write.
 */
export interface NewsletterRecords {
  /** Creates the tables, if there are none. */
  install(): Promise<void>;
  create(newsletter: Newsletter): Promise<void>;
  /** False if there is no such newsletter, or one of its runs is `sending` or `sent`. */
  update(newsletter: Omit<Newsletter, "createdAt">): Promise<boolean>;
  newsletter(id: string): Promise<Newsletter | null>;
  /** The newest first. */
  newsletters(limit: number): Promise<Newsletter[]>;
  run(id: string): Promise<SendRun | null>;
  /** The runs of a newsletter, the latest first. */
  runs(newsletterId: string, limit: number): Promise<SendRun[]>;
  /** Runs that are `scheduled` or `sending` and whose time has come, the earliest first. */
  due(now: Date, limit: number): Promise<SendRun[]>;
  /** Stores a run that is `scheduled`. */
  schedule(run: NewSendRun, enqueue: (tx: unknown) => Promise<unknown>): Promise<void>;
  /** Changes the time of a run. False if it is not `scheduled`; then nothing is enqueued. */
  move(id: string, scheduledFor: Date, enqueue: (tx: unknown) => Promise<unknown>): Promise<boolean>;
  /** `scheduled` → `cancelled`. False if the run has another status. */
  cancel(id: string, now: Date): Promise<boolean>;
  /** `scheduled` → `sending`, if the run is due by `due`. False otherwise. */
  start(id: string, due: Date, now: Date): Promise<boolean>;
  /** `sending` → `sent`, with the number of deliveries. */
  finish(id: string, now: Date): Promise<void>;
  /** Stores which job starts or continues the run. */
  setJob(id: string, jobId: string): Promise<void>;
  /** Stores deliveries. Those that exist stay as they are. */
  addDeliveries(run: string, deliveries: readonly Delivery[]): Promise<void>;
  /** Changes a delivery, or stores it if there is none. One that is `sent` stays so. */
  setDelivery(run: string, delivery: Delivery): Promise<void>;
  isSent(run: string, subscriber: string): Promise<boolean>;
  /** Deliveries of a run that are `queued`, by subscriber, after this one. */
  queued(run: string, after: string, limit: number): Promise<Delivery[]>;
  /** The counts of these runs, at most 100, in one read. A run without deliveries may be left out. */
  counts(runs: readonly string[]): Promise<ReadonlyMap<string, DeliveryCounts>>;
}
