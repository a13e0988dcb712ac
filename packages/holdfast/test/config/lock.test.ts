import { existsSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ConfigLockedError, setKey } from "#src/config/index.js";
import { lockOf, withLock } from "#src/config/lock.js";
import { describe, expect, it } from "vitest";
import { folder } from "./scene.js";

/** Makes a file look this old. */
function age(path: string, seconds: number): void {
  const then = Date.now() / 1_000 - seconds;
  utimesSync(path, then, then);
}

/** A folder with a lock of another process. */
function locked(): { cwd: string; lock: string } {
  const cwd = folder({ "holdfast.toml.lock": "other" });
  return { cwd, lock: lockOf(join(cwd, "holdfast.toml")) };
}

describe("the lock file", () => {
  it("exists during the work, also if that fails", async () => {
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

  it("waits for another process", async () => {
    const { lock } = locked();
    const mine = withLock(lock, () => "done");
    rmSync(lock);
    expect(await mine).toBe("done");
  });

  it("times out with its path and stays", async () => {
    const { lock } = locked();
    age(lock, 5);
    const mine = withLock(lock, () => "done", { waitMs: 20 });
    await expect(mine).rejects.toThrow(ConfigLockedError);
    await expect(mine).rejects.toThrow(`if no other process is running, delete ${lock}`);
    expect(readFileSync(lock, "utf8")).toBe("other");
  });

  it("takes over an abandoned lock, one process at a time", async () => {
    const { cwd, lock } = locked();
    age(lock, 11);
    let done = 0;
    await Promise.all(Array.from({ length: 5 }, () => withLock(lock, () => done++)));
    expect(done).toBe(5);
    expect(readdirSync(cwd)).toEqual([]);
  });

  it("waits for a takeover in progress, unless abandoned", async () => {
    const { cwd, lock } = locked();
    age(lock, 11);
    writeFileSync(`${lock}.old`, "");
    await expect(withLock(lock, () => "done", { waitMs: 20 })).rejects.toThrow(ConfigLockedError);
    age(`${lock}.old`, 11);
    expect(await withLock(lock, () => "done")).toBe("done");
    expect(readdirSync(cwd)).toEqual([]);
  });

  it("stops the work if the lock was lost", async () => {
    const lock = join(folder(), "a.lock");
    const mine = withLock(lock, (refuseIfLost) => {
      refuseIfLost();
      writeFileSync(lock, "other");
      refuseIfLost();
    });
    await expect(mine).rejects.toThrow(ConfigLockedError);
    expect(readFileSync(lock, "utf8")).toBe("other");
  });

  it("reports a lock that cannot be created", async () => {
    const cwd = folder();
    await expect(setKey({ cwd, env: {}, file: "no/such.toml" }, "jobs.grace_s", 9)).rejects.toThrow(
      /no\/such\.toml cannot be written: ENOENT/,
    );
  });
});
