import type { AdminOptions } from "../../admin/http/app.js";
import type { AdminClient, AdminError } from "../../admin/contract/client.js";
import { hideSecret, URL_VARIABLE } from "../../config/index.js";
import type { JobType } from "../../job/job.js";
import { namesUser } from "../../access/secret.js";
import { messageOf } from "../../job/thrown.js";
import { cliActor } from "../record-audit.js";
import { loggerOf, withClient } from "./clients.js";
import { connectionFlags } from "./open.js";
import { STORE_FLAG, type Context } from "../parse/command.js";
import { UsageError, CommandError } from "../errors.js";

/** The flags of commands that call the admin API. */
export const CONNECTION_FLAGS: {
  readonly store: typeof STORE_FLAG;
  readonly url: { readonly kind: "text"; readonly placeholder: "url"; readonly description: string };
  readonly token: { readonly kind: "text"; readonly description: string };
} = {
  store: STORE_FLAG,
  url: {
    kind: "text",
    placeholder: "url",
    description: "Connect to a running server instead of the store. Default: HOLDFAST_URL.",
  },
  token: {
    kind: "text",
    description: "API token for --url. Prefer HOLDFAST_TOKEN: flags are visible in the process list.",
  },
};

interface AdminConnectionOptions {
  /** The value of `--url`. Null: use the store, whatever the environment. */
  readonly url: string | null | undefined;
  readonly token: string | undefined;
  /** Job types that this process has loaded. */
  readonly jobs?: readonly JobType[];
  /** The command may be the first on a store: creates or migrates it if needed. */
  readonly createsStore?: true;
  /** The flags and arguments of the command, by the fields of the API: errors name them. */
  readonly names?: Readonly<Record<string, string>>;
}

/**
 * Calls `work` with a client of the admin API: of a server if one is named, else of an API in this process on the store.
 * Both check, reject and audit a command in the same way.
 */
export async function withAdmin<Result>(
  context: Context,
  { url: flag, token, jobs = [], createsStore, names = {} }: AdminConnectionOptions,
  work: (client: AdminClient) => Promise<Result>,
): Promise<Result> {
  const { adminClient, AdminError } = await import("../../admin/contract/client.js");
  const url = flag === null ? null : serverUrlOf(context, flag);
  const givenToken = token ?? context.env["HOLDFAST_TOKEN"] ?? "";
  const use = async (client: AdminClient): Promise<Result> => {
    try {
      return await work(client);
    } catch (error) {
      if (!(error instanceof AdminError)) throw error;
      const on = connectionFlags(context.config, flag ?? undefined);
      if (error.code === "UNEXPECTED_RESPONSE") throw failureOf(error, on);
      if (error.status === 401) throw unauthorized(String(url), givenToken !== "", error);
      // The command line is wrong, although only the API could find out.
      if (error.status === 400) throw new UsageError(withCommandNames(withFlagNames(error, names)));
      throw failureOf(error, on);
    }
  };
  if (url === null) {
    if (token !== undefined) throw new UsageError("--token requires --url", "a store needs no token");
    return withClient(context, { jobs, createsStore: createsStore === true }, async (hf) => {
      const { adminOf } = await import("../../admin/http/app.js");
      const errors: unknown[] = [];
      const options: AdminOptions = {
        auth: () => ({ name: cliActor(), role: "admin", user: null }),
        metrics: false,
        // With access to the store itself, there is no reason for the limit of a server.
        maxLanes: 1_000_000_000,
        onError: (error) => void errors.push(error),
      };
      const api = adminOf(hf, options, { emitOutages: false, isServer: false });
      let failure: Error | null = null;
      try {
        return await use(adminClient({ fetch: (request) => api.fetch(request) }));
      } catch (error) {
        throw (failure = withCause(error, errors));
      } finally {
        await api.close();
        logUnreported(context, errors, failure);
      }
    });
  }
  checkUrl(url);
  const { BASE } = await import("../../admin/contract/routes.js");
  const client = adminClient({
    // The URL that `serve` prints ends in the path of the API.
    url: url.replace(/\/+$/, "").replace(new RegExp(`${BASE}$`), ""),
    ...(givenToken !== "" && { token: givenToken }),
    fetch: (request) => send(request, context.signal),
  });
  return use(client);
}

/** Replaces the generic message of an internal error: the API of this process has no log that would have the cause. */
function withCause(error: unknown, errors: readonly unknown[]): Error {
  const [cause] = errors;
  if (!(error instanceof CommandError)) return error as Error;
  if (error.code !== "INTERNAL_ERROR" || cause === undefined) return error;
  return new CommandError(messageOf(cause), { code: error.code, cause });
}

