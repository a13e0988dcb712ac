import type { AttemptError, JobAttempt } from "../../job/job.js";
import type { JobStep } from "../../job/step-types.js";
import type { State, FinishedState } from "../../job/state.js";
import type { TokenRole } from "../../access/roles.js";
import type { ErrorGroup } from "../../engine/client/error-groups.js";
import type { InputCondition } from "../../engine/client/filter.js";
import type { Reason } from "../../engine/explain/reason.js";
import type { HistoryPoint } from "../../engine/history/read-history.js";
import type { FreeKeyResult } from "../../store.js";
import type { CalendarUnit } from "../../schedule/calendar.js";
import type { CalendarScope } from "../../job/enqueue-types.js";

/** ISO 8601 in UTC. */
type Time = string;

/** A job in a list, without its payload. */
export interface JobSummary {
  id: string;
  type: string;
  queue: string;
  state: State;
  priority: number;
  user: string | null;
  attempt: number;
  maxAttempts: number;
  runAt: Time;
  dueAt: Time | null;
  expiresAt: Time | null;
  createdAt: Time;
  updatedAt: Time;
  claimedAt: Time | null;
  startedAt: Time | null;
  finishedAt: Time | null;
  cancelRequestedAt: Time | null;
  worker: string | null;
  key: string | null;
  tags: readonly string[];
  schedule: { name: string; slot: Time } | null;
  /** The job whose handler enqueued this one. */
  parent: string | null;
  /** The timeout that the enqueue set; 0: none. Null: the job type's. */
  timeoutMs: number | null;
  /** `data`: the object that the handler stored with it; null if it stored none. */
  progress: { fraction: number; note: string | null; data: unknown } | null;
  /** `fingerprint`: the group of `errors.list` that it belongs to; null if it is not grouped. */
  error: { message: string; code: string | null; at: Time; fingerprint: string | null } | null;
}

/** A job with its payload, attempts and log. */
export interface JobDetail extends JobSummary {
  input: unknown;
  output: unknown;
  /** The fencing token of its latest claim; 0 before the first. */
  fence: number;
  /** The trace context of its enqueue (`traceparent`); null if it was not traced, and for the role user. */
  trace: Readonly<Record<string, string>> | null;
  attempts: readonly {
    attempt: number;
    /** The fencing token of its claim; null for attempts recorded by earlier versions. */
    fence: number | null;
    /** How it ended. `expired`: its lease did. `released`: its worker was stopped. */
    end: JobAttempt["end"];
    worker: string | null;
    claimedAt: Time | null;
    startedAt: Time | null;
    endedAt: Time;
    /** Null unless it failed or its lease expired. `stack`, `cause` and `data` are null for the role user. */
    error: AttemptError | null;
  }[];
  log: readonly { at: Time; line: string }[];
}

/** A step of a job. `value` is redacted as outputs are; null without a result, and if it is larger than 16 kB. */
export interface StepResult {
  name: string;
  /** Its place among the children of a `spawnAll`; 0 for other steps. */
  member: number;
  kind: JobStep["kind"];
  state: JobStep["state"];
  /** The event that it waits or waited for. */
  event: string | null;
  /** The child job. */
  job: string | null;
  value: unknown;
  error: { message: string; code: string | null } | null;
  tries: number;
  fence: number;
  startedAt: Time;
  endedAt: Time | null;
  until: Time | null;
}
/** `total`: how many steps the job has; `steps` are at most 2,000. */
export interface StepsResult {
  steps: StepResult[];
  total: number;
}

/** All conditions must match. An array matches any of its values. */
export interface JobConditions {
  /** Up to 1000 ids. */
  id?: readonly string[];
  state?: readonly State[];
  type?: readonly string[];
  queue?: readonly string[];
  user?: string;
  tag?: string;
  schedule?: string;
  /** Jobs that the handler of this job enqueued. */
  parent?: string;
  priority?: number;
  /** Jobs whose current error is in this group of `errors.list`. */
  fingerprint?: string;
  /** The job that holds this unique key now. With `user`, the key is that user's. */
  key?: string;
  /** With `key`: a key per calendar period, such as `{ calendar: "day", zone: "Europe/Berlin" }`. The current period is meant. */
  keyScope?: CalendarScope;
  /**
   * Jobs whose input matches: a string anywhere in it, or the value at a path. Redacted values are compared as `"[redacted]"`. Each
   * call examines a limited number of jobs, and `cursor` continues.
   */
  input?: InputCondition;
  /** Jobs whose current error has this text in its message or code. Case is ignored. Limited like `input`. */
  error?: string;
  createdAfter?: Time;
  createdBefore?: Time;
}

