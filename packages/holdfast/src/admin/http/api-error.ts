import {
  ClosedError,
  CursorExpiredError,
  DiskFullError,
  DuplicateJobError,
  HoldfastError,
  InvalidInputError,
  InvalidOptionError,
  JobNotFoundError,
  JobNotWaitingError,
  PayloadTooLargeError,
  ScheduleExistsError,
  ScheduleNotFoundError,
  StoreMovedError,
  StoreReadOnlyError,
  StoreUnavailableError,
  StoreUnreadableError,
  SchemaTooNewError,
  SchemaUntrustedError,
  TooManyTokensError,
} from "../../errors.js";
import { truncate } from "../../job/json.js";
import type { ErrorResult } from "../contract/api-types.js";

export interface Issue {
  path: string;
  message: string;
}

/** A rejected request, with its HTTP status. */
export class ApiError extends HoldfastError {
  readonly status: number;
  readonly issues: readonly Issue[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    code: string,
    message: string,
    { issues = [], headers = {} }: { issues?: readonly Issue[]; headers?: Record<string, string> } = {},
  ) {
    super(code, message);
    this.status = status;
    this.issues = issues;
    this.headers = headers;
  }
}

export function invalidUrl(reason: string): ApiError {
  return new ApiError(400, "INVALID_REQUEST", `the request URL is malformed: ${reason.slice(0, 200)}`);
}

/** Engine errors that callers may see: those caused by the request, and those caused by the store. */
const STATUSES: readonly [kind: new (...args: never[]) => HoldfastError, status: number][] = [
  [InvalidOptionError, 400],
  [InvalidInputError, 400],
  [JobNotFoundError, 404],
  [ScheduleNotFoundError, 404],
  [JobNotWaitingError, 409],
  [DuplicateJobError, 409],
  [ScheduleExistsError, 409],
  [TooManyTokensError, 409],
  [CursorExpiredError, 410],
  [PayloadTooLargeError, 413],
  [StoreUnavailableError, 503],
  [StoreUnreadableError, 503],
  [StoreReadOnlyError, 503],
  [StoreMovedError, 503],
  [SchemaTooNewError, 503],
  [SchemaUntrustedError, 503],
  [DiskFullError, 503],
  [ClosedError, 503],
];

/** What callers see of every other error. */
export const INTERNAL_ERROR = "internal error; see the server log";

// A message may quote the request, which can be long.
const MAX_MESSAGE_LENGTH = 1_000;
const MAX_ISSUE_LENGTH = 300;
const MAX_ISSUES = 20;

/** The response for an error; null: an internal error, which callers must not see. */
export function errorResultOf(
  error: unknown,
): { status: number; body: ErrorResult; headers: Readonly<Record<string, string>> } | null {
  if (!(error instanceof HoldfastError)) return null;
  const known = STATUSES.find(([kind]) => error instanceof kind)?.[1];
  const status = error instanceof ApiError ? error.status : known;
  if (status === undefined) return null;
  // A field that only the engine can check is the same mistake as one that the schema refuses.
  const code = error instanceof InvalidOptionError ? "INVALID_REQUEST" : error.code;
  const message = truncate(error.message, MAX_MESSAGE_LENGTH);
  const issues = issuesOf(error)
    .slice(0, MAX_ISSUES)
    .map((issue) => ({
      path: truncate(issue.path, MAX_ISSUE_LENGTH),
      message: truncate(issue.message, MAX_ISSUE_LENGTH),
    }));
  const headers = error instanceof ApiError ? error.headers : {};
  return { status, headers, body: { error: { code, message, ...(issues.length > 0 && { issues }) } } };
}

function issuesOf(error: HoldfastError): Issue[] {
  if (error instanceof ApiError) return [...error.issues];
  if (error instanceof InvalidInputError)
    return error.issues.map(({ path, message }) => ({ path: join("input", path), message }));
  return error instanceof InvalidOptionError ? [{ path: error.field, message: error.message }] : [];
}

function join(...parts: string[]): string {
  return parts.filter((part) => part !== "").join(".");
}
