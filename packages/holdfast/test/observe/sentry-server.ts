import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, beforeEach } from "vitest";

/** The received parts of an event. */
export interface ArrivedEvent {
  level: string;
  tags: Record<string, unknown>;
  user?: Record<string, unknown>;
  contexts: { job: Record<string, unknown> };
  fingerprint?: string[];
  exception: {
    values: { type: string; value: string; stacktrace?: { frames: { function?: string; filename?: string }[] } }[];
  };
}

/** A server with Sentry's envelope protocol, for the tests of a file. Its events are cleared before each test. */
export function sentryServer(): { arrived: ArrivedEvent[]; dsn: () => string } {
  const arrived: ArrivedEvent[] = [];
  const server = createServer((request, response) => {
    void read(request).then((body) => {
      // Lines of JSON; every second one is an item.
      const lines = body.split("\n").filter((line) => line !== "");
      for (let at = 1; at + 1 < lines.length; at += 2) {
        const { type } = JSON.parse(lines[at] ?? "{}") as { type?: string };
        if (type === "event") arrived.push(JSON.parse(lines[at + 1] ?? "{}") as ArrivedEvent);
      }
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
  });
  beforeAll(() => new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve)));
  beforeEach(() => void (arrived.length = 0));
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { arrived, dsn: () => `http://public@127.0.0.1:${(server.address() as AddressInfo).port}/1` };
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  return (request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body).toString("utf8");
}
