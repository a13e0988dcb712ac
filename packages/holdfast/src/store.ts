import type { ErrorRecord } from "./job/error-record.js";
import type { FinishedState, State } from "./job/state.js";
import type {
  AuditEntry,
  AuditFilter,
  AuditPage,
  PutTokenResult,
  StoredAuditEntry,
  TokenRecord,
} from "./access/stored-access.js";

export type { AuditEntry, AuditFilter, AuditPage, PutTokenResult, StoredAuditEntry, TokenRecord };

/**
 * The store contract: the only thing the engine knows of a database.
 *
 * Calls take and give plain values. Times are milliseconds since 1970, payloads are JSON text. Batches answer item by
 * item, and one bad item never hurts the others. Policy (backoff, what to do with an expired job) is the engine's;
 * a store only guards what must be atomic:
 *
 * - **The one idea.** A live job has a due time: for a waiting job when it may run, for a leased one when its lease
 *   ends. `claim` takes jobs whose due time has passed and pushes it forward; settling to a finished state removes it.
 * - **The fence** grows by one with every claim. `start`, `extend` and `settle` with another fence change nothing and
 *   answer `lost`.
 * - **Claim arithmetic** is `countClaim` of `state.ts`. When the lease before was lost, the claim also appends that
 *   attempt to the job's history and sets the job's error to `STALE_ERROR`.
 * - **A requested cancellation wins** over every outcome but `completed`: the job becomes `cancelled`.
 * - **Unique keys** are rows of their own; see {@link UniqueKey}.
 * - **A schedule's slot becomes a job at most once**: `fire` compares the version that was read with what is there.
 */
export interface Store {
  readonly capabilities: Capabilities;

  /** Brings the database to this version's schema. Safe to repeat and to run from many processes at once. */
  migrate(): Promise<void>;
  /**
   * What `migrate` would do, in its order, a few words for each thing; nothing where the schema is this version's. Makes and
   * changes nothing, not even the database. Throws what `migrate` would refuse by, such as `SchemaTooNewError`.
   */
  pendingMigrations?(): Promise<PendingMigration[]>;
  close(): Promise<void>;

  /**
   * `busy`: somebody's open transaction is about to take the job's key or its id or to make its queue, or has locked its
   * user's row, and it is to be asked again; the rest of the batch is not held up.
   */
  insert(jobs: readonly NewJob[]): Promise<(InsertResult | "busy")[]>;
  /** Inserts inside the caller's own transaction. A store whose driver is synchronous answers synchronously. */
  insertIn(tx: unknown, jobs: readonly NewJob[]): InsertResult[] | Promise<InsertResult[]>;

  claim(request: ClaimRequest): Promise<Claim>;
  /** claimed → running, if the lease is held. */
  start(marks: readonly StartMark[]): Promise<LeaseResult[]>;
  /** Moves the end of held leases to `leaseMs` from now. */
  extend(leases: readonly LeaseRef[], leaseMs: number): Promise<LeaseResult[]>;
  /** `busy`: somebody else has the job's row locked, and it is to be asked again; the rest of the batch is not held up. */
  settle(outcomes: readonly Outcome[]): Promise<(SettleResult | "busy")[]>;
  /**
   * Settles to a finished state inside the caller's own transaction, after keeping what was noted: both become true with
   * that. Unlike `settle` it answers `lost` to a repetition, or whatever else the transaction does would be done twice.
   * A store whose driver is synchronous answers synchronously.
   */
  settleIn(tx: unknown, outcome: Outcome, note: Note | null): SettleResult | Promise<SettleResult>;
  /** Keeps progress and log lines of held leases; silently drops those of lost ones. */
  note(notes: readonly Note[]): Promise<void>;

  /** The whole record, history and log included. With `user` set, another user's job is as good as missing. */
  get(id: string, scope?: Scope): Promise<StoredJob | null>;
  /**
   * Newest first. Records come without history and log. A page may be short, even empty, while there is a cursor: a store
   * looks at a bounded number of jobs in one call, and goes on from there in the next.
   */
  list(filter: JobFilter, page: PageRequest): Promise<JobPage>;
  /**
   * Passes over the jobs that `list` would give, at most `limit`, without reading them, and says how many there were and where
   * the page after them begins. As there, they may be fewer, even none, while there is a cursor. Left out by a store that can
   * do this no cheaper than by `list`.
   */
  skip?(filter: JobFilter, page: Pick<PageRequest, "limit" | "cursor">): Promise<Skipped>;
  /** Waiting jobs become cancelled, leased ones are asked to stop, finished ones are left alone. */
  cancel(ids: readonly string[], scope?: ChangeScope): Promise<CancelResult[]>;
  /** dead|cancelled → pending with fresh attempts and no error, failed → due now. The fence goes on. */
  retry(ids: readonly string[], scope?: ChangeScope): Promise<RetryResult[]>;
  /** Deletes jobs that are not leased, with everything that belongs to them, their unique key included. */
  remove(ids: readonly string[], scope?: ChangeScope): Promise<RemoveResult[]>;

