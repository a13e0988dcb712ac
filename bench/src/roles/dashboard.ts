import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { holdfast } from "holdfast";
import { admin, nodeListener } from "holdfast/admin";
import { SENT_PATH } from "../dashboard/sent.js";
import { openCounted } from "./counted-store.js";
import type { Stage } from "./role.js";

// More often than a silent process is considered to hang.
const REPORT_MS = 10_000;

/** Serves the dashboard of a store until it is stopped. Its progress is the port. */
export async function dashboard({ url }: { url: string }, stage: Stage): Promise<void> {
  const { store, sent } = await openCounted(url);
  const hf = await holdfast({ store, logger: false });
  const api = admin(hf, { auth: "open" });
  const fetch = (request: Request, env: unknown): Promise<Response> =>
    new URL(request.url).pathname === SENT_PATH ? Promise.resolve(Response.json(sent())) : api.fetch(request, env);
  const server = createServer(nodeListener({ fetch })).listen(0, "127.0.0.1");
  await once(server, "listening");
  await stage.ready();
  const report = (): void => stage.progress((server.address() as AddressInfo).port);
  report();
  const timer = setInterval(report, REPORT_MS);
  await stage.stopped;
  clearInterval(timer);
  await api.close();
  server.closeAllConnections();
  server.close();
  await hf.close();
}
