/** The public API of Holdfast. Only what is exported here is public. */
export { holdfast } from "./engine/client/open-client.js";
export { Holdfast } from "./engine/client/holdfast.js";
export type { JobList } from "./engine/client/holdfast.js";
export type {
  CalendarScope,
  EnqueueManyOptions,
  EnqueueManyResult,
  EnqueueOptions,
  EnqueueResult,
  UniqueOptions,
} from "./job/enqueue-types.js";
export type { BulkOptions, BulkUpdateOptions } from "./engine/client/changes.js";
export type { HoldfastOptions, SchedulerOptions } from "./engine/client/client-options.js";
export type { ClaimOptions } from "./engine/client/claim-leases.js";
export type { RerunOptions } from "./engine/client/rerun.js";
export type { DrainOptions } from "./engine/worker/drain.js";
export { job } from "./job/job.js";
export type {
  AttemptError,
  HandlerClient,
  InputAnd,
  Job,
  JobAttempt,
  JobOptions,
  JobSignal,
  ScheduledSlot,
  JobType,
  JobWithInput,
  JobWithoutInput,
  NoInput,
  RunContext,
  RunningJob,
} from "./job/job.js";
export type { AuditListOptions, AuditLog, AuditRecord } from "./engine/client/audit.js";
export type { ApiToken, NewToken, TokenIdentity, TokenOptions, Tokens } from "./engine/client/tokens.js";
export type { CountOptions, JobCount } from "./engine/client/count-jobs.js";
export type { ErrorGroup, ErrorGroupOptions } from "./engine/client/error-groups.js";
export type { KeyTarget } from "./engine/client/get-job.js";
export type { UnchangedJob, UpdateOptions } from "./engine/client/job-updates.js";
export type { AsJson, JobId, JobOutput } from "./job/job-id.js";
export type { Explanation } from "./engine/explain/explain-job.js";
export type { Reason, ReasonKind } from "./engine/explain/reason.js";
export type { Followed, FollowOptions, Transition } from "./engine/events/follow.js";
export type {
  History,
  HistoryOptions,
  HistoryPoint,
  HistorySeries,
  Percentiles,
} from "./engine/history/read-history.js";
export type { HistoryResolution } from "./history/stored-history.js";
export type { QueueStatus } from "./engine/client/queues.js";
export type { ErrorEvent, EventName, Events, JobEvent, LeaseEvent, Listener } from "./engine/events/events.js";
export type { Filter, InputCondition, ListOptions } from "./engine/client/filter.js";
export type { Lease } from "./engine/worker/claimed-lease.js";
export type { Logger } from "./engine/events/logger.js";
export type { MaintenanceResult, PurgeOptions, Retention, RetentionOptions } from "./engine/maintenance.js";
export type { WorkerStatus } from "./engine/client/job-view.js";
export type { ResultOptions } from "./engine/client/results.js";
export type { ErrorReporter, FailedJob, JobFailure } from "./engine/events/reports.js";
export type { Stats } from "./engine/client/stats.js";
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
} from "./engine/events/telemetry.js";
export type { UserJobs } from "./engine/client/user-jobs.js";
export type { WorkOptions } from "./engine/worker/work-options.js";
export type { Worker } from "./engine/worker/worker.js";
export { STATES, STATE_NAMES } from "./job/state.js";
export type { FinishedState, State, StateKind } from "./job/state.js";
export { TOKEN_ROLES } from "./access/roles.js";
export type { TokenRole } from "./access/roles.js";
export type {
  ChildEnd,
  EmitOptions,
  JobStep,
  SpawnAll,
  SpawnAllOptions,
  SpawnOptions,
  StepCalls,
  StepContext,
  StepName,
  StepOptions,
  StepValue,
  WaitFor,
} from "./job/step-types.js";
export {
  ChildFailedError,
  DuplicateStepError,
  ParkedError,
  StepChangedError,
  StepFailedError,
  StepNotCommittedError,
  StepResultError,
  StepTimeoutError,
  StepTooLateError,
  TooManyStepsError,
} from "./job/step-errors.js";
export { Metrics } from "./observe/metrics.js";
export type { MeasuredClient } from "./observe/metrics.js";
export { redactor } from "./observe/redact.js";
export type { Redactor } from "./observe/redact.js";
export { Cancel } from "./job/cancel.js";
export { RetryAfter } from "./job/retry-after.js";
export type { Backoff, BackoffOptions, RetryOptions } from "./job/retry.js";
export type { Duration } from "./duration.js";
export type { Clock, Timer } from "./clock.js";
export type {
  NamedScheduleOptions,
  ScheduleChanges,
  ScheduleOptions,
  ScheduleSettings,
  ScheduleTiming,
} from "./engine/scheduler/schedule-definition.js";
export type { Schedule, ScheduleListOptions, Schedules, SlotRecord } from "./engine/scheduler/schedules.js";
export type { CalendarUnit } from "./schedule/calendar.js";
export type { CatchUp } from "./schedule/slots.js";
export type { Capabilities, CancelResult, RemoveResult, RetryResult, SlotReason, Store } from "./store.js";
export {
  ClosedError,
  CursorExpiredError,
  DiskFullError,
  DriverMissingError,
  DriverUnsupportedError,
  DuplicateJobError,
  HoldfastError,
  InvalidInputError,
  InvalidOptionError,
  InvalidOutputError,
  JobCancelledError,
  JobNotCompletedError,
  JobNotFoundError,
  JobNotWaitingError,
  JobTimeoutError,
  LeaseLostError,
  NotCommittedError,
  NotRetryable,
  PayloadTooLargeError,
  ScheduleExistsError,
  ScheduleNotFoundError,
  SchemaTooNewError,
  SchemaUntrustedError,
  StoreMovedError,
  StoreReadOnlyError,
  StoreUnavailableError,
  StoreUnreadableError,
  TooManyFollowersError,
  TooManyTokensError,
  UnknownStoreError,
  WaitTimeoutError,
  WorkerStoppingError,
} from "./errors.js";
export type { AbortReason, InputIssue } from "./errors.js";
