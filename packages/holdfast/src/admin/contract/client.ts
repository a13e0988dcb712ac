import type { Calls, ErrorResult, SummaryResult } from "./api-types.js";
import { InvalidOptionError } from "../../errors.js";
import { namesUser } from "../../access/secret.js";
import {
  BASE,
  HOLDFAST_HEADER,
  hasQuery,
  pathParameters,
  ROUTE_NAMES,
  ROUTES,
  SUMMARY_PATH,
  type RouteName,
} from "./routes.js";

export interface AdminClientOptions {
  /**
   * The URL of the server, e.g. `https://jobs.example.com`. Required, except in a browser, where it defaults to the origin of the
   * page, and with `fetch`.
   */
  url?: string;
  /** An API token. Not needed in a browser with a session cookie. */
  token?: string;
  /** Default: the global `fetch`. To call an admin API in the same process: `admin(hf).fetch`. */
  fetch?: (request: Request) => Promise<Response>;
}

/**
 * An error response of the server. Two codes come from the client itself: `SERVER_UNREACHABLE` (status 0: no response) and
 * `UNEXPECTED_RESPONSE` (the response is not from Holdfast, but for example from a proxy).
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

// Servers and proxies reject longer ones, many at 8 kB; Node counts the headers too, up to 16 kB.
const MAX_URL_LENGTH = 4_000;

/** The input may be omitted if all its fields are optional. */
type Arguments<Input> = Record<string, never> extends Input ? [input?: Input] : [input: Input];
type Call<Name extends RouteName> = (...input: Arguments<Calls[Name]["input"]>) => Promise<Calls[Name]["result"]>;
type Groups = RouteName extends `${infer Group}.${string}` ? Group : never;

/** One method for each route: `client.jobs.list({ state: ["dead"] })`. */
export type AdminClient = {
  readonly [Group in Groups]: {
    readonly [Name in RouteName as Name extends `${Group}.${infer Method}` ? Method : never]: Call<Name>;
  };
} & {
  /** Returns counts by state and the latest failures in one call. */
  summary(): Promise<SummaryResult>;
};

/**
 * Creates a client of the admin API. Client and server share the types of all calls.
 *
 * ```ts
 * const client = adminClient({ url: "http://127.0.0.1:7700", token: process.env["HOLDFAST_TOKEN"] });
 * const { jobs } = await client.jobs.list({ state: ["dead"], limit: 20 });
 * ```
 */
export function adminClient(options: AdminClientOptions = {}): AdminClient {
  if (options.url !== undefined && namesUser(options.url)) {
    throw new InvalidOptionError("url", "must not contain a user name or password; pass an API token as token");
  }
  if (options.url === undefined && options.fetch === undefined && pageOrigin() === undefined) {
    throw new InvalidOptionError(
      "url",
      "is required outside a browser; pass the server's URL, e.g. http://127.0.0.1:7700",
    );
  }
  const summary = async (): Promise<SummaryResult> =>
    (await send(options, newRequest(urlOf(options, SUMMARY_PATH), { headers: headersOf(options) }))) as SummaryResult;
  return { ...newClient(options), summary };
}

export type RouteClient = Omit<AdminClient, "summary">;

/** A client of the routes without the checks of its options: the dashboard sets them itself. */
export function newClient(options: AdminClientOptions): RouteClient {
  const groups: Record<string, Record<string, (input?: object) => Promise<unknown>>> = {};
  for (const name of ROUTE_NAMES) {
    const [group = "", method = ""] = name.split(".");
    groups[group] ??= {};
    groups[group][method] = async (input) => send(options, requestOf(name, { ...input }, options));
  }
  return groups as unknown as RouteClient;
}

function urlOf({ url }: AdminClientOptions, path: string): string {
  // With `fetch` and no URL, the request needs some origin.
  return `${(url ?? pageOrigin() ?? "http://localhost").replace(/\/+$/, "")}${path}`;
}

/** The origin of the page in a browser; undefined elsewhere. */
function pageOrigin(): string | undefined {
  return (globalThis as { location?: { origin: string } }).location?.origin;
}

