import type { StandardSchemaV1 } from "@standard-schema/spec";
import { isThenable } from "../callbacks.js";
import { DEFAULTS, FOREVER_MS, LIMITS } from "../defaults.js";
import { durationMs, type Duration } from "../duration.js";
import {
  InvalidInputError,
  InvalidOptionError,
  InvalidOutputError,
  PayloadTooLargeError,
  type AbortReason,
  type InputIssue,
} from "../errors.js";
import { fromJson, jsonBytes, NotJson, pathText, refuseNul, toJson, truncate } from "./json.js";
import {
  ENQUEUE_KEYS,
  type EnqueueManyOptions,
  type EnqueueManyResult,
  type EnqueueOptions,
  type EnqueueResult,
} from "./enqueue-types.js";
import type { JobId, JobOutput } from "./job-id.js";
import { asRetryField, readRetry, type Backoff, type RetryOptions } from "./retry.js";
import type { FinishedState, State } from "./state.js";
import type { EmitOptions, StepCalls } from "./step-types.js";
import {
  optionKeys,
  readName,
  readPriority,
  readQueue,
  readTags,
  refuseUnknown,
  refuseUnknownIn,
  show,
} from "../options.js";

/** The argument of a handler. Destructure what you need: `run({ input, signal })`. */
export interface RunContext<Input> extends StepCalls {
  /** The job's input, parsed by the type's schema. */
  readonly input: Input;
  readonly job: RunningJob;
  /** The same in all attempts of a job: pass it to other services as their idempotency key. */
  readonly idempotencyKey: string;
  /** Aborted on cancellation, timeout, lost lease and shutdown; `signal.reason` is an {@link AbortReason}. */
  readonly signal: JobSignal;
  /** Stores a log line with the job (the last 100 lines). */
  readonly log: (line: string) => void;
  /** Stores the job's progress, from 0 to 1, with a line of text or a small object (at most 4 kB of JSON). */
  readonly progress: (fraction: number, note?: string | object) => void;
  /** Enqueues and reads jobs. Jobs that it enqueues carry the id of this job as their `parent`, and its trace. */
  readonly hf: HandlerClient;
  /**
   * Completes the job in the handler's own transaction on the jobs' database: the handler's writes and the completion commit
   * together or not at all. Commit before the handler returns. On PostgreSQL, await it. Throws {@link LeaseLostError} if this
   * worker no longer holds the job's lease.
   */
  readonly completeIn: (tx: unknown, output?: unknown) => Promise<void>;
}

/** What a handler can do with other jobs. The methods work like those of `Holdfast`; `get` takes only an id. */
export interface HandlerClient {
  enqueue<Input, Type extends JobType<Input> = JobType<Input>>(
    type: JobType<Input> & Type,
    ...inputAndOptions: InputAnd<NoInfer<Input>, EnqueueOptions>
  ): Promise<EnqueueResult<JobOutput<Type>>>;
  enqueueMany<Input, Type extends JobType<Input> = JobType<Input>>(
    type: JobType<Input> & Type,
    inputs: Iterable<NoInfer<Input>> | AsyncIterable<NoInfer<Input>>,
    options?: EnqueueManyOptions<NoInfer<Input>, JobOutput<NoInfer<Type>>>,
  ): Promise<EnqueueManyResult<JobOutput<Type>>[]>;
  enqueueNamed(type: string, input?: unknown, options?: EnqueueOptions): Promise<EnqueueResult>;
  get<Input = unknown, Output = unknown>(id: JobId<Output>): Promise<Job<Input, Output> | null>;
  emit(event: string, payload?: unknown, options?: EmitOptions): Promise<{ first: boolean }>;
}

/** An AbortSignal with a typed reason. (An intersection type does not work: `any & T` is `any`.) */
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
  /** Fencing token. Increases with every claim; external systems can reject writes with an older value. */
  readonly fence: number;
  readonly tags: readonly string[];
  /** The schedule and slot that created the job; null if it was enqueued directly. */
  readonly schedule: ScheduledSlot | null;
  /** The id of the job whose handler enqueued this one; null if no handler did. */
  readonly parent: string | null;
  readonly runAt: Date;
  readonly createdAt: Date;
}

