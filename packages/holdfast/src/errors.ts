import { hideSecret } from "./access/secret.js";
import { read } from "./job/thrown.js";

/**
 * Every error Holdfast throws or gives to a handler's signal. Each class has a stable `code`; match on that or on
 * `instanceof`, never on the text.
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
 * An application may have two copies of this package, one of which runs the jobs while a handler throws errors of the other. What
 * the engine acts on is therefore recognised by a symbol that all copies share, and not by `instanceof`. Its value is the version of
 * the error's shape: a copy with another shape will use a greater one, and need not be understood here.
 */
const SHAPE = 1;
type Brand = "NotRetryable" | "RetryAfter" | "outage";

export function brand(kind: { readonly prototype: HoldfastError }, name: Brand): void {
  // On the prototype, so that subclasses have it, and copies of an error's own fields do not.
  Object.defineProperty(kind.prototype, Symbol.for(`holdfast.${name}`), { value: SHAPE });
}

function isBranded(error: unknown, name: Brand): boolean {
  return read(error, Symbol.for(`holdfast.${name}`)) === SHAPE;
}

/** An option or argument is not of the form it must have. `field` names it. */
export class InvalidOptionError extends HoldfastError {
  readonly field: string;
  constructor(field: string, problem: string) {
    super("INVALID_OPTION", `${field}: ${problem}`);
    this.field = field;
  }
}

export interface InputIssue {
  /** Where in the input, e.g. `address.zip` or `items.3`; empty for the input as a whole. */
  path: string;
  message: string;
}

/** An input does not fit its job type's schema, or cannot be carried by JSON. */
export class InvalidInputError extends HoldfastError {
  readonly type: string;
  readonly issues: readonly InputIssue[];
  constructor(type: string, issues: readonly InputIssue[]) {
    super(
      "INVALID_INPUT",
      `input of ${type}: ${issues.map((issue) => `${issue.path === "" ? "the input" : issue.path}: ${issue.message}`).join("; ")}`,
    );
    this.type = type;
    this.issues = issues;
  }
}

/** A handler returned what JSON cannot carry. The job is dead: running it again would only repeat its effects. */
export class InvalidOutputError extends HoldfastError {
  readonly issue: InputIssue;
  constructor(type: string, issue: InputIssue) {
    super("INVALID_OUTPUT", `output of ${type}: ${issue.path === "" ? "the output" : issue.path}: ${issue.message}`);
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

/** An enqueue with `onConflict: "reject"` met a job that holds its unique key. */
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
    super("JOB_NOT_FOUND", `no job ${id}; it may have been removed or its retention may be over`);
    this.id = id;
  }
}

/** No schedule of this name exists. */
export class ScheduleNotFoundError extends HoldfastError {
  readonly schedule: string;
  constructor(schedule: string) {
    super("SCHEDULE_NOT_FOUND", `no schedule ${JSON.stringify(schedule)}; hf.schedules.list() shows what there is`);
    this.schedule = schedule;
  }
}

/** `hf.schedules.create` met a schedule of the same name. */
export class ScheduleExistsError extends HoldfastError {
  readonly schedule: string;
  constructor(schedule: string) {
    super(
      "SCHEDULE_EXISTS",
      `there is a schedule ${JSON.stringify(schedule)} already; change it with hf.schedules.update, or choose another name`,
    );
    this.schedule = schedule;
  }
}

/** As many tokens exist as may. */
export class TooManyTokensError extends HoldfastError {
  constructor(most: number) {
    super("TOO_MANY_TOKENS", `there are ${most} tokens, and no more may be; revoke some with hf.tokens.revoke(id)`);
  }
}

/** `hf.result` waited for a job that ended without an output. */
export class JobNotCompletedError extends HoldfastError {
  readonly id: string;
  readonly state: "dead" | "cancelled";
  constructor(id: string, state: "dead" | "cancelled", reason: string | null) {
    super("JOB_NOT_COMPLETED", `job ${id} ended ${state}${reason === null ? "" : `: ${reason}`}`);
    this.id = id;
    this.state = state;
  }
}

/** A wait ended before what it waited for. */
export class WaitTimeoutError extends HoldfastError {
  constructor(message: string) {
    super("WAIT_TIMEOUT", message);
  }
}

/** The client, store or worker has been closed or stopped. */
export class ClosedError extends HoldfastError {
  constructor(what: string, advice: string) {
    super("CLOSED", `${what}; ${advice}`);
  }
}

