import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { folder } from "../config/scene.js";
import { plainEnv, runInProcess, TEST_PROGRAM, type CommandResult, type RunOptions } from "./scene.js";
import { testProgram } from "./test-program.mjs";

const runTest = (args: readonly string[], options?: RunOptions): Promise<CommandResult> =>
  runInProcess(testProgram, args, options);

describe.concurrent("the command framework", () => {
  it("C-16 starts nothing if jobs.enabled is off", async () => {
    const cwd = folder({ "holdfast.toml": "[jobs]\nenabled = false\n" });
    expect(await runTest(["work"], { cwd })).toEqual({
      code: 0,
      stdout: "Nothing started: jobs.enabled is false (holdfast.toml:2)\n",
      stderr: "",
    });
    expect(JSON.parse((await runTest(["work", "--json"], { cwd })).stdout)).toMatchObject({ started: false });
  });

  it("C-20 a flag overrides variable and file", async () => {
    const cwd = folder({ "holdfast.toml": "[jobs]\nconcurrency = 2\n" });
    const env = { HOLDFAST_JOBS_CONCURRENCY: "3" };
    expect((await runTest(["work", "--concurrency", "5"], { cwd, env })).stdout).toBe("works on 5\n");
    expect((await runTest(["work"], { cwd, env })).stdout).toBe("works on 3\n");
    expect((await runTest(["work"], { cwd })).stdout).toBe("works on 2\n");
    expect(await runTest(["work", "--concurrency", "65"], { cwd })).toEqual({
      code: 2,
      stdout: "",
      stderr: "error: jobs.concurrency: 65 is not a whole number from 1 to 64 (--concurrency)\n",
    });
  });

  it("parses flags and arguments by type", async () => {
    const args = ["work", "a.ts", "--state", "dead", "-p", "-5", "--input", '{"a":[1]}', "--json"];
    const { stdout } = await runTest(args, { cwd: folder() });
    expect(JSON.parse(stdout)).toMatchObject({ state: ["dead"], priority: -5, input: { a: [1] }, module: "a.ts" });
  });

  it("prints a stack trace only with --verbose", async () => {
    expect(await runTest(["boom"])).toEqual({
      code: 1,
      stdout: "",
      stderr: "error: it went wrong\nhint: run with --verbose for the stack trace\n",
    });
    const { stderr } = await runTest(["boom", "--verbose"]);
    expect(stderr).toMatch(/^error: it went wrong\nError: it went wrong\n {4}at .*test-program\.mjs/);
    expect(stderr).toContain("caused by: TypeError: deep down");
  });

  it("escapes control characters in text and JSON", async () => {
    const { stdout } = await runTest(["show"]);
    // oxlint-disable-next-line no-control-regex -- the characters that must be escaped
    expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    expect(stdout).toContain("\\x1b]0;owned\\x07\\x1b[31mred");
    const { stdout: json } = await runTest(["show", "--json"]);
    expect(json).toMatch(/^\{\n {2}"jobs": \[/);
    // oxlint-disable-next-line no-control-regex -- the characters that must be escaped
    expect(json).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    expect(JSON.parse(json)).toMatchObject({ jobs: [{ error: expect.stringContaining("\u009b2J") as string }] });
  });

  it("uses colours in a pipe only on request", async () => {
    expect((await runTest(["show"])).stdout).not.toContain("\u001b");
    expect((await runTest(["show"], { env: { FORCE_COLOR: "1" } })).stdout).toContain("\u001b[31m\\x1b]0;owned");
    expect((await runTest(["show", "--no-color"], { env: { FORCE_COLOR: "1" } })).stdout).not.toContain("\u001b");
    expect((await runTest(["boom", "--color"])).stderr).toContain("\u001b[31merror:\u001b[39m it went wrong");
  });

  it("requires --yes if stdin is not a terminal", async () => {
    expect(await runTest(["destroy"], { input: "y\n" })).toEqual({
      code: 2,
      stdout: "",
      stderr:
        "error: Destroy it all? Confirmation required, but stdin is not a terminal. Nothing was changed.\nhint: add --yes to confirm\n",
    });
    expect(await runTest(["destroy", "--yes"])).toEqual({ code: 0, stdout: "destroyed\n", stderr: "" });
    expect((await runTest(["destroy", "-y", "--json"])).stdout).toBe('{\n  "destroyed": true\n}\n');
  });

  it("prints progress as a line in a pipe", async () => {
    expect(await runTest(["count", "--json"])).toEqual({
      code: 0,
      stdout: '{\n  "counted": 4000\n}\n',
      stderr: "counting 4,000 of 4,000 (100 %)\n",
    });
  });

  it.skipIf(!existsSync("/dev/full"))("fails if the result cannot be written", () => {
    const line = `"${process.execPath}" "${TEST_PROGRAM}" show > /dev/full`;
    const { status, stderr } = spawnSync("sh", ["-c", line], { env: plainEnv(), encoding: "utf8" });
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: "error: cannot write the result: ENOSPC: no space left on device, write\n",
    });
  });

  it("limits the size of stdin", async () => {
    expect((await runTest(["echo"], { input: "grüße" })).stdout).toBe("grüße\n");
    expect(await runTest(["echo"], { input: "x".repeat(101) })).toMatchObject({
      code: 1,
      stderr: "error: stdin is longer than 100 bytes\n",
    });
  });
});
