import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener, RequestError } from "@hono/node-server";
import { invalidAddress } from "./api-error.js";
import type { Admin } from "./app.js";
import { errorResponse } from "./responses.js";

// A connection over which nothing could be sent for so long is closed: its reader has stopped, or is gone. A stream of events sends
// something every second.
export const IDLE_MS = 120_000;

/**
 * The admin API for what speaks Node's own requests: `http.createServer`, Express, Fastify's `raw`.
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
      // A header Host that no address can have is noticed only when the address is read.
      if (!URL.canParse(request.url)) throw new RequestError("its host cannot be");
      return api.fetch(request, env);
    },
    {
      overrideGlobalObjects: false,
      errorHandler: (error) =>
        (error instanceof RequestError ? errorResponse(invalidAddress(error.message)) : null) ??
        new Response(null, { status: 500 }),
    },
  );
  return (incoming, outgoing) => {
    giveBack(incoming);
    outgoing.setTimeout(idleMs, () => outgoing.destroy());
    void listener(incoming, outgoing);
  };
}

/** A body that was read before us (by `express.json()`, say) would be missing; it is put where the listener looks first. */
function giveBack(incoming: IncomingMessage & { body?: unknown; rawBody?: unknown }): void {
  const { body, readableEnded } = incoming;
  if (!readableEnded || body === undefined || Buffer.isBuffer(incoming.rawBody)) return;
  if (Buffer.isBuffer(body)) incoming.rawBody = body;
  else incoming.rawBody = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}
