import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export const GUILD = "81384788765712384";
export const TOKEN = "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.token";

export interface Request {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
}

export type Respond = (request: Request, response: ServerResponse) => "handled" | void;

export interface DiscordServer {
  /** The address of the API. */
  api: string;
  /** The roles of each member of the server. */
  members: Map<string, Set<string>>;
  requests: Request[];
  /** Called before the server responds; may respond itself. */
  before: Respond;
}

/** A server that speaks the part of Discord's REST API that syncs need. */
export async function discordServer(): Promise<DiscordServer> {
  const server = createServer((incoming, response) => {
    const { method = "", url = "", headers } = incoming;
    const request = { method, path: url.replace(/^\/api\/v10/, ""), headers };
    started.requests.push(request);
    if (started.before(request, response) !== "handled") respond(request, response);
  });

  function respond({ method, path, headers }: Request, response: ServerResponse): void {
    if (headers.authorization !== `Bot ${TOKEN}`) return json(response, 401, { message: "401: Unauthorized", code: 0 });
    const [, guild, id = "", role] = /^\/guilds\/(\d+)\/members\/(\d+)(?:\/roles\/(\d+))?$/.exec(path) ?? [];
    if (guild !== GUILD) return json(response, 404, { message: "Unknown Guild", code: 10_004 });
    const roles = started.members.get(id);
    if (roles === undefined) return json(response, 404, { message: "Unknown Member", code: 10_007 });
    if (role === undefined) return json(response, 200, { user: { id, username: "ada" }, roles: [...roles] });
    if (method === "PUT") roles.add(role);
    else roles.delete(role);
    response.writeHead(204).end();
  }

  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => void server.close(() => resolve()));
  });
  const { port } = server.address() as AddressInfo;
  const started: DiscordServer = {
    api: `http://127.0.0.1:${port}/api/v10`,
    members: new Map(),
    requests: [],
    before: () => {},
  };
  return started;
}

export function json(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

/** Refuses a call as Discord does when a limit is reached. */
export function refuse(
  response: ServerResponse,
  retryAfter: number,
  { global = false, headers = {} }: { global?: boolean; headers?: Record<string, string> } = {},
): "handled" {
  json(
    response,
    429,
    { message: "You are being rate limited.", retry_after: retryAfter, global },
    {
      "retry-after": String(Math.ceil(retryAfter)),
      ...headers,
    },
  );
  return "handled";
}
