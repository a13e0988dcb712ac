import type { AuditEntry, AuditFilter, AuditPage, PutTokenResult, TokenRecord } from "./access/stored-access.js";
import type {
  HistoryMerge,
  HistoryPage,
  HistoryRange,
  HistoryRecord,
  HistoryResolution,
} from "./history/stored-history.js";
import type { ErrorGroupRecord } from "./job/error-group.js";
import type { FinishedState, State } from "./job/state.js";
import type * as Operation from "./job/stored-operation.js";
import type { JobFilter, JobPage, PageRequest, Skipped } from "./job/stored-list.js";
import type { QueuePosition, QueueRecord, StatsRequest, StoreStats } from "./job/stored-queue.js";
import type * as Step from "./job/stored-step.js";
import type { TransitionPage } from "./job/transition.js";
import type {
  AttemptRecord,
  JobSettings,
  NewJob,
  ScheduleSlot,
  StoredError,
  StoredJob,
  StoredProgress,
} from "./job/stored-job.js";
import type { HeartbeatResult, StoredWorker, WorkerRecord } from "./job/stored-worker.js";
import type {
  DueSchedules,
  FireResult,
  Firing,
  PutResult,
  ScheduleFilter,
  SchedulePage,
  ScheduleRecord,
  StoredSchedule,
} from "./schedule/stored-schedule.js";

export type * from "./access/stored-access.js";
export type * from "./history/stored-history.js";
export type * from "./job/error-group.js";
export type * from "./job/stored-job.js";
export type * from "./job/stored-list.js";
export type * from "./job/stored-operation.js";
export type * from "./job/stored-queue.js";
export type * from "./job/stored-step.js";
export type * from "./job/stored-worker.js";
export type * from "./job/transition.js";
export type * from "./schedule/stored-schedule.js";

/**
 * The store contract. The engine accesses the database only through these methods.
 *
 * Arguments and results are plain values. Times are milliseconds since 1970, payloads are JSON strings. A call with an array
 * returns one result per item, in the same order, and a bad item never affects the others. Policy (backoff, handling of expired
 * jobs) belongs to the engine. A store guarantees what must be atomic:
 *
 * - **Due times.** Every live job has a due time. For a waiting job it is the time when it may run, for a leased job the end of
 *   its lease. `claim` leases jobs whose due time has passed and sets it to the end of the new lease. A finished job has none.
 * - **The fencing token** (`fence`) increases by one with every claim. `start`, `extend` and `settle` with another fence change
 *   nothing and return `lost`.
 * - **Attempts** are counted at claim, by `countClaim` of `state.ts`. If the previous lease expired, the claim also adds that
 *   attempt to the job's history and sets the job's error to `STALE_ERROR`.
 * - **A requested cancellation** overrides every outcome except `completed`: the job becomes `cancelled`.
 * - **Unique keys** are separate rows; see {@link UniqueKey}.
 * - **A slot of a schedule** becomes at most one job: `fire` writes only if the schedule still has the version that was read.
 */
export interface Store {
  readonly capabilities: Capabilities;

  /** Updates the database to the current schema. May be repeated, and called by many processes concurrently. */
  migrate(): Promise<void>;
  /**
   * Lists what `migrate` would do, in order, one short description per step; empty if the schema is up to date. Writes nothing
   * and does not create the database. Throws what `migrate` would throw, for example `SchemaTooNewError`.
   */
  pendingMigrations?(): Promise<PendingMigration[]>;
  /** Closes all connections. Later calls fail with `ClosedError`. */
  close(): Promise<void>;

  /**
   * Stores new jobs with their unique keys. Once it resolves, the inserted jobs are durable. A job whose id exists is a
   * `duplicate`. `busy`: another open transaction holds what the job needs (its unique key, its id, its queue or the row of its
   * user), nothing was stored, and the caller tries again.
   */
  insert(jobs: readonly NewJob[]): Promise<(InsertResult | "busy")[]>;
  /**
   * Inserts jobs in the caller's transaction `tx`: they exist when it commits. Returns synchronously if the driver is
   * synchronous.
   */
  insertIn(tx: unknown, jobs: readonly NewJob[]): InsertResult[] | Promise<InsertResult[]>;

