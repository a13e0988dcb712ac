import { resolve } from "node:path";
import { hideSecret, modulePath, showPath } from "../../config/index.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { WorkOptions } from "../../engine/worker/work-options.js";
import { tellStoreOnly } from "../store/bare-store.js";
import { command, keyFlag, type Command, type Context } from "../parse/command.js";
import { UNMENDABLE, watchAndRun } from "../dev.js";
import { workOptions } from "../work-options.js";
import { moduleNamedBy, noModule, refuseUntrustedModule } from "../module/jobs-module.js";
import { Failure } from "../errors.js";
import { refuseFile } from "../module/load-module.js";
import { runJobs } from "../run-jobs.js";
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

export const workerCommand: Command = command({
  name: "worker",
  logs: true,
  summary: "Runs jobs and schedules, until it is asked to end.",
  about:
    "SIGTERM and Ctrl-C drain it: no more jobs are claimed, and those under way have jobs.grace_s to end. Beside job types the module may export setup, teardown, reporter, telemetry and logger.",
  arguments: { module: MODULE },
  flags: { ...WORK, serve: { kind: "switch", says: "Serve the admin API and metrics too." }, ...LISTEN },
  examples: [{ line: "worker jobs.ts --concurrency 16", says: "Sixteen handlers at once." }],
  async run(context, { flags, args }) {
    const options = workOptions(context);
    if (options === null) return 0;
    tellStoreOnly(context);
    return runJobs(context, args.module, async (hf, signal) => {
      const serving = flags.serve ? await serveClient(context, hf) : null;
      const worker = hf.work(options);
      const { values } = context.config;
      const queues = values["jobs.queues"];
      const from = queues === null || queues.length === 0 ? "all queues" : queues.join(", ");
      context.output.event({ worker: worker.id, url: serving?.url ?? null }, (page) =>
        page.line(
          `Worker ${worker.id} runs on ${hideSecret(values.store)}, ${values["jobs.concurrency"]} jobs at once from ${from}` +
            (serving === null ? "" : `; ${serving.url}/api/admin`),
        ),
      );
      await untilStopped(signal);
      context.output.note("Stopping: jobs under way may end.");
      await worker.stop();
      await serving?.stop();
    });
  },
});

export const devCommand: Command = command({
  name: "dev",
  logs: true,
  summary: "Runs jobs, schedules and the admin API, and starts again when files change.",
  about:
    "Watches the folder of the module, and logs each job with what it says. Made for development; holdfast worker is for production.",
  arguments: { module: MODULE },
  flags: { ...WORK, ...LISTEN },
  examples: [{ line: "dev jobs.ts", says: "On the file holdfast.db, unless the configuration names another store." }],
  async run(context, { args }) {
    const options = workOptions(context);
    if (options === null) return 0;
    // Only a process of its own gets a module anew.
    if (context.env["HOLDFAST_DEV_CHILD"] === "1") return runOnce(context, options, args.module).catch(tellWatcher);
    tellStoreOnly(context);
    const path = args.module === undefined ? modulePath(context.config) : resolve(context.cwd, args.module);
    if (path === null) throw noModule();
    if (args.module === undefined) refuseUntrustedModule(context, path);
    const namedBy = args.module === undefined ? moduleNamedBy(context) : null;
    refuseFile(path, args.module ?? showPath(path, context.cwd), namedBy);
    const graceMs = context.config.values["jobs.grace_s"] * 1_000;
    return watchAndRun({ path, file: context.config.file, output: context.output, signal: context.signal, graceMs });
  },
});

/** An address that is taken is no fault of the files: no change of them would mend it. */
async function tellWatcher(error: unknown): Promise<never> {
  if (error instanceof Failure && error.code === "NOT_LISTENING") {
    await new Promise((resolve) => (process.send === undefined ? resolve(null) : process.send(UNMENDABLE, resolve)));
  }
  throw error;
}

/** Whoever watches has been killed: nobody would ever end us. */
function parentGone(): Promise<void> {
  return new Promise((resolve) => {
    if (process.channel === undefined || process.channel === null) return;
    process.channel.unref();
    process.once("disconnect", () => resolve());
  });
}

async function runOnce(context: Context, options: WorkOptions, given: string | undefined): Promise<number> {
  const run = async (hf: Holdfast, signal: AbortSignal): Promise<void> => {
    const serving = await serveClient(context, hf);
    const worker = hf.work(options);
    const store = hideSecret(context.config.values.store);
    context.output.event({ url: serving.url, worker: worker.id }, (page) =>
      page.line(`Running on ${store}; ${serving.url}/api/admin`),
    );
    await Promise.race([untilStopped(signal), parentGone()]);
    await worker.stop();
    await serving.stop();
  };
  return runJobs(context, given, run, "jobs");
}
