import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { postmark, type PostmarkOptions } from "@holdfast/mail/postmark";
import type { MailTransport } from "@holdfast/mail";

interface Request {
  path: string;
  token: string;
  email: Record<string, unknown>;
}

/** What the server returns for the next requests. `"hang"`: nothing. */
export type Reply =
  | { status: number; body?: object | string; headers?: Record<string, string> }
  | "hang"
  | "disconnect";

/** Speaks the part of Postmark's API that sends single mails. */
export async function postmarkServer(): Promise<{
  requests: Request[];
  reply: (reply: Reply | null) => void;
  /** Resolves with the next request that gets no response. */
  hung: () => Promise<unknown>;
  transport: (more?: Partial<PostmarkOptions>) => MailTransport;
}> {
  const requests: Request[] = [];
  let next: Reply | null = null;
  const server = createServer((request, response) => {
    void (async () => {
      const email = (await json(request)) as Record<string, unknown>;
      requests.push({
        path: `${request.method} ${request.url}`,
        token: String(request.headers["x-postmark-server-token"]),
        email,
      });
      if (next === "hang") return void server.emit("hung");
      if (next === "disconnect") return request.socket.destroy();
      send(response, next ?? { status: 200, body: accepted(email) });
    })();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const requestHost = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    requests,
    reply: (reply) => void (next = reply),
    hung: () => once(server, "hung"),
    transport: (more = {}) => postmark({ token: "server-token", client: { requestHost, useHttps: false }, ...more }),
  };
}

function accepted({ To }: Record<string, unknown>): object {
  return { To, SubmittedAt: "2026-01-01T00:00:00Z", MessageID: "pm-1", ErrorCode: 0, Message: "OK" };
}

function send(response: ServerResponse, { status, body = "", headers = {} }: Exclude<Reply, string>): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
}
