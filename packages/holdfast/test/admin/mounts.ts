import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { serve as serveHono } from "@hono/node-server";
import express from "express";
import fastify, { type RouteShorthandOptionsWithHandler } from "fastify";
import { nodeListener, type Admin } from "holdfast/admin";
import { Hono } from "hono";
import { onTestFinished } from "vitest";

export type Fetch = Pick<Admin, "fetch">;

/** The URL of a server, which is closed after the test. */
function urlOf(server: Server): string {
  onTestFinished(async () => {
    server.closeAllConnections();
    if (server.listening) await new Promise((resolve) => void server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function listen(server: Server): Promise<string> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return urlOf(server);
}

/** Ways to mount the API under a prefix (`""`: the root), next to `/own`, a route of the application. */
export const MOUNTS: readonly [name: string, mount: (api: Fetch, prefix: string) => Promise<string>][] = [
  [
    "Node's http",
    async (api, prefix) => {
      const listener = nodeListener(api);
      return listen(
        createServer((incoming, outgoing) => {
          if (incoming.url === "/own") return void outgoing.end("own");
          incoming.url = incoming.url?.slice(prefix.length) ?? "";
          listener(incoming, outgoing);
        }),
      );
    },
  ],
  [
    "Hono",
    async (api, prefix) => {
      const app = new Hono();
      app.get("/own", (context) => context.text("own"));
      app.mount(prefix === "" ? "/" : prefix, (request, env) => api.fetch(request, env));
      const server = serveHono({ fetch: app.fetch, port: 0, hostname: "127.0.0.1", overrideGlobalObjects: false });
      await once(server, "listening");
      return urlOf(server as Server);
    },
  ],
  [
    "Express",
    async (api, prefix) => {
      const app = express();
      app.get("/own", (_request, response) => void response.send("own"));
      app.use(prefix, nodeListener(api));
      return listen(createServer(app));
    },
  ],
  [
    "Express with express.json()",
    async (api, prefix) => {
      const app = express();
      app.use(express.json({ limit: "20mb" }));
      app.get("/own", (_request, response) => void response.send("own"));
      app.use(prefix, nodeListener(api));
      return listen(createServer(app));
    },
  ],
  [
    "Fastify",
    async (api, prefix) => {
      const app = fastify();
      const listener = nodeListener(api);
      app.get("/own", () => "own");
      const options: RouteShorthandOptionsWithHandler = {
        // Before Fastify reads the body.
        onRequest(request, reply) {
          reply.hijack();
          request.raw.url = request.url.slice(prefix.length);
          listener(request.raw, reply.raw);
        },
        handler: () => {},
      };
      app.all(`${prefix}/*`, options);
      if (prefix !== "") app.all(prefix, options);
      onTestFinished(() => app.close());
      await app.listen({ port: 0, host: "127.0.0.1" });
      return urlOf(app.server);
    },
  ],
];
