import { showPath } from "../config/index.js";
import type { Holdfast } from "../engine/client/holdfast.js";
import { joinTelemetry } from "../engine/events/join-telemetry.js";
import { safeLogger, type Logger } from "../engine/events/logger.js";
import type { Telemetry } from "../engine/events/telemetry.js";
import { messageOf } from "../job/thrown.js";
import { loggerOf, openService } from "./store/clients.js";
import type { Context } from "./parse/command.js";
import { Failure } from "./errors.js";
import { Faults } from "./crash-handler.js";
import { jobsModule } from "./module/jobs-module.js";
import type { JobsModule } from "./module/load-module.js";

/** What a module's `teardown` has to end: a service that does not answer must not hold up a deployment. */
export const TEARDOWN_MS = 5_000;

/**
 * Works with a client that has the module's jobs, until the signal or to its end. A fault that nobody caught is told and
 * ends it as the signal does, but sooner, and with exit code 1. The module's `teardown` comes last, however it ended.
 */
export async function runJobs(
  context: Context,
  given: string | undefined,
  work: (hf: Holdfast, signal: AbortSignal) => Promise<void>,
  logs: true | "jobs" = true,
): Promise<number> {
  let loaded: JobsModule | null = null;
  const logger = (): Logger => logOf(context, loaded);
  const faults = new Faults(logger);
  const signal = AbortSignal.any([context.signal, faults.signal]);
  const toTheEnd = async (): Promise<void> => {
    loaded = await jobsModule(context, given);
    const hf = await openWithJobs(context, loaded, { beside: faults.telemetry, logger: logger(), logs });
    try {
      await work(hf, signal);
    } finally {
      await hf.close();
    }
  };
  let isTornDown = true;
  try {
    await Promise.race([toTheEnd(), faults.over]);
  } finally {
    if (loaded !== null) isTornDown = await tearDown(context, loaded, logger());
    faults.stop();
  }
  return faults.signal.aborted || !isTornDown ? 1 : 0;
}

/** The log of whatever runs the module's jobs: its own, or stderr. */
function logOf(context: Context, loaded: JobsModule | null): Logger {
  const stderr = loggerOf(context, true);
  return loaded === null || loaded.logger === null ? stderr : safeLogger(loaded.logger, stderr);
}

/** A client with what the module brings, once its `setup` has run. */
async function openWithJobs(
  context: Context,
  { path, jobs, setup, reporter, telemetry }: JobsModule,
  { beside, logger, logs }: { beside: Telemetry; logger: Logger; logs: true | "jobs" },
): Promise<Holdfast> {
  const hf = await openService(context, {
    jobs,
    logger,
    logs,
    telemetry: telemetry === null ? beside : joinTelemetry(telemetry, beside, logger),
    ...(reporter !== null && { reporter }),
  });
  try {
    await setup?.(hf);
    return hf;
  } catch (error) {
    await hf.close();
    throw new Failure(`setup in ${showPath(path, context.cwd)} failed: ${messageOf(error)}`, {
      cause: error,
      hint: "--verbose shows where it fails",
    });
  }
}

/** Calls the module's `teardown`, if it has one. Whether all went well; what did not is in the log. */
async function tearDown({ cwd }: Context, { path, teardown }: JobsModule, logger: Logger): Promise<boolean> {
  if (teardown === null) return true;
  const name = `teardown in ${showPath(path, cwd)}`;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((resolve) => (timer = setTimeout(resolve, TEARDOWN_MS, "late")));
  try {
    const done = (async () => void (await teardown()))();
    if ((await Promise.race([done, late])) !== "late") return true;
    logger.error({}, `${name} did not end within ${TEARDOWN_MS / 1_000}s; this process ends without it`);
  } catch (error) {
    logger.error({ error }, `${name} failed`);
  } finally {
    clearTimeout(timer);
  }
  return false;
}
