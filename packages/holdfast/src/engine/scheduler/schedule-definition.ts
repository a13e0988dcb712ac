import { DEFAULTS, LIMITS } from "../../defaults.js";
import { durationMs, instantMs, type Duration } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import { encodeInput, namedType, type JobType } from "../../job/job.js";
import { fromJson } from "../../job/json.js";
import {
  optionKeys,
  readCount,
  readName,
  readPriority,
  readQueue,
  readTags,
  refuseUnknown,
  refuseUnknownIn,
  show,
} from "../../options.js";
import { readMaxAttempts } from "../../job/retry.js";
import { readCron } from "../../schedule/cron.js";
import { nextSlot, type CatchUp, type Timing } from "../../schedule/slots.js";
import { readZone } from "../../schedule/zone.js";
import type { ScheduleRecord } from "../../store.js";
import type { EngineContext } from "../context.js";

type Instant = Date | number | string;

/** When a schedule runs: a cron expression in a time zone, or an interval. */
export type ScheduleTiming =
  | {
      /** `"0 8 * * MON-FRI"`. With six fields the first is seconds. `L`, `W`, `#` and names such as `@daily` are supported. */
      cron: string;
      /** IANA name such as `"Europe/Berlin"`. Default `"UTC"`. */
      timezone?: string;
      every?: undefined;
    }
  | {
      /** At least 1 s. Slots are whole intervals after `startAt`, or after 1970, so that a restart does not shift them. */
      every: Duration;
      cron?: undefined;
      timezone?: undefined;
    };

/** The other settings of a schedule. */
export interface ScheduleSettings {
  /** Default true. */
  enabled?: boolean;
  /**
   * Which slots missed during downtime become jobs: none (`skip`), the latest (default), or the newest N (`{ all: N }`). With
   * `skip` a slot is missed when it is more than a minute late.
   */
  catchUp?: CatchUp;
  /** `skip`: no new job while one is unfinished; the slot is recorded as skipped. Default `allow`. */
  overlap?: "allow" | "skip";
  /** No slot before this instant. */
  startAt?: Instant;
  /** No slot at or after this instant. */
  endAt?: Instant;
  /** Each job is due up to this much later, to spread load. The delay of a slot is the same in every process. */
  jitter?: Duration;
  queue?: string;
  priority?: number;
  maxAttempts?: number;
  /** The user its jobs belong to. */
  user?: string;
  tags?: readonly string[];
}

type InputField<Input> = undefined extends Input ? { input?: Input } : { input: Input };

/** What `hf.schedule` takes: the job and its input, its timing, and other settings. */
export type ScheduleOptions<Input> = { job: JobType<Input> } & InputField<NoInfer<Input>> &
  ScheduleTiming &
  ScheduleSettings;

/** The same with the name of the job type. The input is validated if the type is known here. */
export type NamedScheduleOptions = { job: string; input?: unknown } & ScheduleTiming & ScheduleSettings;

/** What `hf.schedules.update` takes: the settings to change. `null` removes a setting. */
export interface ScheduleChanges extends Omit<ScheduleSettings, "startAt" | "endAt" | "user"> {
  job?: JobType | string;
  input?: unknown;
  cron?: string;
  timezone?: string;
  every?: Duration;
  startAt?: Instant | null;
  endAt?: Instant | null;
  user?: string | null;
}

type Timed = Pick<ScheduleRecord, "cron" | "timezone" | "everyMs" | "startAt" | "endAt">;

/** A schedule's definition as plain values: that in code, and the effective one with changes made at run time. */
export type Definition = Omit<ScheduleRecord, "name" | "version" | "origin" | "defined" | "changes" | "nextRunAt">;

const SCHEDULE_KEYS: ReadonlySet<string> = optionKeys<ScheduleChanges>({
  job: true,
  input: true,
  cron: true,
  timezone: true,
  every: true,
  enabled: true,
  catchUp: true,
  overlap: true,
  startAt: true,
  endAt: true,
  jitter: true,
  queue: true,
  priority: true,
  maxAttempts: true,
  user: true,
  tags: true,
});
const TIMING_KEYS: ReadonlySet<string> = optionKeys<
  Pick<ScheduleChanges, "cron" | "timezone" | "every" | "startAt" | "endAt">
