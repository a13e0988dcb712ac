import { z } from "zod";
import { LIMITS } from "../../defaults.js";
import { TOKEN_ROLES } from "../../access/roles.js";
import { CALENDAR_UNITS } from "../../schedule/calendar.js";
import { FINGERPRINT_PATTERN } from "../../job/fingerprint.js";
import { notUuid } from "../../job/uuid.js";
import { STATE_NAMES, type FinishedState } from "../../job/state.js";
import type { Calls, ErrorResult, SummaryResult } from "./api-types.js";
import { attempt } from "./attempt-schema.js";
import { inputCondition } from "./input-schema.js";
import { operation } from "./operation-schema.js";
import type { RouteName } from "./routes.js";
import { step } from "./step-schema.js";

/** To a schema, absent and undefined are the same. */
type Loose<Value> = Value extends object
  ? { [Key in keyof Value]: Loose<Value[Key]> | (undefined extends Value[Key] ? undefined : never) }
  : Value;

interface CallSchemas<Name extends RouteName> {
  /** Path, query and body combined. Unknown fields are rejected. */
  input: z.ZodType<Loose<Calls[Name]["input"]>>;
  result: z.ZodType<Calls[Name]["result"]>;
}

export const PAGE_SIZE = { default: 50, max: 200 } as const;
export const MAX_OFFSET = 10_000;
export const MAX_IDS = 1_000;
/** Where a count stops: by default, at most, and at most for the role user. */
export const MAX_COUNT = { default: 10_000, all: 1_000_000_000, user: 10_000 } as const;
export const MAX_NAMES = 50;

const string = (maxLength: number): z.ZodString => z.string().min(1).max(maxLength);
const instant = z.iso.datetime({ offset: true });
const time = z.string().meta({ format: "date-time" });
const duration = z.union([z.string().max(40), z.number().min(0).max(LIMITS.durationMs)]);
const state = z.enum(STATE_NAMES);
const finished = z.enum(["completed", "dead", "cancelled"] satisfies FinishedState[]);
const role = z.enum(TOKEN_ROLES);
const count = (min: number, max: number): z.ZodInt => z.int().min(min).max(max);
const limit = count(1, PAGE_SIZE.max).optional().meta({ description: "Entries per page.", default: PAGE_SIZE.default });
const cursor = string(400).optional().describe("The cursor of the previous page, with the same conditions.");
const priority = count(-LIMITS.priority, LIMITS.priority);
const tags = z.array(string(LIMITS.tagLength)).max(LIMITS.tags);
const catchUp = z.union([z.enum(["skip", "latest"]), z.strictObject({ all: count(1, LIMITS.catchUp) })]);

// All ids are validated before anything is changed. Otherwise an invalid one would fail the call halfway.
const jobId = z.guid({ error: ({ input }) => (input === undefined ? "is required" : notUuid(input)) });

const calendarScope = z.strictObject({ calendar: z.enum(CALENDAR_UNITS), zone: string(100).optional() });

const none = z.strictObject({});
const byId = { id: string(100).describe("The id.") };
const byWorker = { id: string(500).describe("The id of the worker.") };
const byJob = { id: jobId.describe("The id of the job.") };
const byName = { name: string(LIMITS.scheduleLength).describe("The name of the schedule.") };
const byQueue = { queue: string(LIMITS.queueLength).describe("The name of the queue.") };

