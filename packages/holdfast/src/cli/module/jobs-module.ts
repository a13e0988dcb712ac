import { modulePath, refuseUntrusted, showPath, showSource } from "../../config/index.js";
import type { Context } from "../parse/command.js";
import { BadUsage } from "../errors.js";
import { loadJobs, type JobsModule } from "./load-module.js";

/** The module that a command was given, or that the configuration names. */
export async function jobsModule(context: Context, given: string | undefined): Promise<JobsModule> {
  if (given !== undefined) return loadJobs(given, context);
  const path = modulePath(context.config);
  if (path === null) throw noModule();
  refuseUntrustedModule(context, path);
  return loadJobs(showPath(path, context.cwd), context, moduleNamedBy(context));
}

/** A module that only a file names which was found must be one that nobody else can write, like that file. */
export function refuseUntrustedModule({ config, cwd, env }: Context, path: string): void {
  if (config.fileIsNamed || config.sources["jobs.module"].kind !== "file") return;
  const wayOut = `if you trust it, name it: as an argument or by --module, or HOLDFAST_JOBS_MODULE=${path}`;
  refuseUntrusted(path, { cwd, env }, wayOut);
}

/** Where the path of the module comes from, in words. */
export function moduleNamedBy({ config }: Context): string {
  return `jobs.module comes from ${showSource(config.sources["jobs.module"], config.cwd)}`;
}

/** Whoever runs jobs must say where they are. */
export function noModule(): BadUsage {
  return new BadUsage(
    "no module of jobs is named",
    "give its path, such as jobs.ts; or once: holdfast config set jobs.module jobs.ts",
  );
}