  /**
   * Leases due jobs to a worker and counts their attempts. No job is leased to two workers: the next claim can take it only
   * after the lease has expired. Returns at most `limit` jobs, none from paused queues.
   */
  claim(request: ClaimRequest): Promise<Claim>;
  /** Changes `claimed` jobs to `running` if their leases are still held. */
  start(marks: readonly StartMark[]): Promise<LeaseResult[]>;
  /** Extends held leases to `leaseMs` from now. The results also report requested cancellations. */
  extend(leases: readonly LeaseRef[], leaseMs: number): Promise<LeaseResult[]>;
  /**
   * Ends leases with the outcomes of their attempts, and removes or updates each job's due time. Safe to repeat: an outcome that
   * was already applied returns `applied` again. `busy`: another transaction has locked the job's row, nothing was written, and
   * the caller tries again.
   */
  settle(outcomes: readonly Outcome[]): Promise<(SettleResult | "busy")[]>;
  /**
   * Stores `note` and settles a job to a finished state, both in the caller's transaction `tx`. Unlike `settle`, it returns
   * `lost` for a repeated call, so that the caller does not repeat its own writes. Returns synchronously if the driver is
   * synchronous.
   */
  settleIn(tx: unknown, outcome: Outcome, note: Note | null): SettleResult | Promise<SettleResult>;
  /** Stores progress and log lines of jobs whose leases are held. Ignores those of lost leases. */
  note(notes: readonly Note[]): Promise<void>;

  /** Returns the steps of a job; none if the job does not exist. */
  steps(job: string): Promise<Step.JobSteps>;
  /**
   * Stores steps of jobs whose leases are held, each with its child job in one transaction. A step that has ended is not changed.
   * A wait ends with its topic: also if that was emitted, or had finished, before. Nothing is missed in between.
   */
  saveSteps(writes: readonly Step.StepWrite[]): Promise<Step.StepResult[]>;
  /**
   * Stores a step that is `done`, in the caller's transaction `tx`. Returns synchronously if the driver is synchronous. Instead of
   * `busy`, it waits for a transaction that has locked the job's row.
   */
  saveStepIn(tx: unknown, write: Step.StepWrite): Step.StepResult | Promise<Step.StepResult>;
  /** Returns the ids of live child jobs that steps of these jobs wait for, at most `limit`. */
  openChildren(jobs: readonly string[], limit: number): Promise<string[]>;
  /**
   * Keeps events, and ends the waits for them: once it resolves, each job that waited is due, or its park is refused. The first
   * event of a name is kept for its time, and later ones change nothing.
   */
  emit(events: readonly Step.NewEvent[]): Promise<Step.EmitResult[]>;
  /**
   * Emits an event in the caller's transaction `tx`: waits for it end when it commits, or shortly after. Returns synchronously if
   * the driver is synchronous.
   */
  emitIn(tx: unknown, event: Step.NewEvent): Step.EmitResult | Promise<Step.EmitResult>;
  /** Deletes events whose time is over. Returns how many, at most `limit`; 0 if the database deletes expired records itself. */
  purgeEvents(limit: number): Promise<number>;
  /**
   * Ends waits whose event or job has ended, but which a crash, a caller's transaction or a limit left waiting; not those that a settle
   * reopened. Looks at a bounded number of them, about `limit`. Returns how many jobs it woke.
   */
  repairWaits(limit: number): Promise<number>;

