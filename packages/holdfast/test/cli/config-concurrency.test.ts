import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, symlinkSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { readConfig, type KeyName } from "#src/config/index.js";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { folder } from "../config/scene.js";
import { SLOW } from "./workspace.js";
import { holdfastCommand, plainEnv, runNode, spawnHoldfast } from "./scene.js";

const SET_OFTEN = join(import.meta.dirname, "../config/set-often.mjs");
const HOLD_LOCK = join(import.meta.dirname, "../config/hold-lock.mjs");

const CHANGES: readonly (readonly [KeyName, number])[] = [
  ["jobs.concurrency", 9],
  ["jobs.grace_s", 10],
  ["jobs.max_retries", 11],
  ["jobs.lease_duration_s", 60],
  ["jobs.scheduler_tick_s", 12],
  ["auth.login_attempts", 13],
];

/** Makes all changes concurrently, each in its own process. */
async function changeConcurrently(cwd: string): Promise<void> {
  const ended = await Promise.all(
    CHANGES.map(([key, value]) => spawnHoldfast(["config", "set", key, String(value)], { cwd })),
  );
  // stderr may have a warning about the audit log, if the machine is busy.
  expect(ended.map(({ code }) => code)).toEqual(CHANGES.map(() => 0));
  const { values } = readConfig({ cwd, env: {} });
  expect(CHANGES.map(([key]) => [key, values[key]])).toEqual(CHANGES);
}

describe("holdfast.toml, changed by several processes", () => {
  it("keeps all changes and leaves no lock file", SLOW, async () => {
    const cwd = folder();
    await changeConcurrently(cwd);
    expect(readdirSync(cwd)).toEqual(["holdfast.toml"]);
  });

  it("keeps all changes made through a symlink", SLOW, async () => {
    const cwd = folder({ "holdfast.toml": "# mine\n", "below/x": "" });
    symlinkSync("../holdfast.toml", join(cwd, "below/holdfast.toml"));
    const ended = await Promise.all(
      (["jobs.concurrency", "jobs.grace_s", "jobs.max_retries", "auth.login_attempts"] as const).map((key, index) =>
        runNode(SET_OFTEN, [index % 2 === 0 ? cwd : join(cwd, "below"), key, "10"]),
      ),
    );
    for (const each of ended) expect(each).toEqual({ code: 0, stdout: "[]", stderr: "" });
    expect(readdirSync(cwd).toSorted()).toEqual(["below", "holdfast.toml"]);
  });

  it("breaks the lock of a killed process", SLOW, async () => {
    const cwd = folder({ "holdfast.toml": "" });
    const lock = join(cwd, "holdfast.toml.lock");
    const holder = spawn(process.execPath, [HOLD_LOCK, lock], { env: plainEnv() });
    onTestFinished(() => void holder.kill("SIGKILL"));
    await once(holder.stdout, "data");
    // The five seconds that it waits for the lock pass in a fraction of a second.
    const now = performance.now.bind(performance);
    const faster = vi.spyOn(performance, "now").mockImplementation(() => 20 * now());
    const refused = await holdfastCommand(["config", "set", "jobs.grace_s", "9"], { cwd });
    faster.mockRestore();
    expect(refused).toEqual({
      code: 1,
      stdout: "",
      stderr: `error: another process is changing the configuration; try again, or if no other process is running, delete ${lock}\n`,
    });
    const exit = once(holder, "exit");
    holder.kill("SIGKILL");
    await exit;
    expect(existsSync(lock)).toBe(true);
    const then = Date.now() / 1_000 - 11;
    utimesSync(lock, then, then);
    await changeConcurrently(cwd);
    expect(readdirSync(cwd)).toEqual(["holdfast.toml"]);
  });
});