>({
  cron: true,
  timezone: true,
  every: true,
  startAt: true,
  endAt: true,
});
const CATCH_UP_KEYS: ReadonlySet<string> = optionKeys<Extract<CatchUp, object>>({ all: true });
const EITHER = 'for example { cron: "0 8 * * MON-FRI", timezone: "Europe/Berlin" } or { every: "15m" }';

/** The fields that decide when a schedule runs. */
export const RETIMING: readonly (keyof Definition)[] = ["cron", "timezone", "everyMs", "startAt", "endAt"];

/** What a schedule takes from its job type; the general defaults for a type that is not known here. */
type TypeDefaults = Pick<JobType, "type" | "queue" | "priority" | "maxAttempts" | "expiresAfterMs" | "tags">;

/** The job types and retry defaults of a client. */
type KnownTypes = Pick<EngineContext, "types" | "retry">;

/** Checks the options of `schedule` or `create`. */
export async function readDefinition(
  options: ScheduleOptions<unknown> | NamedScheduleOptions,
  known: KnownTypes,
  now: number,
): Promise<Definition> {
  refuseUnknown(options, SCHEDULE_KEYS, "schedule");
  const { type, defaults } = readType(options.job, known);
  const definition: Definition = {
    type: defaults.type,
    queue: defaults.queue,
    priority: defaults.priority,
    user: null,
    input: await readInput(type, options.input),
    maxAttempts: defaults.maxAttempts,
    expiresAfterMs: defaults.expiresAfterMs,
    tags: defaults.tags,
    ...readTimingFields(options),
    startAt: null,
    endAt: null,
    jitterMs: 0,
    catchUp: DEFAULTS.schedule.catchUp,
    overlap: DEFAULTS.schedule.overlap,
    enabled: true,
    ...readSettings(options),
  };
  const problem = problemOf(definition, now);
  if (problem !== null) throw problem;
  return definition;
}

/** Checks the changes of `update` and returns the fields that they set. */
export async function readChanges(
  changes: ScheduleChanges,
  before: Definition,
  known: KnownTypes,
  now: number,
): Promise<Partial<Definition>> {
  refuseUnknown(changes, SCHEDULE_KEYS, "update");
  for (const [field, value] of Object.entries(changes)) {
    if (value === undefined)
      throw new InvalidOptionError(field, "is undefined; leave it out to keep the current value");
  }
  const set: Partial<Definition> = { ...readJobChange(changes, known), ...readSettings(changes) };
  if (changes.input !== undefined || changes.job !== undefined) {
    const { type } = readType(changes.job ?? before.type, known);
    set.input = await readInput(type, changes.input === undefined ? fromJson(before.input) : changes.input);
  }
  if (changes.cron !== undefined || changes.every !== undefined) {
    // A new cron expression keeps the time zone.
    const zone = changes.cron === undefined || before.timezone === null ? {} : { timezone: before.timezone };
    Object.assign(set, readTimingFields({ ...zone, ...changes }));
  } else if (changes.timezone !== undefined) {
    if (before.cron === null)
      throw new InvalidOptionError("timezone", "requires a cron expression; this schedule has none");
    set.timezone = readZone(changes.timezone).name;
  }
  const after = { ...before, ...set };
  // Without a change of timing there is no check: an invalid row, written by SQL, can still be disabled.
  if (!RETIMING.some((field) => field in set) && set.jitterMs === undefined) return set;
  const problem = problemOf(after, now) ?? noSlotLeft(after, now);
  if (problem !== null) throw problem;
  return set;
}

/** A new job type brings its own defaults; settings in the same call override them. */
function readJobChange({ job }: ScheduleChanges, known: KnownTypes): Partial<Definition> {
  if (job === undefined) return {};
  const { type, queue, priority, maxAttempts, expiresAfterMs, tags } = readType(job, known).defaults;
  return { type, queue, priority, maxAttempts, expiresAfterMs, tags };
}

