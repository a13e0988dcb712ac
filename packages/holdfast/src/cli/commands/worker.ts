import { hideSecret } from "../../config/index.js";
import { warnIfUrlIgnored } from "../store/open.js";
import { command, keyFlag, STORE_FLAG, type Command, type Context } from "../parse/command.js";
import { UsageError } from "../errors.js";
import { workOptions } from "../work-options.js";
import { runJobs } from "../run-jobs.js";
import { LISTEN_FLAGS, serveClient, untilStopped } from "./serve.js";

/** The argument of commands that run jobs. */
export const MODULE = {
  kind: "text",
  placeholder: "path",
  complete: "files",
  optional: true,
  description: "Module that exports the job types. Default: jobs.module.",
} as const;
/** The flags of commands that run jobs. */
export const WORK_FLAGS: {
  readonly concurrency: ReturnType<typeof keyFlag<"jobs.concurrency">>;
  readonly queues: ReturnType<typeof keyFlag<"jobs.queues">>;
  readonly store: ReturnType<typeof keyFlag<"store">>;
} = {
  concurrency: keyFlag("jobs.concurrency", { short: "c" }),
  queues: keyFlag("jobs.queues"),
  store: STORE_FLAG,
};

export const workerCommand: Command = command({
  name: "worker",
  logs: true,
  summary: "Run jobs and schedules until stopped.",
  about:
    "On SIGTERM or Ctrl-C it claims no more jobs and waits up to jobs.grace_s for running ones. Besides job types, the module may export setup, teardown, reporter, telemetry and logger.",
  arguments: { module: MODULE },
  flags: {
    ...WORK_FLAGS,
    serve: { kind: "switch", description: "Also serve the admin API and metrics." },
    ...LISTEN_FLAGS,
  },
  examples: [{ line: "worker jobs.ts --concurrency 16", description: "Run up to 16 jobs concurrently." }],
  async run(context, { flags, args }) {
    if (!flags.serve) refuseListenFlags(context);
    const options = workOptions(context);
    if (options === null) return 0;
    warnIfUrlIgnored(context);
    return runJobs(context, args.module, async (hf, signal) => {
      const serving = flags.serve ? await serveClient(context, hf) : null;
      const worker = hf.work(options);
      const { values } = context.config;
      const queues = values["jobs.queues"];
      const from = queues === null || queues.length === 0 ? "all queues" : `queues ${queues.join(", ")}`;
      context.output.event({ worker: worker.id, url: serving?.url ?? null }, (writer) =>
        writer.line(
          `Worker ${worker.id} started on ${hideSecret(values.store)} (concurrency ${values["jobs.concurrency"]}, ${from})` +
            (serving === null ? "" : `; dashboard: ${serving.dashboard}`),
        ),
      );
      await untilStopped(signal);
      context.output.note("Shutting down; waiting for running jobs.");
      await worker.stop();
      await serving?.stop();
    });
  },
});

/** Without `--serve`, the worker does not listen, and a given host or port would have no effect. */
function refuseListenFlags({ config: { sources } }: Context): void {
  for (const { key } of Object.values(LISTEN_FLAGS)) {
    const source = sources[key];
    if (source.kind !== "flag") continue;
    throw new UsageError(
      `${source.name} requires --serve`,
      "add --serve to also serve the admin API, or omit the flag",
    );
  }
}
