import type { AttemptError } from "../../job/job.js";
import type { State, FinishedState } from "../../job/state.js";
import type { TokenRole } from "../../access/roles.js";
import type { CalendarUnit } from "../../schedule/calendar.js";

/** A time as the API writes it: ISO 8601 in UTC. */
type Time = string;

/** What the API tells of a job in a list. */
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
  progress: { fraction: number; note: string | null } | null;
  error: { message: string; code: string | null; at: Time } | null;
}

/** A job with everything that is known of it. */
export interface JobDetail extends JobSummary {
  input: unknown;
  output: unknown;
  /** The trace context of its enqueue (`traceparent`); null if nobody traced that, and for the role user. */
  trace: Readonly<Record<string, string>> | null;
  attempts: readonly {
    attempt: number;
    worker: string | null;
    claimedAt: Time | null;
    startedAt: Time | null;
    endedAt: Time;
    /** `stack`, `cause` and `data` are null for the role user. */
    error: AttemptError;
  }[];
  log: readonly { at: Time; line: string }[];
}

/** Which jobs: every condition given must hold; a list means any of them. */
export interface JobConditions {
  state?: readonly State[];
  type?: readonly string[];
  queue?: readonly string[];
  user?: string;
  tag?: string;
  schedule?: string;
  createdAfter?: Time;
  createdBefore?: Time;
}

export interface JobQuery extends JobConditions {
  /** Jobs a page, 1 to 200. Default 50. */
  limit?: number;
  /** Where the page before ended; goes with no `offset`. */
  cursor?: string;
  /** Jobs to pass over, 0 to 10000. To go further, use cursors. */
  offset?: number;
}

/** Jobs by their ids, at most 1000, or all that a filter matches, which must name a condition. */
export interface ManyJobs {
  ids?: readonly string[];
  filter?: JobConditions;
}

export interface NewJobBody {
  type: string;
  input?: unknown;
  queue?: string;
  priority?: number;
  /** A length such as `"10m"`, or milliseconds. */
  delay?: string | number;
  runAt?: Time;
  expiresAt?: Time;
  user?: string;
  maxAttempts?: number;
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
  oldestDueMs: number | null;
  lastMinute: Record<FinishedState, number>;
  completedPerSecond: number;
}

export interface OperationResult {
  id: string;
  action: "retry" | "cancel" | "delete" | "purge";
  state: "running" | "done" | "stopped" | "failed";
  /** Jobs looked at so far, and those of them that changed. */
  looked: number;
  changed: number;
  /** How many there are to look at; null if that is not known. */
  total: number | null;
  actor: string;
  startedAt: Time;
  endedAt: Time | null;
  error: string | null;
}

/** What the API tells of a schedule in a list: not its input, which may be large. */
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

/** A schedule with its input, and what became of its last slots. */
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
  /** The type of the jobs it makes. */
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
  /** When the session ends; null where a token was sent, or none is asked for. */
  expiresAt: Time | null;
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
type None = Record<string, never>;

/** What goes into each call, path and query and body taken together, and what comes out. */
export interface Calls {
  "jobs.list": { input: JobQuery; answer: { jobs: JobSummary[]; cursor: string | null } };
  "jobs.stats": { input: None; answer: StatsResult };
  "jobs.get": { input: ById; answer: JobDetail };
  "jobs.enqueue": { input: NewJobBody; answer: Enqueued };
  "jobs.retry": { input: ById; answer: { status: "retried" } };
  /** `requested`: it runs, and was asked to stop. */
  "jobs.cancel": { input: ById; answer: { status: "cancelled" | "requested" } };
  "jobs.rerun": { input: ById & { input?: unknown }; answer: Enqueued };
  "jobs.remove": { input: ById; answer: { status: "removed" } };
  "jobs.retryMany": { input: ManyJobs; answer: OperationResult };
  "jobs.cancelMany": { input: ManyJobs; answer: OperationResult };
  "jobs.removeMany": { input: ManyJobs; answer: OperationResult };
  "jobs.purge": { input: { state: FinishedState; olderThan: string | number }; answer: OperationResult };
  "operations.list": { input: None; answer: { operations: OperationResult[] } };
  "operations.get": { input: ById; answer: OperationResult };
  "operations.stop": { input: ById; answer: OperationResult };
  "schedules.list": {
    input: {
      origin?: "code" | "runtime";
      enabled?: boolean;
      type?: string;
      user?: string;
      limit?: number;
      cursor?: string;
    };
    answer: { schedules: ScheduleSummary[]; cursor: string | null };
  };
  "schedules.preview": { input: TimingBody & { count?: number }; answer: { runs: Time[] } };
  "schedules.get": { input: ByName; answer: ScheduleResult };
  "schedules.next": { input: ByName & { count?: number }; answer: { runs: Time[] } };
  "schedules.create": { input: ByName & ScheduleBody & { job: string }; answer: ScheduleResult };
  "schedules.update": { input: ByName & ScheduleBody; answer: ScheduleResult };
  "schedules.remove": { input: ByName; answer: { status: "removed" } };
  "schedules.enable": { input: ByName; answer: ScheduleResult };
  "schedules.disable": { input: ByName; answer: ScheduleResult };
  "schedules.reset": { input: ByName; answer: ScheduleResult };
  "schedules.run": { input: ByName; answer: Enqueued };
  "queues.list": { input: None; answer: { queues: QueueResult[] } };
  "queues.pause": { input: ByQueue; answer: { queue: string; paused: boolean } };
  "queues.resume": { input: ByQueue; answer: { queue: string; paused: boolean } };
  "workers.list": { input: None; answer: { workers: WorkerResult[] } };
  "types.list": { input: None; answer: { types: string[] } };
  "audit.list": {
    input: { actor?: string; action?: string; after?: Time; before?: Time; limit?: number; cursor?: string };
    answer: { entries: AuditResult[]; cursor: string | null };
  };
  "tokens.list": { input: None; answer: { tokens: TokenResult[] } };
  "tokens.create": {
    input: { name: string; role: TokenRole; user?: string; expiresIn?: string | number };
    answer: TokenResult & { token: string };
  };
  "tokens.revoke": { input: ById; answer: { status: "revoked" } };
  "session.get": { input: None; answer: SessionResult };
  "session.start": { input: { token: string }; answer: SessionResult };
  "session.end": { input: None; answer: { status: "ended" } };
}

/** What every error answers. */
export interface ErrorResult {
  error: { code: string; message: string; hint?: string; issues?: { path: string; message: string }[] };
}

/** The summary of `GET /api/v1/admin/jobs`. */
export interface SummaryResult {
  stats: Record<State, number> & { oldestDueMs: number | null };
  recentFailures: JobSummary[];
}