export interface JobQuery extends JobConditions {
  /** Jobs per page, 1 to 200. Default 50. */
  limit?: number;
  /** From the previous page. Cannot be combined with `offset`. */
  cursor?: string;
  /** Jobs to skip, 0 to 10000. Use cursors to go further. Cannot be combined with `input` or `error`. */
  offset?: number;
  /** By time of enqueue. Default `newest` (first). A cursor belongs to one order. */
  order?: "newest" | "oldest";
}

/** How many jobs match. */
export interface CountResult {
  count: number;
  /** False: at least `count` jobs match. */
  exact: boolean;
}

/** A page of a list. */
export interface JobListResult {
  jobs: JobSummary[];
  /** Where the next page begins; null at the end. */
  cursor: string | null;
  /** How many jobs were read to find these. */
  examined: number;
}

/** Either up to 1000 ids, or a filter with at least one condition. */
export interface ManyJobs {
  ids?: readonly string[];
  filter?: JobConditions;
  /** Jobs per second, 0.1 to 10000. Default: as fast as possible. */
  rate?: number;
  /** Only the first jobs that match: the newest, or the first ids. */
  limit?: number;
}

/** A change of many jobs, not yet made. */
export interface PreviewInput extends Pick<ManyJobs, "ids" | "filter"> {
  action: "retry" | "cancel" | "delete" | "update" | "promote";
}

/** What a change of many jobs would do, by the states of the jobs. */
export interface PreviewResult {
  /** How many jobs would change. */
  changes: number;
  /** How many would not, by reason, such as `not-retryable`. */
  skipped: Readonly<Record<string, number>>;
  /** False: at least as many. */
  exact: boolean;
}

/** Changes to a waiting job. Absent fields stay as they are. */
export interface JobChanges {
  /** Due after this duration, or these milliseconds. */
  delay?: string | number;
  runAt?: Time;
  priority?: number;
  queue?: string;
  input?: unknown;
  /** Replaces all tags. */
  tags?: readonly string[];
  /** More than the job has used. */
  maxAttempts?: number;
  /** `null`: never. */
  expiresAt?: Time | null;
}

export interface NewJobBody {
  type: string;
  input?: unknown;
  queue?: string;
  priority?: number;
  /** A duration such as `"10m"`, or milliseconds. */
  delay?: string | number;
  runAt?: Time;
  expiresAt?: Time;
  user?: string;
  maxAttempts?: number;
  /** The maximum duration of an attempt; `false`: none. Default: the job type's timeout. */
  timeout?: string | number | false;
  tags?: readonly string[];
  id?: string;
  unique?:
    | string
    | {
        key: string;
        scope?:
          | "waiting"
          | "live"
          | "forever"
          | { period: string | number }
          | { calendar: CalendarUnit; zone?: string };
        onConflict?: "keep" | "replace" | "reject";
      };
}

export interface Enqueued {
  id: string;
  duplicate: boolean;
  replaced: boolean;
}

export interface StatsResult {
  states: Record<State, number>;
  queues: Record<string, Record<State, number>>;
  types: Record<string, Record<State, number>>;
  counts: readonly { queue: string; type: string; state: State; count: number }[];
  /** How long the oldest due job has been due; null if none is due. Jobs in paused queues are not counted. */
  oldestDueMs: number | null;
  /** The same for the queues whose jobs have been due for longest, up to 200. */
  oldestDue: readonly { queue: string; dueMs: number }[];
  lastMinute: Record<FinishedState, number>;
  completedPerSecond: number;
  /** All queues are paused. */
  paused: boolean;
}

