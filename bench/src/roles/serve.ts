import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { nodeListener } from "holdfast/admin";
import { openSite } from "../site.js";
import { refilling, type Refilling } from "./refilling.js";
import type { Stage } from "./role.js";

export interface ServeOrder {
  url: string;
  concurrency: number;
  /** `drains`: this process has a worker that always has jobs. `idle`: a worker without other jobs. `none`: no worker. */
  worker: "drains" | "idle" | "none";
}

/** How much a worker has done. */
export interface Drained {
  ran: number;
  seconds: number;
}

/** Serves the routes of a site until it is stopped. Its progress is the port. */
export async function serve({ url, concurrency, worker }: ServeOrder, stage: Stage): Promise<Drained> {
  const load: Refilling = refilling();
  const site = await openSite(url, { type: load.type });
  const fetch = (request: Request): Promise<Response> =>
    site.routes[new URL(request.url).pathname]?.(request) ?? Promise.resolve(new Response(null, { status: 404 }));
  const server = createServer(nodeListener({ fetch })).listen(0, "127.0.0.1");
  await once(server, "listening");
  await stage.ready();
  if (worker === "drains") await load.start(site.hf);
  if (worker !== "none") site.hf.work({ concurrency });
  const begun = performance.now();
  stage.progress((server.address() as AddressInfo).port);
  await Promise.race([stage.stopped, load.failure]);
  const seconds = (performance.now() - begun) / 1_000;
  await load.stop();
  server.closeAllConnections();
  server.close();
  await site.close();
  return { ran: load.ran, seconds };
}

/** A worker of the site in a process of its own, which always has jobs until it is stopped. */
export async function work({ url, concurrency }: Omit<ServeOrder, "worker">, stage: Stage): Promise<Drained> {
  const load = refilling();
  const site = await openSite(url, { type: load.type });
  await stage.ready();
  await load.start(site.hf);
  site.hf.work({ concurrency });
  const begun = performance.now();
  stage.progress(load.ran);
  await Promise.race([stage.stopped, load.failure]);
  const seconds = (performance.now() - begun) / 1_000;
  await load.stop();
  await site.close();
  return { ran: load.ran, seconds };
}
