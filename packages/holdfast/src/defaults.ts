/** Every default and limit of Holdfast, in one place. Durations are in milliseconds. */

export const DEFAULTS = {
  queue: "default",
  priority: 0,
  maxAttempts: 4,
  backoff: { base: 30_000, factor: 2, max: 900_000, jitter: 0.1 },
  timeoutMs: 900_000,
  leaseMs: 30_000,
  pollMs: 1_000,
  /** How rarely a worker that finds nothing looks where every look costs money, unless `poll` is longer. */
  rarePollMs: 10_000,
  concurrency: 4,
  /** A worker that was not heard of for so long is gone. It is heard of three times in a lease, and at least three times in this. */
  silentWorkerMs: 60_000,
  graceMs: 30_000,
  /** How long a handler may ignore its signal before it is written off. */
  writeOffMs: 30_000,
  /** How long a type may be without any worker that lists it before its jobs go dead. */
  unknownTypeMs: 600_000,
  /** How long a job of an unknown type is laid aside before it is offered again. */
  unknownTypeDelayMs: 15_000,
  /** How long closing waits for an error reporter. */
  flushMs: 2_000,
  /** How long handlers get to react to the abort at shutdown before their jobs are released. */
  abortWaitMs: 1_000,
  schedule: {
    /** How often the scheduler looks for due schedules when it knows of no nearer slot. */
    tickMs: 5_000,
    timezone: "UTC",
    catchUp: "latest",
    overlap: "allow",
    /** A slot that becomes a job later than this is reported as late; with `catchUp: "skip"` it is missed. */
    lateMs: 60_000,
  },
  maintenance: {
    expireMs: 30_000,
    staleMs: 300_000,
    retentionMs: 60_000,
    chunk: 500,
  },
  retention: {
    completed: { age: 604_800_000 },
    dead: { age: 2_592_000_000 },
    cancelled: { age: 604_800_000 },
    audit: { age: 7_776_000_000 },
  },
} as const;

/** The last instant that a `Date` can hold; the first is as long before 1970. */
export const LAST_INSTANT_MS = 8_640_000_000_000_000;

export const LIMITS = {
  payloadBytes: 262_144,
  /** Lists and objects of a payload that are inside each other. */
  payloadDepth: 200,
  /** Payload of one claim or one insert batch. */
  batchBytes: 1_048_576,
  batchJobs: 500,
  /** Inputs above this live beside the job's row, so that state changes stay cheap. */
  inlineInputBytes: 512,
  typeLength: 200,
  queueLength: 100,
  keyLength: 500,
  /** Trace context carried by a job, as JSON; a longer one is left out. */
  traceBytes: 1_024,
  userLength: 200,
  tagLength: 100,
  tags: 20,
  priority: 100,
  maxAttempts: 1_000,
  durationMs: 315_360_000_000,
  concurrency: 1_000,
  /** Attempts kept in a job's history; older ones are dropped. */
  attempts: 20,
  errorLength: 4_000,
  stackLength: 8_000,
  /** Causes kept of an error, each the cause of the one before. */
  errorCauses: 3,
  /** JSON kept of an error's own fields. */
  errorDataBytes: 4_096,
  logLines: 100,
  logLineLength: 1_000,
  /** Outcomes kept through an outage of the store. */
  unsettled: 10_000,
  /** How often a release gives the attempt back. */
  givenBack: 3,
  listPage: 1_000,
  scheduleLength: 200,
  cronLength: 200,
  /** The shortest interval of a schedule. */
  everyMs: 1_000,
  /** Slots that one catch-up may make up for. */
  catchUp: 1_000,
  /** Slots kept with a schedule: so many that became jobs, and so many that did not. */
  slots: 20,
  /** Slots that one transaction turns into jobs. */
  firedSlots: 20,
  /** Schedules that a worker lists as defined in its code. */
  definedSchedules: 500,
  /** Slots that `preview` gives. */
  preview: 100,
  /** Entries that one call adds to the audit log. */
  auditEntries: 50,
  actorLength: 300,
  actionLength: 100,
  /** What an entry of the audit log keeps of its target, in characters. */
  targetLength: 2_000,
  /** JSON that an entry of the audit log keeps of its detail. */
  auditDetailBytes: 16_384,
  /** Tokens of the API. */
  tokens: 1_000,
  tokenNameLength: 200,
} as const;
