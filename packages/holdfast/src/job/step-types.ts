import { LIMITS } from "../defaults.js";
import type { Duration } from "../duration.js";
import { InvalidOptionError } from "../errors.js";
import { optionKeys, readName, refuseUnknownIn, show } from "../options.js";
import type { EnqueueOptions } from "./enqueue-types.js";
import type { InputAnd, JobSignal, JobType } from "./job.js";
import type { AsJson, JobOutput } from "./job-id.js";
import type { RetryOptions } from "./retry.js";

/** `["fetch", id]` is the name `fetch/<id>`. At most 200 characters. Within a job, a name means one thing. */
export type StepName = string | readonly (string | number)[];

/** The result of a step, after a round trip through JSON: the same in the run that made it and in later ones. */
export type StepValue<Value> = Value extends void ? undefined : AsJson<Value>;

/** What a handler can do in named steps. After a crash, a wait or a retry it runs again, and steps that have ended return what is stored. */
export interface StepCalls {
  /**
   * Runs a function once and stores its result; later runs of the handler return the stored result.
   *
   * ```ts
   * const order = await step("load", () => db.order(input.order));
   * await step("charge", ({ idempotencyKey }) => stripe.charges.create({ amount: order.total }, { idempotencyKey }));
   * ```
   *
   * A failed step fails the attempt, unless the handler catches it; the next attempt runs it again.
   */
  readonly step: <Value>(
    name: StepName,
    run: (step: StepContext) => Value | Promise<Value>,
    options?: StepOptions,
  ) => Promise<StepValue<Value>>;
  /** Waits until a time. A job that waits for more than 5 s is parked: it has no lease and takes no capacity of the worker. */
  readonly sleep: (name: StepName, time: Duration | Date) => Promise<void>;
  /** Waits for an event, which `hf.emit` may have sent before. Null: it did not come within `timeout`. The job is parked meanwhile. */
  readonly waitFor: WaitFor;
  /** Enqueues a child job and waits for its output. Throws {@link ChildFailedError} if it does not complete. The job is parked meanwhile. */
  readonly spawn: <Input, Type extends JobType<Input> = JobType<Input>>(
    name: StepName,
    type: JobType<Input> & Type,
    ...inputAndOptions: InputAnd<NoInfer<Input>, SpawnOptions>
  ) => Promise<JobOutput<Type>>;
  /** Enqueues a child job for each input and waits for all of them. The job is parked meanwhile. */
  readonly spawnAll: SpawnAll;
}

export interface WaitFor {
  <Payload = unknown>(name: StepName, on: { event: string; timeout: Duration }): Promise<Payload | null>;
  <Payload = unknown>(name: StepName, on: { event: string }): Promise<Payload>;
}

export interface SpawnAll {
  <Input, Type extends JobType<Input> = JobType<Input>>(
    name: StepName,
    type: JobType<Input> & Type,
    inputs: readonly NoInfer<Input>[],
    options: SpawnAllOptions & { ifFailed: "keep" },
  ): Promise<ChildEnd<JobOutput<Type>>[]>;
  <Input, Type extends JobType<Input> = JobType<Input>>(
    name: StepName,
    type: JobType<Input> & Type,
    inputs: readonly NoInfer<Input>[],
    options?: SpawnAllOptions & { ifFailed?: "wait" | "stop" },
  ): Promise<JobOutput<Type>[]>;
}

/** The argument of a step's function. */
export interface StepContext {
  /** The same whenever this step of this job runs: pass it to other services. */
  readonly idempotencyKey: string;
  /** The job's signal; also aborted at the step's `timeout`. */
  readonly signal: JobSignal;
  /** 1 for the first call; counts the step's own retries. */
  readonly attempt: number;
  /**
   * Stores the step's result in your own transaction on the jobs' database: your writes and the result commit together or not at
   * all. Commit before the function returns. On PostgreSQL, await it.
   */
  readonly keepIn: (tx: unknown, value?: unknown) => Promise<void>;
}

