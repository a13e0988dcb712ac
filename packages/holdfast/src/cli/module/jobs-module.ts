import { modulePath, refuseUntrusted, showPath, showSource } from "../../config/index.js";
import type { Context } from "../parse/command.js";
import { UsageError } from "../errors.js";
import { loadJobs, type JobsModule } from "./load-module.js";

/** Loads the jobs module that was given as an argument, or else the configured one. */
export async function jobsModule(context: Context, given: string | undefined): Promise<JobsModule> {
  if (given !== undefined) return loadJobs(given, context);
  const path = modulePath(context.config);
  if (path === null) throw noModule();
  refuseUntrustedModule(context, path);
  return loadJobs(showPath(path, context.cwd), context, moduleNamedBy(context));
}

/** A module named by a holdfast.toml that was found, not named, must be writable by this user only, like that file. */
export function refuseUntrustedModule({ config, cwd, env }: Context, path: string): void {
  if (config.fileIsNamed || config.sources["jobs.module"].kind !== "file") return;
  const wayOut = `if you trust it, name it as an argument, with --module, or with HOLDFAST_JOBS_MODULE=${path}`;
  refuseUntrusted(path, { cwd, env }, wayOut);
}

/** Where the path of the module comes from, as a clause for hints. */
export function moduleNamedBy({ config }: Context): string {
  return `jobs.module is set by ${showSource(config.sources["jobs.module"], config.cwd)}`;
}

/** The error of a command that needs a jobs module. */
export function noModule(): UsageError {
  return new UsageError(
    "no jobs module given",
    "pass its path, e.g. jobs.ts, or run: holdfast config set jobs.module jobs.ts",
  );
}
