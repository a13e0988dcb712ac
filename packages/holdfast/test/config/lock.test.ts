import { existsSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ConfigLockedError, setKey } from "#src/config/index.js";
import { lockOf, withLock } from "#src/config/lock.js";
import { describe, expect, it } from "vitest";
import { folder } from "./scene.js";

/** As if it had been made so long ago. */
function age(path: string, seconds: number): void {
  const then = Date.now() / 1_000 - seconds;
  utimesSync(path, then, then);
}

/** A folder with a lock of somebody else. */
function locked(): { cwd: string; lock: string } {
  const cwd = folder({ "holdfast.toml.lock": "somebody else's" });
  return { cwd, lock: lockOf(join(cwd, "holdfast.toml")) };
}

describe("the lock beside the file", () => {
  it("is there during the work, and gone after it, also if that fails", async () => {
    const cwd = folder();
    const lock = join(cwd, "a.lock");
    expect(await withLock(lock, () => existsSync(lock))).toBe(true);
    expect(existsSync(lock)).toBe(false);
    const failing = withLock(lock, () => {
      throw new Error("no");
    });
    await expect(failing).rejects.toThrow("no");
    expect(readdirSync(cwd)).toEqual([]);
  });

  it("of somebody at work is waited for", async () => {
    const { lock } = locked();
    const mine = withLock(lock, () => "done");
    rmSync(lock);
    expect(await mine).toBe("done");
  });

  it("of somebody who does not end is told by its name, and left there", async () => {
    const { lock } = locked();
    age(lock, 5);
    const mine = withLock(lock, () => "done", { waitMs: 20 });
    await expect(mine).rejects.toThrow(ConfigLockedError);
    await expect(mine).rejects.toThrow(`if no other process is running, delete ${lock}`);
    expect(readFileSync(lock, "utf8")).toBe("somebody else's");
  });

  it("that is old is taken over, by one after the other", async () => {
    const { cwd, lock } = locked();
    age(lock, 11);
    let done = 0;
    await Promise.all(Array.from({ length: 5 }, () => withLock(lock, () => done++)));
    expect(done).toBe(5);
    expect(readdirSync(cwd)).toEqual([]);
  });

  it("that is old is not taken from under whoever takes it over, unless that one died too", async () => {
    const { cwd, lock } = locked();
    age(lock, 11);
    writeFileSync(`${lock}.old`, "");
    await expect(withLock(lock, () => "done", { waitMs: 20 })).rejects.toThrow(ConfigLockedError);
    age(`${lock}.old`, 11);
    expect(await withLock(lock, () => "done")).toBe("done");
    expect(readdirSync(cwd)).toEqual([]);
  });

  it("that was lost to somebody else meanwhile stops the work, and stays theirs", async () => {
    const lock = join(folder(), "a.lock");
    const mine = withLock(lock, (refuseIfLost) => {
      refuseIfLost();
      writeFileSync(lock, "somebody else's");
      refuseIfLost();
    });
    await expect(mine).rejects.toThrow(ConfigLockedError);
    expect(readFileSync(lock, "utf8")).toBe("somebody else's");
  });

  it("that cannot be made is a file that cannot be written", async () => {
    const cwd = folder();
    await expect(setKey({ cwd, env: {}, file: "no/such.toml" }, "jobs.grace_s", 9)).rejects.toThrow(
      /no\/such\.toml cannot be written: ENOENT/,
    );
  });
});
