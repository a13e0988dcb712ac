import type { AdminClient } from "../../admin/contract/client.js";
import { didYouMean, modulePath, showPath } from "../../config/index.js";
import type { JobType } from "../../job/job.js";
import { keyFlag, type Context } from "../parse/command.js";
import { UsageError } from "../errors.js";
import { jobsModule } from "./jobs-module.js";
import { knownTypes } from "./known-types.js";
import { serverUrlOf } from "../store/admin-connection.js";

/** The flag of commands that take a job type. */
export const MODULE_FLAG: { readonly module: ReturnType<typeof keyFlag<"jobs.module">> } = {
  module: keyFlag("jobs.module", {
    placeholder: "path",
    complete: "files",
    description: "Module that defines the job type. Not with --url.",
  }),
};

/**
 * The job types of the configured module. They validate inputs, and set the queue and attempts of a job. Null if the
 * command uses a server, which loads its own module.
 */
export async function knownJobs(context: Context, url: string | undefined): Promise<readonly JobType[] | null> {
  if (serverUrlOf(context, url) !== null) {
    if (context.config.sources["jobs.module"].kind !== "flag") return null;
    throw new UsageError("--module cannot be combined with --url", "the server uses its own jobs module");
  }
  if (modulePath(context.config) === null) return [];
  return (await jobsModule(context, undefined)).jobs;
}

/** Options that a job type has defaults for. */
type TypeDefaults = Readonly<Record<"queue" | "priority" | "attempts", unknown>>;

const USE_MODULE = "Use --module jobs.ts, or run: holdfast config set jobs.module jobs.ts";
const LIST = new Intl.ListFormat("en-GB");

/** Warns that the queue, priority and attempts of an unknown type are the global defaults, not those of its definition. */
export function warnAboutDefaults(
  { config, output }: Context,
  type: string,
  jobs: readonly JobType[],
  given: TypeDefaults,
  what = "job",
): void {
  const defaults = (["queue", "priority", "attempts"] as const).filter((name) => given[name] === undefined);
  if (defaults.length === 0 || jobs.some((known) => known.type === type)) return;
  const uses = `the input is not checked, and the ${what} gets the default ${LIST.format(defaults)}`;
  const path = modulePath(config);
  if (path === null) {
    output.warn(`no jobs module is configured, so ${uses}. ${USE_MODULE}`);
    return;
  }
  const meant = didYouMean(
    type,
    jobs.map((known) => known.type),
  );
  output.warn(`${showPath(path, config.cwd)} does not define ${type}, so ${uses}${meant}`);
}

/** Warns that a new input of these types cannot be checked, because this process does not know the type. */
export function warnAboutUnchecked(
  { config, output }: Context,
  types: readonly string[],
  jobs: readonly JobType[] | null,
): void {
  // A server checks with its own module.
  if (jobs === null) return;
  const unknown = types.filter((type) => !jobs.some((known) => known.type === type));
  if (unknown.length === 0) return;
  const path = modulePath(config);
  const why =
    path === null
      ? "no jobs module is configured"
      : `${showPath(path, config.cwd)} does not define ${LIST.format(unknown)}`;
  const advice = path === null ? `. ${USE_MODULE}` : "";
  output.warn(`${why}, so the input is not checked${advice}`);
}

/** Warns if no live worker has a handler for the type. Never fails the command, e.g. if the token may not list workers. */
export async function warnIfNoWorker({ output }: Context, client: AdminClient, type: string): Promise<void> {
  const { workers } = await client.workers.list().catch(() => ({ workers: [] }));
  const known = knownTypes(workers, Date.now());
  if (known === null || known.includes(type)) return;
  output.warn(`no live worker handles the type ${type}${didYouMean(type, known)}`);
}