  /** Returns the full record of a job, including history and log; null if it does not exist or is not in `scope`. */
  get(id: string, scope?: Scope): Promise<StoredJob | null>;
  /**
   * Lists matching jobs in the order of the page, without history and log. Each call reads a bounded number of jobs, so a page
   * may be short or empty although more follow. Only a null cursor means the end.
   */
  list(filter: JobFilter, page: PageRequest): Promise<JobPage>;
  /**
   * Skips up to `limit` jobs that `list` would return, without reading them. Returns how many it skipped and where the next page
   * begins. Like `list`, it may skip fewer although more follow. Optional: omit it if it would cost as much as `list`.
   */
  skip?(filter: JobFilter, page: Pick<PageRequest, "limit" | "cursor" | "order">): Promise<Skipped>;
  /** Cancels waiting jobs and requests cancellation of leased ones. Finished jobs do not change. */
  cancel(ids: readonly string[], scope?: ChangeScope): Promise<CancelResult[]>;
  /**
   * Makes `dead` and `cancelled` jobs `pending` with all attempts, and without error, expiry, worker, claim or start. Makes
   * `failed` jobs due now. The fence continues from its current value.
   */
  retry(ids: readonly string[], scope?: ChangeScope): Promise<RetryResult[]>;
  /**
   * Changes waiting jobs (`pending` or `failed`); history and log stay. A job that is no longer waiting when the change is
   * applied, or that contradicts it then (`conflict`), is not changed at all.
   */
  update(updates: readonly JobUpdate[], scope?: ChangeScope): Promise<UpdateResult[]>;
  /** Deletes jobs that are not leased, with their unique keys, history and log. */
  remove(ids: readonly string[], scope?: ChangeScope): Promise<RemoveResult[]>;

  /** The job that holds a unique key now; null if no job does. */
  keyHolder(key: string): Promise<KeyHolder | null>;
  /** Frees a unique key of scope `forever` whose job was deleted. `held`: the job still exists. `missing`: the key is not held. */
  freeKey(key: string): Promise<FreeKeyResult>;

  /**
   * Ends up to `limit` leases that have expired. Each job becomes `cancelled` if that was requested, `dead` if no attempts
   * remain, and otherwise `pending` and due now. Returns the jobs it changed.
   */
  reapExpiredLeases(limit: number): Promise<ReapedJob[]>;
  /** Dead-letters up to `limit` waiting jobs that have passed their `expiresAt`. Returns the jobs it changed. */
  expireOverdue(limit: number): Promise<ReapedJob[]>;
  /**
   * Deletes finished jobs, oldest first: those that ended before `before`, or as many as exceed `keep`. Jobs with a purge time of
   * their own (see {@link JobSettings}) are neither counted nor deleted. Returns how many it deleted, at most `limit`.
   */
  purge(request: PurgeRequest): Promise<number>;
  /** Deletes up to `limit` finished jobs whose own purge time has passed. Returns how many. */
  purgeDue(limit: number): Promise<number>;
  /** Does a small step of the store's own maintenance, such as a checkpoint or returning free pages. */
  maintain(): Promise<void>;
  /** Returns true to one caller per `everyMs`, over all processes: that caller performs the duty `name`. */
  tryAcquireDuty(name: string, everyMs: number): Promise<boolean>;

  /** Counts jobs by queue, type and state. Must be fast for any number of jobs. */
  stats(request?: StatsRequest): Promise<StoreStats>;
  /**
   * Stops claims from this queue, in all processes, from the next claim on. `*`: from all queues, until `resume("*")`. `by`: who
   * paused it, for people. If the queue is paused already, nothing changes.
   */
  pause(queue: string, by?: string | null): Promise<void>;
  /** Undoes `pause`. */
  resume(queue: string): Promise<void>;
  /**
   * Returns all queues that have unfinished jobs or are paused, and possibly others that had jobs before. An entry `*` means that
   * all queues are paused.
   */
  queues(): Promise<QueueRecord[]>;
  /**
   * Counts the due jobs of a queue that a claim would take before a job at `before`: those of higher priority, and those of the
   * same priority with an earlier due time or, on stores with strict order, an earlier insert. Counts up to `atMost`. A store without
   * strict order may estimate the number; it is 0 if there are none.
   */
  countAhead(before: QueuePosition, atMost: number): Promise<number>;

