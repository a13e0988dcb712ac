import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, symlinkSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { readConfig, type KeyName } from "#src/config/index.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { folder } from "../config/scene.js";
import { SLOW } from "./workspace.js";
import { plainEnv, runNode, spawnHoldfast } from "./scene.js";

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

/** All of the changes, each by a process of its own, at once. */
async function changeAtOnce(cwd: string): Promise<void> {
  const ended = await Promise.all(
    CHANGES.map(([key, value]) => spawnHoldfast(["config", "set", key, String(value)], { cwd })),
  );
  // On a busy machine it may be told on stderr that the audit log could not be asked in time.
  expect(ended.map(({ code }) => code)).toEqual(CHANGES.map(() => 0));
  const { values } = readConfig({ cwd, env: {} });
  expect(CHANGES.map(([key]) => [key, values[key]])).toEqual(CHANGES);
}

describe("the file, changed by several processes at once", () => {
  it("has all of their changes, and nothing is left beside it", SLOW, async () => {
    const cwd = folder();
    await changeAtOnce(cwd);
    expect(readdirSync(cwd)).toEqual(["holdfast.toml"]);
  });

  it("loses none of many, also where they know it by different names", SLOW, async () => {
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

  it("is not held up for long by one that was killed at it", SLOW, async () => {
    const cwd = folder({ "holdfast.toml": "" });
    const lock = join(cwd, "holdfast.toml.lock");
    const holder = spawn(process.execPath, [HOLD_LOCK, lock], { env: plainEnv() });
    onTestFinished(() => void holder.kill("SIGKILL"));
    await once(holder.stdout, "data");
    expect(await spawnHoldfast(["config", "set", "jobs.grace_s", "9"], { cwd })).toEqual({
      code: 1,
      stdout: "",
      stderr: `error: another process is changing the configuration; try again, or if there is none, delete ${lock}\n`,
    });
    const exit = once(holder, "exit");
    holder.kill("SIGKILL");
    await exit;
    expect(existsSync(lock)).toBe(true);
    const then = Date.now() / 1_000 - 11;
    utimesSync(lock, then, then);
    await changeAtOnce(cwd);
    expect(readdirSync(cwd)).toEqual(["holdfast.toml"]);
  });
});