/** The jobs of an operation: of its ids, or of its filter's ids, the first 20, and their `count`. */
export interface OperationTarget {
  ids?: readonly string[];
  count?: number;
  /** Null: too long to be shown. */
  filter?: JobConditions | null;
  purge?: { state: FinishedState; olderThan: string | number };
}

export interface OperationResult {
  id: string;
  action: "retry" | "cancel" | "delete" | "update" | "promote" | "purge";
  state: "running" | "done" | "stopped" | "failed";
  target: OperationTarget;
  /** Of an update: the changes, redacted. */
  changes: JobChanges | null;
  /** Jobs per second; null: as fast as possible. */
  rate: number | null;
  /** Only this many jobs; null: all that match. */
  limit: number | null;
  /** Jobs processed so far. After a crash of its server, jobs of its last second may be counted twice or not at all. */
  examined: number;
  /** How many of those were changed. */
  changed: number;
  /** How many of the changed jobs are running and were asked to stop. */
  requested: number;
  /** How many jobs were found and not changed, by reason, such as `key-held` or `not-waiting`. */
  skipped: Readonly<Record<string, number>>;
  /** Of a change by ids: up to 20 ids that were not changed. Empty for filters. */
  unchanged: readonly string[];
  /** Of an update or promotion by ids: why these were not changed, by id, such as `is running`. */
  reasons: Readonly<Record<string, string>>;
  /** How many jobs there are to process; null: unknown. */
  total: number | null;
  actor: string;
  /** The server that runs it, or ran it last: its host and process id. */
  process: string;
  /** Until when, unless it goes on: then another server continues the operation. Null if it has ended. */
  leaseUntil: Time | null;
  startedAt: Time;
  endedAt: Time | null;
  error: string | null;
}

/** A schedule in a list, without its input, which may be large. */
export interface ScheduleSummary {
  name: string;
  origin: "code" | "runtime";
  changed: readonly string[];
  type: string;
  cron: string | null;
  timezone: string | null;
  everyMs: number | null;
  startAt: Time | null;
  endAt: Time | null;
  jitterMs: number;
  catchUp: "skip" | "latest" | { all: number };
  overlap: "allow" | "skip";
  enabled: boolean;
  queue: string;
  priority: number;
  maxAttempts: number;
  user: string | null;
  tags: readonly string[];
  nextRunAt: Time | null;
  lastSlot: Time | null;
  createdAt: Time;
  updatedAt: Time;
}

/** A schedule with its input and the outcomes of its last slots. */
export interface ScheduleResult extends ScheduleSummary {
  input: unknown;
  slots: readonly {
    slot: Time;
    through: Time | null;
    job: string | null;
    reason: string | null;
    at: Time;
  }[];
}

export interface TimingBody {
  cron?: string;
  timezone?: string;
  every?: string | number;
  startAt?: Time | null;
  endAt?: Time | null;
}

export interface ScheduleBody extends TimingBody {
  /** The type of the jobs that it enqueues. */
  job?: string;
  input?: unknown;
  enabled?: boolean;
  catchUp?: "skip" | "latest" | { all: number };
  overlap?: "allow" | "skip";
  jitter?: string | number;
  queue?: string;
  priority?: number;
  maxAttempts?: number;
  user?: string | null;
  tags?: readonly string[];
}

export interface QueueResult {
  queue: string;
  paused: boolean;
  /** Null if it is not paused, or was paused by an earlier version. */
  pausedAt: Time | null;
  /** Who paused it; null if a program did. */
  pausedBy: string | null;
  priorities: readonly number[];
}

export interface WorkerResult {
  id: string;
  queues: readonly string[] | null;
  types: readonly string[];
  concurrency: number;
  running: number;
  host: string;
  pid: number;
  startedAt: Time;
  seenAt: Time;
  left: boolean;
  /** It claims no more jobs, and its running jobs finish. */
  draining: boolean;
  /** The version of Holdfast; null for earlier versions. */
  version: string | null;
  /** Up to 20 jobs that it ran at its last heartbeat. */
  jobs: readonly { id: string; type: string }[];
}

