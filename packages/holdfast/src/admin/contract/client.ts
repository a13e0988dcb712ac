import type { Calls, ErrorResult, SummaryResult } from "./api-types.js";
import { InvalidOptionError } from "../../errors.js";
import { namesUser } from "../../access/secret.js";
import { BASE, MARK, pathParts, ROUTE_NAMES, ROUTES, SUMMARY_PATH, type RouteName } from "./routes.js";

export interface AdminClientOptions {
  /** Where the server is: `https://jobs.example.com`. Left out: where the page comes from. */
  url?: string;
  /** Left out: the cookie of a session, in a browser. */
  token?: string;
  /** Default: the global `fetch`. An admin API of the same process will do: `admin(hf).fetch`. */
  fetch?: (request: Request) => Promise<Response>;
}

/**
 * What the server refused. `SERVER_UNREACHABLE`, with the status 0: none answered; `NOT_HOLDFAST`: what answered is something
 * else, like a proxy before it.
 */
export class AdminError extends Error {
  readonly status: number;
  readonly code: string;
  readonly issues: readonly { path: string; message: string }[];
  constructor(status: number, { code, message, issues = [] }: ErrorResult["error"], options?: ErrorOptions) {
    super(message, options);
    this.name = "AdminError";
    this.status = status;
    this.code = code;
    this.issues = issues;
  }
}

/** A call with nothing to say may be made with nothing. */
type Arguments<Input> = Record<string, never> extends Input ? [input?: Input] : [input: Input];
type Call<Name extends RouteName> = (...input: Arguments<Calls[Name]["input"]>) => Promise<Calls[Name]["answer"]>;
type Groups = RouteName extends `${infer Group}.${string}` ? Group : never;

/** One method for each route: `client.jobs.list({ state: ["dead"] })`. */
export type AdminClient = {
  readonly [Group in Groups]: {
    readonly [Name in RouteName as Name extends `${Group}.${infer Method}` ? Method : never]: Call<Name>;
  };
} & {
  /** Counts by state and the latest failures, in one answer. */
  summary(): Promise<SummaryResult>;
};

/**
 * A client of the admin API, typed by the same list of calls as the server.
 *
 * ```ts
 * const client = adminClient({ url: "http://127.0.0.1:7700", token: process.env["HOLDFAST_TOKEN"] });
 * const { jobs } = await client.jobs.list({ state: ["dead"], limit: 20 });
 * ```
 */
export function adminClient(options: AdminClientOptions = {}): AdminClient {
  if (options.url !== undefined && namesUser(options.url)) {
    throw new InvalidOptionError(
      "url",
      "must have no name and no password in it; token is for what the server asks for",
    );
  }
  const groups: Record<string, Record<string, (input?: object) => Promise<unknown>>> = {};
  for (const name of ROUTE_NAMES) {
    const [group = "", method = ""] = name.split(".");
    groups[group] ??= {};
    groups[group][method] = async (input) => send(options, requestOf(name, { ...input }, options));
  }
  const summary = (): Promise<unknown> =>
    send(options, asked(address(options, SUMMARY_PATH), { headers: headersOf(options) }));
  return { ...groups, summary } as unknown as AdminClient;
}

function address({ url }: AdminClientOptions, path: string): string {
  const { location } = globalThis as { location?: { origin: string } };
  return `${(url ?? location?.origin ?? "http://localhost").replace(/\/+$/, "")}${path}`;
}

function headersOf({ token }: AdminClientOptions): Record<string, string> {
  return { accept: "application/json", ...(token !== undefined && { authorization: `Bearer ${token}` }) };
}

function requestOf(name: RouteName, input: Record<string, unknown>, options: AdminClientOptions): Request {
  const { method, path } = ROUTES[name];
  let filled: string = path;
  for (const part of pathParts(path)) {
    filled = filled.replace(`:${part}`, () => inPath(part, String(input[part])));
    delete input[part];
  }
  const target = address(options, `${BASE}${filled}`);
  const headers = headersOf(options);
  if (method === "GET") return asked(withQuery(target, input), { headers });
  const isEmpty = Object.values(input).every((value) => value === undefined);
  if (isEmpty) return asked(target, { method, headers });
  return asked(target, {
    method,
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(input),
  });
}

/** Not sent on to another address: on its way a change would become a look, and a token be lost or given to others. */
function asked(target: string, init: RequestInit): Request {
  return new Request(target, { ...init, redirect: "manual" });
}

/** A name as an address can carry it. Dots alone it cannot: they mean a step in the path, however they are written. */
function inPath(part: string, value: string): string {
  if (value !== "." && value !== "..") return encodeURIComponent(value);
  const message = `${part}: ${JSON.stringify(value)} cannot stand in an address; use the client of the store itself`;
  throw new AdminError(400, { code: "INVALID_REQUEST", message, issues: [{ path: part, message }] });
}

function withQuery(target: string, input: Record<string, unknown>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(input)) {
    if (value === undefined) continue;
    for (const each of Array.isArray(value) ? value : [value]) query.append(name, String(each));
  }
  return query.size === 0 ? target : `${target}?${query.toString()}`;
}

async function send(options: AdminClientOptions, request: Request): Promise<unknown> {
  const { fetch = (asked) => globalThis.fetch(asked), url: server = new URL(request.url).origin } = options;
  const response = await fetch(request).catch((error: unknown) => {
    throw unreachable(server, error);
  });
  const { status, ok, headers } = response;
  const body: unknown = isJson(headers) ? await response.json().catch(() => null) : null;
  if (ok && body !== null && headers.has(MARK)) return body;
  if (!ok && isRefusal(body)) throw new AdminError(status, body.error);
  throw new AdminError(status, { code: "NOT_HOLDFAST", message: strangeAnswer(server, response) });
}

function isJson(headers: Headers): boolean {
  return /\bjson\b/.test(headers.get("content-type") ?? "");
}

function isRefusal(body: unknown): body is ErrorResult {
  const { error } = (body ?? {}) as { error?: Partial<ErrorResult["error"]> | null };
  return typeof error?.code === "string" && typeof error.message === "string";
}

function strangeAnswer(server: string, { type, status, headers }: Response): string {
  // Browsers do not tell where to.
  const to = headers.get("location")?.slice(0, 300) ?? "another address";
  if (type === "opaqueredirect" || (status >= 300 && status < 400)) return `${server} sends on to ${to}; use that one`;
  return `${server} answered ${status}, and not as Holdfast does`;
}

/** What `fetch` throws when nobody answers names no address, and has the reason in its cause. */
function unreachable(server: string, error: unknown): unknown {
  if (!(error instanceof TypeError)) return error;
  const { cause } = error;
  const why = cause instanceof Error ? cause.message || String((cause as { code?: unknown }).code) : error.message;
  return new AdminError(
    0,
    { code: "SERVER_UNREACHABLE", message: `${server} cannot be reached: ${why}` },
    { cause: error },
  );
}
