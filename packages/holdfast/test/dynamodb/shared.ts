import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestProject } from "vitest/node";
import { startLocal, type Local } from "./local.js";

/**
 * One DynamoDB Local for all files of a run: it takes seconds to start and a minute to run at speed. Nobody waits for it who
 * does not ask: it is started by the first file that knocks.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  let local: Promise<Local> | null = null;
  const door = createServer((_request, response) => {
    local ??= startLocal();
    local.then(
      ({ endpoint }) => response.end(endpoint),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => void door.listen(0, "127.0.0.1", resolve));
  project.provide("dynamoDoor", `http://127.0.0.1:${(door.address() as AddressInfo).port}`);
  return async () => {
    door.close();
    const started = await local?.catch(() => null);
    await started?.stop();
  };
}
