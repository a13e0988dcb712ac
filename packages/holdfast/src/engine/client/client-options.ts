import { watchResult } from "../../callbacks.js";
import { systemClock, type Clock } from "../../clock.js";
import { DEFAULTS } from "../../defaults.js";
import { durationMs } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import type { JobType } from "../../job/job.js";
import { refuseUnknownIn, show } from "../../options.js";
import type { SchedulerOptions } from "./holdfast.js";
import { stderrLogger, type Logger } from "../events/logger.js";
import type { RetryDefaults } from "../worker/retry-defaults.js";

/** Something the application brings, if it has the calls it needs. */
export function readPort<Port extends object>(
  port: Port | undefined,
  field: string,
  calls: readonly string[],
): Port | null {
  if (port === undefined) return null;
  for (const call of calls) {
    if (typeof (port as Record<string, unknown> | null)?.[call] !== "function") {
      throw new InvalidOptionError(field, `${show(port)} has no function ${call}`);
    }
  }
  return port;
}

export function readLogger(logger: Logger | undefined): Logger {
  return readPort(logger, "logger", ["info", "warn", "error"]) ?? stderrLogger;
}

export function readClock(clock: Clock | undefined): Clock {
  const given = readPort(clock, "clock", ["now", "monotonic", "after"]);
  if (given === null) return systemClock;
  for (const call of ["now", "monotonic"] as const) {
    const time: unknown = given[call]();
    if (!Number.isFinite(time)) throw new InvalidOptionError("clock", `${call}() must return milliseconds as a number`);
  }
  return given;
}

/** The user's source of chance. One that fails must not make a delay that is no number: jobs would never be due. */
export function safeRandom(random: unknown, logger: Logger): () => number {
  if (typeof random !== "function") throw new InvalidOptionError("random", `${show(random)} is not a function`);
  let isReported = false;
  const failed = (problem: object): void => {
    if (!isReported) logger.error(problem, "random gave no number from 0 to 1; 0.5 is taken");
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

/** Null: no scheduler runs here. */
export function readTick(options: SchedulerOptions | false): number | null {
  if (options === false) return null;
  refuseUnknownIn(options, new Set(["tick"]), "scheduler");
  const tickMs = durationMs(options.tick ?? DEFAULTS.schedule.tickMs, "scheduler.tick");
  if (tickMs < 1_000 || tickMs > 3_600_000) throw new InvalidOptionError("scheduler.tick", "must be from 1 s to 1 h");
  return tickMs;
}

export function readTypes(jobs: readonly JobType[], retry: RetryDefaults): Map<string, JobType> {
  if (!Array.isArray(jobs)) throw new InvalidOptionError("jobs", "must be a list of job types");
  const types = new Map<string, JobType>();
  for (const [index, type] of jobs.entries()) {
    if (typeof type?.type !== "string" || typeof type.run !== "function") {
      throw new InvalidOptionError(`jobs.${index}`, "is not a job type; make it with job({ … })");
    }
    if (types.has(type.type)) throw new InvalidOptionError(`jobs.${index}`, `the type ${type.type} is there twice`);
    types.set(type.type, retry.fill(type));
  }
  return types;
}
