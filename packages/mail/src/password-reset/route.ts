import type { Logger } from "holdfast";
import { errorResponse, jsonResponse, readBody } from "../http.js";
import type { ResetRequestResult } from "./request.js";

const MAX_BYTES = 4_096;
/** How long a client may take to send its body. */
const BODY_MS = 10_000;
/** The same for every address. */
const ACCEPTED = { message: "If there is an account with this address, it gets a mail." };

export interface RouteOptions {
  requestReset: (email: string, signal: AbortSignal) => Promise<ResetRequestResult>;
  logger: Pick<Logger, "error">;
}

/** The handler of the route. Errors of the database are logged; the caller gets no details. */
export function resetRoute({ requestReset, logger }: RouteOptions): (request: Request) => Promise<Response> {
  return async (request) => {
    if (request.method !== "POST") return errorResponse(405, "METHOD_NOT_ALLOWED", "use POST", { allow: "POST" });
    try {
      const email = await emailIn(request);
      if (typeof email !== "string") return email;
      return responseTo(await requestReset(email, request.signal));
    } catch (error) {
      // The route responds, whatever the logger does.
      new Promise((resolve) => resolve(logger.error({ error }, "a password reset could not be requested"))).catch(
        () => {},
      );
      return isTemporary(error)
        ? errorResponse(503, "UNAVAILABLE", "try again later", { "retry-after": "5" })
        : errorResponse(500, "INTERNAL", "the request failed");
    }
  };
}

function responseTo(result: ResetRequestResult): Response {
  switch (result.status) {
    case "accepted":
      return jsonResponse(202, ACCEPTED);
    case "limited":
      return errorResponse(429, "TOO_MANY_REQUESTS", "too many requests for this address; try again later", {
        "retry-after": String(Math.ceil(result.retryAfterMs / 1_000)),
      });
    case "invalid":
      return errorResponse(400, "INVALID_EMAIL", "email must be an address such as ada@example.com");
  }
}

/** What the body has as the address, or the response to a request that has none. */
async function emailIn(request: Request): Promise<string | Response> {
  const parse = parserOf(request.headers.get("content-type") ?? "");
  if (parse === null) return errorResponse(415, "UNSUPPORTED_MEDIA_TYPE", "send email as JSON or as a form");
  const late = AbortSignal.timeout(BODY_MS);
  const body = await readBody(request, MAX_BYTES, AbortSignal.any([late, request.signal])).catch((error: unknown) => {
    if (late.aborted) return undefined;
    throw error;
  });
  if (body === undefined) return errorResponse(408, "REQUEST_TIMEOUT", "the body did not arrive in time");
  if (body === null) return errorResponse(413, "PAYLOAD_TOO_LARGE", `the body may have ${MAX_BYTES} bytes`);
  return parse(body) ?? "";
}

function isTemporary(error: unknown): boolean {
  const { code, name } = error as { code?: unknown; name?: unknown };
  return code === "STORE_UNAVAILABLE" || code === "SQLITE_BUSY" || name === "TimeoutError" || name === "AbortError";
}

/** Finds the address in a body; null if bodies of this type are not supported. */
function parserOf(type: string): ((body: string) => string | null) | null {
  const [name = ""] = type.split(";");
  switch (name.trim().toLowerCase()) {
    case "application/json":
      return emailInJson;
    case "application/x-www-form-urlencoded":
      return (body) => new URLSearchParams(body).get("email");
    default:
      return null;
  }
}

function emailInJson(body: string): string | null {
  try {
    const { email } = JSON.parse(body) as { email?: unknown };
    return typeof email === "string" ? email : null;
  } catch {
    return null;
  }
}
