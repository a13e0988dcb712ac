import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { HoldfastError } from "../../errors.js";
import { wantsPage } from "../dashboard/dashboard.js";
import type { Admin } from "./app.js";
import { IDLE_MS, listenerWith } from "./node-listener.js";
import { BASE } from "../contract/routes.js";

export interface ServeOptions {
  host: string;
  port: number;
  timeouts?: Timeouts;
}

/** How long a client may take. */
export interface Timeouts {
  /** To send the headers of a request. */
  headersMs: number;
  /** To send the whole request. */
  requestMs: number;
  /** To accept data that the server sends. */
  idleMs: number;
  /** How often the first two are checked. With Node's default of 30 s, clients could exceed them by that much. */
  checkMs: number;
}

export const TIMEOUTS: Timeouts = { headersMs: 10_000, requestMs: 60_000, idleMs: IDLE_MS, checkMs: 1_000 };

/** A running server. */
export interface RunningServer {
  url: string;
  /** Accepts no more requests and closes open connections. */
  stop(): Promise<void>;
}

export class NotListeningError extends HoldfastError {
  constructor(address: string, cause: NodeJS.ErrnoException) {
    const advice =
      cause.code === "EADDRINUSE"
        ? "the address is in use; choose another port"
        : cause.code === "EACCES"
          ? "permission denied; choose a port above 1023"
          : cause.message;
    super("NOT_LISTENING", `cannot listen on ${address}: ${advice}`, { cause });
  }
}

/** Serves the API over HTTP/1.1 with Node's server. */
export async function serve(
  api: Pick<Admin, "fetch">,
  { host, port, timeouts = TIMEOUTS }: ServeOptions,
): Promise<RunningServer> {
  const server = createServer(
    {
      headersTimeout: timeouts.headersMs,
      requestTimeout: timeouts.requestMs,
      connectionsCheckingInterval: timeouts.checkMs,
    },
    listenerWith(
      { fetch: async (request, env) => redirectFromRoot(request) ?? api.fetch(request, env) },
      timeouts.idleMs,
    ),
  );
  await listen(server, host, port);
  const { port: boundPort } = server.address() as AddressInfo;
  const name = host.includes(":") ? `[${host}]` : host;
  return {
    url: `http://${name}:${boundPort}`,
    async stop() {
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * Nothing else is on this server, so `/` redirects programs to the API; browsers get the dashboard. The redirect is relative: a proxy may
 * mount the server under a path.
 */
function redirectFromRoot(request: Request): Response | null {
  if (request.method !== "GET" || new URL(request.url).pathname !== "/" || wantsPage(request)) return null;
  return new Response(null, { status: 302, headers: { location: `.${BASE}`, "cache-control": "no-store" } });
}

async function listen(server: Server, host: string, port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => reject(new NotListeningError(`${host}:${port}`, error)));
    server.listen(port, host, resolve);
  });
}
