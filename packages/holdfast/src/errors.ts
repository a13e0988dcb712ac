import { hideSecret } from "./access/secret.js";
import { isFinished, type State } from "./job/state.js";
import { read } from "./job/thrown.js";

/**
 * The base class of all errors that Holdfast throws or passes to a handler's signal. Each class has a stable `code`. Match on it
 * or on `instanceof`, never on the message.
 */
export class HoldfastError extends Error {
  readonly code: string;
  constructor(code: string, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
    this.name = new.target.name;
  }
}

/**
 * An application may load two copies of this package: one runs the jobs, and a handler throws errors of the other. So the engine
 * recognizes these errors by a symbol that all copies share, not by `instanceof`. The symbol's value is the version of the error's
 * shape. A later release with another shape uses a higher version, and this release ignores its errors.
 */
const SHAPE = 1;
type Brand = "NotRetryable" | "RetryAfter" | "Cancel" | "outage";

export function brand(kind: { readonly prototype: HoldfastError }, name: Brand): void {
  // On the prototype: subclasses inherit it, and an object copied from an error's fields does not have it.
  Object.defineProperty(kind.prototype, Symbol.for(`holdfast.${name}`), { value: SHAPE });
}

function isBranded(error: unknown, name: Brand): boolean {
  return read(error, Symbol.for(`holdfast.${name}`)) === SHAPE;
}

const VERB = /^(?:belongs|contains|has|is|must|needs|returned|would) /;

/** `timeout must be longer than 0` if the problem starts with a verb, otherwise `timeout: "soon" is not a duration`. */
export function withSubject(subject: string, problem: string): string {
  return VERB.test(problem) ? `${subject} ${problem}` : `${subject}: ${problem}`;
}

/** An option or argument is invalid. `field` names it, `problem` is the message without it. */
export class InvalidOptionError extends HoldfastError {
  readonly field: string;
  readonly problem: string;
  constructor(field: string, problem: string) {
    super("INVALID_OPTION", withSubject(field, problem));
    this.field = field;
    this.problem = problem;
  }
}

export interface InputIssue {
  /** Where in the input, e.g. `address.zip` or `items.3`; empty for the input as a whole. */
  path: string;
  message: string;
}

function issueText({ path, message }: InputIssue): string {
  return path === "" ? message : withSubject(path, message);
}

/** An input does not match the schema of its job type, or cannot be represented as JSON. */
export class InvalidInputError extends HoldfastError {
  readonly type: string;
  readonly issues: readonly InputIssue[];
  constructor(type: string, issues: readonly InputIssue[]) {
    super("INVALID_INPUT", withSubject(`input of ${type}`, issues.map(issueText).join("; ")));
    this.type = type;
    this.issues = issues;
  }
}

/** A handler returned a value that JSON cannot represent. The job is dead-lettered, because a retry would repeat its effects. */
export class InvalidOutputError extends HoldfastError {
  readonly issue: InputIssue;
  constructor(type: string, issue: InputIssue) {
    super("INVALID_OUTPUT", withSubject(`output of ${type}`, issueText(issue)));
    this.issue = issue;
  }
}

/** An input or output is larger than the limit. */
export class PayloadTooLargeError extends HoldfastError {
  readonly bytes: number;
  readonly limit: number;
  constructor(what: string, bytes: number, limit: number) {
    super(
      "PAYLOAD_TOO_LARGE",
      `${what} is ${bytes} bytes of JSON; the limit is ${limit}. Store it elsewhere and pass a reference.`,
    );
    this.bytes = bytes;
    this.limit = limit;
  }
}

/** Another job holds the unique key of an enqueue with `onConflict: "reject"`. */
export class DuplicateJobError extends HoldfastError {
  readonly key: string;
  readonly holder: string;
  constructor(key: string, holder: string) {
    super("DUPLICATE_JOB", `the unique key ${JSON.stringify(key)} is held by job ${holder}`);
    this.key = key;
    this.holder = holder;
  }
}

/** No job with this id exists, or it belongs to another user. */
export class JobNotFoundError extends HoldfastError {
  readonly id: string;
  constructor(id: string) {
    super("JOB_NOT_FOUND", `job ${id} not found; it may have been deleted, by a call or by retention`);
    this.id = id;
  }
}

