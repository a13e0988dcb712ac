import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { FRAME, plainEnv } from "./scene.js";

type Child = ChildProcessByStdio<null, Readable, Readable>;

function start(...args: string[]): Child {
  return spawn(process.execPath, [FRAME, ...args], { env: plainEnv(), stdio: ["ignore", "pipe", "pipe"] });
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