  /**
   * Adds failed attempts to their groups, or creates the groups. Adds `count`, keeps the earlier `firstAt` and the later `lastAt`;
   * `job` and `example` are those of the later one. A repeated call may count twice.
   */
  recordErrors(groups: readonly ErrorGroupRecord[]): Promise<void>;
  /** Returns error groups, the latest `lastAt` first, then by descending fingerprint; at most `limit`, at most `LIMITS.errorGroups`. */
  errorGroups(limit: number): Promise<ErrorGroupRecord[]>;
  /** Deletes groups with a `lastAt` before `before`, and those beyond the newest `LIMITS.errorGroups`. Returns how many. */
  purgeErrorGroups(before: number): Promise<number>;

  /** Stores a record of history. Replaces the record of the same resolution, time and writer. */
  putHistory(records: readonly HistoryRecord[]): Promise<void>;
  /** Returns the records of a range, in order. A page may be short although more follow. */
  history(range: HistoryRange): Promise<HistoryPage>;
  /**
   * Replaces records by one, in one transaction, if all of them are still stored as they were read. Otherwise it writes nothing and
   * returns false. The new record may have the writer of one of them. At most 50 records with 500 KB in all.
   */
  mergeHistory(merge: HistoryMerge): Promise<boolean>;
  /** Deletes records of a resolution with `at < before`. Returns how many it deleted, at most `limit`. */
  purgeHistory(request: { resolution: HistoryResolution; before: number; limit: number }): Promise<number>;

  /**
   * Records transitions of all processes for at least `forMs` from now. Returns a cursor: every transition that is committed after
   * this call has returned is found after it, possibly some seconds later. Without a call for longer than that, nothing is recorded,
   * and older cursors expire. The first call may take some seconds. Imports and deletions are not transitions.
   */
  recordTransitions(forMs: number): Promise<string>;
  /**
   * Returns up to `limit` transitions after the cursor, from all processes, each once. None is missed, whatever the order in
   * which transactions commit. Null: the cursor has expired; transitions after it were deleted or not recorded. Throws
   * `InvalidOptionError` for a cursor that this store did not return.
   */
  transitions(cursor: string, limit: number): Promise<TransitionPage | null>;
  /**
   * Deletes transitions recorded before `before`, and the oldest beyond `LIMITS.transitions`. Returns how many, at most `limit`; a store
   * that deletes them in batches may delete a few more. If recording has ended, it also lets processes notice that.
   */
  purgeTransitions(request: { before: number; limit: number }): Promise<number>;

  /**
   * Writes a schedule if its stored version is still `version` (null: if no schedule has this name). Otherwise it writes nothing
   * and returns `changed`. The last slot and the stored slots do not change.
   */
  putSchedule(schedule: ScheduleRecord, version: string | null): Promise<PutResult>;
  /** Returns a schedule with its stored slots, newest first; null if it does not exist. */
  getSchedule(name: string): Promise<StoredSchedule | null>;
  /** Lists schedules without their slots, ordered by the code points of their names. */
  listSchedules(filter: ScheduleFilter, page: { limit: number; cursor: string | null }): Promise<SchedulePage>;
  /** Deletes a schedule and its slots, but not its jobs. Returns false if it did not exist. */
  removeSchedule(name: string): Promise<boolean>;
  /**
   * Returns up to `limit` enabled schedules to process: first those whose next run is not computed yet, then those whose next run
   * is due, earliest first. With limit 0 it returns only the store's time.
   */
  dueSchedules(limit: number): Promise<DueSchedules>;
  /**
   * Turns slots into jobs, in one transaction per schedule. If the schedule still has the version that was read, and its last
   * slot would not move back, the transaction sets version, next run and last slot, inserts the jobs and stores the slots. A job
   * whose id exists counts as inserted. Unique keys of these jobs always use `keep`. A `busy` schedule does not delay the others.
   */
  fire(firings: readonly Firing[]): Promise<FireResult[]>;

  /**
   * Stores a worker's record with the current time, and returns whether it is to drain. Records are deleted an hour after their
   * last heartbeat.
   */
  heartbeat(worker: WorkerRecord): Promise<HeartbeatResult>;
  /** Marks a worker as stopped. */
  deregister(workerId: string): Promise<void>;
  /** Marks a worker as draining, or no longer. Returns false if there is no such worker, or if it has stopped. */
  drainWorker(workerId: string, draining: boolean): Promise<boolean>;
  /** Returns all stored workers, including stopped ones. */
  workers(): Promise<StoredWorker[]>;