const conditions = {
  id: z.array(jobId).min(1).max(MAX_IDS).optional().describe("Jobs with one of these ids."),
  state: z.array(state).min(1).max(STATE_NAMES.length).optional().describe("Jobs in one of these states."),
  type: z.array(string(LIMITS.typeLength)).min(1).max(MAX_NAMES).optional().describe("Jobs of one of these types."),
  queue: z.array(string(LIMITS.queueLength)).min(1).max(MAX_NAMES).optional().describe("Jobs in one of these queues."),
  user: string(LIMITS.userLength).optional().describe("Jobs of this user."),
  tag: string(LIMITS.tagLength).optional().describe("Jobs with this tag."),
  schedule: string(LIMITS.scheduleLength).optional().describe("Jobs of this schedule."),
  parent: jobId.optional().describe("Jobs that the handler of this job enqueued."),
  priority: priority.optional().describe("Jobs with this priority."),
  fingerprint: z
    .string()
    .regex(FINGERPRINT_PATTERN, "must be a fingerprint of errors.list: 16 hexadecimal digits")
    .optional()
    .describe("Jobs whose current error is in this group of `errors.list`."),
  key: string(LIMITS.keyLength)
    .optional()
    .describe("The job that holds this unique key now. With `user`, the key is that user's."),
  keyScope: calendarScope.optional().describe("The calendar scope of `key`: looks for the current one."),
  input: inputCondition.optional(),
  error: string(1_000)
    .optional()
    .describe(
      "Jobs whose current error has this text in its message or code. Case is ignored. Each call examines a limited number of jobs, and `cursor` continues.",
    ),
  createdAfter: instant.optional().describe("Jobs created after this time."),
  createdBefore: instant.optional().describe("Jobs created before this time."),
};
const target = {
  ids: z.array(jobId).min(1).max(MAX_IDS).optional().describe("These jobs. Exactly one of `ids` and `filter`."),
  filter: z.strictObject(conditions).optional().describe("All jobs that match. At least one condition."),
};
const pace = {
  rate: z.number().min(0.1).max(10_000).optional().describe("Jobs per second. Default: as fast as possible."),
  limit: count(1, 1_000_000_000)
    .optional()
    .describe("Only the first jobs that match: the newest, or the first of `ids`. Default: all."),
};
const many = z.strictObject({ ...target, ...pace });
const changes = {
  delay: duration.optional().describe("Due after this duration, or these milliseconds. Not with `runAt`."),
  runAt: instant.optional().describe("Due at this time."),
  priority: priority.optional().describe("Jobs with a higher priority run first."),
  queue: string(LIMITS.queueLength).optional().describe("Move to this queue."),
  input: z.unknown().optional().describe("The new input. Validated if the server knows the job type."),
  tags: tags.optional().describe("Replaces all tags."),
  maxAttempts: count(1, LIMITS.maxAttempts).optional().describe("More than the job has used."),
  expiresAt: instant.nullable().optional().describe("Dead-lettered if not started by then; null: never."),
};

const timing = {
  cron: string(LIMITS.cronLength).optional(),
  timezone: string(100).optional(),
  every: duration.optional(),
  startAt: instant.nullable().optional(),
  endAt: instant.nullable().optional(),
};
const schedule = {
  ...timing,
  input: z.unknown().optional(),
  enabled: z.boolean().optional(),
  catchUp: catchUp.optional(),
  overlap: z.enum(["allow", "skip"]).optional(),
  jitter: duration.optional(),
  queue: string(LIMITS.queueLength).optional(),
  priority: priority.optional(),
  maxAttempts: count(1, LIMITS.maxAttempts).optional(),
  user: string(LIMITS.userLength).nullable().optional(),
  tags: tags.optional(),
};

const unique = z.union([
  string(LIMITS.keyLength),
  z.strictObject({
    key: string(LIMITS.keyLength),
    scope: z
      .union([z.enum(["waiting", "live", "forever"]), z.strictObject({ period: duration }), calendarScope])
      .optional(),
    onConflict: z.enum(["keep", "replace", "reject"]).optional(),
  }),
]);

const summary = z
  .object({
    id: z.string(),
    type: z.string(),
    queue: z.string(),
    state,
    priority: z.int(),
    user: z.string().nullable(),
    attempt: z.int(),
    maxAttempts: z.int(),
    runAt: time,
    dueAt: time.nullable(),
    expiresAt: time.nullable(),
    createdAt: time,
    updatedAt: time,
    claimedAt: time.nullable(),
    startedAt: time.nullable(),
    finishedAt: time.nullable(),
    cancelRequestedAt: time.nullable(),
    worker: z.string().nullable(),
    key: z.string().nullable(),
    tags: z.array(z.string()),
    schedule: z.object({ name: z.string(), slot: time }).nullable(),
    parent: z.string().nullable(),
    timeoutMs: z.number().nullable(),
    progress: z.object({ fraction: z.number(), note: z.string().nullable(), data: z.unknown() }).nullable(),
    error: z
      .object({ message: z.string(), code: z.string().nullable(), at: time, fingerprint: z.string().nullable() })
      .nullable(),
  })
  .meta({ id: "JobSummary" });