function headersOf({ token }: AdminClientOptions): Record<string, string> {
  return { accept: "application/json", ...(token !== undefined && { authorization: `Bearer ${token}` }) };
}

function requestOf(name: RouteName, input: Record<string, unknown>, options: AdminClientOptions): Request {
  const { method, path, withBody } = ROUTES[name];
  let filledPath: string = path;
  for (const part of pathParameters(path)) {
    filledPath = filledPath.replace(`:${part}`, () => encodePathPart(part, String(input[part])));
    delete input[part];
  }
  const target = urlOf(options, `${BASE}${filledPath}`);
  const headers = headersOf(options);
  if (hasQuery(ROUTES[name])) {
    const url = withQuery(target, input);
    if (withBody !== undefined && url.length > MAX_URL_LENGTH) return requestOf(withBody, input, options);
    return newRequest(url, { method, headers });
  }
  const isEmpty = Object.values(input).every((value) => value === undefined);
  if (isEmpty) return newRequest(target, { method, headers });
  return newRequest(target, {
    method,
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(input),
  });
}

/** Redirects are not followed: a redirected POST may become a GET, and the token may be lost or sent to another host. */
function newRequest(target: string, init: RequestInit): Request {
  return new Request(target, { ...init, redirect: "manual" });
}

/** URLs cannot contain "." or ".." as a path segment, not even escaped: URL parsers resolve them. */
function encodePathPart(part: string, value: string): string {
  if (value !== "." && value !== "..") return encodeURIComponent(value);
  const message = `${part}: ${JSON.stringify(value)} cannot be part of a URL; open the store itself instead`;
  throw new AdminError(400, { code: "INVALID_REQUEST", message, issues: [{ path: part, message }] });
}

function withQuery(target: string, input: Record<string, unknown>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(input)) {
    if (value === undefined) continue;
    for (const each of Array.isArray(value) ? value : [value]) {
      query.append(name, typeof each === "object" ? JSON.stringify(each) : String(each));
    }
  }
  return query.size === 0 ? target : `${target}?${query.toString()}`;
}

async function send(options: AdminClientOptions, request: Request): Promise<unknown> {
  const { fetch = (sent) => globalThis.fetch(sent), url: server = new URL(request.url).origin } = options;
  const response = await fetch(request).catch((error: unknown) => {
    throw unreachable(server, error);
  });
  const { status, ok, headers } = response;
  const body: unknown = isJson(headers) ? await response.json().catch(() => null) : null;
  if (ok && body !== null && headers.has(HOLDFAST_HEADER)) return body;
  if (!ok && isErrorResult(body)) throw new AdminError(status, body.error);
  throw new AdminError(status, { code: "UNEXPECTED_RESPONSE", message: describeResponse(server, response) });
}

function isJson(headers: Headers): boolean {
  return /\bjson\b/.test(headers.get("content-type") ?? "");
}

function isErrorResult(body: unknown): body is ErrorResult {
  const { error } = (body ?? {}) as { error?: Partial<ErrorResult["error"]> | null };
  return typeof error?.code === "string" && typeof error.message === "string";
}

function describeResponse(server: string, { type, status, headers }: Response): string {
  // Browsers hide the target of a redirect.
  const to = headers.get("location")?.slice(0, 300) ?? "another URL";
  if (type === "opaqueredirect" || (status >= 300 && status < 400)) return `${server} redirects to ${to}; use that URL`;
  return `${server} responded with status ${status}, but not as a Holdfast server`;
}

/** The error that `fetch` throws has no URL in its message, and the reason only in its cause. */
function unreachable(server: string, error: unknown): unknown {
  if (!(error instanceof TypeError)) return error;
  const { cause } = error;
  const reason = cause instanceof Error ? cause.message || String((cause as { code?: unknown }).code) : error.message;
  return new AdminError(
    0,
    { code: "SERVER_UNREACHABLE", message: `${server} cannot be reached: ${reason}` },
    { cause: error },
  );
}
