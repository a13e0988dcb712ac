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

describe.concurrent("a command that is interrupted", () => {
  it("ends with 130 on Ctrl-C and with 143 on SIGTERM, quietly", async () => {
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

  it("may end well by itself", async () => {
    const child = start("wait", "--drain");
    const errors = text(child.stderr);
    await ready(child);
    child.kill("SIGTERM");
    expect(await codeOf(child)).toBe(0);
    expect(await errors).toBe("drained\n");
  });

  it("tells what fails while it ends, and is a failure then", async () => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      const child = start("wait", "--fail");
      const errors = text(child.stderr);
      await ready(child);
      child.kill(signal);
      expect(await codeOf(child)).toBe(1);
      expect(await errors).toMatch(/^error: the outcome of a job was not kept\n/);
    }
  });

  it("that takes no notice ends with the second Ctrl-C, unless that is the first one delivered twice", async () => {
    const child = start("wait", "--ignore");
    await ready(child);
    child.kill("SIGINT");
    child.kill("SIGINT");
    // Asks again and again, as an impatient person would.
    const asking = setInterval(() => child.kill("SIGINT"), 100);
    const begun = performance.now();
    expect(await codeOf(child)).toBe(130);
    clearInterval(asking);
    expect(performance.now() - begun).toBeGreaterThan(800);
  });
});

describe("a reader that goes away", () => {
  it("ends a command quietly, whose work goes on to its end", async () => {
    const child = start("lines");
    const errors = text(child.stderr);
    await once(child.stdout, "data");
    child.stdout.destroy();
    expect(await codeOf(child)).toBe(0);
    expect(await errors).toBe("gone, and done\n");
  });
});

it("Ctrl-C before a server has said what it began still stops that", async () => {
  const operation: OperationResult = {
    id: "01a1e0d0-d1c0-79bf-a2c2-8d02453060e6",
    action: "delete",
    state: "running",
    looked: 0,
    changed: 0,
    total: null,
    actor: "somebody",
    startedAt: new Date().toISOString(),
    endedAt: null,
    error: null,
  };
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    const isStop = request.url?.endsWith("/stop") ?? false;
    const answer = isStop ? { ...operation, state: "stopped" } : operation;
    const say = (): void =>
      void response
        .writeHead(202, { "content-type": "application/json", "x-holdfast": "admin" })
        .end(JSON.stringify(answer));
    if (isStop) return say();
    // The answer comes when the command has been interrupted.
    child.kill("SIGINT");
    setTimeout(say, 300);
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
