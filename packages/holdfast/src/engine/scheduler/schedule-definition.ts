import { DEFAULTS, LIMITS } from "../../defaults.js";
import { durationMs, instantMs, type Duration } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import { encodeInput, type JobType } from "../../job/job.js";
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

/** When a schedule runs: by a cron pattern in a time zone, or at an interval. */
export type ScheduleTiming =
  | {
      /** `"0 8 * * MON-FRI"`; six fields begin with seconds; `L`, `W`, `#` and words such as `@daily` are known. */
      cron: string;
      /** IANA name such as `"Europe/Berlin"`. Default `"UTC"`. */
      timezone?: string;
      every?: undefined;
    }
  | {
      /** At least 1 s. Slots lie whole intervals away from `startAt`, or else from 1970, so no restart shifts them. */
      every: Duration;
      cron?: undefined;
      timezone?: undefined;
    };

/** The rest of what a schedule can be told. */
export interface ScheduleSettings {
  /** Default true. */
  enabled?: boolean;
  /**
   * What becomes of slots missed while nothing ran: none of them, the latest (default), or the newest so many. With
   * `skip` a slot counts as missed when it is more than a minute late.
   */
  catchUp?: CatchUp;
  /** `skip`: no new run while one is live; the slot is told as skipped. Default `allow`. */
  overlap?: "allow" | "skip";
  /** No slot before this instant. */
  startAt?: Instant;
  /** No slot at or after this instant. */
  endAt?: Instant;
  /** Each run begins up to this much later, to spread load; the same for the same slot whoever fires it. */
  jitter?: Duration;
  queue?: string;
  priority?: number;
  maxAttempts?: number;
  /** The user its jobs belong to. */
  user?: string;
  tags?: readonly string[];
}

type InputField<Input> = undefined extends Input ? { input?: Input } : { input: Input };

/** What `hf.schedule` takes: the job and its input, when it runs, and the rest. */
export type ScheduleOptions<Input> = { job: JobType<Input> } & InputField<NoInfer<Input>> &
  ScheduleTiming &
  ScheduleSettings;

/** A schedule made at run time may also name its job's type; the input is then checked if the type is known here. */
export type NamedScheduleOptions = { job: string; input?: unknown } & ScheduleTiming & ScheduleSettings;

/** What `hf.schedules.update` takes: only what shall change. `null` takes away. */
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

/** A schedule's definition as plain values: what code gives, what people change, and what the two come to. */
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

/** What says when a schedule runs. */
export const RETIMING: readonly (keyof Definition)[] = ["cron", "timezone", "everyMs", "startAt", "endAt"];

/** A job type as far as a schedule needs it; for a type that is not known here, what any type would have. */
type TypeDefaults = Pick<JobType, "type" | "queue" | "priority" | "maxAttempts" | "expiresAfterMs" | "tags">;

/** What a client knows of job types. */
type KnownTypes = Pick<EngineContext, "types" | "retry">;

/** Checks what `schedule` or `create` was given. */
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

/** Checks what `update` was given, and answers the fields that it sets. */
export async function readChanges(
  changes: ScheduleChanges,
  before: Definition,
  known: KnownTypes,
  now: number,
): Promise<Partial<Definition>> {
  refuseUnknown(changes, SCHEDULE_KEYS, "update");
  for (const [field, value] of Object.entries(changes)) {
    if (value === undefined)
      throw new InvalidOptionError(field, "is undefined; leave it out if it shall stay as it is");
  }
  const set: Partial<Definition> = { ...readJobChange(changes, known), ...readSettings(changes) };
  if (changes.input !== undefined || changes.job !== undefined) {
    const { type } = readType(changes.job ?? before.type, known);
    set.input = await readInput(type, changes.input === undefined ? fromJson(before.input) : changes.input);
  }
  if (changes.cron !== undefined || changes.every !== undefined) {
    // Another pattern keeps the zone it stands in.
    const zone = changes.cron === undefined || before.timezone === null ? {} : { timezone: before.timezone };
    Object.assign(set, readTimingFields({ ...zone, ...changes }));
  } else if (changes.timezone !== undefined) {
    if (before.cron === null)
      throw new InvalidOptionError("timezone", "belongs to a cron pattern; this schedule has none");
    set.timezone = readZone(changes.timezone).name;
  }
  const after = { ...before, ...set };
  // What somebody wrote into the table by hand must not keep others from putting it to rest.
  if (!RETIMING.some((field) => field in set) && set.jitterMs === undefined) return set;
  const problem = problemOf(after, now) ?? overBefore(after, now);
  if (problem !== null) throw problem;
  return set;
}

/** Another job brings its own defaults along; settings given beside it count for more. */
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
  return { type, defaults: retry.fill(type) };
}

