import { readFileSync } from "node:fs";
import type { RateLimited } from "./rate-limit.js";

const TIMEOUT_MS = 10_000;
/** A member has a few kilobytes. */
const MAX_BODY_BYTES = 262_144;

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

/** Discord refused a call. */
export class DiscordError extends Error {
  readonly status: number;
  /** Discord's own code, such as 50013 for missing permissions; 0 if it gave none. */
  readonly code: number;
  constructor(call: string, status: number, code: number, message: string) {
    super(`Discord refused ${call}: ${message} (${code === 0 ? `status ${status}` : code})`);
    this.name = "DiscordError";
    this.status = status;
    this.code = code;
  }
}

/** A rate limit of Discord. */
export class RateLimitError extends Error {
  readonly limit: RateLimited;
  constructor(call: string, limit: RateLimited) {
    super(`Discord limits ${call} for ${Math.ceil(limit.retryAfterMs / 1_000)} s`);
    this.name = "RateLimitError";
    this.limit = limit;
  }
}

export interface Call {
  method: "GET" | "PUT" | "DELETE";
  /** Below the address of the API. */
  path: string;
  /** For messages: without ids of users. */
  name: string;
  /** For the audit log of the server. */
  reason?: string;
}

/** Discord's REST API. Rate limits are errors: nothing here waits for them. */
export class DiscordRest {
  readonly #api: string;
  readonly #token: string;
  readonly #timeoutMs: number;

  constructor(api: string, token: string, timeoutMs: number = TIMEOUT_MS) {
    this.#api = api;
    this.#token = token;
    this.#timeoutMs = timeoutMs;
  }

  /** The JSON that Discord returned; undefined if there is none. */
  async call({ method, path, name, reason }: Call, signal: AbortSignal): Promise<unknown> {
    signal.throwIfAborted();
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    try {
      const response = await fetch(this.#api + path, {
        method,
        // The token must not be sent elsewhere.
        redirect: "manual",
        signal: AbortSignal.any([signal, timeout]),
        headers: {
          authorization: `Bot ${this.#token}`,
          "user-agent": `DiscordBot (@holdfast/discord, ${version})`,
          ...(reason !== undefined && { "x-audit-log-reason": encodeURIComponent(reason) }),
        },
      });
      const body = parseJson(await readText(response));
      if (!response.ok) throw errorOf(name, response, body);
      return body;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (timeout.aborted) throw new Error(`Discord did not respond to ${name} within ${this.#timeoutMs / 1_000} s`);
      if (error instanceof DiscordError || error instanceof RateLimitError) throw error;
      // Errors of fetch have the cause of the problem in theirs, such as ECONNREFUSED.
      const cause = (error as { cause?: { code?: unknown } }).cause?.code;
      throw new Error(`${name} failed: ${typeof cause === "string" ? cause : (error as Error).message}`);
    }
  }
}

/** The body, up to a limit: what is longer is not Discord's. */
async function readText(response: Response): Promise<string> {
  if (response.body === null) return "";
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body) {
    bytes += chunk.byteLength;
    if (bytes > MAX_BODY_BYTES) throw new Error(`Discord's response is larger than ${MAX_BODY_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function errorOf(name: string, { status, headers }: Response, body: unknown): DiscordError | RateLimitError {
  const limit = status === 429 ? rateLimitOf(headers, body) : null;
  if (limit !== null) return new RateLimitError(name, limit);
  const { code, message } = fieldsOf(body);
  const text = typeof message === "string" && message !== "" ? message.slice(0, 200) : "no reason given";
  return new DiscordError(name, status, Number.isSafeInteger(code) ? (code as number) : 0, text);
}

/** The time is in the body, and only in a header if something before Discord refused the call. Null if it is nowhere. */
function rateLimitOf(headers: Headers, body: unknown): RateLimited | null {
  const seconds = [fieldsOf(body)["retry_after"], headers.get("retry-after")]
    .map((value) => (typeof value === "number" || (typeof value === "string" && value !== "") ? Number(value) : -1))
    .find((value) => Number.isFinite(value) && value >= 0);
  if (seconds === undefined) return null;
  // When a call is refused, all calls of the period have been made.
  const calls = Number(headers.get("x-ratelimit-limit"));
  const periodMs = Number(headers.get("x-ratelimit-reset-after")) * 1_000;
  const isKnown = calls >= 1 && periodMs > 0 && Number.isFinite(periodMs / calls);
  return { retryAfterMs: Math.ceil(seconds * 1_000), rate: isKnown ? { calls, periodMs } : null };
}

function fieldsOf(body: unknown): Record<string, unknown> {
  return typeof body === "object" && body !== null ? (body as Record<string, unknown>) : {};
}
