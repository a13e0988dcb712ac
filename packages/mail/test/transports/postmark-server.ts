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
  | "disconnect"
  /** The mail is accepted, and the connection ends. */
  | "lost response";

/** Speaks the part of Postmark's API that sends single mails, and finds them by their metadata. */
export async function postmarkServer(): Promise<{
  requests: Request[];
  /** The queries of searches. */
  searches: Record<string, string>[];
  /** Whether searches show what was accepted. Default: yes. */
  show: (isShown: boolean) => void;
  reply: (reply: Reply | null) => void;
  /** Resolves with the next request that gets no response. */
  hung: () => Promise<unknown>;
  transport: (more?: Partial<PostmarkOptions>) => MailTransport;
}> {
  const requests: Request[] = [];
  const searches: Record<string, string>[] = [];
  const messages: { MessageID: string; Metadata: Record<string, string>; Recipients: string[] }[] = [];
  let isShown = true;
  let next: Reply | null = null;
  const server = createServer((request, response) => {
    void (async () => {
      const { pathname, searchParams } = new URL(request.url ?? "", "http://postmark");
      if (request.method === "GET" && pathname === "/messages/outbound") {
        const query = Object.fromEntries(searchParams);
        searches.push(query);
        if (next === "disconnect") return request.socket.destroy();
        if (typeof next === "object" && next !== null) return send(response, next);
        const found = messages.filter(({ Metadata }) => isShown && Metadata["job"] === query["metadata_job"]);
        return send(response, { status: 200, body: { TotalCount: found.length, Messages: found } });
      }
      const email = (await json(request)) as Record<string, unknown>;
      requests.push({
        path: `${request.method} ${request.url}`,
        token: String(request.headers["x-postmark-server-token"]),
        email,
      });
      if (next === "hang") return void server.emit("hung");
      if (next === "disconnect") return request.socket.destroy();
      if (next === null || next === "lost response") {
        const MessageID = `pm-${messages.length + 1}`;
        const Recipients = [email["To"], email["Cc"], email["Bcc"]].flatMap((list) => addressesIn(list));
        messages.push({ MessageID, Metadata: email["Metadata"] as Record<string, string>, Recipients });
        if (next !== null) return request.socket.destroy();
        return send(response, { status: 200, body: accepted(email, MessageID) });
      }
      send(response, next);
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
    searches,
    show: (shown) => void (isShown = shown),
    reply: (reply) => void (next = reply),
    hung: () => once(server, "hung"),
    transport: (more = {}) => postmark({ token: "server-token", client: { requestHost, useHttps: false }, ...more }),
  };
}

function addressesIn(list: unknown): string[] {
  return typeof list === "string" ? [...list.matchAll(/[^\s<,]+@[^\s>,]+/g)].map(([address]) => address) : [];
}

function accepted({ To }: Record<string, unknown>, MessageID: string): object {
  return { To, SubmittedAt: "2026-01-01T00:00:00Z", MessageID, ErrorCode: 0, Message: "OK" };
}

function send(response: ServerResponse, { status, body = "", headers = {} }: Exclude<Reply, string>): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
}