  /** Lays down leases that ran out: back to waiting, due at once, or dead when attempts are used up. */
  reapExpiredLeases(limit: number): Promise<ReapedJob[]>;
  /** Lays down waiting jobs whose time to live has passed. */
  expireOverdue(limit: number): Promise<ReapedJob[]>;
  /** Deletes finished jobs, oldest first: those that ended before `before`, or those past the newest `keep`. */
  purge(request: PurgeRequest): Promise<number>;
  /** Housekeeping of the store's own (checkpoints, free pages), in a small step. */
  maintain(): Promise<void>;
  /** True for one caller per `everyMs`, over all processes: whose turn it is to do `name`. */
  tryAcquireDuty(name: string, everyMs: number): Promise<boolean>;

  stats(): Promise<StoreStats>;
  pause(queue: string): Promise<void>;
  resume(queue: string): Promise<void>;
  queues(): Promise<QueueRecord[]>;

  /**
   * Writes a schedule, if what is there is still the given version (null: if there is none of that name). What was
   * fired stays as it was: the last slot and the slots kept.
   */
  putSchedule(schedule: ScheduleRecord, version: string | null): Promise<PutResult>;
  /** With the slots kept, those dealt with last first. */
  getSchedule(name: string): Promise<StoredSchedule | null>;
  /** By name, in the order of code points. Records come without their slots. */
  listSchedules(filter: ScheduleFilter, page: { limit: number; cursor: string | null }): Promise<SchedulePage>;
  /** Deletes a schedule and its slots; the jobs it made stay. False: there was none. */
  removeSchedule(name: string): Promise<boolean>;
  /** Limit 0 asks for the store's time alone. Otherwise: enabled schedules whose next run is not known, then those whose next run has come, earliest first. */
  dueSchedules(limit: number): Promise<DueSchedules>;
  /**
   * Turns slots into jobs. For each schedule all or nothing, in one transaction: if it is still the version that was
   * read, and its last slot would not move back, its next run and last slot are set, the jobs inserted, the slots kept.
   * A job whose id exists is the same job, and counts as made. The jobs' keys keep on conflict, never replace. A schedule
   * that somebody's open transaction keeps from being fired is `busy`, and holds up no other.
   */
  fire(firings: readonly Firing[]): Promise<FireResult[]>;

  heartbeat(worker: WorkerRecord): Promise<void>;
  deregister(workerId: string): Promise<void>;
  workers(): Promise<StoredWorker[]>;

  /**
   * Appends to the audit log, all or nothing, at most `LIMITS.auditEntries`. An entry whose id is there already is the same
   * entry, and stays as it is.
   */
  audit(entries: readonly AuditEntry[]): Promise<void>;
  /**
   * Newest first; of one time the larger id first. A filter may make a page shorter than its limit, even empty, although more
   * follows: only a cursor of null says that nothing does.
   */
  listAudit(filter: AuditFilter, page: { limit: number; cursor: string | null }): Promise<AuditPage>;
  /** Deletes entries written before `before`, oldest first, at most `limit`. Answers how many. */
  purgeAudit(request: { before: number; limit: number }): Promise<number>;

  /** At most `LIMITS.tokens` are kept, however many processes put some at once. */
  putToken(token: TokenRecord): Promise<PutTokenResult>;
  getToken(id: string): Promise<TokenRecord | null>;
  /** All of them, oldest first; of one time the smaller id first. */
  listTokens(): Promise<TokenRecord[]>;
  /** False: there was none. */
  removeToken(id: string): Promise<boolean>;

  /**
   * A random string of at least 32 characters that clients encrypt cursors with: the same for every process on this database, and
   * after every restart. Callers who only see cursors must not learn it.
   */
  cursorKey(): Promise<string>;

  /** Hints that something changed. Only a hint: polling is the truth. Without listeners a store runs no timer. */
  listen(listener: (hint: Hint) => void): () => void;
}

