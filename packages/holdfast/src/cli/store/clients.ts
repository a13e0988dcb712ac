import { toHoldfastOptions } from "../../config/index.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { Logger } from "../../engine/events/logger.js";
import type { ErrorReporter } from "../../engine/events/reports.js";
import type { Telemetry } from "../../engine/events/telemetry.js";
import type { JobType } from "../../job/job.js";
import type { Store } from "../../store.js";
import { openMigrated } from "./migrate.js";
import { openConfiguredStore } from "./open.js";
import { requireCurrentSchema } from "./schema-check.js";
import type { Context } from "../parse/command.js";
import { logJobs } from "../ui/job-lines.js";
import { createLogger } from "../ui/logger.js";

/**
 * Calls `use` with a client on the configured store, and closes it afterwards. Without `createsStore`, the store must exist and
 * its schema must be up to date.
 */
export async function withClient<Result>(
  context: Context,
  { jobs, createsStore }: { jobs: readonly JobType[]; createsStore: boolean },
  use: (hf: Holdfast) => Promise<Result>,
): Promise<Result> {
  const store = await openConfiguredStore(context, createsStore ? "create" : "read");
  try {
    if (!createsStore) await requireCurrentSchema(context, store);
    const open = (given: Store): Promise<Holdfast> => openClient(context, { jobs, store: given });
    const hf = createsStore ? (await openMigrated(context, store, open)).hf : await open(store);
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
 * Opens a client for a long-running command. Creates or migrates the store if needed, and records that in the audit log. Without
 * `createsStore`, the store must exist and its schema must be up to date.
 */
export async function openService(
  context: Context,
  { createsStore = true, ...more }: Omit<ClientOptions, "store"> & { createsStore?: boolean } = {},
): Promise<Holdfast> {
  const store = await openConfiguredStore(context, createsStore ? "create" : "read");
  const open = (given: Store): Promise<Holdfast> => openClient(context, { logs: true, ...more, store: given });
  try {
    if (createsStore) return (await openMigrated(context, store, open)).hf;
    await requireCurrentSchema(context, store);
    return await open(store);
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
  /** Default: stderr, with the configured level and format. */
  logger?: Logger;
  /** `true`: the configured log. `"jobs"`: also a line for each job. Omitted: warnings and errors only. */
  logs?: true | "jobs";
}

/** A client with the configured options and these jobs. */
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

/** A log on stderr. Short commands log warnings and errors only, whatever the configured level. */
export function loggerOf({ config: { values }, writeStderr }: Context, logs: boolean): Logger {
  return createLogger({
    level: logs ? values["log.level"] : "warn",
    format: values["log.format"],
    write: writeStderr,
    now: () => new Date(),
  });
}
