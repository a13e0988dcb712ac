import { watchResult } from "../../callbacks.js";
import { systemClock, type Clock } from "../../clock.js";
import { DEFAULTS } from "../../defaults.js";
import { durationMs, type Duration } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import type { JobType } from "../../job/job.js";
import type { RetryOptions } from "../../job/retry.js";
import { optionKeys, refuseUnknown, refuseUnknownIn, show } from "../../options.js";
import { redactor, type Redactor } from "../../redact.js";
import { restorer, type Restorer } from "../../restore.js";
import type { Store } from "../../store.js";
import { safeLogger, silentLogger, stderrLogger, type Logger } from "../events/logger.js";
import type { ErrorReporter } from "../events/reports.js";
import type { Telemetry } from "../events/telemetry.js";
import { readAuditRetention, readRetention, type RetentionOptions, type RetentionRule } from "../maintenance.js";
import { readRetryDefaults, type RetryDefaults } from "../worker/retry-defaults.js";

/** What `holdfast()` takes. */
export interface HoldfastOptions {
  /** `"sqlite:jobs.db"`, `"sqlite::memory:"`, `"postgres://…"`, `"dynamodb://jobs"`, or a store. Default `"sqlite:holdfast.db"`. */
  store?: string | Store;
  /** The job types this process can run. */
  jobs?: readonly JobType[];
  /** Attempts and backoff for job types that do not set them. Each field that a type sets overrides this. */
  retry?: RetryOptions;
  /** How long finished jobs and audit entries are stored. Default: completed and cancelled 7 days, dead 30, audit 90. */
  retention?: RetentionOptions;
  /** How often the scheduler polls when no slot is due sooner (default 5 s), or `false` for no scheduler in this process. */
  scheduler?: SchedulerOptions | false;
  /** pino-shaped, or `false` for no logging. Default: warnings and errors on stderr. */
  logger?: Logger | false;
  /** Traces and metrics of enqueues and runs; `openTelemetry()` of `holdfast/opentelemetry`. */
  telemetry?: Telemetry;
  /** Receives failed attempts; `sentry()` of `holdfast/sentry`. */
  reporter?: ErrorReporter;
  /** Paths that are redacted in reports, traces and the admin API: `"input.password"`, `"**.token"`. */
  redact?: readonly string[];
  /** Time source; `fakeClock()` of `holdfast/testing` in tests. Its functions must not throw. */
  clock?: Clock;
  /** Random source in [0, 1) for jitter. If it returns anything but a number from 0 to 1, 0.5 is used. */
  random?: () => number;
}

export interface SchedulerOptions {
  /** 1 s to 1 h. Known slots fire on time; only a schedule that another process has just added can be this late. */
  tick?: Duration;
}

const SCHEDULER_KEYS: ReadonlySet<string> = optionKeys<SchedulerOptions>({ tick: true });
const OPTION_KEYS: ReadonlySet<string> = optionKeys<HoldfastOptions>({
  store: true,
  jobs: true,
  retry: true,
  retention: true,
  scheduler: true,
  logger: true,
  telemetry: true,
  reporter: true,
  redact: true,
  clock: true,
  random: true,
});

/** The options of `holdfast()`, checked and with defaults. */
export interface ClientSettings {
  store: string | Store;
  clock: Clock;
  random: () => number;
  logger: Logger;
  types: Map<string, JobType>;
  retry: RetryDefaults;
  retention: RetentionRule[];
  auditRetentionMs: number | null;
  /** Null: no scheduler runs here. */
  tickMs: number | null;
  telemetry: Telemetry | null;
  reporter: ErrorReporter | null;
  redact: Redactor;
  restore: Restorer;
}