/** Logs errors of the API that are not part of the command's own error. */
function logUnreported(context: Context, errors: readonly unknown[], failure: Error | null): void {
  const unreported = errors.filter((error) => failure === null || !failure.message.includes(messageOf(error)));
  for (const error of unreported) loggerOf(context, false).error({ error }, "the admin API failed");
}

function checkUrl(url: string): void {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
    throw new UsageError(
      `--url: ${JSON.stringify(hideSecret(url))} is not a valid URL (expected e.g. http://127.0.0.1:7700)`,
    );
  }
  const [server = "", ...more] = url.split(/[?#]/);
  if (more.length > 0) {
    // They may be meant as a token, so they are not printed.
    throw new UsageError(
      `--url: ${hideSecret(server)} must not have query parameters or a fragment`,
      "expected e.g. http://127.0.0.1:7700; set the token with HOLDFAST_TOKEN",
    );
  }
  if (!namesUser(url)) return;
  throw new UsageError(
    `--url: ${hideSecret(url)} must not contain a user name or password`,
    "set the token with HOLDFAST_TOKEN",
  );
}

function failureOf(error: AdminError, on: string): CommandError {
  const { message, code } = error;
  const listed = LISTED_IN[code];
  if (listed === undefined) {
    return new CommandError(withCommandNames(message), { code, cause: error, ...hintFor(code) });
  }
  // The API's message ends with the call of a program that lists them; a user needs the command.
  const sentence = message.replace(/; hf\.\w+\.list\(\).*$/, "");
  return new CommandError(sentence, {
    code,
    cause: error,
    hint: `to list all ${listed}, run: holdfast ${listed} list${on}`,
  });
}

const LISTED_IN: Readonly<Record<string, string>> = { SCHEDULE_NOT_FOUND: "schedules", TOKEN_NOT_FOUND: "tokens" };

function unauthorized(url: string, hadToken: boolean, cause: Error): CommandError {
  const message = hadToken ? `${url} rejected the token (invalid, expired or revoked)` : `${url} requires an API token`;
  return new CommandError(message, {
    code: "UNAUTHORIZED",
    cause,
    hint: "set HOLDFAST_TOKEN to a valid token; to create one, run on the store, without --url: holdfast tokens create <name> --role <role>",
  });
}

function hintFor(code: string): { hint?: string } {
  if (code === "SERVER_UNREACHABLE") return { hint: "is holdfast serve running there?" };
  if (code !== "UNEXPECTED_RESPONSE") return {};
  return { hint: "check the URL, and any proxy in between" };
}

/** Errors of the API name its fields; users of the command need the flag. */
function withFlagNames({ message, issues }: AdminError, names: Readonly<Record<string, string>>): string {
  const [{ path } = { path: "" }] = issues;
  const field = path.replace(/^filter\./, "").replace(/\.\d+$/, "");
  const name = Object.hasOwn(names, field) ? names[field] : undefined;
  return name !== undefined && message.startsWith(path) ? `${name}${message.slice(path.length)}` : message;
}

/** Errors of the API name calls such as `hf.tokens.list()`; users of the command need `holdfast tokens list`. */
function withCommandNames(message: string): string {
  return message
    .replaceAll("hf.queues()", "holdfast queues list")
    .replaceAll(/\bhf\.(rerun|cancel)\(id\)/g, "holdfast jobs $1 <id>")
    .replaceAll(/\bhf\.(schedules|tokens)\.(\w+)(?:\(\w*\))?/g, "holdfast $1 $2");
}

/** The URL of the server; null if the command uses the store. A flag overrides a variable. */
export function serverUrlOf({ config, env }: Context, flag: string | undefined): string | null {
  const hasStore = config.sources.store.kind === "flag";
  if (flag !== undefined && hasStore) throw new UsageError("--url and --store cannot be combined", "give one of them");
  return flag ?? (hasStore ? null : (env[URL_VARIABLE] ?? null));
}

/** How long the response to a change is awaited after Ctrl-C. */
const STOP_MS = 10_000;

async function send(request: Request, signal: AbortSignal): Promise<Response> {
  try {
    return await fetch(request, { signal: signalFor(request, signal) });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  }
}

/**
 * Ctrl-C aborts a read immediately. The response to a change is awaited for a while: it has the id of the operation that
 * must be stopped. The request that stops it is sent after Ctrl-C.
 */
function signalFor({ method }: Request, signal: AbortSignal): AbortSignal {
  if (signal.aborted) return AbortSignal.timeout(STOP_MS);
  if (method === "GET") return signal;
  const late = new AbortController();
  signal.addEventListener("abort", () => void setTimeout(() => late.abort(signal.reason), STOP_MS).unref(), {
    once: true,
  });
  return late.signal;
}