/** What a store can do; documented flags instead of checks on its name. */
export interface Capabilities {
  /** `insertIn` and `settleIn` work inside the caller's transaction. */
  transactions: boolean;
  /**
   * `insertIn` and `settleIn` are done before they return, as the caller's transaction cannot wait. Calls of the client with
   * `tx` then throw; on other stores they reject.
   */
  synchronous: boolean;
  /** Claims come in strict order (priority, due time, id) within a queue. */
  strictOrder: boolean;
  /** Other processes are woken by the store and not only by polling. */
  push: boolean;
  /** Every look costs money: workers that find nothing look more and more rarely. */
  metered: boolean;
  /** `stats` agrees with the records at any time. Otherwise its count of completed jobs may lag, and lack what a process was about to count when it was killed. */
  exactCounts: boolean;
  /** Calls made in one turn of the event loop are carried out together, in order: a claim sees the insert before it. */
  together: boolean;
}

/** Limits a call to one user's jobs. */
export interface Scope {
  user?: string | undefined;
}
/** Limits a change to jobs that are in one of these states at the moment of the change; others are as good as missing. */
export interface ChangeScope extends Scope {
  states?: readonly State[] | undefined;
}

export interface NewJob {
  id: string;
  type: string;
  queue: string;
  priority: number;
  user: string | null;
  /** JSON text. */
  input: string;
  maxAttempts: number;
  /** Due at this instant, or from now if null; `delayMs` is added to either. */
  runAt: number | null;
  delayMs: number;
  expiresAt: number | null;
  tags: readonly string[];
  unique: UniqueKey | null;
  /** The schedule and slot it was made for. */
  schedule: ScheduleSlot | null;
  /**
   * The trace context of its enqueue, for whoever runs it: a carrier as JSON text, `{"traceparent":"00-…"}`, at most
   * `LIMITS.traceBytes`. What it says is not the store's business. A retry keeps it.
   */
  trace: string | null;
}

/** One instant of a schedule. */
export interface ScheduleSlot {
  name: string;
  slot: number;
}

/**
 * A unique key has at most one job in its scope. It is held
 * - `waiting`: until the job's first claim, and is never retaken;
 * - `live`: until the job is finished; a retry takes it again or is refused;
 * - `period`: until `periodMs` after the enqueue, however the job ends;
 * - `forever`: even past the job's retention; only removing the job frees it.
 *
 * Except for `forever`, a key whose job is gone is free, whatever deleted the job: an enqueue never counts as done by a job that is
 * not there. The scope of the job that holds the key decides, not that of the newcomer.
 */
export interface UniqueKey {
  key: string;
  scope: "waiting" | "live" | "period" | "forever";
  periodMs: number;
  /** `replace` rewrites a waiting holder under its own id; a leased or finished holder is kept as it is. */
  onConflict: "keep" | "replace" | "reject";
}

export type InsertResult =
  | { status: "inserted" }
  /** The job with this id exists already, or the key is held: `of` is the job that counts. */
  | { status: "duplicate"; of: string; replaced: boolean }
  | { status: "refused"; reason: "key-held"; of: string }
  | { status: "refused"; reason: "not-stored"; error: string };

export interface ClaimRequest {
  /** Null: every queue. */
  queues: readonly string[] | null;
  /** Null: every type. Given types are served by an index of their own. */
  types: readonly string[] | null;
  limit: number;
  /** Stop after this much input; one job is always taken. */
  bytes: number;
  worker: string;
  leaseMs: number;
}

export interface Claim {
  /** The store's time of the claim. */
  at: number;
  /** Highest priority first, then by due time, then oldest first. */
  jobs: ClaimedJob[];
  /** When the next job falls due, if the claim came back short and the store can tell cheaply. Only a hint. */
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
  /** Error of the job before this claim, with the time it was set. */
  error: StoredError | null;
  tags: readonly string[];
  schedule: ScheduleSlot | null;
  trace: string | null;
  /**
   * What the job was before this claim: the engine tells a lost lease, and lays down what must not run. `attempt` is
   * the number of attempts used before this one, `exhausted` says that none was left.
   */
  previous: { state: State; attempt: number; exhausted: boolean };
}

export interface LeaseRef {
  id: string;
  fence: number;
}
export interface StartMark extends LeaseRef {
  startedAt: number;
}
/**
 * `cancel`: the lease is kept, and someone asked for the job to be cancelled. `busy`: somebody else has the job's row
 * locked; the lease is held, but nothing was written, and it is to be asked again.
 */
export type LeaseResult = "kept" | "lost" | "cancel" | "busy";

export interface StoredError {
  message: string;
  code: string | null;
  at: number;
}