/** `hf.update` was called for a job that is no longer waiting. `state` is its current state. */
export class JobNotWaitingError extends HoldfastError {
  readonly id: string;
  readonly state: State;
  constructor(id: string, state: State) {
    const advice = isFinished(state) ? "hf.rerun(id) enqueues a copy" : "stop it first with hf.cancel(id)";
    super("JOB_NOT_WAITING", `job ${id} is ${state}; only a pending or failed job can be updated; ${advice}`);
    this.id = id;
    this.state = state;
  }
}

/** No schedule with this name exists. */
export class ScheduleNotFoundError extends HoldfastError {
  readonly schedule: string;
  constructor(schedule: string) {
    super(
      "SCHEDULE_NOT_FOUND",
      `schedule ${JSON.stringify(schedule)} not found; hf.schedules.list() lists all schedules`,
    );
    this.schedule = schedule;
  }
}

/** `hf.schedules.create` was called with a name that already exists. */
export class ScheduleExistsError extends HoldfastError {
  readonly schedule: string;
  constructor(schedule: string) {
    super(
      "SCHEDULE_EXISTS",
      `schedule ${JSON.stringify(schedule)} already exists; change it with hf.schedules.update, or choose another name`,
    );
    this.schedule = schedule;
  }
}

/** The maximum number of API tokens exists. */
export class TooManyTokensError extends HoldfastError {
  constructor(max: number) {
    super("TOO_MANY_TOKENS", `token limit reached (${max}); revoke unused tokens with hf.tokens.revoke(id)`);
  }
}

/** `hf.result` waited for a job that is dead or was cancelled, so it has no output. */
export class JobNotCompletedError extends HoldfastError {
  readonly id: string;
  readonly state: "dead" | "cancelled";
  constructor(id: string, state: "dead" | "cancelled", reason: string | null) {
    super("JOB_NOT_COMPLETED", `job ${id} ended ${state}${reason === null ? "" : `: ${reason}`}`);
    this.id = id;
    this.state = state;
  }
}

/** A wait timed out. */
export class WaitTimeoutError extends HoldfastError {
  constructor(message: string) {
    super("WAIT_TIMEOUT", message);
  }
}

/** `hf.follow` was called with a cursor whose transitions are not stored any more, or a follower read too slowly. */
export class CursorExpiredError extends HoldfastError {
  constructor() {
    super(
      "CURSOR_EXPIRED",
      "the cursor has expired: transitions after it were not recorded, or were deleted after 10 minutes; " +
        "start again without a cursor, and read the jobs that matter with hf.list()",
    );
  }
}

/** One client has as many followers as it may have. */
export class TooManyFollowersError extends HoldfastError {
  constructor(max: number) {
    super("TOO_MANY_FOLLOWERS", `this client already has ${max} followers, the maximum; end some of them first`);
  }
}

/** The client, store or worker is closed or stopped. */
export class ClosedError extends HoldfastError {
  constructor(what: string, advice: string) {
    super("CLOSED", `${what}; ${advice}`);
  }
}

/** The store URL does not match any known store. */
export class UnknownStoreError extends HoldfastError {
  constructor(given: string) {
    // A mistyped URL may contain a password, and errors are often logged.
    const shown = hideSecret(given);
    super(
      "UNKNOWN_STORE",
      `unknown store ${JSON.stringify(shown)}; use "sqlite:<file>", "sqlite::memory:", "postgres://…", "dynamodb://<table>" or a store object`,
    );
  }
}

/** The database driver is not installed, or its native addon is not built. */
export class DriverMissingError extends HoldfastError {
  constructor(message: string, cause: unknown) {
    super("DRIVER_MISSING", message, { cause });
  }
  static notInstalled(driver: string, cause: unknown): DriverMissingError {
    return new DriverMissingError(
      `the ${driver} package could not be loaded; install it with: npm install ${driver}`,
      cause,
    );
  }
}

/** The installed version of the database driver does not support this Node version. */
export class DriverUnsupportedError extends HoldfastError {
  constructor(message: string) {
    super("DRIVER_UNSUPPORTED", message);
  }
}

/** The database cannot be opened, or was not created by Holdfast. */
export class StoreUnreadableError extends HoldfastError {
  static {
    brand(this, "outage");
  }
  constructor(message: string, cause?: unknown) {
    super("STORE_UNREADABLE", message, { cause });
  }
}