/** The store URL names no store that exists. */
export class UnknownStoreError extends HoldfastError {
  constructor(given: string) {
    // A mistyped URL may carry a password, and errors end up in logs.
    const shown = hideSecret(given);
    super(
      "UNKNOWN_STORE",
      `no store for ${JSON.stringify(shown)}; use "sqlite:<file>", "sqlite::memory:", "postgres://…", "dynamodb://<table>" or a store object`,
    );
  }
}

/** The package that talks to the database is not installed, or its native part is not built. */
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

/** The package that talks to the database is installed in a version that does not run on this Node. */
export class DriverUnsupportedError extends HoldfastError {
  constructor(message: string) {
    super("DRIVER_UNSUPPORTED", message);
  }
}

/** The database cannot be opened or is not one of ours. */
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

/** The schema, or something in it that Holdfast would use, belongs to somebody whom the role that migrates has no reason to trust. */
export class SchemaUntrustedError extends HoldfastError {
  constructor(message: string) {
    super("SCHEMA_UNTRUSTED", message);
  }
}

/**
 * The store did not answer, and may do so later. Whether the call took effect is not known: to repeat it is safe, but an
 * enqueue without an id or a unique key of its own may then be stored twice.
 */
export class StoreUnavailableError extends HoldfastError {
  static {
    brand(this, "outage");
  }
  constructor(message: string, cause?: unknown) {
    super("STORE_UNAVAILABLE", message, { cause });
  }
}

/** The disk that holds the database is full. Nothing of the call took effect. */
export class DiskFullError extends HoldfastError {
  static {
    brand(this, "outage");
  }
  constructor(cause?: unknown) {
    super("DISK_FULL", "the disk that holds the database is full; nothing was written. Make room and try again", {
      cause,
    });
  }
}

/** The SQLite file, or its folder, is read-only for this process. Nothing of the call took effect. */
export class StoreReadOnlyError extends HoldfastError {
  static {
    brand(this, "outage");
  }
  constructor(message: string, cause?: unknown) {
    super("STORE_READ_ONLY", message, { cause });
  }
}

/**
 * The SQLite file was renamed, deleted or replaced while this process had it open. If the call took effect, then only in the
 * file that was moved away, which a restart would not find.
 */
export class StoreMovedError extends HoldfastError {
  static {
    brand(this, "outage");
  }
  constructor(message: string) {
    super("STORE_MOVED", message);
  }
}

/** What may pass by itself or be mended: a lock, a full disk, a database that is being put right. */
export function isOutage(error: unknown): boolean {
  return isBranded(error, "outage");
}

/** Thrown by a handler: this failure is final, whatever attempts remain. */
export class NotRetryable extends HoldfastError {
  static {
    brand(this, "NotRetryable");
  }
  constructor(message: string, options?: { cause?: unknown }) {
    super("NOT_RETRYABLE", message, options);
  }
}

/** Whether an error says that its failure is final; of any copy of this package. */
export function isNotRetryable(thrown: unknown): boolean {
  return isBranded(thrown, "NotRetryable");
}

/** The delay that an error asks for, not checked yet; undefined if it asks for none. Of any copy of this package. */
export function retryAfterOf(thrown: unknown): unknown {
  return isBranded(thrown, "RetryAfter") ? read(thrown, "delay") : undefined;
}

/** A handler called `completeIn`, but returned without having committed that transaction: the attempt has failed. */
export class NotCommittedError extends HoldfastError {
  constructor(id: string) {
    super(
      "NOT_COMMITTED",
      `the transaction in which job ${id} was completed is not committed; commit it before the handler returns`,
    );
  }
}

/** A lease is no longer held: it ran out, and the job may be with another worker. */
export class LeaseLostError extends HoldfastError {
  constructor(id: string) {
    super("LEASE_LOST", `the lease on job ${id} is no longer held; its outcome is not recorded`);
  }
}

/** Reason of a handler's signal: someone asked to cancel the job. */
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

/** Reason of a handler's signal: the worker stops and its grace time is over. The job is released for another worker. */
export class WorkerStoppingError extends HoldfastError {
  constructor() {
    super("WORKER_STOPPING", "the worker is stopping");
  }
}

/** The reasons a handler's `signal` can carry. */
export type AbortReason = JobCancelledError | JobTimeoutError | LeaseLostError | WorkerStoppingError;