/** A slot of a schedule: the scheduled time, however late the job runs. */
export interface ScheduledSlot {
  readonly name: string;
  readonly slot: Date;
}

export interface JobOptions {
  /** The name of the job type. Stored with every job, so keep it stable across deployments. */
  type: string;
  /** Attempts and the delay between them. Default: the client's `retry`, or else 4 attempts with 30 s × 2ⁿ up to 15 min, ±10 %. */
  retry?: RetryOptions;
  /** The maximum duration of an attempt. After it, the signal is aborted and the attempt fails. `false`: none. Default 15 min. */
  timeout?: Duration | false;
  /**
   * How long finished jobs of this type are kept, by state, instead of the client's `retention`. 0 deletes a job as soon as it
   * finishes, for inputs or outputs that must not be kept. `false`: forever.
   */
  retention?: Partial<Record<FinishedState, Duration | false>>;
  /** Default `"default"`. */
  queue?: string;
  /** −100 to 100, higher first. Default 0. */
  priority?: number;
  /** Dead-letters a job that has not started this long after its `runAt`. Default: never. */
  expiresAfter?: Duration;
  tags?: readonly string[];
}

const JOB_FIELDS: ReadonlySet<string> = optionKeys<JobWithInput<StandardSchemaV1, unknown>>({
  type: true,
  input: true,
  run: true,
  retry: true,
  timeout: true,
  retention: true,
  queue: true,
  priority: true,
  expiresAfter: true,
  tags: true,
});

declare const types: unique symbol;

/** A job type, as returned by `job()`. Passes the types of input and output to `enqueue` and `result`. */
export interface JobType<Input = unknown, Output = unknown> {
  readonly type: string;
  readonly queue: string;
  readonly priority: number;
  /** If the type does not set it, a client's `retry` overrides this value. */
  readonly maxAttempts: number;
  /** Null: no timeout. */
  readonly timeoutMs: number | null;
  /** How long finished jobs are kept, by state; null: the client's `retention` applies. */
  readonly retentionMs: Partial<Record<FinishedState, number>> | null;
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

/** The arguments after the job type: the input, optional only if the type has none, and the options. */
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
  refuseUnknown(definition, JOB_FIELDS, "job", asRetryField);
  const type = readName(definition.type, "type", LIMITS.typeLength);
  if (typeof definition.run !== "function")
    throw new InvalidOptionError("run", `${show(definition.run)} is not a function; it runs the jobs of type ${type}`);
  const schema = definition.input ?? null;
  if (schema !== null && typeof schema["~standard"]?.validate !== "function") {
    throw new InvalidOptionError(
      "input",
      "is not a Standard Schema; use zod, valibot, arktype or another library that implements it",
    );
  }
  const timeoutMs = readTimeout(definition.timeout ?? DEFAULTS.timeoutMs);
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
    retentionMs: readTypeRetention(definition.retention),
    expiresAfterMs,
    tags: readTags(definition.tags ?? []),
    // A copy: later changes by the caller would be merged with a client's defaults without a check.
    retry: { ...definition.retry, ...(typeof backoff === "object" && { backoff: { ...backoff } }) },
    backoff: retry.backoff,
    schema,
    run: definition.run as JobType["run"],
  });
}

/** Null: no timeout. */
export function readTimeout(timeout: Duration | false): number | null {
  if (timeout === false) return null;
  try {
    const ms = durationMs(timeout, "timeout");
    if (ms === 0) throw new InvalidOptionError("timeout", "must be longer than 0");
    return ms;
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    throw new InvalidOptionError("timeout", `${error.problem}; for no timeout pass false`);
  }
}

const RETENTION_KEYS: ReadonlySet<string> = optionKeys<Record<FinishedState, Duration>>({
  completed: true,
  dead: true,
  cancelled: true,
});