const detail = z
  .object({
    ...summary.shape,
    input: z.unknown(),
    output: z.unknown(),
    fence: z.int(),
    trace: z.record(z.string(), z.string()).nullable(),
    attempts: z.array(attempt),
    log: z.array(z.object({ at: time, line: z.string() })),
  })
  .meta({ id: "Job" });
const enqueued = z.object({ id: z.string(), duplicate: z.boolean(), replaced: z.boolean() }).meta({ id: "Enqueued" });
const counts = z.record(state, z.int()).meta({ id: "Counts" });
const stats = z
  .object({
    states: counts,
    queues: z.record(z.string(), counts),
    types: z.record(z.string(), counts),
    counts: z.array(z.object({ queue: z.string(), type: z.string(), state, count: z.int() })),
    oldestDueMs: z.number().nullable(),
    oldestDue: z.array(z.object({ queue: z.string(), dueMs: z.number() })),
    lastMinute: z.record(finished, z.int()),
    completedPerSecond: z.number(),
    paused: z.boolean(),
  })
  .meta({ id: "Stats" });
const scheduled = z
  .object({
    name: z.string(),
    origin: z.enum(["code", "runtime"]),
    changed: z.array(z.string()),
    type: z.string(),
    input: z.unknown(),
    cron: z.string().nullable(),
    timezone: z.string().nullable(),
    everyMs: z.number().nullable(),
    startAt: time.nullable(),
    endAt: time.nullable(),
    jitterMs: z.number(),
    catchUp,
    overlap: z.enum(["allow", "skip"]),
    enabled: z.boolean(),
    queue: z.string(),
    priority: z.int(),
    maxAttempts: z.int(),
    user: z.string().nullable(),
    tags: z.array(z.string()),
    nextRunAt: time.nullable(),
    lastSlot: time.nullable(),
    createdAt: time,
    updatedAt: time,
    slots: z.array(
      z.object({
        slot: time,
        through: time.nullable(),
        job: z.string().nullable(),
        reason: z.string().nullable(),
        at: time,
      }),
    ),
  })
  .meta({ id: "Schedule" });
/** Lists do not read the slot history, and an input may be large. */
const scheduleSummary = scheduled.omit({ slots: true, input: true }).meta({ id: "ScheduleSummary" });
const runs = z.object({ runs: z.array(time) });
const pausedAll = z.object({ paused: z.boolean() });
const paused = z.object({ queue: z.string(), paused: z.boolean() });
const queue = z
  .object({
    queue: z.string(),
    paused: z.boolean(),
    pausedAt: time.nullable(),
    pausedBy: z.string().nullable(),
    priorities: z.array(z.int()),
  })
  .meta({ id: "Queue" });
const reason = z
  .object({
    kind: z.string(),
    text: z.string(),
    change: z.string().nullable(),
    until: time.nullable(),
    jobs: z.int().exactOptional(),
    workers: z.array(z.string()).exactOptional(),
    job: z.string().exactOptional(),
    queue: z.string().nullable().exactOptional(),
  })
  .meta({ id: "Reason" });
const errorGroup = z
  .object({
    fingerprint: z.string(),
    type: z.string().nullable(),
    name: z.string().nullable(),
    code: z.string().nullable(),
    message: z.string(),
    frame: z.string().nullable(),
    count: z.int(),
    firstAt: time,
    lastAt: time,
    job: z.string(),
    example: z.string(),
    trend: z.array(z.int()).nullable().describe("Failed attempts in each of the last 24 hours, the oldest first."),
  })
  .meta({ id: "ErrorGroup" });
const percentiles = z.object({ p50: z.number(), p95: z.number(), p99: z.number() }).nullable();
const historyPoint = z
  .object({
    at: time,
    enqueued: z.int(),
    completed: z.int(),
    failed: z.int(),
    dead: z.int(),
    cancelled: z.int(),
    wait: percentiles,
    run: percentiles,
    waiting: z.int().nullable(),
    leased: z.int().nullable(),
    oldestDueMs: z.number().nullable(),
  })
  .meta({ id: "HistoryPoint" });