  /** Stores an operation, which its lease's owner runs. An operation whose id exists is not changed. */
  putOperation(operation: Operation.OperationRecord, lease: Operation.OperationLease): Promise<void>;
  /** Leases the oldest abandoned operation to another process; null if there is none. One of several concurrent calls gets it. */
  claimOperation(lease: Operation.OperationLease): Promise<Operation.ClaimedOperation | null>;
  /** Stores the progress of a running operation and extends its lease, if `owner` still has it, even if it has expired. */
  saveOperation(progress: Operation.OperationProgress): Promise<Operation.SaveOperationResult>;
  /** Ends an operation. Returns false, and writes nothing, if `owner` does not have it. May be repeated. */
  endOperation(end: Operation.OperationEnd): Promise<boolean>;
  /** Requests that a running operation stops. Returns false if it does not exist or has ended. */
  stopOperation(id: string): Promise<boolean>;
  /** Returns null if it does not exist. */
  getOperation(id: string): Promise<Operation.StoredOperation | null>;
  /** Returns all operations, newest first by `startedAt`, then by descending id. */
  operations(): Promise<Operation.StoredOperation[]>;
  /** Deletes operations that ended before `before`, and ended ones beyond the newest `keep`. Returns how many. */
  purgeOperations(request: { before: number; keep: number }): Promise<number>;

  /**
   * Appends at most `LIMITS.auditEntries` entries to the audit log, all or nothing. An entry whose id exists is skipped, so a
   * repeated call adds nothing twice.
   */
  audit(entries: readonly AuditEntry[]): Promise<void>;
  /**
   * Lists audit entries, newest first; entries of the same time by descending id. With a filter, a page may be short or empty
   * although more follow. Only a null cursor means the end.
   */
  listAudit(filter: AuditFilter, page: { limit: number; cursor: string | null }): Promise<AuditPage>;
  /** Deletes audit entries written before `before`, oldest first. Returns how many it deleted, at most `limit`. */
  purgeAudit(request: { before: number; limit: number }): Promise<number>;

  /** Stores an API token. Never stores more than `LIMITS.tokens`, even if many processes call it concurrently. */
  putToken(token: TokenRecord): Promise<PutTokenResult>;
  /** Returns a token, including an expired one; null if it does not exist. */
  getToken(id: string): Promise<TokenRecord | null>;
  /** Returns all tokens, oldest first; tokens of the same time by ascending id. */
  listTokens(): Promise<TokenRecord[]>;
  /** Deletes a token. Returns false if it did not exist. */
  removeToken(id: string): Promise<boolean>;

  /**
   * Returns the key that clients encrypt page cursors with: a random string of at least 32 characters, the same in every process
   * on this database and after every restart. Callers who only see cursors must not be able to learn it.
   */
  cursorKey(): Promise<string>;

  /**
   * Calls `listener` with wake-up hints when something may have changed. Hints may be missing or wrong, so the engine also polls.
   * Without listeners a store runs no timer. Returns a function that unsubscribes.
   */
  listen(listener: (hint: Hint) => void): () => void;
}

/** What a store can do. The engine checks these flags and never the store's name. */
export interface Capabilities {
  /** `insertIn` and `settleIn` work inside the caller's transaction. */
  transactions: boolean;
  /**
   * `insertIn` and `settleIn` return synchronously, because the caller's transaction cannot wait. Client calls with `tx` then
   * throw their errors; on other stores they reject.
   */
  synchronous: boolean;
  /** Jobs of a queue are claimed in strict order: highest priority, earliest due time, then the order of insertion. */
  strictOrder: boolean;
  /** The store wakes other processes up; they need not wait for their next poll. */
  push: boolean;
  /** Every request costs money: workers that find no jobs poll less and less often. */
  metered: boolean;
  /**
   * `stats` always agrees with the stored jobs. Otherwise its count of completed jobs may lag, and may miss jobs that a process had
   * not counted yet when it was killed.
   */
  exactCounts: boolean;
  /**
   * Writes that are called without an `await` between them are executed in order, in one transaction: a claim sees an insert
   * that was called before it. Reads may be executed before them.
   */
  together: boolean;
  /**
   * `transitions` returns those of a job in order. Otherwise the order of what different processes did is best effort: for example, if
   * one inserts a job with the id of a job that another has just finished and deleted.
   */
  orderedTransitions: boolean;
}

