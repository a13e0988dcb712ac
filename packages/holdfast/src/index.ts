/** The public API of Holdfast. Listed by hand: what is not here is not promised. */
export { holdfast, Holdfast } from "./engine/holdfast.js";
export type { BulkOptions } from "./engine/changes.js";
export type { ClaimOptions, HoldfastOptions, RerunOptions, SchedulerOptions, TickOptions } from "./engine/holdfast.js";
export { job } from "./job.js";
export type {
  AttemptError,
  Job,
  JobAttempt,
  JobOptions,
  JobSignal,
  JobSlot,
  JobType,
  JobWithInput,
  JobWithoutInput,
  NoInput,
  RunContext,
  RunningJob,
} from "./job.js";
export type { AuditListOptions, AuditLog, AuditRecord } from "./engine/audit.js";
export type { ListedToken, NewToken, TokenIdentity, TokenOptions, Tokens } from "./engine/tokens.js";
export type { EnqueueOptions } from "./engine/new-job.js";
export type { CalendarScope, UniqueOptions } from "./engine/unique.js";
export type { EnqueueAnswer, EnqueueManyAnswer, EnqueueManyOptions } from "./engine/enqueuer.js";
export type { ErrorEvent, EventName, Events, JobEvent, LeaseEvent, Listener } from "./engine/events.js";
export type { Filter, ListOptions } from "./engine/filter.js";
export type { Lease } from "./engine/lease.js";
export type { Logger } from "./engine/logger.js";
export type { Maintained, Retention, RetentionOptions } from "./engine/maintenance.js";
export type { ListedWorker } from "./engine/records.js";
export type { ResultOptions } from "./engine/results.js";
export type { ErrorReporter, FailedJob, JobFailure } from "./engine/reports.js";
export type { Stats } from "./engine/stats.js";
export type {
  EnqueueCall,
  EnqueueEnd,
  EnqueueTrace,
  RunEnd,
  RunOutcome,
  RunTrace,
  Telemetry,
  TraceCarrier,
  TracedRun,
} from "./engine/telemetry.js";
export type { UserJobs } from "./engine/user-jobs.js";
export type { WorkOptions, Worker } from "./engine/worker.js";
export { STATES, STATE_NAMES } from "./state.js";
export type { FinishedState, State, StateKind } from "./state.js";
export { TOKEN_ROLES } from "./roles.js";
export type { TokenRole } from "./roles.js";
export { Metrics } from "./observe/metrics.js";
export type { MeasuredClient } from "./observe/metrics.js";
export { redactor } from "./observe/redact.js";
export type { Redactor } from "./observe/redact.js";
export { RetryAfter } from "./retry-after.js";
export type { BackoffOptions, RetryOptions } from "./retry.js";
export type { Duration } from "./duration.js";
export type { Clock, Timer } from "./clock.js";
export type {
  NamedScheduleOptions,
  ScheduleChanges,
  ScheduleOptions,
  ScheduleSettings,
  ScheduleTiming,
} from "./engine/schedule-definition.js";
export type { Schedule, ScheduleListOptions, Schedules, SlotRecord } from "./engine/schedules.js";
export type { CalendarUnit } from "./schedule/calendar.js";
export type { CatchUp } from "./schedule/slots.js";
export type { Capabilities, CancelAnswer, QueueRecord, RemoveAnswer, RetryAnswer, SlotReason, Store } from "./store.js";
export {
  Closed,
  DiskFull,
  DriverMissing,
  DriverUnsupported,
  DuplicateJob,
  HoldfastError,
  InvalidInput,
  InvalidOption,
  InvalidOutput,
  JobCancelled,
  JobNotCompleted,
  JobNotFound,
  JobTimeout,
  LeaseLost,
  NotCommitted,
  NotRetryable,
  PayloadTooLarge,
  ScheduleExists,
  ScheduleNotFound,
  SchemaTooNew,
  SchemaUntrusted,
  StoreMoved,
  StoreReadOnly,
  StoreUnavailable,
  StoreUnreadable,
  TooManyTokens,
  UnknownStore,
  WaitTimeout,
  WorkerStopping,
} from "./errors.js";
export type { AbortReason, InputIssue } from "./errors.js";
