import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { HoldfastError } from "../../errors.js";
import type { Admin } from "./app.js";
import { IDLE_MS, listenerWith } from "./node-listener.js";
import { BASE } from "../contract/routes.js";

export interface ServeOptions {
  host: string;
  port: number;
  timeouts?: Timeouts;
}

/** How long a client may take; all in milliseconds. */
export interface Timeouts {
  /** To send the headers of a request. */
  headersMs: number;
  /** To send all of it. */
  requestMs: number;
  /** To take what it is sent. */
  idleMs: number;
  /** How often the first two are looked at. Node's own default, 30 s, would let each take so much longer. */
  checkMs: number;
}

export const TIMEOUTS: Timeouts = { headersMs: 10_000, requestMs: 60_000, idleMs: IDLE_MS, checkMs: 1_000 };

/** A server that listens. */
export interface Serving {
  /** Where it is reached. */
  url: string;
  /** Takes no more requests, and ends those under way. */
  stop(): Promise<void>;
}

/** The address cannot be listened on. */
export class NotListeningError extends HoldfastError {
  constructor(where: string, cause: NodeJS.ErrnoException) {
    const advice =
      cause.code === "EADDRINUSE"
        ? "something else listens there; choose another port"
        : cause.code === "EACCES"
          ? "this user may not; choose a port above 1023"
          : cause.message;
    super("NOT_LISTENING", `cannot listen on ${where}: ${advice}`, { cause });
  }
}

/** Serves over HTTP/1.1 on Node's own server. */
export async function serve(
  api: Pick<Admin, "fetch">,
  { host, port, timeouts = TIMEOUTS }: ServeOptions,
): Promise<Serving> {
  const server = createServer(
    {
      headersTimeout: timeouts.headersMs,
      requestTimeout: timeouts.requestMs,
      connectionsCheckingInterval: timeouts.checkMs,
    },
    listenerWith({ fetch: async (request, env) => fromRoot(request) ?? api.fetch(request, env) }, timeouts.idleMs),
  );
  await listening(server, host, port);
  const { port: taken } = server.address() as AddressInfo;
  const name = host.includes(":") ? `[${host}]` : host;
  return {
    url: `http://${name}:${taken}`,
    async stop() {
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** There is nothing else on this server: whoever comes to its root means the API. Relative, as a proxy may put it below a path. */
function fromRoot({ method, url }: Request): Response | null {
  if (method !== "GET" || new URL(url).pathname !== "/") return null;
  return new Response(null, { status: 302, headers: { location: `.${BASE}`, "cache-control": "no-store" } });
}

async function listening(server: Server, host: string, port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(new NotListeningError(`${host}:${port}`, error)));
    server.listen(port, host, resolve);
  });
}