/** What the server knows of a job type. */
export interface TypeResult {
  type: string;
  /** False: only other processes have its code, and all that follows is null. */
  known: boolean;
  defaults: {
    queue: string;
    priority: number;
    maxAttempts: number;
    /** Null: no timeout. */
    timeoutMs: number | null;
    tags: readonly string[];
  } | null;
  /** That of the input's schema. */
  description: string | null;
  /** Whether the type takes an input. */
  takesInput: boolean | null;
  /** The JSON Schema of the input (draft 2020-12), without values that the redaction hides; null if its schema offers none. */
  input: Readonly<Record<string, unknown>> | null;
}

export interface AuditResult {
  id: string;
  at: Time;
  actor: string;
  action: string;
  target: string | null;
  count: number;
  detail: unknown;
}

export interface TokenResult {
  id: string;
  name: string;
  role: TokenRole;
  user: string | null;
  createdAt: Time;
  expiresAt: Time | null;
}

export interface SessionResult {
  name: string;
  role: TokenRole;
  user: string | null;
  /** When the session ends; null if the request has no session cookie. */
  expiresAt: Time | null;
}

/** Why a job does not run. `reasons` is never empty; its first one is decisive. */
export interface ExplanationResult {
  text: string;
  reasons: ReasonResult[];
}

export interface ReasonResult extends Omit<Reason, "until"> {
  until: Time | null;
}

/** Failed attempts with the same error. */
export interface ErrorGroupResult extends Omit<ErrorGroup, "firstAt" | "lastAt"> {
  firstAt: Time;
  lastAt: Time;
}

export interface HistoryQuery {
  /** Default: an hour before `to`. */
  from?: Time;
  /** Default: now. */
  to?: Time;
  by?: "queue" | "type";
  queue?: string;
  type?: string;
  resolution?: "minute" | "hour";
}

export interface HistoryResult {
  resolution: "minute" | "hour";
  from: Time;
  to: Time;
  series: { name: string | null; points: (Omit<HistoryPoint, "at"> & { at: Time })[] }[];
}

export interface TransitionQuery {
  cursor?: string;
  type?: readonly string[];
  queue?: readonly string[];
  state?: readonly State[];
  /** Transitions per page, 1 to 1000. Default 200. */
  limit?: number;
}

export interface TransitionResult {
  transitions: { id: string; type: string; queue: string; to: State; at: Time }[];
  /** Where the next page begins. Valid for 10 minutes. */
  cursor: string;
}

interface ById {
  id: string;
}
interface ByName {
  name: string;
}
interface ByQueue {
  queue: string;
}
type CountQuery = JobConditions & { atMost?: number };
type None = Record<string, never>;