export function readClientOptions(options: HoldfastOptions): ClientSettings {
  refuseUnknown(options, OPTION_KEYS, "holdfast");
  const clock = readClock(options.clock);
  const retry = readRetryDefaults(options.retry);
  const types = readTypes(options.jobs ?? [], retry);
  const retention = readRetention(options.retention ?? {});
  const auditRetentionMs = readAuditRetention(options.retention ?? {});
  const tickMs = readTick(options.scheduler ?? {});
  const redact = redactor(options.redact ?? []);
  const telemetry = readPort(options.telemetry, "telemetry", ["enqueue", "run"]);
  const reporter = readPort(options.reporter, "reporter", ["report"]);
  const logger = options.logger === false ? silentLogger : safeLogger(readLogger(options.logger));
  const store = readStore(options);
  const random = options.random === undefined ? Math.random : safeRandom(options.random, logger);
  const restore = restorer(options.redact ?? []);
  return {
    store,
    clock,
    random,
    logger,
    types,
    retry,
    retention,
    auditRetentionMs,
    tickMs,
    telemetry,
    reporter,
    redact,
    restore,
  };
}

function readStore(options: HoldfastOptions): string | Store {
  if ("store" in options && options.store === undefined) {
    const problem = "is undefined; is the environment variable set? Leave it out for the file holdfast.db";
    throw new InvalidOptionError("store", problem);
  }
  const given = "store" in options ? options.store : "sqlite:holdfast.db";
  if (typeof given !== "string" && typeof given?.migrate !== "function") {
    throw new InvalidOptionError("store", `${show(given)} is neither the URL of a store nor a store`);
  }
  return given;
}

/** An object that the application passes in, with the functions that the engine calls. */
function readPort<Port extends object>(port: Port | undefined, field: string, calls: readonly string[]): Port | null {
  if (port === undefined) return null;
  for (const call of calls) {
    if (typeof (port as Record<string, unknown> | null)?.[call] !== "function") {
      throw new InvalidOptionError(field, `${show(port)} has no function ${call}`);
    }
  }
  return port;
}

function readLogger(logger: Logger | undefined): Logger {
  return readPort(logger, "logger", ["info", "warn", "error"]) ?? stderrLogger;
}

function readClock(clock: Clock | undefined): Clock {
  const given = readPort(clock, "clock", ["now", "monotonic", "after"]);
  if (given === null) return systemClock;
  for (const call of ["now", "monotonic"] as const) {
    const time: unknown = given[call]();
    if (!Number.isFinite(time)) throw new InvalidOptionError("clock", `${call}() must return milliseconds as a number`);
  }
  return given;
}

/** The given random source, made safe: with a delay that is not a number a job would never be due. */
function safeRandom(random: unknown, logger: Logger): () => number {
  if (typeof random !== "function") throw new InvalidOptionError("random", `${show(random)} is not a function`);
  let isReported = false;
  const failed = (problem: object): void => {
    if (!isReported) logger.error(problem, "random returned no number from 0 to 1; using 0.5");
    isReported = true;
  };
  return () => {
    try {
      const given: unknown = random();
      if (typeof given === "number" && given >= 0 && given <= 1) return given;
      watchResult(given, () => {});
      failed({ given: show(given) });
    } catch (error) {
      failed({ error });
    }
    return 0.5;
  };
}

function readTick(options: SchedulerOptions | false): number | null {
  if (options === false) return null;
  refuseUnknownIn(options, SCHEDULER_KEYS, "scheduler");
  const tickMs = durationMs(options.tick ?? DEFAULTS.schedule.tickMs, "scheduler.tick");
  if (tickMs < 1_000 || tickMs > 3_600_000) throw new InvalidOptionError("scheduler.tick", "must be from 1 s to 1 h");
  return tickMs;
}

function readTypes(jobs: readonly JobType[], retry: RetryDefaults): Map<string, JobType> {
  if (!Array.isArray(jobs)) throw new InvalidOptionError("jobs", "must be an array of job types");
  const types = new Map<string, JobType>();
  for (const [index, type] of jobs.entries()) {
    if (typeof type?.type !== "string" || typeof type.run !== "function") {
      throw new InvalidOptionError(`jobs.${index}`, "is not a job type; make it with job({ … })");
    }
    if (types.has(type.type)) throw new InvalidOptionError(`jobs.${index}`, `the type ${type.type} is listed twice`);
    types.set(type.type, retry.applyTo(type));
  }
  return types;
}