const resolution = z.enum(["minute", "hour"]);
const worker = z
  .object({
    id: z.string(),
    queues: z.array(z.string()).nullable(),
    types: z.array(z.string()),
    concurrency: z.int(),
    running: z.int(),
    host: z.string(),
    pid: z.int(),
    startedAt: time,
    seenAt: time,
    left: z.boolean(),
    draining: z.boolean(),
    version: z.string().nullable(),
    jobs: z.array(z.object({ id: z.string(), type: z.string() })),
  })
  .meta({ id: "Worker" });
const drained = z.object({ id: z.string(), draining: z.boolean() });
const entry = z
  .object({
    id: z.string(),
    at: time,
    actor: z.string(),
    action: z.string(),
    target: z.string().nullable(),
    count: z.int(),
    detail: z.unknown(),
  })
  .meta({ id: "AuditEntry" });
const token = z
  .object({
    id: z.string(),
    name: z.string(),
    role,
    user: z.string().nullable(),
    createdAt: time,
    expiresAt: time.nullable(),
  })
  .meta({ id: "Token" });
const session = z
  .object({ name: z.string(), role, user: z.string().nullable(), expiresAt: time.nullable() })
  .meta({ id: "Session" });

const jobList = {
  input: z.strictObject({
    ...conditions,
    limit,
    cursor,
    offset: count(0, MAX_OFFSET)
      .optional()
      .meta({ description: "Jobs to skip. Not with `cursor`, `input` or `error`.", default: 0 }),
    order: z
      .enum(["newest", "oldest"])
      .optional()
      .meta({ description: "Which jobs come first, by time of enqueue.", default: "newest" }),
  }),
  result: z.object({ jobs: z.array(summary), cursor: z.string().nullable(), examined: z.int() }),
};
const jobCount = {
  input: z.strictObject({
    ...conditions,
    atMost: count(1, MAX_COUNT.all).optional().meta({ description: "Stop counting here.", default: 10_000 }),
  }),
  result: z.object({ count: z.int(), exact: z.boolean() }),
};