/** The input of each call (path, query and body combined) and its result. */
export interface Calls {
  "jobs.list": { input: JobQuery; result: JobListResult };
  "jobs.search": { input: JobQuery; result: JobListResult };
  "jobs.count": { input: CountQuery; result: CountResult };
  "jobs.searchCount": { input: CountQuery; result: CountResult };
  "jobs.stats": { input: None; result: StatsResult };
  "jobs.get": { input: ById; result: JobDetail };
  "jobs.explain": { input: ById; result: ExplanationResult };
  "jobs.steps": { input: ById; result: StepsResult };
  "jobs.enqueue": { input: NewJobBody; result: Enqueued };
  "jobs.update": { input: ById & JobChanges; result: { status: "updated" } };
  "jobs.promote": { input: ById; result: { status: "promoted" } };
  "jobs.retry": { input: ById; result: { status: "retried" } };
  /** `requested`: the job is running and its signal will abort. */
  "jobs.cancel": { input: ById; result: { status: "cancelled" | "requested" } };
  "jobs.rerun": { input: ById & { input?: unknown }; result: Enqueued };
  "jobs.remove": { input: ById; result: { status: "removed" } };
  "jobs.updateMany": { input: ManyJobs & JobChanges; result: OperationResult };
  "jobs.promoteMany": { input: ManyJobs; result: OperationResult };
  "jobs.retryMany": { input: ManyJobs; result: OperationResult };
  "jobs.cancelMany": { input: ManyJobs; result: OperationResult };
  "jobs.removeMany": { input: ManyJobs; result: OperationResult };
  "jobs.purge": { input: { state: FinishedState; olderThan: string | number }; result: OperationResult };
  "jobs.preview": { input: PreviewInput; result: PreviewResult };
  "errors.list": { input: { type?: string; limit?: number; trend?: boolean }; result: { groups: ErrorGroupResult[] } };
  "history.get": { input: HistoryQuery; result: HistoryResult };
  "transitions.list": { input: TransitionQuery; result: TransitionResult };
  "operations.list": { input: None; result: { operations: OperationResult[] } };
  "operations.get": { input: ById; result: OperationResult };
  "operations.stop": { input: ById; result: OperationResult };
  "schedules.list": {
    input: {
      origin?: "code" | "runtime";
      enabled?: boolean;
      type?: string;
      user?: string;
      /** All of its words occur in the name, type, queue, pattern, time zone or tags. */
      search?: string;
      limit?: number;
      cursor?: string;
    };
    result: { schedules: ScheduleSummary[]; cursor: string | null };
  };
  "schedules.preview": { input: TimingBody & { count?: number }; result: { runs: Time[] } };
  "schedules.get": { input: ByName; result: ScheduleResult };
  "schedules.next": { input: ByName & { count?: number }; result: { runs: Time[] } };
  "schedules.create": { input: ByName & ScheduleBody & { job: string }; result: ScheduleResult };
  "schedules.update": { input: ByName & ScheduleBody; result: ScheduleResult };
  "schedules.remove": { input: ByName; result: { status: "removed" } };
  "schedules.enable": { input: ByName; result: ScheduleResult };
  "schedules.disable": { input: ByName; result: ScheduleResult };
  "schedules.reset": { input: ByName; result: ScheduleResult };
  "schedules.run": { input: ByName; result: Enqueued };
  /** `paused`: all queues are. */
  "queues.list": { input: None; result: { queues: QueueResult[]; paused: boolean } };
  "queues.pauseAll": { input: None; result: { paused: boolean } };
  "queues.resumeAll": { input: None; result: { paused: boolean } };
  "queues.pause": { input: ByQueue; result: { queue: string; paused: boolean } };
  "queues.resume": { input: ByQueue; result: { queue: string; paused: boolean } };
  /** `first`: false if an event of this name is kept already; jobs get that one. */
  "events.emit": {
    input: { event: string; payload?: unknown; keep?: string | number };
    result: { event: string; first: boolean };
  };
  /** `held`: the job that has the key still exists. `missing`: the key is free already. */
  "keys.free": { input: { key: string; user?: string }; result: { status: FreeKeyResult } };
  "workers.list": { input: None; result: { workers: WorkerResult[] } };
  "workers.drain": { input: ById; result: { id: string; draining: boolean } };
  "workers.resume": { input: ById; result: { id: string; draining: boolean } };
  "types.list": { input: None; result: { types: string[] } };
  "types.get": { input: { type: string }; result: TypeResult };
  "audit.list": {
    input: { actor?: string; action?: string; after?: Time; before?: Time; limit?: number; cursor?: string };
    result: { entries: AuditResult[]; cursor: string | null };
  };
  "tokens.list": { input: None; result: { tokens: TokenResult[] } };
  "tokens.create": {
    input: { name: string; role: TokenRole; user?: string; expiresIn?: string | number };
    result: TokenResult & { token: string };
  };
  "tokens.revoke": { input: ById; result: { status: "revoked" } };
  "session.get": { input: None; result: SessionResult };
  "session.start": { input: { token: string }; result: SessionResult };
  "session.end": { input: None; result: { status: "ended" } };
}

/** The body of every error response. */
export interface ErrorResult {
  error: { code: string; message: string; hint?: string; issues?: { path: string; message: string }[] };
}

/** The response of `GET /api/v1/admin/jobs`. */
export interface SummaryResult {
  stats: Record<State, number> & { oldestDueMs: number | null; paused: boolean };
  recentFailures: JobSummary[];
}