/** The database was migrated by a newer version of Holdfast. */
export class SchemaTooNewError extends HoldfastError {
  constructor(message: string) {
    super("SCHEMA_TOO_NEW", message);
  }
}

/** The schema, or an object in it that Holdfast uses, is owned by a role that the migrating role does not trust. */
export class SchemaUntrustedError extends HoldfastError {
  constructor(message: string) {
    super("SCHEMA_UNTRUSTED", message);
  }
}

/**
 * The store did not respond; it may be temporarily unavailable. It is unknown whether the call took effect. Repeating it is safe,
 * except that an enqueue without an explicit id or unique key may store the job twice.
 */
export class StoreUnavailableError extends HoldfastError {
  static {
    brand(this, "outage");
  }
  constructor(message: string, cause?: unknown) {
    super("STORE_UNAVAILABLE", message, { cause });
  }
}

/** The disk of the database is full. The call had no effect. */
export class DiskFullError extends HoldfastError {
  static {
    brand(this, "outage");
  }
  constructor(cause?: unknown) {
    super("DISK_FULL", "the disk of the database is full; nothing was written. Free disk space and try again", {
      cause,
    });
  }
}

/** This process may not write to the SQLite file or its folder. The call had no effect. */
export class StoreReadOnlyError extends HoldfastError {
  static {
    brand(this, "outage");
  }
  constructor(message: string, cause?: unknown) {
    super("STORE_READ_ONLY", message, { cause });
  }
}

/**
 * The SQLite file was renamed, deleted or replaced while this process had it open. If the call took effect, it did so in the
 * moved file, which the process will not open after a restart.
 */
export class StoreMovedError extends HoldfastError {
  static {
    brand(this, "outage");
  }
  constructor(message: string) {
    super("STORE_MOVED", message);
  }
}

/** Whether the error is temporary or can be fixed without a restart: a lock, a full disk, an unreachable database. */
export function isOutage(error: unknown): boolean {
  return isBranded(error, "outage");
}

/** Thrown by a handler to dead-letter the job immediately, whatever attempts remain. */
export class NotRetryable extends HoldfastError {
  static {
    brand(this, "NotRetryable");
  }
  constructor(message: string, options?: { cause?: unknown }) {
    super("NOT_RETRYABLE", message, options);
  }
}

/** Whether this is a `NotRetryable`, from any copy of this package. */
export function isNotRetryable(thrown: unknown): boolean {
  return isBranded(thrown, "NotRetryable");
}

/** Whether this is a `Cancel`, from any copy of this package. */
export function isCancel(thrown: unknown): boolean {
  return isBranded(thrown, "Cancel");
}

/** The delay of a `RetryAfter` from any copy of this package, not validated yet; undefined for other errors. */
export function retryAfterOf(thrown: unknown): unknown {
  return isBranded(thrown, "RetryAfter") ? read(thrown, "delay") : undefined;
}

/** A handler called `completeIn` but returned before the transaction was committed, so the attempt failed. */
export class NotCommittedError extends HoldfastError {
  constructor(id: string) {
    super(
      "NOT_COMMITTED",
      `the transaction that completes job ${id} is not committed; commit it before the handler returns`,
    );
  }
}

/** A lease is no longer held: it has expired, and another worker may be running the job. */
export class LeaseLostError extends HoldfastError {
  constructor(id: string) {
    super("LEASE_LOST", `the lease on job ${id} is no longer held; its outcome is not recorded`);
  }
}

/** Reason of a handler's signal: cancellation of the job was requested. */
export class JobCancelledError extends HoldfastError {
  constructor(id: string) {
    super("JOB_CANCELLED", `cancellation of job ${id} was requested`);
  }
}

/** Reason of a handler's signal: the job's timeout has passed. */
export class JobTimeoutError extends HoldfastError {
  constructor(ms: number) {
    super("JOB_TIMEOUT", `the handler ran longer than its timeout of ${ms} ms`);
  }
}

/** Reason of a handler's signal: the worker is stopping and its grace time has ended. The job is released for another worker. */
export class WorkerStoppingError extends HoldfastError {
  constructor() {
    super("WORKER_STOPPING", "the worker is stopping");
  }
}

/** The possible reasons of a handler's `signal`. */
export type AbortReason = JobCancelledError | JobTimeoutError | LeaseLostError | WorkerStoppingError;