function readTypeRetention(retention: JobOptions["retention"]): JobType["retentionMs"] {
  if (retention === undefined) return null;
  refuseUnknownIn(retention, RETENTION_KEYS, "retention");
  return Object.fromEntries(
    Object.entries(retention).map(([state, age]) => [
      state,
      age === false ? FOREVER_MS : durationMs(age, `retention.${state}`),
    ]),
  );
}

/**
 * Serializes an input and validates it. The schema gets the value as it will be read from the store, after a round trip through
 * JSON: a `z.date()`, which no stored value can match, fails at enqueue and not at run time.
 *
 * Synchronous if the schema is, because an enqueue in a SQLite transaction cannot wait.
 */
export function encodeInput(type: JobType, input: unknown): string | Promise<string> {
  const text = encodeJson(type, input);
  if (type.schema === null) {
    if (text === "{}") return text;
    throw new InvalidInputError(type.type, [{ path: "", message: noInput(type, input) }]);
  }
  const result: Validated = type.schema["~standard"].validate(fromJson(text));
  if (isThenable(result)) {
    return toPromise(result).then((settled) => {
      refuseIssues(type, settled);
      return text;
    });
  }
  refuseIssues(type, result);
  return text;
}

function noInput({ type }: JobType, input: unknown): string {
  const given = typeof input === "object" && input !== null ? Object.keys(input) : [];
  const areOptions = given.length > 0 && given.every((key) => ENQUEUE_KEYS.has(key));
  const advice = areOptions
    ? `pass the options after the input: enqueue(${type}, {}, { ${given.join(", ")} })`
    : "declare one with job({ input: … })";
  return `this job type has no input; ${advice}`;
}

/** The promise may come from another realm or library. */
type Validated = StandardSchemaV1.Result<unknown> | PromiseLike<StandardSchemaV1.Result<unknown>>;

function toPromise<Value>(promise: PromiseLike<Value>): Promise<Value> {
  return new Promise((resolve) => resolve(promise));
}

// Accepts every value. The worker that has the definition validates it with the real schema.
const ANYTHING: StandardSchemaV1 = {
  "~standard": { version: 1, vendor: "holdfast", validate: (value) => ({ value }) },
};

/** A job type whose definition is not loaded in this process. */
export function namedType(type: string): JobType {
  return { ...job({ type, run: () => undefined }), schema: ANYTHING };
}

function encodeJson(type: JobType, input: unknown): string {
  try {
    // For a type without a schema, null and undefined both mean no input.
    const isOmitted = input === undefined || (input === null && type.schema === null);
    const text = encodePayload(isOmitted ? {} : input, `input of ${type.type}`);
    refuseNul(text);
    return text;
  } catch (error) {
    throw error instanceof NotJson ? new InvalidInputError(type.type, [error.issue]) : error;
  }
}

/** Parses and validates a stored input (a promise if the schema is asynchronous). Throws an error that names the field. */
export function decodeInput(type: JobType, text: string): unknown {
  const value = storedInput(type, text);
  if (type.schema === null) return value;
  const result: Validated = type.schema["~standard"].validate(value);
  return isThenable(result)
    ? toPromise(result).then((settled) => parsedValue(type, settled))
    : parsedValue(type, result);
}

function storedInput(type: JobType, text: string): unknown {
  try {
    return fromJson(text);
  } catch {
    const message = text === "" ? "is missing in the store" : "is not valid JSON: it was damaged in the store";
    throw new InvalidInputError(type.type, [{ path: "", message }]);
  }
}

function parsedValue(type: JobType, result: StandardSchemaV1.Result<unknown>): unknown {
  refuseIssues(type, result);
  return (result as { value: unknown }).value;
}

/** Serializes a handler's output; `undefined` becomes `{}`. */
export function encodeOutput(type: string, output: unknown): string {
  try {
    return encodePayload(output === undefined ? {} : output, `output of ${type}`);
  } catch (error) {
    throw error instanceof NotJson ? new InvalidOutputError(type, error.issue) : error;
  }
}