/** Limits a call to one user's jobs. Other users' jobs are not found. */
export interface Scope {
  user?: string | undefined;
}
/** Limits a change to jobs that are in one of these states when it is applied. Other jobs return `missing`. */
export interface ChangeScope extends Scope {
  states?: readonly State[] | undefined;
}

export type InsertResult =
  | { status: "inserted" }
  /** A job with this id exists, or job `of` holds the unique key. `replaced`: job `of` was overwritten with the new one. */
  | { status: "duplicate"; of: string; replaced: boolean }
  | { status: "refused"; reason: "key-held"; of: string }
  | { status: "refused"; reason: "not-stored"; error: string };

export interface ClaimRequest {
  /** Null: every queue. */
  queues: readonly string[] | null;
  /** Null: every type. A claim with types uses a separate index. */
  types: readonly string[] | null;
  limit: number;
  /** The maximum total size of the inputs. The first job is claimed whatever its size. */
  bytes: number;
  worker: string;
  leaseMs: number;
}

export interface Claim {
  /** The store's time of the claim. */
  at: number;
  /** Highest priority first, then by due time, then oldest first. */
  jobs: ClaimedJob[];
  /** When the next job is due, if fewer than `limit` were claimed and the store can find out cheaply. Only a hint. */
  nextDueAt: number | null;
}

export interface ClaimedJob {
  id: string;
  fence: number;
  type: string;
  queue: string;
  priority: number;
  user: string | null;
  input: string;
  attempt: number;
  maxAttempts: number;
  losses: number;
  releases: number;
  runAt: number;
  expiresAt: number | null;
  createdAt: number;
  cancelRequested: boolean;
  /** The job's error before this claim, with the time it was set. */
  error: Omit<StoredError, "fingerprint"> | null;
  tags: readonly string[];
  schedule: ScheduleSlot | null;
  parent: string | null;
  settings: JobSettings | null;
  trace: string | null;
  /**
   * The job before this claim. The engine uses it to report an expired lease and to reject jobs that must not run. `attempt` is
   * the number of attempts used before this one; `exhausted` means that none was left.
   */
  previous: { state: State; attempt: number; exhausted: boolean };
}

/** Identifies a lease: a job and the fencing token of its claim. */
export interface LeaseRef {
  id: string;
  fence: number;
}
export interface StartMark extends LeaseRef {
  startedAt: number;
}
/**
 * - `kept`: the lease is held, and the change was written.
 * - `lost`: the lease is no longer held.
 * - `cancel`: the lease is held, and cancellation of the job was requested.
 * - `busy`: the lease is held, but another transaction has locked the job's row. Nothing was written; try again.
 */
export type LeaseResult = "kept" | "lost" | "cancel" | "busy";