function readType(job: unknown, { types, retry }: KnownTypes): { type: JobType | undefined; defaults: TypeDefaults } {
  if (typeof job === "string") {
    const type = types.get(readName(job, "job", LIMITS.typeLength));
    const { queue, priority } = DEFAULTS;
    const any = { type: job, queue, priority, maxAttempts: retry.maxAttempts, expiresAfterMs: null, tags: [] };
    return { type, defaults: type ?? any };
  }
  const type = job as JobType | null | undefined;
  if (typeof type?.type !== "string" || typeof type.run !== "function") {
    throw new InvalidOptionError("job", "is not a job type; pass what job({ … }) returned");
  }
  return { type, defaults: retry.applyTo(type) };
}

/** The input as JSON. For a type that is not known here, it is only checked that it is JSON. */
async function readInput(type: JobType | undefined, input: unknown): Promise<string> {
  return encodeInput(type ?? namedType("an unknown type"), input);
}

function readTimingFields({
  cron,
  every,
  timezone,
}: {
  cron?: string | undefined;
  every?: Duration | undefined;
  timezone?: string | undefined;
}): Pick<Definition, "cron" | "timezone" | "everyMs"> {
  if (cron !== undefined && every !== undefined)
    throw new InvalidOptionError("every", `cannot be combined with cron; ${EITHER}`);
  if (cron !== undefined) {
    return {
      cron: readCron(cron).text,
      timezone: readZone(timezone ?? DEFAULTS.schedule.timezone).name,
      everyMs: null,
    };
  }
  if (every === undefined) throw new InvalidOptionError("cron", `is required, unless every is given; ${EITHER}`);
  if (timezone !== undefined)
    throw new InvalidOptionError("timezone", "cannot be combined with every; it requires a cron expression");
  const everyMs = durationMs(every, "every");
  if (everyMs < LIMITS.everyMs) {
    throw new InvalidOptionError(
      "every",
      `${String(every)} is shorter than ${LIMITS.everyMs / 1_000}s; for example "15m"`,
    );
  }
  return { cron: null, timezone: null, everyMs };
}

/** The given settings, checked. */
function readSettings(given: ScheduleSettings | ScheduleChanges): Partial<Definition> {
  const set: Partial<Definition> = readBounds(given);
  const { enabled, overlap, user } = given;
  if (enabled !== undefined) {
    if (typeof enabled !== "boolean")
      throw new InvalidOptionError("enabled", `${show(enabled)} is neither true nor false`);
    set.enabled = enabled;
  }
  if (given.catchUp !== undefined) set.catchUp = readCatchUp(given.catchUp);
  if (overlap !== undefined) {
    if (overlap !== "allow" && overlap !== "skip") {
      throw new InvalidOptionError("overlap", `${show(overlap)} is none of "allow", "skip"`);
    }
    set.overlap = overlap;
  }
  if (given.jitter !== undefined) {
    set.jitterMs = durationMs(given.jitter, "jitter");
    if (set.jitterMs > MAX_JITTER_MS) throw new InvalidOptionError("jitter", "is longer than a day");
  }
  if (given.queue !== undefined) set.queue = readQueue(given.queue);
  if (given.priority !== undefined) set.priority = readPriority(given.priority);
  if (given.maxAttempts !== undefined) set.maxAttempts = readMaxAttempts(given.maxAttempts);
  if (user !== undefined) set.user = user === null ? null : readName(user, "user", LIMITS.userLength);
  if (given.tags !== undefined) set.tags = readTags(given.tags);
  return set;
}

const MAX_JITTER_MS = 86_400_000;
// Cron expressions are evaluated only up to the year 2999 (`cron.ts`).
const MAX_BOUND_MS = Date.UTC(2900, 0, 1);

