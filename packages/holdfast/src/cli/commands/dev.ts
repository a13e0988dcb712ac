import { resolve } from "node:path";
import { hideSecret, modulePath, showPath } from "../../config/index.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { WorkOptions } from "../../engine/worker/work-options.js";
import { warnIfUrlIgnored } from "../store/open.js";
import { command, type Command, type Context } from "../parse/command.js";
import { FATAL, watchAndRun } from "../watch-and-run.js";
import { workOptions } from "../work-options.js";
import { moduleNamedBy, noModule, refuseUntrustedModule } from "../module/jobs-module.js";
import { CommandError } from "../errors.js";
import { checkModuleFile } from "../module/load-module.js";
import { runJobs } from "../run-jobs.js";
import { LISTEN_FLAGS, serveClient, untilStopped } from "./serve.js";
import { MODULE, WORK_FLAGS } from "./worker.js";

export const devCommand: Command = command({
  name: "dev",
  logs: true,
  summary: "Run jobs, schedules and the dashboard, and restart when files change.",
  about: "For development. Watches the folder of the module and logs every job. Use holdfast worker in production.",
  arguments: { module: MODULE },
  flags: { ...WORK_FLAGS, ...LISTEN_FLAGS },
  examples: [{ line: "dev jobs.ts", description: "Uses the file holdfast.db unless another store is configured." }],
  async run(context, { args }) {
    const options = workOptions(context);
    if (options === null) return 0;
    // A changed module can only be loaded in a new process.
    if (context.env["HOLDFAST_DEV_CHILD"] === "1") return runOnce(context, options, args.module).catch(reportFatal);
    warnIfUrlIgnored(context);
    const path = args.module === undefined ? modulePath(context.config) : resolve(context.cwd, args.module);
    if (path === null) throw noModule();
    if (args.module === undefined) refuseUntrustedModule(context, path);
    const namedBy = args.module === undefined ? moduleNamedBy(context) : null;
    checkModuleFile(path, args.module ?? showPath(path, context.cwd), namedBy);
    const graceMs = context.config.values["jobs.grace_s"] * 1_000;
    const { argv, env, cwd, output, signal } = context;
    return watchAndRun({ path, argv, env, cwd, file: context.config.file, output, signal, graceMs });
  },
});

/** Reports an error that no change of a file would fix, such as a port in use, to the parent process. */
async function reportFatal(error: unknown): Promise<never> {
  if (error instanceof CommandError && error.code === "NOT_LISTENING") {
    await new Promise((resolve) => (process.send === undefined ? resolve(null) : process.send(FATAL, resolve)));
  }
  throw error;
}

/** Resolves when the parent process has died: nothing else would stop this one. */
function parentExit(): Promise<void> {
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
    const { url, dashboard } = serving;
    context.output.event({ url, dashboard, worker: worker.id }, (writer) =>
      writer.line(`Running on ${store}; dashboard: ${dashboard}`),
    );
    await Promise.race([untilStopped(signal), parentExit()]);
    await worker.stop();
    await serving.stop();
  };
  return runJobs(context, given, run, "jobs");
}
