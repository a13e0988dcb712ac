import { SECRET_VARIABLE } from "../../config/index.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import { tellStoreOnly } from "../store/bare-store.js";
import { command, keyFlag, type Command, type Context } from "../parse/command.js";
import { Failure } from "../errors.js";
import { openService } from "../store/clients.js";
import { modulePath } from "../../config/index.js";
import { jobsModule } from "../module/jobs-module.js";

/** The flags of whatever listens. */
export const LISTEN: {
  readonly host: ReturnType<typeof keyFlag<"server.host">>;
  readonly port: ReturnType<typeof keyFlag<"server.port">>;
} = { host: keyFlag("server.host"), port: keyFlag("server.port", { short: "p" }) };

/** Serves a client's API until `stop`. Without any token only this machine is let in. */
export async function serveClient(context: Context, hf: Holdfast): Promise<{ url: string; stop(): Promise<void> }> {
  const { admin } = await import("../../admin/http/app.js");
  const { isLoopback } = await import("../../admin/auth/loopback.js");
  const { NotListeningError, serve } = await import("../../admin/http/serve.js");
  const { values } = context.config;
  const host = values["server.host"];
  const hasTokens = (await hf.tokens.list()).some(({ expiresAt }) => expiresAt === null || expiresAt > new Date());
  if (!hasTokens && !isLoopback(host)) {
    throw new Failure(`there is no token, and ${host} is open to other machines`, {
      hint: "holdfast tokens create <name> --role admin, or --host 127.0.0.1",
    });
  }
  const basePath = values["server.base_path"];
  const secret = context.env[SECRET_VARIABLE];
  const api = admin(hf, {
    auth: hasTokens ? "tokens" : "open",
    sessionLength: values["auth.session_ttl"],
    loginAttempts: values["auth.login_attempts"],
    viewersPerCaller: values["server.caller_viewers"],
    maxLanes: values["server.max_lanes"],
    ...(basePath !== null && { basePath }),
    ...(secret !== undefined && secret !== "" && { sessionSecret: secret }),
  });
  const serving = await serve(api, { host, port: values["server.port"] }).catch((error: unknown) => {
    if (!(error instanceof NotListeningError)) throw error;
    const hint = "--port names another, as does server.port; 0 takes any that is free";
    throw new Failure(error.message, { code: error.code, cause: error, hint });
  });
  if (!hasTokens) context.output.note("No token is asked for, as there is none yet: only this machine is let in.");
  return {
    url: serving.url,
    async stop() {
      await api.close();
      await serving.stop();
    },
  };
}

/** Until somebody asks the command to end. */
export function untilStopped(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

export const serveCommand: Command = command({
  name: "serve",
  logs: true,
  summary: "Serves the admin API, and runs no jobs.",
  about: `With the module of the jobs, by its path or jobs.module, what is enqueued by the API is checked and has the queue and attempts of its type; without, the worker checks it. ${SECRET_VARIABLE}, of 32 characters or more, lets sessions outlive a restart and hold on several servers.`,
  arguments: {
    module: {
      kind: "text",
      placeholder: "path",
      complete: "files",
      optional: true,
      says: "The module that exports the job types; else jobs.module, if that is set.",
    },
  },
  flags: { ...LISTEN, store: keyFlag("store", { placeholder: "url" }) },
  async run(context, { args }) {
    tellStoreOnly(context);
    const hasModule = args.module !== undefined || modulePath(context.config) !== null;
    const jobs = hasModule ? (await jobsModule(context, args.module)).jobs : [];
    const hf = await openService(context, { jobs });
    try {
      const serving = await serveClient(context, hf);
      context.output.event({ url: serving.url }, (page) => page.line(`Holdfast serves ${serving.url}/api/admin`));
      await untilStopped(context.signal);
      await serving.stop();
    } finally {
      await hf.close();
    }
    return 0;
  },
});
