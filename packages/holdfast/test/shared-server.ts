import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

declare module "vitest" {
  interface ProvidedContext {
    /** A request to this URL returns the address of the PostgreSQL server that all test files share. */
    sharedPostgres?: string;
    /** A request to this URL returns the endpoint of the DynamoDB Local that all test files share. */
    sharedDynamoDb?: string;
  }
}

/** A running server that can be stopped. */
export interface Stoppable {
  stop: () => Promise<void>;
}

export interface SharedServer {
  /** A request to this URL starts the server, if it is not running yet, and returns its address. */
  url: string;
  stop: () => Promise<void>;
}

/**
 * Starts a server for all test files of a run, at the first request for its address. A run that needs no server starts none.
 */
export async function shareServer<Started extends Stoppable>(
  start: () => Promise<Started>,
  addressOf: (started: Started) => string,
): Promise<SharedServer> {
  let started: Promise<Started> | null = null;
  const http = createServer((_request, response) => {
    started ??= start();
    started.then(
      (server) => response.end(addressOf(server)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => void http.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    async stop() {
      http.close();
      const server = await started?.catch(() => null);
      await server?.stop();
    },
  };
}

/** The address of a shared server; starts it if this is the first request. */
export async function requestAddress(url: string): Promise<string> {
  const response = await fetch(url);
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}
