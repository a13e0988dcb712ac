import type { StandardSchemaV1 } from "@standard-schema/spec";
import { isThenable } from "../callbacks.js";
import { DEFAULTS, LIMITS } from "../defaults.js";
import { durationMs, type Duration } from "../duration.js";
import {
  InvalidInputError,
  InvalidOptionError,
  InvalidOutputError,
  PayloadTooLargeError,
  type AbortReason,
  type InputIssue,
} from "../errors.js";
import { cutText, fromJson, jsonBytes, NotJson, pathText, refuseNul, toJson } from "./json.js";
import { readRetry, type Backoff, type RetryOptions } from "./retry.js";
import type { State } from "./state.js";
import { readName, readPriority, readQueue, readTags, refuseUnknown } from "../options.js";

/** What a handler gets. Destructure what you need: `run({ input, signal })`. */
export interface RunContext<Input> {
  /** The job's input, parsed by the type's schema. */
  readonly input: Input;
  readonly job: RunningJob;
  /** Stable across attempts of one job: pass it to services as their idempotency key. */
  readonly idempotencyKey: string;
  /** Aborted on cancellation, timeout, lost lease and shutdown; `signal.reason` is an {@link AbortReason}. */
  readonly signal: JobSignal;
  /** Keeps a line with the job (the last 100 lines). */
  readonly log: (line: string) => void;
  /** Keeps how far the job is, from 0 to 1. */
  readonly progress: (fraction: number, note?: string) => void;
  /**
   * Completes the job inside a transaction of the handler's own, on the database that holds the jobs: what the handler
   * wrote there and the job's completion become true together, or not at all. Commit before the handler returns.
   * On PostgreSQL await it. Throws {@link LeaseLostError} when the job is no longer this worker's.
   */
  readonly completeIn: (tx: unknown, output?: unknown) => Promise<void>;
}

/** An AbortSignal whose reason is known. (An intersection would not do: `any & T` is `any`.) */
export interface JobSignal extends AbortSignal {
  readonly reason: AbortReason | undefined;
}

export interface RunningJob {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly priority: number;
  readonly user: string | null;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Grows with every claim of the job: what takes writes in order refuses by it a process that wakes up late. */
  readonly fence: number;
  readonly tags: readonly string[];
  /** The schedule that made the job, and for which of its slots; null if none did. */
  readonly schedule: ScheduledSlot | null;
  readonly runAt: Date;
  readonly createdAt: Date;
}

/** A slot of a schedule: the instant a run is for, however late it begins. */
export interface ScheduledSlot {
  readonly name: string;
  readonly slot: Date;
}

export interface JobOptions {
  /** Names the handler; stored with every job, so it outlives deployments. */
  type: string;
  /** Attempts and the delay between them. Default: the client's `retry`; else 4 attempts, 30 s × 2ⁿ up to 15 min, ±10 %. */
  retry?: RetryOptions;
  /** How long one attempt may take before its signal is aborted and the attempt fails. Default 15 min. */
  timeout?: Duration;
  /** Default `"default"`. */
  queue?: string;
  /** −100 to 100, higher first. Default 0. */
  priority?: number;
  /** A job not begun this long after it may run goes dead instead. Default: never. */
  expiresAfter?: Duration;
  tags?: readonly string[];
}

const JOB_FIELDS: ReadonlySet<string> = new Set([
  "type",
  "input",
  "run",
  "retry",
  "timeout",
  "queue",
  "priority",
  "expiresAfter",
  "tags",
]);

declare const types: unique symbol;

/** A job type: what `job()` returns. Carries the types of input and output to `enqueue` and `result`. */
export interface JobType<Input = unknown, Output = unknown> {
  readonly type: string;
  readonly queue: string;
  readonly priority: number;
  /** Where the type sets none, a client with a `retry` of its own goes by that. */
  readonly maxAttempts: number;
  readonly timeoutMs: number;
  readonly expiresAfterMs: number | null;
  readonly tags: readonly string[];
  /** The `retry` of the definition; the client's defaults are not included. */
  readonly retry: RetryOptions;
  /** The delay before a retry, computed from `retry`. */
  readonly backoff: Backoff;
  /** The schema of the input; null if the type takes no input. */
  readonly schema: StandardSchemaV1 | null;
  /** The handler. */
  readonly run: (context: RunContext<never>) => unknown;
  /** Only for the compiler: there is no such property at run time. */
  readonly [types]?: { input: Input; output: Output };
}

/** Input of a job type that declares no schema. */
export type NoInput = Record<string, never> | undefined;

