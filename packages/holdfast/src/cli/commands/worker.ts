import { resolve } from "node:path";
import { hideSecret, modulePath, showPath } from "../../config/index.js";
import type { Holdfast } from "../../engine/holdfast.js";
import type { WorkOptions } from "../../engine/worker.js";
import { command, keyFlag, type Command, type Context } from "../command.js";
import { workOptions } from "../enabled.js";
import { jobsModule, noModule } from "../jobs-module.js";
import { Failure } from "../failure.js";
import { openService } from "../reach.js";
import { LISTEN, serveClient, untilStopped } from "./serve.js";

/** The argument of whatever runs jobs. */
export const MODULE = {
  kind: "text",
  placeholder: "path",
  complete: "files",
  optional: true,
  says: "The module that exports the job types; else jobs.module.",
} as const;
/** The flags of whatever runs jobs. */
export const WORK: {
  readonly concurrency: ReturnType<typeof keyFlag<"jobs.concurrency">>;
  readonly queues: ReturnType<typeof keyFlag<"jobs.queues">>;
  readonly store: ReturnType<typeof keyFlag<"store">>;
} = {
  concurrency: keyFlag("jobs.concurrency", { short: "c" }),
  queues: keyFlag("jobs.queues"),
  store: keyFlag("store", { placeholder: "url" }),
};

/** A client with the module's jobs, once its `setup` has run. */
export async function openWithJobs(context: Context, given: string | undefined): Promise<Holdfast> {
  const { path, jobs, setup } = await jobsModule(context, given);
  const hf = await openService(context, jobs);
  try {
    await setup?.(hf);
    return hf;
  } catch (error) {
    await hf.close();
    const why = error instanceof Error ? error.message || error.name : String(error);
    throw new Failure(`setup in ${showPath(path, context.cwd)} failed: ${why}`, {
      cause: error,
      hint: "--verbose shows where it fails",
    });
  }
}

export const workerCommand: Command = command({
  name: "worker",
  summary: "Runs jobs and schedules, until it is asked to end.",
  about: "SIGTERM and Ctrl-C drain it: no more jobs are claimed, and those under way have jobs.grace_s to end.",
  arguments: { module: MODULE },
  flags: { ...WORK, serve: { kind: "switch", says: "Serve the admin API and metrics too." }, ...LISTEN },
  examples: [{ line: "worker jobs.ts --concurrency 16", says: "Sixteen handlers at once." }],
  async run(context, { flags, args }) {
    const options = workOptions(context);
    if (options === null) return 0;
    const hf = await openWithJobs(context, args.module);
    try {
      const serving = flags.serve ? await serveClient(context, hf) : null;
      const worker = hf.work(options);
      context.output.event({ worker: worker.id, url: serving?.url ?? null }, (page) =>
        page.line(`Worker ${worker.id} runs${serving === null ? "" : `; ${serving.url}/api/admin`}`),
      );
      await untilStopped(context.signal);
      context.output.note("Stopping: jobs under way may end.");
      await worker.stop();
      await serving?.stop();
    } finally {
      await hf.close();
    }
    return 0;
  },
});

export const devCommand: Command = command({
  name: "dev",
  summary: "Runs jobs, schedules and the admin API, and starts again when files change.",
  about: "Watches the folder of the module. Made for development; holdfast worker is for production.",
  arguments: { module: MODULE },
  flags: { ...WORK, ...LISTEN },
  examples: [{ line: "dev jobs.ts", says: "On the file holdfast.db, unless the configuration names another store." }],
  async run(context, { args }) {
    const options = workOptions(context);
    if (options === null) return 0;
    // Only a process of its own gets a module anew.
    if (context.env["HOLDFAST_DEV_CHILD"] === "1") return runOnce(context, options, args.module);
    const { watchAndRun } = await import("../dev.js");
    const path = args.module === undefined ? modulePath(context.config) : resolve(context.cwd, args.module);
    if (path === null) throw noModule();
    const graceMs = context.config.values["jobs.grace_s"] * 1_000;
    return watchAndRun({ path, file: context.config.file, output: context.output, signal: context.signal, graceMs });
  },
});

/** Whoever watches has been killed: nobody would ever end us. */
function parentGone(): Promise<void> {
  return new Promise((resolve) => {
    if (process.channel === undefined || process.channel === null) return;
    process.channel.unref();
    process.once("disconnect", () => resolve());
  });
}

async function runOnce(context: Context, options: WorkOptions, given: string | undefined): Promise<number> {
  const hf = await openWithJobs(context, given);
  try {
    const serving = await serveClient(context, hf);
    const worker = hf.work(options);
    const store = hideSecret(context.config.values.store);
    context.output.event({ url: serving.url, worker: worker.id }, (page) =>
      page.line(`Running on ${store}; ${serving.url}/api/admin`),
    );
    await Promise.race([untilStopped(context.signal), parentGone()]);
    await worker.stop();
    await serving.stop();
  } finally {
    await hf.close();
  }
  return 0;
}