/** Serializes the object that a handler stores with its progress. */
export function encodeProgress(data: object): string {
  try {
    const text = encodePayload(data, "the progress", LIMITS.progressBytes);
    refuseNul(text);
    return text;
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    throw new InvalidOptionError(
      error.issue.path === "" ? "progress" : `progress.${error.issue.path}`,
      error.issue.message,
    );
  }
}

function encodePayload(value: unknown, what: string, limit: number = LIMITS.payloadBytes): string {
  const text = toJson(value);
  // A UTF-16 code unit takes at most three bytes, so a short string cannot exceed the limit.
  if (text.length * 3 > limit) {
    const bytes = jsonBytes(text);
    if (bytes > limit) throw new PayloadTooLargeError(what, bytes, limit);
  }
  return text;
}

const MAX_ISSUE_LENGTH = 1_000;

function refuseIssues(type: JobType, result: StandardSchemaV1.Result<unknown>): void {
  if (result.issues === undefined) return;
  const issues: InputIssue[] = result.issues.slice(0, 20).map((issue) => ({
    path: pathText((issue.path ?? []).map((part) => (typeof part === "object" ? part.key : part))),
    // A schema's message may contain unknown keys of any length.
    message: truncate(issue.message, MAX_ISSUE_LENGTH),
  }));
  throw new InvalidInputError(type.type, issues);
}

/** A job as returned by `get` and `list`. */
export interface Job<Input = unknown, Output = unknown> {
  id: string;
  type: string;
  queue: string;
  state: State;
  priority: number;
  user: string | null;
  input: Input;
  output: Output | null;
  /** `fingerprint`: its group in `hf.errorGroups()`; null if it is not grouped. */
  error: { message: string; code: string | null; at: Date; fingerprint: string | null } | null;
  /** Attempts used so far; 1 during the first. */
  attempt: number;
  maxAttempts: number;
  /** Fencing token. Increases with every claim. */
  fence: number;
  runAt: Date;
  /**
   * When it may be claimed. For a leased job, the end of its lease; null for a finished job, and for one whose steps wait without a
   * time limit.
   */
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
  /** The schedule and slot that created the job; null if it was enqueued directly. */
  schedule: ScheduledSlot | null;
  /** The trace context of the enqueue, as written by propagators (`traceparent`); null if it was not traced. */
  trace: Readonly<Record<string, string>> | null;
  /** The id of the job whose handler enqueued this one; null if no handler did. */
  parent: string | null;
  /** The timeout that the enqueue set; 0: none. Null: the job type's. */
  timeoutMs: number | null;
  progress: { fraction: number; note: string | null; data: unknown } | null;
  /** Attempts that have ended, oldest first (at most 21: the last 20, and the one that completed the job). Empty in lists. */
  attempts: readonly JobAttempt[];
  /** Lines the handler logged (the last 100). Empty in lists. */
  log: readonly { at: Date; line: string }[];
}

export interface JobAttempt {
  attempt: number;
  /** The fencing token of its claim; null for attempts recorded by earlier versions. */
  fence: number | null;
  /** How it ended. `expired`: its lease did, because its worker crashed or was cut off. `released`: its worker was stopped. */
  end: "completed" | "failed" | "cancelled" | "expired" | "released";
  worker: string | null;
  claimedAt: Date | null;
  startedAt: Date | null;
  endedAt: Date;
  /** Null unless it failed or its lease expired. */
  error: AttemptError | null;
}

/** Why an attempt failed, as the handler threw it. */
export interface AttemptError {
  message: string;
  /** The error's `code`; a number as a string. */
  code: string | null;
  stack: string | null;
  /** The error's `cause`, up to three levels deep. */
  cause: AttemptError | null;
  /** The error's own fields that JSON can represent, at most 4 kB. Values under names that look like secrets are redacted. */
  data: Readonly<Record<string, unknown>> | null;
}