/** The input as JSON text. Of a type that is not known here only that it is JSON can be said. */
async function readInput(type: JobType | undefined, input: unknown): Promise<string> {
  return encodeInput(type ?? ANY_INPUT, input);
}
const ANY_INPUT = {
  type: "an unknown type",
  schema: { "~standard": { version: 1, vendor: "holdfast", validate: (value: unknown) => ({ value }) } },
} as unknown as JobType;

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
    throw new InvalidOptionError("every", `and cron exclude each other; ${EITHER}`);
  if (cron !== undefined) {
    return {
      cron: readCron(cron).text,
      timezone: readZone(timezone ?? DEFAULTS.schedule.timezone).name,
      everyMs: null,
    };
  }
  if (every === undefined) throw new InvalidOptionError("cron", `or every must say when the schedule runs; ${EITHER}`);
  if (timezone !== undefined)
    throw new InvalidOptionError("timezone", "belongs to a cron pattern; an interval knows no zones");
  const everyMs = durationMs(every, "every");
  if (everyMs < LIMITS.everyMs) {
    throw new InvalidOptionError("every", `${String(every)} is shorter than ${LIMITS.everyMs} ms; for example "15m"`);
  }
  return { cron: null, timezone: null, everyMs };
}

/** Those settings that are given, checked. */
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
    if (set.jitterMs > LONGEST_JITTER_MS) throw new InvalidOptionError("jitter", "is longer than a day");
  }
  if (given.queue !== undefined) set.queue = readQueue(given.queue);
  if (given.priority !== undefined) set.priority = readPriority(given.priority);
  if (given.maxAttempts !== undefined) set.maxAttempts = readMaxAttempts(given.maxAttempts);
  if (user !== undefined) set.user = user === null ? null : readName(user, "user", LIMITS.userLength);
  if (given.tags !== undefined) set.tags = readTags(given.tags);
  return set;
}

const LONGEST_JITTER_MS = 86_400_000;
// Patterns are followed up to the year 3000.
const LAST_INSTANT = Date.UTC(2900, 0, 1);

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
  if (ms >= 0 && ms <= LAST_INSTANT) return ms;
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

/** What is right piece by piece may still make no sense together: the error that says why, or null. */
export function problemOf(definition: Definition, now: number): InvalidOptionError | null {
  const { everyMs, jitterMs } = definition;
  if (everyMs !== null && jitterMs >= everyMs) {
    return new InvalidOptionError(
      "jitter",
      `of ${jitterMs} ms reaches into the next interval; keep it below ${everyMs} ms`,
    );
  }
  return timingProblem(definition, now);
}

function timingProblem(timed: Timed, now: number): InvalidOptionError | null {
  const { startAt, endAt, cron } = timed;
  if (startAt !== null && endAt !== null && endAt <= startAt) {
    return new InvalidOptionError("endAt", "is not after startAt; the schedule could never run");
  }
  const timing = timingOf(timed);
  if (nextSlot({ ...timing, startAt: null, endAt: null }, now) === null) {
    return new InvalidOptionError("cron", `${show(cron)} never comes: no date fits it; for example "0 8 L * *"`);
  }
  if (startAt !== null && nextSlot(timing, startAt - 1) === null) {
    return new InvalidOptionError("endAt", "leaves no slot after startAt; the schedule could never run");
  }
  return null;
}

/** Fine in code that outlives what it planned, but nothing that somebody asks for now. */
export function overBefore(definition: Definition, now: number): InvalidOptionError | null {
  if (nextSlot(timingOf(definition), now) !== null) return null;
  return new InvalidOptionError("endAt", "leaves no slot that is still to come; use a later one, or null for none");
}

/** When a schedule runs, read from its record. Throws for what someone may have written there by hand. */
export function timingOf({ cron, timezone, everyMs, startAt, endAt }: Timed): Timing {
  if (everyMs !== null) return { everyMs, startAt, endAt };
  return { cron: readCron(cron), zone: readZone(timezone ?? DEFAULTS.schedule.timezone), startAt, endAt };
}

/** Checks the timing of a schedule that is only thought of, for a preview. */
export function readTiming(given: ScheduleTiming & Pick<ScheduleSettings, "startAt" | "endAt">, now: number): Timing {
  refuseUnknown(given, TIMING_KEYS, "preview");
  const timing = { startAt: null, endAt: null, ...readTimingFields(given), ...readBounds(given) };
  const problem = timingProblem(timing, now);
  if (problem !== null) throw problem;
  return timingOf(timing);
}

/** The definition that a record holds. */
export function definitionOf(record: ScheduleRecord): Definition {
  const { type, queue, priority, user, input, maxAttempts, expiresAfterMs, tags } = record;
  const { cron, timezone, everyMs, startAt, endAt, jitterMs, catchUp, overlap, enabled } = record;
  const job = { type, queue, priority, user, input, maxAttempts, expiresAfterMs, tags };
  return { ...job, cron, timezone, everyMs, startAt, endAt, jitterMs, catchUp, overlap, enabled };
}
