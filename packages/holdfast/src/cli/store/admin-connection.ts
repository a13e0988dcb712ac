import type { AdminOptions } from "../../admin/http/app.js";
import type { AdminClient, AdminError } from "../../admin/contract/client.js";
import { hideSecret } from "../../config/index.js";
import type { JobType } from "../../job/job.js";
import { namesUser } from "../../access/secret.js";
import { messageOf } from "../../job/thrown.js";
import { loggerOf, withStore } from "./clients.js";
import { keyFlag, type Context } from "../parse/command.js";
import { BadUsage, Failure } from "../errors.js";
import { operator } from "./operator.js";

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
  const { adminClient, AdminError } = await import("../../admin/contract/client.js");
  const url = serverOf(context, flag);
  const given = token ?? context.env["HOLDFAST_TOKEN"] ?? "";
  const use = async (client: AdminClient): Promise<Answer> => {
    try {
      return await work(client);
    } catch (error) {
      if (!(error instanceof AdminError)) throw error;
      if (error.code === "UNEXPECTED_RESPONSE") throw failureOf(error);
      if (error.status === 401) throw strangerTo(String(url), given !== "", error);
      // What was typed is wrong, though only the API could tell.
      if (error.status === 400) throw new BadUsage(inCommands(error.message));
      throw failureOf(error);
    }
  };
  if (url === null) {
    if (token !== undefined) throw new BadUsage("--token goes with --url", "on a store nobody asks for a token");
    return withStore(context, { jobs, makes: makes === true }, async (hf) => {
      const { adminOf } = await import("../../admin/http/app.js");
      const faults: unknown[] = [];
      const options: AdminOptions = {
        auth: () => ({ name: operator(), role: "admin", user: null }),
        metrics: false,
        // An operator with access to the store itself may make as many as code may.
        maxLanes: 1_000_000_000,
        onError: (error) => void faults.push(error),
      };
      const api = adminOf(hf, options, { emitOutages: false });
      let failure: Error | null = null;
      try {
        return await use(adminClient({ fetch: (request) => api.fetch(request) }));
      } catch (error) {
        throw (failure = withFault(error, faults));
      } finally {
        await api.close();
        logUntold(context, faults, failure);
      }
    });
  }
  refuseAddress(url);
  const { BASE } = await import("../../admin/contract/routes.js");
  const client = adminClient({
    // The address that serve tells ends in the API's path.
    url: url.replace(/\/+$/, "").replace(new RegExp(`${BASE}$`), ""),
    ...(given !== "" && { token: given }),
    fetch: (request) => ask(request, context.signal),
  });
  return use(client);
}

/** The API of this process has no log of its own that could say why it failed. */
function withFault(error: unknown, faults: readonly unknown[]): Error {
  const [fault] = faults;
  if (!(error instanceof Failure)) return error as Error;
  if (error.code !== "INTERNAL_ERROR" || fault === undefined) return error;
  return new Failure(messageOf(fault), { code: error.code, cause: fault });
}

/** What the command's own error does not say, and what went wrong beside a command that did its work. */
function logUntold(context: Context, faults: readonly unknown[], failure: Error | null): void {
  const untold = faults.filter((fault) => failure === null || !failure.message.includes(messageOf(fault)));
  for (const error of untold) loggerOf(context, false).error({ error }, "the admin API failed");
}

function refuseAddress(url: string): void {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
    throw new BadUsage(`${JSON.stringify(hideSecret(url))} is no address of a server`, "write http://127.0.0.1:7700");
  }
  const [server = "", ...more] = url.split(/[?#]/);
  if (more.length > 0) {
    // Who put it there may have meant it as a token.
    throw new BadUsage(
      `${hideSecret(server)} is followed by parameters, which no server takes`,
      "write http://127.0.0.1:7700, and set HOLDFAST_TOKEN to what the server asks for",
    );
  }
  if (!namesUser(url)) return;
  throw new BadUsage(
    `${hideSecret(url)} has a name or password in it`,
    "set HOLDFAST_TOKEN to what the server asks for",
  );
}

function failureOf(error: AdminError): Failure {
  return new Failure(inCommands(error.message), { code: error.code, cause: error, ...hintFor(error.code) });
}

function strangerTo(url: string, hadToken: boolean, cause: Error): Failure {
  const message = hadToken ? `${url} does not know this token, or no longer` : `${url} asks for a token`;
  return new Failure(message, {
    code: "UNAUTHORIZED",
    cause,
    hint: "set HOLDFAST_TOKEN; holdfast tokens create makes one",
  });
}

function hintFor(code: string): { hint?: string } {
  if (code === "SERVER_UNREACHABLE") return { hint: "is holdfast serve running there?" };
  if (code !== "UNEXPECTED_RESPONSE") return {};
  return { hint: "is it the address of holdfast serve, or of your own server, and is there a proxy between?" };
}

/** The errors of the API name calls in code: `hf.tokens.list()` is `holdfast tokens list` here. */
function inCommands(message: string): string {
  return message
    .replaceAll("hf.queues()", "holdfast queues list")
    .replaceAll(/\bhf\.(schedules|tokens)\.(\w+)(?:\(\w*\))?/g, "holdfast $1 $2");
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

async function ask(request: Request, signal: AbortSignal): Promise<Response> {
  try {
    return await fetch(request, { signal: patienceFor(request, signal) });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
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