/** The schemas of every call. They validate requests, and the OpenAPI document is generated from them. */
export const SCHEMAS: { readonly [Name in RouteName]: CallSchemas<Name> } = {
  "jobs.list": jobList,
  "jobs.search": jobList,
  "jobs.count": jobCount,
  "jobs.searchCount": jobCount,
  "jobs.stats": { input: none, result: stats },
  "jobs.get": { input: z.strictObject(byJob), result: detail },
  "jobs.explain": {
    input: z.strictObject(byJob),
    result: z.object({ text: z.string(), reasons: z.array(reason) }),
  },
  "jobs.steps": {
    input: z.strictObject(byJob),
    result: z.object({ steps: z.array(step), total: z.int() }),
  },
  "jobs.enqueue": {
    input: z.strictObject({
      type: string(LIMITS.typeLength),
      input: z.unknown().optional(),
      queue: string(LIMITS.queueLength).optional(),
      priority: priority.optional(),
      delay: duration.optional(),
      runAt: instant.optional(),
      expiresAt: instant.optional(),
      user: string(LIMITS.userLength).optional(),
      maxAttempts: count(1, LIMITS.maxAttempts).optional(),
      timeout: z.union([...duration.options, z.literal(false)]).optional(),
      tags: tags.optional(),
      id: jobId.optional(),
      unique: unique.optional(),
    }),
    result: enqueued,
  },
  "jobs.update": {
    input: z.strictObject({ ...byJob, ...changes }),
    result: z.object({ status: z.literal("updated") }),
  },
  "jobs.promote": { input: z.strictObject(byJob), result: z.object({ status: z.literal("promoted") }) },
  "jobs.retry": {
    input: z.strictObject(byJob),
    result: z.object({ status: z.literal("retried") }),
  },
  "jobs.cancel": {
    input: z.strictObject(byJob),
    result: z.object({ status: z.enum(["cancelled", "requested"]) }),
  },
  "jobs.rerun": { input: z.strictObject({ ...byJob, input: z.unknown().optional() }), result: enqueued },
  "jobs.remove": { input: z.strictObject(byJob), result: z.object({ status: z.literal("removed") }) },
  "jobs.updateMany": { input: z.strictObject({ ...target, ...pace, ...changes }), result: operation },
  "jobs.promoteMany": { input: many, result: operation },
  "jobs.retryMany": { input: many, result: operation },
  "jobs.cancelMany": { input: many, result: operation },
  "jobs.removeMany": { input: many, result: operation },
  "jobs.purge": { input: z.strictObject({ state: finished, olderThan: duration }), result: operation },
  "jobs.preview": {
    input: z.strictObject({
      action: z.enum(["retry", "cancel", "delete", "update", "promote"]).describe("The change."),
      ...target,
    }),
    result: z.object({ changes: z.int(), skipped: z.record(z.string(), z.int()), exact: z.boolean() }),
  },
  "errors.list": {
    input: z.strictObject({
      type: string(LIMITS.typeLength).optional().describe("Only groups of this job type."),
      limit: count(1, LIMITS.errorGroups).optional().meta({ description: "Groups to return.", default: 100 }),
      trend: z.boolean().optional().meta({ description: "Add the trend of each group.", default: false }),
    }),
    result: z.object({ groups: z.array(errorGroup) }),
  },
  "history.get": {
    input: z.strictObject({
      from: instant.optional().describe("Default: an hour before `to`. At most 30 days ago."),
      to: instant.optional().describe("Default: now."),
      by: z.enum(["queue", "type"]).optional().describe("One series per queue or type. Default: one of all jobs."),
      queue: string(LIMITS.queueLength).optional().describe("Only jobs of this queue."),
      type: string(LIMITS.typeLength).optional().describe("Only jobs of this type."),
      resolution: resolution.optional().describe("Default: minutes within the last day, else hours."),
    }),
    result: z.object({
      resolution,
      from: time,
      to: time,
      series: z.array(z.object({ name: z.string().nullable(), points: z.array(historyPoint) })),
    }),
  },
  "transitions.list": {
    input: z.strictObject({
      cursor: string(4_000).optional().describe("Where the previous page ended. Default: begin now."),
      type: z.array(string(LIMITS.typeLength)).min(1).max(MAX_NAMES).optional().describe("Jobs of one of these types."),
      queue: z
        .array(string(LIMITS.queueLength))
        .min(1)
        .max(MAX_NAMES)
        .optional()
        .describe("Jobs in one of these queues."),
      state: z.array(state).min(1).max(STATE_NAMES.length).optional().describe("Changes to one of these states."),
      limit: count(1, 1_000).optional().meta({ description: "Transitions per page.", default: 200 }),
    }),
    result: z.object({
      transitions: z.array(z.object({ id: z.string(), type: z.string(), queue: z.string(), to: state, at: time })),
      cursor: z.string(),
    }),
  },
  "operations.list": { input: none, result: z.object({ operations: z.array(operation) }) },
  "operations.get": { input: z.strictObject(byId), result: operation },
  "operations.stop": { input: z.strictObject(byId), result: operation },
  "schedules.list": {
    input: z.strictObject({
      origin: z.enum(["code", "runtime"]).optional().describe("Schedules that were defined there."),
      enabled: z.boolean().optional().describe("Schedules that are enabled, or that are not."),
      type: string(LIMITS.typeLength).optional().describe("Schedules of this job type."),
      user: string(LIMITS.userLength).optional().describe("Schedules of this user."),
      search: string(200)
        .optional()
        .describe("Schedules with all of these words in their name, type, queue, pattern, time zone or tags."),
      limit,
      cursor,
    }),
    result: z.object({ schedules: z.array(scheduleSummary), cursor: z.string().nullable() }),
  },
  "schedules.preview": {
    input: z.strictObject({ ...timing, count: count(1, LIMITS.preview).optional() }),
    result: runs,
  },
  "schedules.get": { input: z.strictObject(byName), result: scheduled },
  "schedules.next": {
    input: z.strictObject({ ...byName, count: count(1, LIMITS.preview).optional().describe("How many runs.") }),
    result: runs,
  },
  "schedules.create": {
    input: z.strictObject({ ...byName, ...schedule, job: string(LIMITS.typeLength) }),
    result: scheduled,
  },
  "schedules.update": {
    input: z.strictObject({ ...byName, ...schedule, job: string(LIMITS.typeLength).optional() }),
    result: scheduled,
  },
  "schedules.remove": { input: z.strictObject(byName), result: z.object({ status: z.literal("removed") }) },
  "schedules.enable": { input: z.strictObject(byName), result: scheduled },
  "schedules.disable": { input: z.strictObject(byName), result: scheduled },
  "schedules.reset": { input: z.strictObject(byName), result: scheduled },
  "schedules.run": { input: z.strictObject(byName), result: enqueued },
  "queues.list": { input: none, result: z.object({ queues: z.array(queue), paused: z.boolean() }) },
  "queues.pauseAll": { input: none, result: pausedAll },
  "queues.resumeAll": { input: none, result: pausedAll },
  "queues.pause": { input: z.strictObject(byQueue), result: paused },
  "queues.resume": { input: z.strictObject(byQueue), result: paused },
  "events.emit": {
    input: z.strictObject({
      event: string(LIMITS.eventNameLength).describe("The name of the event, such as `paid:o-17`."),
      payload: z.unknown().optional(),
      keep: duration
        .optional()
        .describe("How long it is kept for jobs that wait for it later. Default 7 days, at most 90."),
    }),
    result: z.object({ event: z.string(), first: z.boolean() }),
  },
  "keys.free": {
    input: z.strictObject({
      key: string(LIMITS.keyLength).describe("The unique key."),
      user: string(LIMITS.userLength).optional().describe("The user whose key it is."),
    }),
    result: z.object({ status: z.enum(["freed", "held", "missing"]) }),
  },
  "workers.list": { input: none, result: z.object({ workers: z.array(worker) }) },
  "workers.drain": { input: z.strictObject(byWorker), result: drained },
  "workers.resume": { input: z.strictObject(byWorker), result: drained },
  "types.list": { input: none, result: z.object({ types: z.array(z.string()) }) },
  "types.get": {
    input: z.strictObject({ type: string(LIMITS.typeLength).describe("The name of the type.") }),
    result: z.object({
      type: z.string(),
      known: z.boolean(),
      defaults: z
        .object({
          queue: z.string(),
          priority: z.int(),
          maxAttempts: z.int(),
          timeoutMs: z.number().nullable(),
          tags: z.array(z.string()),
        })
        .nullable(),
      description: z.string().nullable(),
      takesInput: z.boolean().nullable(),
      input: z.record(z.string(), z.unknown()).nullable(),
    }),
  },
  "audit.list": {
    input: z.strictObject({
      actor: string(300).optional().describe("Entries of this actor, such as `token:ci`."),
      action: string(100).optional().describe("Entries with this action, such as `jobs.retry`."),
      after: instant.optional().describe("Entries after this time."),
      before: instant.optional().describe("Entries before this time."),
      limit,
      cursor,
    }),
    result: z.object({ entries: z.array(entry), cursor: z.string().nullable() }),
  },
  "tokens.list": { input: none, result: z.object({ tokens: z.array(token) }) },
  "tokens.create": {
    input: z.strictObject({
      name: string(100),
      role,
      user: string(LIMITS.userLength).optional(),
      expiresIn: duration.optional(),
    }),
    result: z.object({ ...token.shape, token: z.string() }),
  },
  "tokens.revoke": { input: z.strictObject(byId), result: z.object({ status: z.literal("revoked") }) },
  "session.get": { input: none, result: session },
  "session.start": { input: z.strictObject({ token: string(300) }), result: session },
  "session.end": { input: none, result: z.object({ status: z.literal("ended") }) },
};

export const SUMMARY: z.ZodType<SummaryResult> = z.object({
  stats: z.intersection(
    z.record(state, z.int()),
    z.object({ oldestDueMs: z.number().nullable(), paused: z.boolean() }),
  ),
  recentFailures: z.array(summary),
});

export const ERROR: z.ZodType<ErrorResult> = z
  .object({
    error: z.object({
      code: z.string(),
      message: z.string(),
      hint: z.string().exactOptional(),
      issues: z.array(z.object({ path: z.string(), message: z.string() })).exactOptional(),
    }),
  })
  .meta({ id: "Error" });
