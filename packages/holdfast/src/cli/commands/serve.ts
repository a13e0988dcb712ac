import { SECRET_VARIABLE } from "../../config/index.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import { connectionFlags, warnIfUrlIgnored } from "../store/open.js";
import { command, keyFlag, STORE_FLAG, type Command, type Context } from "../parse/command.js";
import { CommandError } from "../errors.js";
import { openService } from "../store/clients.js";
import { modulePath } from "../../config/index.js";
import { jobsModule } from "../module/jobs-module.js";

/** The flags of commands that serve HTTP. */
export const LISTEN_FLAGS: {
  readonly host: ReturnType<typeof keyFlag<"server.host">>;
  readonly port: ReturnType<typeof keyFlag<"server.port">>;
} = { host: keyFlag("server.host"), port: keyFlag("server.port", { short: "p" }) };

/** A running server of the CLI. */
export interface Serving {
  /** Of the server, without the base path. */
  url: string;
  /** The dashboard, for browsers. */
  dashboard: string;
  stop(): Promise<void>;
}

/** Serves the dashboard and the admin API of a client. If no API tokens exist, only requests from localhost are accepted. */
export async function serveClient(context: Context, hf: Holdfast): Promise<Serving> {
  const { admin } = await import("../../admin/http/app.js");
  const { isLoopback } = await import("../../admin/auth/loopback.js");
  const { NotListeningError, serve } = await import("../../admin/http/serve.js");
  const { values } = context.config;
  const host = values["server.host"];
  const hasTokens = (await hf.tokens.list()).length > 0;
  if (!hasTokens && !isLoopback(host)) {
    throw new CommandError(`no API tokens exist, and ${host} accepts requests from other machines`, {
      hint: `run: holdfast tokens create <name> --role admin${connectionFlags(context.config)}, or use --host 127.0.0.1`,
    });
  }
  const basePath = values["server.base_path"];
  const secret = context.env[SECRET_VARIABLE];
  const api = admin(hf, {
    auth: hasTokens ? "tokens" : "open",
    sessionLength: values["auth.session_ttl"],
    loginAttempts: values["auth.login_attempts"],
    streamsPerCaller: values["server.caller_streams"],
    maxLanes: values["server.max_lanes"],
    ...(basePath !== null && { basePath }),
    ...(secret !== undefined && secret !== "" && { sessionSecret: secret }),
  });
  const serving = await serve(api, { host, port: values["server.port"] }).catch((error: unknown) => {
    if (!(error instanceof NotListeningError)) throw error;
    const hint = "use --port or server.port; 0 picks a free port";
    throw new CommandError(error.message, { code: error.code, cause: error, hint });
  });
  if (!hasTokens) {
    context.output.note("No API tokens exist, so authentication is off. Only requests from localhost are accepted.");
  }
  return {
    url: serving.url,
    dashboard: `${serving.url}${basePath === null ? "" : basePath.replace(/\/$/, "")}/`,
    async stop() {
      await api.close();
      await serving.stop();
    },
  };
}

/** Resolves when the command is asked to stop. */
export function untilStopped(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

const MODULE_ARGUMENT = {
  kind: "text",
  placeholder: "path",
  complete: "files",
  optional: true,
  description: "Module that exports the job types. Default: jobs.module, if set.",
} as const;

export const serveCommand: Command = command({
  name: "serve",
  logs: true,
  summary: "Serve the dashboard and the admin API. Runs no jobs.",
  about: `With a jobs module, the API validates inputs and uses the queue and attempts of the job type; without one, the worker validates inputs. Set ${SECRET_VARIABLE} (at least 32 characters) to keep sessions across restarts and servers.`,
  arguments: { module: MODULE_ARGUMENT },
  flags: { ...LISTEN_FLAGS, store: STORE_FLAG },
  run: (context, { args }) =>
    serveUntilStopped(context, { module: args.module, createsStore: true }, ({ url, dashboard }) => [
      `Serving the admin API at ${url}/api/admin`,
      `Dashboard: ${dashboard}`,
    ]),
});

export const dashboardCommand: Command = command({
  name: "dashboard",
  logs: true,
  summary: "Serve the dashboard on this machine, on any free port.",
  about: "For a look at any store. Runs no jobs. It stops at Ctrl-C; use holdfast serve to run it all the time.",
  arguments: { module: MODULE_ARGUMENT },
  flags: { ...LISTEN_FLAGS, store: STORE_FLAG },
  examples: [{ line: "dashboard --store sqlite:app.db", description: "Shows the jobs in this file." }],
  run(context, { args }) {
    const { values, sources } = context.config;
    // A service has its port; this is for a moment.
    const port = sources["server.port"].kind === "default" ? 0 : values["server.port"];
    const config = { ...context.config, values: { ...values, "server.port": port } };
    return serveUntilStopped({ ...context, config }, { module: args.module, createsStore: false }, ({ dashboard }) => [
      `Dashboard: ${dashboard}`,
      "Press Ctrl-C to stop.",
    ]);
  },
});

/** Serves a store until the command is asked to stop. */
async function serveUntilStopped(
  context: Context,
  { module, createsStore }: { module: string | undefined; createsStore: boolean },
  lines: (serving: Serving) => string[],
): Promise<number> {
  warnIfUrlIgnored(context);
  const hasModule = module !== undefined || modulePath(context.config) !== null;
  const jobs = hasModule ? (await jobsModule(context, module)).jobs : [];
  const hf = await openService(context, { jobs, createsStore });
  try {
    const serving = await serveClient(context, hf);
    const { url, dashboard } = serving;
    context.output.event({ url, dashboard }, (writer) => lines(serving).forEach((line) => writer.line(line)));
    await untilStopped(context.signal);
    await serving.stop();
  } finally {
    await hf.close();
  }
  return 0;
}
