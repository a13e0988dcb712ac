import type { AdminClient } from "../admin/client.js";
import { toHoldfastOptions } from "../config/index.js";
import type { Holdfast } from "../engine/holdfast.js";
import type { Logger } from "../engine/logger.js";
import type { Telemetry } from "../engine/telemetry.js";
import type { JobType } from "../job.js";
import type { Store } from "../store.js";
import { keyFlag, type Context } from "./command.js";
import { BadUsage, Failure } from "./failure.js";
import { logJobs } from "./job-lines.js";
import { createLogger } from "./logger.js";
import { operator } from "./operator.js";
import { migrated, openBare, refusePending } from "./bare-store.js";

/** How a command reaches jobs: the flags that all such commands have. */
export const REACH: {
  readonly store: ReturnType<typeof keyFlag<"store">>;
  readonly url: { readonly kind: "text"; readonly placeholder: "url"; readonly says: string };
  readonly token: { readonly kind: "text"; readonly says: string };
} = {
  store: keyFlag("store", { placeholder: "url" }),
  url: { kind: "text", placeholder: "url", says: "A running server instead of the store; else HOLDFAST_URL." },
  token: { kind: "text", says: "The token for that server; better HOLDFAST_TOKEN, which no list of processes shows." },
};

interface Given {
  readonly url: string | undefined;
  readonly token: string | undefined;
  /** Types that are known here. */
  readonly jobs?: readonly JobType[];
  /** It may be the first of all: a store that is not there yet, or of an older version, is made or migrated. */
  readonly makes?: true;
}

/**
 * Calls the admin API: that of a server where one is named, or one of this process's own on the store. Whatever a command
 * does is checked, refused and written down in the same way by both.
 */
export async function reach<Answer>(
  context: Context,
  { url: flag, token, jobs = [], makes }: Given,
  work: (client: AdminClient) => Promise<Answer>,
): Promise<Answer> {
  const { adminClient, AdminError } = await import("../admin/client.js");
  const url = serverOf(context, flag);
  const given = token ?? context.env["HOLDFAST_TOKEN"] ?? "";
  const use = async (client: AdminClient): Promise<Answer> => {
    try {
      return await work(client);
    } catch (error) {
      if (!(error instanceof AdminError)) throw error;
      if (error.status === 401) throw strangerTo(String(url), given !== "", error);
      const message = inCommands(error.message);
      // What was typed is wrong, though only the API could tell.
      if (error.status === 400) throw new BadUsage(message);
      throw new Failure(message, { code: error.code, cause: error });
    }
  };
  if (url === null) {
    if (token !== undefined) throw new BadUsage("--token goes with --url", "on a store nobody asks for a token");
    return withStore(context, { jobs, makes: makes === true }, async (hf) => {
      const { admin } = await import("../admin/app.js");
      const api = admin(hf, { auth: () => ({ name: operator(), role: "admin", user: null }), metrics: false });
      try {
        return await use(adminClient({ fetch: (request) => api.fetch(request) }));
      } finally {
        await api.close();
      }
    });
  }
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
    throw new BadUsage(`${JSON.stringify(url)} is no address of a server`, "write http://127.0.0.1:7700");
  }
  const { BASE } = await import("../admin/routes.js");
  const client = adminClient({
    // The address that serve tells ends in the API's path.
    url: url.replace(/\/+$/, "").replace(new RegExp(`${BASE}$`), ""),
    ...(given !== "" && { token: given }),
    fetch: (request) => ask(request, url, context.signal),
  });
  return use(client);
}

function strangerTo(url: string, hadToken: boolean, cause: Error): Failure {
  const message = hadToken ? `${url} does not know this token, or no longer` : `${url} asks for a token`;
  return new Failure(message, {
    code: "UNAUTHORIZED",
    cause,
    hint: "set HOLDFAST_TOKEN; holdfast tokens create makes one",
  });
}

/** The errors of the API name calls in code: `hf.tokens.list()` is `holdfast tokens list` here. */
function inCommands(message: string): string {
  return message.replaceAll(/\bhf\.(schedules|tokens)\.(\w+)(?:\(\w*\))?/g, "holdfast $1 $2");
}