export interface StepOptions {
  /** Attempts of this step within an attempt of the job. Default: one. Delays of more than 5 s park the job. */
  retry?: RetryOptions;
  /** The maximum duration of a call. After it, the step's signal is aborted and the call fails. Default: none. */
  timeout?: Duration;
}

/** Options of child jobs. */
export type SpawnOptions = Pick<
  EnqueueOptions,
  "delay" | "runAt" | "priority" | "queue" | "expiresAt" | "maxAttempts" | "timeout" | "tags"
>;

export interface SpawnAllOptions extends SpawnOptions {
  /**
   * When a child does not complete. `wait` (default): wait for all others, then throw. `stop`: cancel the others and throw. `keep`:
   * wait for all, and return how each ended.
   */
  ifFailed?: "wait" | "stop" | "keep";
}

/** How a child job ended. */
export type ChildEnd<Output = unknown> =
  | { id: string; state: "completed"; output: Output; error: null }
  | {
      id: string;
      state: "dead" | "cancelled" | "missing";
      output: null;
      error: { message: string; code: string | null };
    };

/** What `hf.emit` takes besides name and payload. */
export interface EmitOptions {
  /** How long the event is kept for jobs that wait for it later. Default 7 days, at most 90. */
  keep?: Duration;
  /** Your own open transaction: the event is emitted when it commits. */
  tx?: unknown;
}

/** A step of a job, as `hf.steps` returns it. */
export interface JobStep {
  name: string;
  /** Its place among the children of a `spawnAll`, from 0; 0 for other steps. */
  member: number;
  kind: "run" | "sleep" | "event" | "job";
  /** `waiting`: for its event, child or time, or for its own retry. */
  state: "waiting" | "done" | "failed";
  /** The event that it waits or waited for. */
  event: string | null;
  /** The child job. */
  job: string | null;
  value: unknown;
  error: { message: string; code: string | null } | null;
  /** How often its function failed. */
  tries: number;
  /** The fencing token of the run that stored it last. */
  fence: number;
  startedAt: Date;
  endedAt: Date | null;
  /** When a wait ends by itself. */
  until: Date | null;
}

/** Reads the name of a step. Parts of an array are escaped, so that different arrays never have the same name. */
export function readStepName(name: StepName): string {
  if (!Array.isArray(name)) return readName(name, "step", LIMITS.stepNameLength);
  const parts = name as readonly (string | number)[];
  for (const part of parts) {
    if (typeof part !== "string" && !(typeof part === "number" && Number.isFinite(part)))
      throw new InvalidOptionError("step", `${show(part)} is not a string or number; a name is made of these`);
  }
  const text = parts.map((part) => String(part).replaceAll("%", "%25").replaceAll("/", "%2F")).join("/");
  return readName(text, "step", LIMITS.stepNameLength);
}

const STEP_FIELDS: ReadonlySet<string> = optionKeys<StepOptions>({ retry: true, timeout: true });

export function refuseUnknownStepOptions(options: StepOptions): void {
  refuseUnknownIn(options, STEP_FIELDS, "step");
}

const SPAWN_FIELDS: ReadonlySet<string> = optionKeys<SpawnOptions>({
  delay: true,
  runAt: true,
  priority: true,
  queue: true,
  expiresAt: true,
  maxAttempts: true,
  timeout: true,
  tags: true,
});

/** Checks the options of children. Returns `ifFailed` apart from those of an enqueue. */
export function readSpawnOptions({ ifFailed = "wait", ...options }: SpawnAllOptions): {
  ifFailed: "wait" | "stop" | "keep";
  options: SpawnOptions;
} {
  refuseUnknownIn(options, SPAWN_FIELDS, "spawn");
  if (!["wait", "stop", "keep"].includes(ifFailed))
    throw new InvalidOptionError("ifFailed", `${show(ifFailed)} is none of "wait", "stop", "keep"`);
  return { ifFailed, options };
}
