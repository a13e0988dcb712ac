import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";
import type { Admin } from "./app.js";

/**
 * The admin API for what speaks Node's own requests: `http.createServer`, Express, Fastify's `raw`.
 *
 * ```ts
 * app.use("/jobs", nodeListener(api)); // Express
 * ```
 */
export function nodeListener(api: Pick<Admin, "fetch">): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  const listener = getRequestListener((request, env) => api.fetch(request, env), { overrideGlobalObjects: false });
  return (incoming, outgoing) => {
    giveBack(incoming);
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
