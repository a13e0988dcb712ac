import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import type { OperationResult } from "#src/admin/contract/api-types.js";
import { MAIN, plainEnv, TEST_PROGRAM } from "./scene.js";

type Child = ChildProcessByStdio<null, Readable, Readable>;

function start(...args: string[]): Child {
  return spawn(process.execPath, [TEST_PROGRAM, ...args], { env: plainEnv(), stdio: ["ignore", "pipe", "pipe"] });
}
async function ready(child: Child): Promise<void> {
  const [first] = (await once(child.stdout, "data")) as [Buffer];
  expect(first.toString()).toBe("ready\n");
}
async function codeOf(child: Child): Promise<number | null> {
  const [code] = (await once(child, "exit")) as [number | null];
  return code;
}

describe.concurrent("an interrupted command", () => {
  it("exits with 130 or 143 without output", async () => {
    for (const [signal, code] of [
      ["SIGINT", 130],
      ["SIGTERM", 143],
    ] as const) {
      const child = start("wait");
      const errors = text(child.stderr);
      await ready(child);
      child.kill(signal);
      expect(await codeOf(child)).toBe(code);
      expect(await errors).toBe("");
    }
  });

  it("may exit with 0 after cleaning up", async () => {
    const child = start("wait", "--drain");
    const errors = text(child.stderr);
    await ready(child);
    child.kill("SIGTERM");
    expect(await codeOf(child)).toBe(0);
    expect(await errors).toBe("drained\n");
  });

  it("exits with 1 if its cleanup fails", async () => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      const child = start("wait", "--fail");
      const errors = text(child.stderr);
      await ready(child);
      child.kill(signal);
      expect(await codeOf(child)).toBe(1);
      expect(await errors).toMatch(/^error: the outcome of a job was not kept\n/);
    }
  });

  it("is ended by a second Ctrl-C", async () => {
    const child = start("wait", "--ignore");
    await ready(child);
    child.kill("SIGINT");
    child.kill("SIGINT");
    // Repeated, as an impatient user would.
    const asking = setInterval(() => child.kill("SIGINT"), 100);
    const begun = performance.now();
    expect(await codeOf(child)).toBe(130);
    clearInterval(asking);
    expect(performance.now() - begun).toBeGreaterThan(800);
  });
});

describe("a closed stdout", () => {
  it("does not stop the work of a command", async () => {
    const child = start("lines");
    const errors = text(child.stderr);
    await once(child.stdout, "data");
    child.stdout.destroy();
    expect(await codeOf(child)).toBe(0);
    expect(await errors).toBe("done\n");
  });
});

it("Ctrl-C stops an operation that is being started", async () => {
  const operation: OperationResult = {
    id: "01a1e0d0-d1c0-79bf-a2c2-8d02453060e6",
    action: "delete",
    state: "running",
    examined: 0,
    changed: 0,
    requested: 0,
    skipped: {},
    unchanged: [],
    reasons: {},
    total: null,
    target: { filter: { state: ["dead"] } },
    changes: null,
    rate: null,
    limit: null,
    actor: "cli:ada@host",
    process: "host:1",
    leaseUntil: null,
    startedAt: new Date().toISOString(),
    endedAt: null,
    error: null,
  };
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    const isStop = request.url?.endsWith("/stop") ?? false;
    const result = isStop ? { ...operation, state: "stopped" } : operation;
    const respond = (): void =>
      void response
        .writeHead(202, { "content-type": "application/json", "x-holdfast": "admin" })
        .end(JSON.stringify(result));
    if (isStop) return respond();
    // The response arrives after the command was interrupted.
    child.kill("SIGINT");
    setTimeout(respond, 300);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const child = spawn(process.execPath, [MAIN, "jobs", "delete", "--state", "dead", "--yes", "--url", url], {
    env: plainEnv(),
    stdio: "ignore",
  });
  await once(child, "exit");
  expect(asked).toEqual(["/api/admin/jobs/delete", `/api/admin/operations/${operation.id}/stop`]);
});
