import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener, RequestError } from "@hono/node-server";
import { invalidUrl } from "./api-error.js";
import type { Admin } from "./app.js";
import { errorResponse } from "./responses.js";

// A connection is closed if nothing could be sent for this long: its reader has stopped or is gone. (An event stream sends something
// every second.)
export const IDLE_MS = 120_000;

/**
 * The admin API as a Node request listener, for `http.createServer`, Express and Fastify's `raw`.
 *
 * ```ts
 * app.use("/jobs", nodeListener(api)); // Express
 * ```
 */
export function nodeListener(api: Pick<Admin, "fetch">): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return listenerWith(api, IDLE_MS);
}

export function listenerWith(
  api: Pick<Admin, "fetch">,
  idleMs: number,
): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  const listener = getRequestListener(
    (request, env) => {
      // An invalid Host header shows only when the URL is parsed.
      if (!URL.canParse(request.url)) throw new RequestError("invalid Host header");
      return api.fetch(request, env);
    },
    {
      overrideGlobalObjects: false,
      errorHandler: (error) =>
        (error instanceof RequestError ? errorResponse(invalidUrl(error.message)) : null) ??
        new Response(null, { status: 500 }),
    },
  );
  return (incoming, outgoing) => {
    restoreBody(incoming);
    outgoing.setTimeout(idleMs, () => outgoing.destroy());
    void listener(incoming, outgoing);
  };
}

/** If middleware such as `express.json()` has consumed the body, passes it to the listener as `rawBody`, which it reads first. */
function restoreBody(incoming: IncomingMessage & { body?: unknown; rawBody?: unknown }): void {
  const { body, readableEnded } = incoming;
  if (!readableEnded || body === undefined || Buffer.isBuffer(incoming.rawBody)) return;
  if (Buffer.isBuffer(body)) incoming.rawBody = body;
  else incoming.rawBody = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}
