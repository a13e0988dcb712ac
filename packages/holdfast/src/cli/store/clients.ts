import { toHoldfastOptions } from "../../config/index.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { Logger } from "../../engine/events/logger.js";
import type { ErrorReporter } from "../../engine/events/reports.js";
import type { Telemetry } from "../../engine/events/telemetry.js";
import type { JobType } from "../../job/job.js";
import type { Store } from "../../store.js";
import { migrated, openBare, refusePending } from "./bare-store.js";
import type { Context } from "../parse/command.js";
import { logJobs } from "../ui/job-lines.js";
import { createLogger } from "../ui/logger.js";

/** A client on the store that the configuration names; closed at the end. A look makes no store, and migrates none. */
export async function withStore<Answer>(
  context: Context,
  { jobs, makes }: { jobs: readonly JobType[]; makes: boolean },
  use: (hf: Holdfast) => Promise<Answer>,
): Promise<Answer> {
  const store = await openBare(context, makes ? "make" : "look");
  try {
    if (!makes) await refusePending(context, store);
    const open = (given: Store): Promise<Holdfast> => openClient(context, { jobs, store: given });
    const hf = makes ? (await migrated(context, store, open)).hf : await open(store);
    try {
      return await use(hf);
    } finally {
      await hf.close();
    }
  } finally {
    await store.close();
  }
}

/**
 * A client for what goes on, on the store that the configuration names. It may be the first of all: a store that is not there yet,
 * or of an older version, is made or migrated, and that is written down.
 */
export async function openService(context: Context, more: Omit<ClientOptions, "store"> = {}): Promise<Holdfast> {
  const store = await openBare(context, "make");
  try {
    return (await migrated(context, store, (given) => openClient(context, { logs: true, ...more, store: given }))).hf;
  } catch (error) {
    await store.close();
    throw error;
  }
}

interface ClientOptions {
  store: Store;
  jobs?: readonly JobType[];
  telemetry?: Telemetry;
  reporter?: ErrorReporter;
  /** Else stderr, as the configuration says. */
  logger?: Logger;
  /** With a log of its own, and with a line for each job. */
  logs?: true | "jobs";
}

/** A client as the configuration says, with these jobs. */
async function openClient(context: Context, { logs, ...more }: ClientOptions): Promise<Holdfast> {
  const { holdfast } = await import("../../engine/client/open-client.js");
  const { config } = context;
  const paths = config.values["redact.paths"];
  const logger = more.logger ?? loggerOf(context, logs !== undefined);
  const hf = await holdfast({
    ...toHoldfastOptions(config),
    ...(paths !== null && { redact: paths }),
    ...more,
    logger,
  });
  if (logs === "jobs" || (logs === true && config.values["log.level"] === "debug")) logJobs(hf, logger);
  return hf;
}

/** A log on stderr as the configuration says; of commands that do not run on, only what is odd. */
export function loggerOf({ config: { values } }: Context, logs: boolean): Logger {
  return createLogger({
    level: logs ? values["log.level"] : "warn",
    format: values["log.format"],
    write: (line) => void process.stderr.write(line),
    now: () => new Date(),
  });
}
