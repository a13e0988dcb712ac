import { setTimeout as sleep } from "node:timers/promises";
import { loadConfig } from "holdfast/config";
import { expect, it } from "vitest";
import { startBackend } from "../../examples/backend/dist/backend.js";
import { postgresServer } from "../../packages/holdfast/test/postgres/server.js";

const server = postgresServer();

it("the backend stops its jobs before its HTTP server", async () => {
  const config = loadConfig({ file: "/dev/null", env: {} });
  const backend = await startBackend({ databaseUrl: server.url(), config });
  const client = await server.client();
  // The job waits for this lock.
  await client.query("BEGIN; LOCK TABLE app_sessions");
  const { id } = await backend.hf.enqueueNamed("stale_session_cleanup");
  const isRunning = async (): Promise<boolean> => (await backend.hf.get(id))?.state === "running";
  while (!(await isRunning())) await sleep(10);
  let hasStopped = false;
  const stopping = backend.stop().then(() => (hasStopped = true));
  for (let request = 1; request <= 3; request++) expect((await fetch(backend.url)).status).toBe(200);
  expect(hasStopped).toBe(false);
  await client.query("COMMIT");
  await stopping;
  const { rows } = await client.query("SELECT state FROM holdfast.jobs WHERE id = $1", [id]);
  expect(rows).toEqual([{ state: "completed" }]);
  await expect(fetch(backend.url)).rejects.toThrow("fetch failed");
  await client.end();
});
