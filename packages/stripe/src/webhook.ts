import { readBody, type BodyProblem } from "./body.js";
import { readEvent, refusalOf } from "./event.js";
import type { PackParts } from "./process.js";
import { problemOfSignature } from "./signature.js";
import { storeEvent, type EnqueueClient, type ProcessType } from "./store-event.js";

export const MAX_BODY_BYTES = 1_048_576;
const BODY_TIMEOUT_MS = 10_000;

export interface WebhookOptions {
  readonly secrets: readonly string[];
  /** Called if an event could not be stored. */
  readonly onError: (error: unknown) => void;
}

/** The route that Stripe calls. */
export function webhookRoute(
  parts: PackParts,
  type: ProcessType,
  { secrets, onError }: WebhookOptions,
): (hf: EnqueueClient) => (request: Request) => Promise<Response> {
  return (hf) => async (request) => {
    if (request.method !== "POST") {
      return refuse(405, "METHOD_NOT_ALLOWED", "only POST is allowed", { allow: "POST" });
    }
    const body = await readBody(request, { maxBytes: MAX_BODY_BYTES, timeoutMs: BODY_TIMEOUT_MS });
    if (typeof body === "string") return refuse(...BODY_PROBLEMS[body]);
    const header = request.headers.get("stripe-signature");
    const problem = problemOfSignature(header, body, { secrets, nowMs: parts.clock.now() });
    if (problem !== null) return refuse(400, "INVALID_SIGNATURE", problem);
    const text = decode(body);
    const event = readEvent(parseJson(text));
    if ("problem" in event) return refuse(400, "INVALID_EVENT", event.problem);
    // Accepted, or Stripe would send it for days: live endpoints of platforms also get test events.
    if (refusalOf(parts.filter, event) !== null) return respond(200, { received: true, ignored: true });
    try {
      await storeEvent(parts, type, hf, { event, text });
      return respond(200, { received: true });
    } catch (error) {
      onError(error);
      return refuse(500, "NOT_STORED", "the event could not be stored; send it again");
    }
  };
}

const BODY_PROBLEMS: Readonly<Record<BodyProblem, [status: number, code: string, message: string]>> = {
  "too large": [413, "BODY_TOO_LARGE", `the body is larger than ${MAX_BODY_BYTES} bytes`],
  "too slow": [408, "BODY_TIMEOUT", "the body did not arrive in time"],
  incomplete: [400, "BODY_INCOMPLETE", "the body is incomplete"],
};

/** Bytes that are not UTF-8 are replaced, and then refused like any other body that is not JSON. */
function decode(body: Uint8Array): string {
  return new TextDecoder().decode(body);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function refuse(status: number, code: string, message: string, headers: Record<string, string> = {}): Response {
  return respond(status, { error: { code, message } }, headers);
}

function respond(status: number, body: object, headers: Record<string, string> = {}): Response {
  return Response.json(body, { status, headers: { "cache-control": "no-store", ...headers } });
}
