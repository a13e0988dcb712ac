/** Every default and limit of Holdfast, in one place. Durations are in milliseconds. */

export const DEFAULTS = {
  queue: "default",
  priority: 0,
  maxAttempts: 4,
  backoff: { base: 30_000, factor: 2, max: 900_000, jitter: 0.1 },
  /** How long a worker waits for the promise of a backoff function. */
  backoffWaitMs: 10_000,
  timeoutMs: 900_000,
  leaseMs: 30_000,
  pollMs: 1_000,
  /** The longest poll interval of an idle worker on a metered store, unless `poll` is longer. */
  meteredPollMs: 10_000,
  concurrency: 4,
  /** A worker without a heartbeat for this long is gone. Workers send three heartbeats per lease, and at least three in this time. */
  silentWorkerMs: 60_000,
  graceMs: 30_000,
  /** How long a handler may ignore its signal before the worker abandons it. */
  abandonMs: 30_000,
  /** How long no worker may have a handler for a type before jobs of that type are dead-lettered. */
  unknownTypeMs: 600_000,
  /** How long a job of an unknown type is deferred. */
  unknownTypeDelayMs: 15_000,
  /** How long an event is kept for jobs that wait for it later. */
  eventKeepMs: 604_800_000,
  /** Shorter sleeps and retries of steps do not park the job. */
  parkMs: 5_000,
  /** How long closing waits for an error reporter. */
  flushMs: 2_000,
  /** How long handlers get to react to the abort at shutdown before their jobs are released. */
  abortWaitMs: 1_000,
  schedule: {
    /** How often the scheduler polls for due schedules, unless a slot is due earlier. */
    tickMs: 5_000,
    timezone: "UTC",
    catchUp: "latest",
    overlap: "allow",
    /** A slot fired later than this is reported as late; with `catchUp: "skip"` it is missed. */
    lateMs: 60_000,
  },
  maintenance: {
    expireMs: 30_000,
    reapMs: 300_000,
    /** How often waits are looked for that ended without waking their job. */
    repairMs: 30_000,
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

/** The latest time a `Date` can hold. The earliest is the same time before 1970. */
export const LAST_INSTANT_MS = 8_640_000_000_000_000;

/** How long a job is kept that is kept forever: a thousand years, which every store can add to a time. */
export const FOREVER_MS = 31_557_600_000_000;

/** In place of a queue's name: all queues are paused. No queue has this name. */
export const ALL_QUEUES = "*";

export const LIMITS = {
  payloadBytes: 262_144,
  /** Nesting depth of a payload. */
  payloadDepth: 200,
  /** Total payload of one claim or one insert batch. */
  batchBytes: 1_048_576,
  batchJobs: 500,
  /** Larger inputs are stored outside the job's row, so that state changes stay cheap. */
  inlineInputBytes: 512,
  typeLength: 200,
  queueLength: 100,
  keyLength: 500,
  /** Trace context stored with a job, as JSON. A longer one is not stored. */
  traceBytes: 1_024,
  userLength: 200,
  tagLength: 100,
  tags: 20,
  priority: 100,
  maxAttempts: 1_000,
  durationMs: 315_360_000_000,
  concurrency: 1_000,
  /** Attempts in a job's history; older ones are deleted. */
  attempts: 20,
  errorLength: 4_000,
  stackLength: 8_000,
  /** Depth of the chain of causes stored with an error. */
  errorCauses: 3,
  /** JSON stored of an error's own fields. */
  errorDataBytes: 4_096,
  logLines: 100,
  logLineLength: 1_000,
  /** JSON stored with a job's progress. */
  progressBytes: 4_096,
  /** Outcomes held in memory during an outage of the store. */
  unsettled: 10_000,
  /** Releases of a job that do not use up an attempt. */
  freeReleases: 3,
  listPage: 1_000,
  /** Queues for which stats have the age of the oldest due job. */
  statsQueues: 1_000,
  /** Ids in one filter. */
  listIds: 1_000,
  scheduleLength: 200,
  cronLength: 200,
  /** The shortest interval of a schedule. */
  everyMs: 1_000,
  /** Missed slots that one catch-up may turn into jobs. */
  catchUp: 1_000,
  /** Slots stored with a schedule: this many that became jobs, and as many that did not. */
  slots: 20,
  /** Slots fired in one transaction. */
  firedSlots: 20,
  /** Schedules that a worker's record lists as defined in its code. */
  definedSchedules: 500,
  /** Slots that `preview` returns. */
  preview: 100,
  /** Audit entries written in one call. */
  auditEntries: 50,
  actorLength: 300,
  actionLength: 100,
  /** Characters stored of an audit entry's target. */
  targetLength: 2_000,
  /** JSON stored of an audit entry's detail. */
  auditDetailBytes: 16_384,
  /** Groups of errors. */
  errorGroups: 1_000,
  /** JSON of one record of history. */
  historyBytes: 262_144,
  /** Followers of one client. */
  followers: 500,
  /** Transitions that are recorded at most, while jobs are followed. */
  transitions: 200_000,
  /** API tokens. */
  tokens: 1_000,
  tokenNameLength: 200,
  /** JSON of what callers see of an operation, and of what it does. */
  operationSummaryBytes: 16_384,
  operationPlanBytes: 327_680,
  /** Running jobs that a worker's record lists. */
  workerJobs: 20,
  /** Steps of a job, without the members of sets. */
  steps: 1_000,
  stepNameLength: 200,
  /** JSON of the values of all steps of a job. */
  stepBytes: 4_194_304,
  /** Children of one `spawnAll`. */
  children: 10_000,
  eventNameLength: 400,
  /** How long an event can be kept. */
  eventKeepMs: 7_776_000_000,
} as const;