function readBounds({
  startAt,
  endAt,
}: Pick<ScheduleChanges, "startAt" | "endAt">): Partial<Pick<Definition, "startAt" | "endAt">> {
  return {
    ...(startAt === undefined ? {} : { startAt: startAt === null ? null : readInstant(startAt, "startAt") }),
    ...(endAt === undefined ? {} : { endAt: endAt === null ? null : readInstant(endAt, "endAt") }),
  };
}

function readInstant(value: Instant, field: string): number {
  const ms = instantMs(value, field);
  if (ms >= 0 && ms <= MAX_BOUND_MS) return ms;
  throw new InvalidOptionError(field, "is not between the years 1970 and 2900");
}

function readCatchUp(value: unknown): CatchUp {
  if (value === "skip" || value === "latest") return value;
  if (typeof value !== "object" || value === null) {
    throw new InvalidOptionError("catchUp", `${show(value)} is none of "skip", "latest", { all: 10 }`);
  }
  refuseUnknownIn(value, CATCH_UP_KEYS, "catchUp");
  return { all: readCount((value as { all?: unknown }).all, "catchUp.all", 1, LIMITS.catchUp) };
}

/** Checks settings against each other. Returns the error, or null. */
export function problemOf(definition: Definition, now: number): InvalidOptionError | null {
  const { everyMs, jitterMs } = definition;
  if (everyMs !== null && jitterMs >= everyMs) {
    return new InvalidOptionError("jitter", `must be shorter than the interval, ${everyMs} ms, but is ${jitterMs} ms`);
  }
  return timingProblem(definition, now);
}

function timingProblem(timed: Timed, now: number): InvalidOptionError | null {
  const { startAt, endAt, cron } = timed;
  if (startAt !== null && endAt !== null && endAt <= startAt) {
    return new InvalidOptionError("endAt", "must be after startAt; the schedule could never run");
  }
  const timing = timingOf(timed);
  if (nextSlot({ ...timing, startAt: null, endAt: null }, now) === null) {
    return new InvalidOptionError(
      "cron",
      `${show(cron)} never matches a date; for the last day of a month use L, as in "0 8 L * *"`,
    );
  }
  if (startAt !== null && nextSlot(timing, startAt - 1) === null) {
    return new InvalidOptionError("endAt", "leaves no slot after startAt; the schedule could never run");
  }
  return null;
}

/** An error if the schedule has no slot left. In code that is fine (it may outlive its schedule); in a new request it is not. */
export function noSlotLeft(definition: Definition, now: number): InvalidOptionError | null {
  if (nextSlot(timingOf(definition), now) !== null) return null;
  return new InvalidOptionError("endAt", "leaves no slot in the future; use a later time, or null for none");
}

/** The timing of a stored schedule. Throws if the row is invalid, because it was written by SQL. */
export function timingOf({ cron, timezone, everyMs, startAt, endAt }: Timed): Timing {
  if (everyMs !== null) return { everyMs, startAt, endAt };
  return { cron: readCron(cron), zone: readZone(timezone ?? DEFAULTS.schedule.timezone), startAt, endAt };
}

/** Checks the timing of a schedule that does not exist, for a preview. */
export function readTiming(given: ScheduleTiming & Pick<ScheduleSettings, "startAt" | "endAt">, now: number): Timing {
  refuseUnknown(given, TIMING_KEYS, "preview");
  const timing = { startAt: null, endAt: null, ...readTimingFields(given), ...readBounds(given) };
  const problem = timingProblem(timing, now);
  if (problem !== null) throw problem;
  return timingOf(timing);
}

/** The definition in a record. */
export function definitionOf(record: ScheduleRecord): Definition {
  const { type, queue, priority, user, input, maxAttempts, expiresAfterMs, tags } = record;
  const { cron, timezone, everyMs, startAt, endAt, jitterMs, catchUp, overlap, enabled } = record;
  const job = { type, queue, priority, user, input, maxAttempts, expiresAfterMs, tags };
  return { ...job, cron, timezone, everyMs, startAt, endAt, jitterMs, catchUp, overlap, enabled };
}
