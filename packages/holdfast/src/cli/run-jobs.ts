import { showPath } from "../config/index.js";
import type { Holdfast } from "../engine/client/holdfast.js";
import { joinTelemetry } from "../engine/events/join-telemetry.js";
import { safeLogger, type Logger } from "../engine/events/logger.js";
import type { Telemetry } from "../engine/events/telemetry.js";
import { messageOf } from "../job/thrown.js";
import { loggerOf, openService } from "./store/clients.js";
import type { Context } from "./parse/command.js";
import { CommandError } from "./errors.js";
import { CrashHandler } from "./crash-handler.js";
import { jobsModule } from "./module/jobs-module.js";
import type { JobsModule } from "./module/load-module.js";

/** Time limit of a module's `teardown`: an unresponsive service must not delay a deployment. */
export const TEARDOWN_MS = 5_000;

/**
 * Runs `work` with a client that has the module's jobs. An uncaught error is logged and aborts the signal that `work`
 * gets, with a short grace time and exit code 1. The module's `teardown` runs last in every case. Returns the exit
 * code.
 */
export async function runJobs(
  context: Context,
  given: string | undefined,
  work: (hf: Holdfast, signal: AbortSignal, module: JobsModule) => Promise<void>,
  logs: true | "jobs" = true,
): Promise<number> {
  let loaded: JobsModule | null = null;
  const logger = (): Logger => logOf(context, loaded);
  const crash = new CrashHandler(logger);
  const signal = AbortSignal.any([context.signal, crash.signal]);
  const runToEnd = async (): Promise<void> => {
    loaded = await jobsModule(context, given);
    const hf = await openWithJobs(context, loaded, { ownTelemetry: crash.telemetry, logger: logger(), logs });
    try {
      await work(hf, signal, loaded);
    } finally {
      await hf.close();
    }
  };
  let isTornDown = true;
  try {
    await Promise.race([runToEnd(), crash.graceEnded]);
  } finally {
    if (loaded !== null) isTornDown = await tearDown(context, loaded, logger());
    crash.stop();
  }
  return crash.signal.aborted || !isTornDown ? 1 : 0;
}

/** The logger of the module, or else stderr. */
function logOf(context: Context, loaded: JobsModule | null): Logger {
  const stderr = loggerOf(context, true);
  return loaded === null || loaded.logger === null ? stderr : safeLogger(loaded.logger, stderr);
}

/** Opens a client with the exports of the module, and runs its `setup`. */
async function openWithJobs(
  context: Context,
  { path, jobs, setup, reporter, telemetry }: JobsModule,
  { ownTelemetry, logger, logs }: { ownTelemetry: Telemetry; logger: Logger; logs: true | "jobs" },
): Promise<Holdfast> {
  const hf = await openService(context, {
    jobs,
    logger,
    logs,
    telemetry: telemetry === null ? ownTelemetry : joinTelemetry(telemetry, ownTelemetry, logger),
    ...(reporter !== null && { reporter }),
  });
  try {
    await setup?.(hf);
    return hf;
  } catch (error) {
    await hf.close();
    throw new CommandError(`setup in ${showPath(path, context.cwd)} failed: ${messageOf(error)}`, {
      cause: error,
      hint: "run with --verbose for the stack trace",
    });
  }
}

/** Runs the module's `teardown`, if any. A failure is logged; returns whether it succeeded. */
async function tearDown({ cwd }: Context, { path, teardown }: JobsModule, logger: Logger): Promise<boolean> {
  if (teardown === null) return true;
  const name = `teardown in ${showPath(path, cwd)}`;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((resolve) => (timer = setTimeout(resolve, TEARDOWN_MS, "late")));
  try {
    const done = (async () => void (await teardown()))();
    if ((await Promise.race([done, late])) !== "late") return true;
    logger.error({}, `${name} timed out after ${TEARDOWN_MS / 1_000}s; exiting without it`);
  } catch (error) {
    logger.error({ error }, `${name} failed`);
  } finally {
    clearTimeout(timer);
  }
  return false;
}
