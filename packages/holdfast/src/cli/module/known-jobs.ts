import type { AdminClient } from "../../admin/contract/client.js";
import { didYouMean, modulePath, showPath } from "../../config/index.js";
import type { JobType } from "../../job/job.js";
import { keyFlag, type Context } from "../parse/command.js";
import { BadUsage } from "../errors.js";
import { jobsModule } from "./jobs-module.js";
import { knownTypes } from "./known-types.js";
import { serverOf } from "../store/admin-connection.js";

/** The flag of commands that are about a type. */
export const TYPES_FROM: { readonly module: ReturnType<typeof keyFlag<"jobs.module">> } = {
  module: keyFlag("jobs.module", {
    placeholder: "path",
    complete: "files",
    says: "The module that defines the type; else jobs.module. Not with --url.",
  }),
};

/**
 * Where a module is named, its types say what an input must be, and how often a job is tried. Null on a server, which has
 * types of its own.
 */
export async function knownJobs(context: Context, url: string | undefined): Promise<readonly JobType[] | null> {
  if (serverOf(context, url) !== null) {
    if (context.config.sources["jobs.module"].kind !== "flag") return null;
    throw new BadUsage("--module goes with the store", "a server knows types by its own modules");
  }
  if (modulePath(context.config) === null) return [];
  return (await jobsModule(context, undefined)).jobs;
}

/** What a type says of its jobs where nobody says otherwise. */
type Said = Readonly<Record<"queue" | "priority" | "attempts", unknown>>;

/** A type that is not known here has no queue, priority and attempts of its own: nobody shall find that out by the worker's. */
export function warnOfDefaults(
  { config, output }: Context,
  type: string,
  jobs: readonly JobType[],
  given: Said,
  what = "job",
): void {
  const defaults = (["queue", "priority", "attempts"] as const).filter((name) => given[name] === undefined);
  if (defaults.length === 0 || jobs.some((known) => known.type === type)) return;
  const lacks = `the ${what} has the default ${defaults.join(", ")}`;
  const path = modulePath(config);
  if (path === null) {
    const advice = "Name its module: --module jobs.ts, or once: holdfast config set jobs.module jobs.ts";
    output.warn(`the type ${type} is not known here: ${lacks}. ${advice}`);
    return;
  }
  const meant = didYouMean(
    type,
    jobs.map((known) => known.type),
  );
  output.warn(`${lacks}: ${showPath(path, config.cwd)} has no type ${type}${meant}`);
}

/** Beside what is done: who may not see workers, or cannot just now, is told nothing. */
export async function warnOfUnknown({ output }: Context, client: AdminClient, type: string): Promise<void> {
  const { workers } = await client.workers.list().catch(() => ({ workers: [] }));
  const known = knownTypes(workers, Date.now());
  if (known === null || known.includes(type)) return;
  output.warn(`no live worker knows the type ${type}${didYouMean(type, known)}`);
}