/** What became of a lease. `attempt` and `releases` are the counts the job shall have afterwards. */
export interface Outcome extends LeaseRef {
  to: "completed" | "failed" | "dead" | "cancelled" | "pending";
  /** JSON text, for `completed`. */
  output: string | null;
  /** For `failed` and `pending`: due this long from now. */
  delayMs: number;
  attempt: number;
  releases: number;
  /** The job's error afterwards; null keeps what is there. */
  error: { message: string; code: string | null } | null;
  /** When the handler began, for jobs whose start was never marked; null if it did not begin. */
  startedAt: number | null;
  /** An entry for the job's history; null for outcomes that are no failure. */
  attemptRecord: AttemptRecord | null;
  /**
   * False: a job that comes to `to`, a finished state, is deleted at once with all that belongs to it, but for a key that
   * outlives its job. A repeated settle then answers `lost`.
   */
  keep: boolean;
  /**
   * How long a job that is kept is kept at least. A store that clears away by itself does so after that; null, and on other
   * stores, `purge` does.
   */
  keepMs: number | null;
}

/** `cancelled`: applied, and a requested cancellation turned the outcome into that. */
export type SettleResult = "applied" | "cancelled" | "lost";

export interface AttemptRecord {
  attempt: number;
  worker: string | null;
  claimedAt: number | null;
  startedAt: number | null;
  endedAt: number;
  /** Stored and given back as it is, whatever its fields. */
  error: ErrorRecord;
}

export interface Note extends LeaseRef {
  progress: { fraction: number; note: string | null } | null;
  log: readonly { at: number; line: string }[];
}

export interface StoredJob {
  id: string;
  type: string;
  queue: string;
  state: State;
  priority: number;
  user: string | null;
  input: string;
  output: string | null;
  error: StoredError | null;
  attempt: number;
  maxAttempts: number;
  losses: number;
  releases: number;
  fence: number;
  /** When it may run, as asked for or as set by the last retry. */
  runAt: number;
  /** When it may be claimed; the end of the lease for a leased job, null for a finished one. */
  dueAt: number | null;
  expiresAt: number | null;
  createdAt: number;
  updatedAt: number;
  claimedAt: number | null;
  startedAt: number | null;
  finishedAt: number | null;
  cancelRequestedAt: number | null;
  worker: string | null;
  key: string | null;
  tags: readonly string[];
  schedule: ScheduleSlot | null;
  trace: string | null;
  progress: { fraction: number; note: string | null } | null;
  /** Failed attempts, oldest first; empty in lists. */
  attempts: readonly AttemptRecord[];
  /** Empty in lists. */
  log: readonly { at: number; line: string }[];
}

export interface JobFilter {
  states?: readonly State[] | undefined;
  types?: readonly string[] | undefined;
  queues?: readonly string[] | undefined;
  user?: string | undefined;
  tag?: string | undefined;
  /** Jobs that this schedule made. */
  schedule?: string | undefined;
  createdAfter?: number | undefined;
  createdBefore?: number | undefined;
}
export interface PageRequest {
  /** At most so many. */
  limit: number;
  /** Where the page before ended. */
  cursor: string | null;
  /** False: jobs come with the input `null` and no output, and what is large is not even read. Default true. */
  payloads?: boolean | undefined;
}
export interface JobPage {
  jobs: StoredJob[];
  /** Where the next page begins: at most 200 letters, digits, `_` and `-`. Null: there is none. Only this tells the end. */
  cursor: string | null;
}

/** How many jobs were passed over, and where the next page begins; null: there is none. */
export interface Skipped {
  passed: number;
  cursor: string | null;
}

export type CancelResult = "cancelled" | "requested" | "finished" | "missing";
/** `key-held`: another job holds the unique key. `not-retryable`: it waits, runs, or has completed. */
export type RetryResult = "retried" | "key-held" | "not-retryable" | "missing";
export type RemoveResult = "removed" | "leased" | "missing";

export interface ReapedJob {
  id: string;
  type: string;
  queue: string;
  /** Attempts it has used. */
  attempt: number;
  to: State;
}

export interface PurgeRequest {
  state: FinishedState;
  before: number | null;
  keep: number | null;
  limit: number;
}

export interface StoreStats {
  /** Jobs by queue, type and state; combinations without jobs are left out. */
  counts: { queue: string; type: string; state: State; count: number }[];
  /** Age of the job that has been due longest and waits for a worker; null if none is due. */
  oldestDueMs: number | null;
  /** Jobs that ended in the last 60 seconds. */
  lastMinute: Record<FinishedState, number>;
}

export interface QueueRecord {
  queue: string;
  paused: boolean;
  priorities: number[];
}