/** Arguments after the job type: the input, which may be left out only if the type takes none, and the options. */
export type InputAnd<Input, Options> = undefined extends Input
  ? [input?: Input, options?: Options]
  : [input: Input, options?: Options];

export interface JobWithInput<Schema extends StandardSchemaV1, Output> extends JobOptions {
  /** Any Standard Schema: zod, valibot, arktype, … */
  input: Schema;
  run(context: RunContext<StandardSchemaV1.InferOutput<Schema>>): Output | Promise<Output>;
}
export interface JobWithoutInput<Output> extends JobOptions {
  input?: undefined;
  run(context: RunContext<Record<string, never>>): Output | Promise<Output>;
}

/**
 * Defines a job type.
 *
 * ```ts
 * const welcome = job({
 *   type: "email.welcome",
 *   input: z.object({ to: z.email() }),
 *   async run({ input, signal }) {
 *     await sendMail(input.to, { signal });
 *   },
 * });
 * ```
 */
export function job<Output>(definition: JobWithoutInput<Output>): JobType<NoInput, Output>;
export function job<Schema extends StandardSchemaV1, Output>(
  definition: JobWithInput<Schema, Output>,
): JobType<StandardSchemaV1.InferInput<Schema>, Output>;
export function job(definition: JobOptions & { input?: StandardSchemaV1 | undefined; run: unknown }): JobType {
  refuseUnknown(definition, JOB_FIELDS, "job");
  const type = readName(definition.type, "type", LIMITS.typeLength);
  if (typeof definition.run !== "function")
    throw new InvalidOptionError("run", `the job type ${type} needs a run function`);
  const schema = definition.input ?? null;
  if (schema !== null && typeof schema["~standard"]?.validate !== "function") {
    throw new InvalidOptionError(
      "input",
      "is not a Standard Schema; use zod, valibot, arktype or another library that implements it",
    );
  }
  const timeoutMs = durationMs(definition.timeout ?? DEFAULTS.timeoutMs, "timeout");
  if (timeoutMs === 0) throw new InvalidOptionError("timeout", "must be longer than 0");
  const expiresAfterMs =
    definition.expiresAfter === undefined ? null : durationMs(definition.expiresAfter, "expiresAfter");
  if (expiresAfterMs === 0) throw new InvalidOptionError("expiresAfter", "must be longer than 0");
  const retry = readRetry(definition.retry);
  const { backoff } = definition.retry ?? {};
  return Object.freeze({
    type,
    queue: readQueue(definition.queue ?? DEFAULTS.queue),
    priority: readPriority(definition.priority ?? DEFAULTS.priority),
    maxAttempts: retry.maxAttempts,
    timeoutMs,
    expiresAfterMs,
    tags: readTags(definition.tags ?? []),
    // A copy: what is changed after the check must not come back in by a client's defaults.
    retry: { ...definition.retry, ...(typeof backoff === "object" && { backoff: { ...backoff } }) },
    backoff: retry.backoff,
    schema,
    run: definition.run as JobType["run"],
  });
}

/**
 * The JSON text of an input that fits the type's schema. What is checked is what will be stored: the value after its
 * way through JSON, so that a `z.date()` that could never be read back is refused at the enqueue and not at the run.
 *
 * Synchronous whenever the schema is, because an enqueue inside a SQLite transaction cannot wait.
 */
export function encodeInput(type: JobType, input: unknown): string | Promise<string> {
  const text = encodeJson(type, input);
  if (type.schema === null) {
    if (text === "{}") return text;
    throw new InvalidInputError(type.type, [
      { path: "", message: "this job type takes none; declare one with job({ input: … })" },
    ]);
  }
  const result: Validated = type.schema["~standard"].validate(fromJson(text));
  if (isThenable(result)) {
    return settledBy(result).then((settled) => {
      refuseIssues(type, settled);
      return text;
    });
  }
  refuseIssues(type, result);
  return text;
}

/** A promise of another realm, or of another library, counts as one too. */
type Validated = StandardSchemaV1.Result<unknown> | PromiseLike<StandardSchemaV1.Result<unknown>>;

function settledBy<Value>(promise: PromiseLike<Value>): Promise<Value> {
  return new Promise((resolve) => resolve(promise));
}

// Takes every value: where the type is known, its own schema will judge.
const ANYTHING: StandardSchemaV1 = {
  "~standard": { version: 1, vendor: "holdfast", validate: (value) => ({ value }) },
};

/** A type of which only the name is known here. */
export function namedType(type: string): JobType {
  return { ...job({ type, run: () => undefined }), schema: ANYTHING };
}

