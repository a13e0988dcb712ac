import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";

const GRACE_MS = 1_000;

/** A server on this machine that has its address, and gets its routes after that: they need the address for links. */
export interface Listening {
  readonly url: string;
  handle(fetch: (request: Request, env: object) => Response | Promise<Response>): void;
  /** Takes no more requests, and waits for those in progress, but not for long. */
  close(): Promise<void>;
}

/** Listens on 127.0.0.1. Port 0: any free port. */
export async function listen(port = 0): Promise<Listening> {
  const server: Server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    handle(fetch) {
      const listener = getRequestListener((request, env) => fetch(request, env));
      server.on("request", (incoming, outgoing) => void listener(incoming, outgoing));
    },
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeIdleConnections();
      // Browsers open connections in advance, without a request: they never become idle.
      const timer = setTimeout(() => server.closeAllConnections(), GRACE_MS);
      await closed;
      clearTimeout(timer);
    },
  };
}
