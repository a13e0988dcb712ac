import { createServer, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface Proxy {
  url: string;
  /** Responds to new event streams with this status, and ends all connections; null: no longer. */
  refuse: (status: number | null) => void;
  /** How many event streams were opened. */
  streams: () => number;
  /** How many event streams are open. */
  openStreams: () => number;
}

/** A proxy in front of the server, which counts event streams and can refuse them. */
export async function proxyOf(url: string): Promise<Proxy> {
  const open = new Set<ServerResponse>();
  let refused: number | null = null;
  let streams = 0;
  const openStreams = new Set<ServerResponse>();
  const server = createServer((incoming, outgoing) => {
    const isStream = incoming.url?.endsWith("/events") === true;
    if (isStream && refused !== null) return void outgoing.writeHead(refused).end("refused");
    if (isStream) {
      streams++;
      openStreams.add(outgoing);
    }
    open.add(outgoing);
    const { method, headers } = incoming;
    const onward = request(`${url}${incoming.url}`, { method, headers }, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => {
      open.delete(outgoing);
      openStreams.delete(outgoing);
      onward.destroy();
    });
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    refuse(status) {
      refused = status;
      if (status !== null) for (const outgoing of open) outgoing.destroy();
    },
    streams: () => streams,
    openStreams: () => openStreams.size,
  };
}