/** The server to ask; null: the store itself. A flag counts for more than a variable: somebody has just typed it. */
export function serverOf({ config, env }: Context, flag: string | undefined): string | null {
  const hasStore = config.sources.store.kind === "flag";
  if (flag !== undefined && flag !== "" && hasStore) {
    throw new BadUsage("--url and --store do not go together", "name the server or the store");
  }
  const url = flag ?? (hasStore ? undefined : env["HOLDFAST_URL"]);
  return url === undefined || url === "" ? null : url;
}

const STOP_MS = 10_000;

async function ask(request: Request, url: string, signal: AbortSignal): Promise<Response> {
  const response = await send(request, url, signal);
  const type = response.headers.get("content-type") ?? "";
  if (/\bjson\b/.test(type)) return response;
  throw new Failure(`${url} answered ${response.status}, and not as Holdfast does`, {
    code: "NOT_HOLDFAST",
    hint: "is it the address of holdfast serve, or of your own server, and is there a proxy between?",
  });
}

/**
 * Ctrl-C ends a look at once. A change is waited for a while: only its answer tells what was begun, and has to be stopped. What
 * stops that is sent after Ctrl-C.
 */
function patienceFor({ method }: Request, signal: AbortSignal): AbortSignal {
  if (signal.aborted) return AbortSignal.timeout(STOP_MS);
  if (method === "GET") return signal;
  const late = new AbortController();
  signal.addEventListener("abort", () => void setTimeout(() => late.abort(signal.reason), STOP_MS).unref(), {
    once: true,
  });
  return late.signal;
}

async function send(request: Request, url: string, signal: AbortSignal): Promise<Response> {
  try {
    return await fetch(request, { signal: patienceFor(request, signal) });
  } catch (error) {
    signal.throwIfAborted();
    const cause = (error as Error).cause;
    const why =
      cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : (error as Error).message;
    throw new Failure(`${url} cannot be reached: ${why}`, {
      code: "SERVER_UNREACHABLE",
      hint: "is holdfast serve running there?",
      cause: error,
    });
  }
}

/** A client on the store that the configuration names; closed at the end. A look makes no store, and migrates none. */
async function withStore<Answer>(
  context: Context,
  { jobs, makes }: { jobs: readonly JobType[]; makes: boolean },
  use: (hf: Holdfast) => Promise<Answer>,
): Promise<Answer> {
  const store = await openBare(context);
  try {
    if (!makes) await refusePending(context, store);
    const open = (given: Store): Promise<Holdfast> => openClient(context, { jobs, store: given });
    const hf = makes ? (await migrated(context, store, open)).hf : await open(store);
    try {
      return await use(hf);
    } finally {
      await hf.close();
    }
  } finally {
    await store.close();
  }
}

/**
 * A client for what goes on, on the store that the configuration names. It may be the first of all: a store that is not there yet,
 * or of an older version, is made or migrated, and that is written down.
 */
export async function openService(
  context: Context,
  more: Pick<ClientOptions, "jobs" | "telemetry" | "logs"> = {},
): Promise<Holdfast> {
  const store = await openBare(context);
  try {
    return (await migrated(context, store, (given) => openClient(context, { logs: true, ...more, store: given }))).hf;
  } catch (error) {
    await store.close();
    throw error;
  }
}

interface ClientOptions {
  store: Store;
  jobs?: readonly JobType[];
  telemetry?: Telemetry;
  /** With a log of its own, and with a line for each job. */
  logs?: true | "jobs";
}

/** A client as the configuration says, with these jobs. */
async function openClient(context: Context, { store, jobs, logs, telemetry }: ClientOptions): Promise<Holdfast> {
  const { holdfast } = await import("../engine/holdfast.js");
  const { config } = context;
  const paths = config.values["redact.paths"];
  const logger = loggerOf(context, logs !== undefined);
  const hf = await holdfast({
    ...toHoldfastOptions(config),
    logger,
    ...(paths !== null && { redact: paths }),
    ...(jobs !== undefined && { jobs }),
    ...(telemetry !== undefined && { telemetry }),
    store,
  });
  if (logs === "jobs" || (logs === true && config.values["log.level"] === "debug")) logJobs(hf, logger);
  return hf;
}

/** A log on stderr as the configuration says; of commands that do not run on, only what is odd. */
export function loggerOf({ config: { values } }: Context, logs: boolean): Logger {
  return createLogger({
    level: logs ? values["log.level"] : "warn",
    format: values["log.format"],
    write: (line) => void process.stderr.write(line),
    now: () => new Date(),
  });
}