/** The result of an attempt. `attempt` and `releases` are the job's counts after it. */
export interface Outcome extends LeaseRef {
  to: "completed" | "failed" | "dead" | "cancelled" | "pending";
  /** JSON, for `completed`. */
  output: string | null;
  /** For `failed` and `pending`: due this long from now. */
  delayMs: number;
  attempt: number;
  releases: number;
  /** The job's new error; null leaves it unchanged. Without a fingerprint it is not grouped. */
  error: { message: string; code: string | null; fingerprint?: string | null } | null;
  /** When the handler started, for jobs whose `start` was not stored; null if it did not start. */
  startedAt: number | null;
  /** An entry for the job's history; null if the attempt completed or cancelled the job. */
  attemptRecord: AttemptRecord | null;
  /**
   * False: if `to` is a finished state, delete the job with its history and log, but not its key of scope `forever`. A
   * repeated settle then returns `lost`.
   */
  keep: boolean;
  /**
   * How long the finished job is kept at least. A store whose database deletes expired records may let it delete the job after
   * that. Null, and in all other stores: only `purge` and `purgeDue` delete it.
   */
  keepMs: number | null;
  /**
   * Sets the purge time of a job that ends in the state `to`, this long from now; see {@link JobSettings}. Null, and if a
   * requested cancellation overrides the outcome: its settings apply.
   */
  purgeMs: number | null;
  /**
   * For `pending`: the job waits for its steps until this time, or without limit (null), and is woken when one of them ends. It no
   * longer expires. Refused (`awake`) unless `wakes` is that of the steps now. Undefined: it is due after `delayMs`.
   */
  park?: { until: number | null; wakes: number } | undefined;
  /**
   * For `failed`, `dead` and `cancelled`: the names of failed steps that the next attempt runs again. Those of kind `run` are deleted, and
   * those that waited for a job wait again.
   */
  reopen?: readonly string[] | undefined;
}

/**
 * `cancelled`: the lease was ended, but a requested cancellation overrode the outcome. `awake`: the job was not parked and the lease
 * is still held, because a wait of its steps ended since they were read.
 */
export type SettleResult = "applied" | "cancelled" | "lost" | "awake";

/** Progress and log lines of a running job. */
export interface Note extends LeaseRef {
  progress: StoredProgress | null;
  log: readonly { at: number; line: string }[];
}

export type CancelResult = "cancelled" | "requested" | "finished" | "missing";
/** `key-held`: another job holds the unique key. `not-retryable`: the job is pending, leased or completed. */
export type RetryResult = "retried" | "key-held" | "not-retryable" | "missing";
export type RemoveResult = "removed" | "leased" | "missing";
export type FreeKeyResult = "freed" | "held" | "missing";

/** Changes to a waiting job. Absent fields stay as they are. */
export interface JobUpdate {
  id: string;
  queue?: string;
  priority?: number;
  /** JSON. */
  input?: string;
  /** The type that the input was checked for. */
  inputType?: string;
  tags?: readonly string[];
  maxAttempts?: number;
  expiresAt?: number | null;
  /** When the job is due; `runAt: null` means now. `delayMs` is added to it. */
  due?: { runAt: number | null; delayMs: number };
}
export type UpdateResult =
  | { status: "updated" }
  | { status: "not-waiting"; state: State }
  | { status: "conflict"; reason: UpdateConflict }
  | { status: "missing" };
/**
 * Why a change contradicts the job, checked in this order:
 * - `type`: the job has another type than `inputType`.
 * - `attempts`: `maxAttempts` is not more than the attempts that the job has used.
 * - `expiry`: with a new `due` or `expiresAt`, the job would not be due before it expires.
 */
export type UpdateConflict = "type" | "attempts" | "expiry";

export interface KeyHolder {
  job: string;
  /** False: the job was deleted, but its key has the scope `forever`. */
  exists: boolean;
}

/** A job changed by `reapExpiredLeases` or `expireOverdue`. */
export interface ReapedJob {
  id: string;
  type: string;
  queue: string;
  /** Attempts used. */
  attempt: number;
  to: State;
}

export interface PurgeRequest {
  state: FinishedState;
  before: number | null;
  keep: number | null;
  limit: number;
}

/** A wake-up hint: something may have changed. */
export type Hint =
  /** A job may be due, now or after `inMs`. */
  | { kind: "work"; inMs: number }
  /** Cancellation of these jobs was requested. */
  | { kind: "cancel"; ids: readonly string[] }
  /** A job may have finished. */
  | { kind: "finished" }
  /** A schedule changed and may be due earlier than before. */
  | { kind: "schedules" };

/** A step that `migrate` would take. */
export interface PendingMigration {
  /** For people, such as `migration 2: functions for SQL`. */
  readonly title: string;
  /** True if the store has no tables yet and this step helps to create them. */
  readonly createsTables: boolean;
  /** The store works without it, and `migrate` may not be able to take it, for lack of a permission. */
  readonly optional?: boolean;
}