/** A schedule as the engine writes it. What its fields mean is the engine's business; the store keeps them. */
export interface ScheduleRecord {
  name: string;
  /** Another with every change, one of a kind: what was read before a change can be told from what is there now. */
  version: string;
  origin: "code" | "runtime";
  /** What becomes of each slot. */
  type: string;
  queue: string;
  priority: number;
  user: string | null;
  /** JSON text. */
  input: string;
  maxAttempts: number;
  expiresAfterMs: number | null;
  tags: readonly string[];
  /** Either a pattern with its zone, or an interval. */
  cron: string | null;
  timezone: string | null;
  everyMs: number | null;
  startAt: number | null;
  endAt: number | null;
  jitterMs: number;
  catchUp: "skip" | "latest" | { all: number };
  overlap: "allow" | "skip";
  enabled: boolean;
  /** JSON text: the definition in code, and what was changed over it at run time. */
  defined: string | null;
  changes: string | null;
  /** Null: not known, to be found out. `NEVER`: none comes any more. */
  nextRunAt: number | null;
}

export interface StoredSchedule extends ScheduleRecord {
  /** The latest slot dealt with. It never moves back, unless `upkeep` mends what a wrong clock did. */
  lastSlot: number | null;
  createdAt: number;
  updatedAt: number;
  /** Newest first: the last that became jobs and the last that did not, `LIMITS.slots` of each. Empty in lists. */
  slots: readonly StoredSlot[];
}

/** `changed`: it is there in another version, or there where none was expected, or gone. */
export type PutResult = "put" | "changed";

export interface ScheduleFilter {
  origin?: "code" | "runtime" | undefined;
  enabled?: boolean | undefined;
  type?: string | undefined;
  user?: string | undefined;
}
export interface SchedulePage {
  schedules: StoredSchedule[];
  cursor: string | null;
}

export interface DueSchedules {
  /** The store's time. */
  at: number;
  schedules: StoredSchedule[];
  /** The earliest next run still to come, in milliseconds since 1970; null if there is none. */
  nextRunAt: number | null;
}

export interface Firing {
  name: string;
  /** As it was read. */
  version: string;
  /** As it shall be. */
  newVersion: string;
  nextRunAt: number | null;
  lastSlot: number | null;
  slots: readonly FiredSlot[];
}

/** A slot, or a stretch of them, with what becomes of it: a job, or nothing. */
export interface FiredSlot {
  slot: number;
  /** The last slot of a stretch; null for a single one. */
  through: number | null;
  job: NewJob | null;
  reason: SlotReason | null;
}

/**
 * What was odd about a slot: it became a job `late` or `by hand`; or it became none, since it was `missed`, since a run
 * of its schedule was live (`overlap`), or since the store refused the job.
 */
export type SlotReason = "late" | "manual" | "missed" | "overlap" | `refused: ${string}`;

/** A slot as it is kept: `job` is null if it was skipped. */
export interface StoredSlot extends Omit<FiredSlot, "job"> {
  job: string | null;
  /** When it was dealt with. */
  at: number;
}

/**
 * `changed`: it is there in another version, or gone. `busy`: somebody's open transaction has locked it or what its jobs
 * need, and it is to be asked again. With both, nothing was done. Otherwise each slot's answer, in their order. A job whose unique key is held is not
 * inserted: its slot is kept without a job, with the reason `OVERLAP`, and `heldBy` names the holder. A job that cannot
 * be stored leaves its slot without a job, with the fault in its reason.
 */
export type FireResult =
  | { status: "fired"; slots: { job: string | null; heldBy: string | null }[] }
  | { status: "changed" | "busy" };

export interface WorkerRecord {
  id: string;
  queues: readonly string[] | null;
  types: readonly string[];
  /** Schedules that its process's code defines; null if they are too many to list. */
  schedules: readonly string[] | null;
  concurrency: number;
  running: number;
  host: string;
  pid: number;
  startedAt: number;
}
/** A worker with the time it was last heard of; one that left is kept for a while with `left` set. */
export interface StoredWorker extends WorkerRecord {
  seenAt: number;
  left: boolean;
}

export type Hint =
  /** Something may be due, now or this much later. */
  | { kind: "work"; inMs: number }
  /** These jobs are asked to stop. */
  | { kind: "cancel"; ids: readonly string[] }
  /** Some job may have ended. */
  | { kind: "finished" }
  /** Schedules changed so that one may be due earlier than was known. */
  | { kind: "schedules" };

/** A step that `migrate` would take. */
export interface PendingMigration {
  /** For people, such as `migration 2: functions for SQL`. */
  readonly title: string;
  /** Whether the store has no tables yet, and this step is part of creating them. */
  readonly createsTables: boolean;
}