function encodeJson(type: JobType, input: unknown): string {
  try {
    // A type without a schema gets an object whatever it was given for nothing.
    const nothing = input === undefined || (input === null && type.schema === null);
    const text = encodePayload(nothing ? {} : input, `input of ${type.type}`);
    refuseNul(text);
    return text;
  } catch (error) {
    throw error instanceof NotJson ? new InvalidInputError(type.type, [error.issue]) : error;
  }
}

/** The parsed input for the handler (a promise if the schema is asynchronous), or the error that names the field. */
export function decodeInput(type: JobType, text: string): unknown {
  const value = storedInput(type, text);
  if (type.schema === null) return value;
  const result: Validated = type.schema["~standard"].validate(value);
  return isThenable(result)
    ? settledBy(result).then((settled) => parsedValue(type, settled))
    : parsedValue(type, result);
}

function storedInput(type: JobType, text: string): unknown {
  try {
    return fromJson(text);
  } catch {
    const message = text === "" ? "is missing in the store" : "is no JSON any more: it was damaged in the store";
    throw new InvalidInputError(type.type, [{ path: "", message }]);
  }
}

function parsedValue(type: JobType, result: StandardSchemaV1.Result<unknown>): unknown {
  refuseIssues(type, result);
  return (result as { value: unknown }).value;
}

/** The JSON text of a handler's output; a handler that returns nothing completes with `{}`. */
export function encodeOutput(type: string, output: unknown): string {
  try {
    return encodePayload(output === undefined ? {} : output, `output of ${type}`);
  } catch (error) {
    throw error instanceof NotJson ? new InvalidOutputError(type, error.issue) : error;
  }
}

function encodePayload(value: unknown, what: string): string {
  const text = toJson(value);
  // A UTF-16 unit takes at most three bytes: short texts need no counting.
  if (text.length * 3 > LIMITS.payloadBytes) {
    const bytes = jsonBytes(text);
    if (bytes > LIMITS.payloadBytes) throw new PayloadTooLargeError(what, bytes, LIMITS.payloadBytes);
  }
  return text;
}

const LONGEST_ISSUE = 1_000;

function refuseIssues(type: JobType, result: StandardSchemaV1.Result<unknown>): void {
  if (result.issues === undefined) return;
  const issues: InputIssue[] = result.issues.slice(0, 20).map((issue) => ({
    path: pathText((issue.path ?? []).map((part) => (typeof part === "object" ? part.key : part))),
    // A schema may name the keys that it does not know, however long they are.
    message: cutText(issue.message, LONGEST_ISSUE),
  }));
  throw new InvalidInputError(type.type, issues);
}

/** A job as it is read back. */
export interface Job<Input = unknown, Output = unknown> {
  id: string;
  type: string;
  queue: string;
  state: State;
  priority: number;
  user: string | null;
  input: Input;
  output: Output | null;
  error: { message: string; code: string | null; at: Date } | null;
  /** Attempts used so far; 1 during the first. */
  attempt: number;
  maxAttempts: number;
  /** Grows with every claim. */
  fence: number;
  runAt: Date;
  /** When it may be claimed; the end of the lease while leased; null when finished. */
  dueAt: Date | null;
  expiresAt: Date | null;
  createdAt: Date;
  updatedAt: Date;
  claimedAt: Date | null;
  startedAt: Date | null;
  finishedAt: Date | null;
  cancelRequestedAt: Date | null;
  worker: string | null;
  key: string | null;
  tags: readonly string[];
  /** The schedule that made the job, and for which of its slots; null if none did. */
  schedule: ScheduledSlot | null;
  /** The trace context of its enqueue, as propagators write it (`traceparent`); null if nobody traced that. */
  trace: Readonly<Record<string, string>> | null;
  progress: { fraction: number; note: string | null } | null;
  /** Attempts that failed, oldest first (the last 20). Empty in lists. */
  attempts: readonly JobAttempt[];
  /** Lines the handler logged (the last 100). Empty in lists. */
  log: readonly { at: Date; line: string }[];
}

export interface JobAttempt {
  attempt: number;
  worker: string | null;
  claimedAt: Date | null;
  startedAt: Date | null;
  endedAt: Date;
  error: AttemptError;
}

/** Why an attempt failed, as the handler threw it. */
export interface AttemptError {
  message: string;
  /** The error's `code`; a number as a string. */
  code: string | null;
  stack: string | null;
  /** What the error names as its `cause`, up to three deep. */
  cause: AttemptError | null;
  /** The error's own fields that JSON can carry, at most 4 kB; names that look like secrets are redacted. */
  data: Readonly<Record<string, unknown>> | null;
}
