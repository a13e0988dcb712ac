import { spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
/** Runs a command in a terminal of its own. What is written to the standard input is typed there. */
const IN_TERMINAL = [
  "python3",
  "-c",
  "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))",
];
const hasPython = spawnSync("python3", ["-c", "import pty"]).status === 0;

/** What `npm start` runs after the build, in a directory of its own: it writes a database. */
function start(before: readonly string[] = []) {
  const home = mkdtempSync(join(tmpdir(), "start-"));
  mkdirSync(join(home, "scripts"));
  cpSync(join(ROOT, "scripts/start.mjs"), join(home, "scripts/start.mjs"));
  for (const name of ["examples", "packages"]) symlinkSync(join(ROOT, name), join(home, name));
  const [command, ...args] = [...before, process.execPath, join(home, "scripts/start.mjs")];
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  onTestFinished(async () => {
    child.kill();
    await ended;
    rmSync(home, { recursive: true, force: true });
  });
  let printed = "";
  const waiting: { pattern: RegExp; resolve: (found: string) => void }[] = [];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    printed += text;
    for (const { pattern, resolve } of waiting) {
      const [found] = pattern.exec(printed) ?? [];
      if (found !== undefined) resolve(found);
    }
  });
  return {
    ended,
    output: () => printed,
    type: (keys: string) => child.stdin.write(keys),
    until: (pattern: RegExp) => new Promise<string>((resolve) => void waiting.push({ pattern, resolve })),
  };
}

describe("npm start", () => {
  it("prints the command for the dashboard, and ends", async () => {
    const { ended, output } = start();
    expect(await ended).toBe(0);
    expect(output()).toContain("All jobs are completed.");
    expect(output().trimEnd().split("\n").at(-1)).toBe(
      "To see these jobs in the dashboard, run: npx holdfast dashboard --store sqlite:quickstart.db",
    );
  });

  it.runIf(hasPython)("serves the dashboard in a terminal until Ctrl-C", async () => {
    const { ended, output, type, until } = start(IN_TERMINAL);
    const url = await until(/http:\/\/127\.0\.0\.1:\d+\/?(?=\s)/);
    expect(output()).toContain("All jobs are completed.");
    const page = await fetch(url, { headers: { accept: "text/html" } });
    expect(await page.text()).toContain('<div id="app">');
    const stats = await fetch(new URL("/api/admin/jobs/stats", url));
    expect(await stats.json()).toMatchObject({ states: { completed: 3 } });
    type("\u0003");
    expect(await ended).toBe(0);
    await expect(fetch(url)).rejects.toThrow("fetch failed");
  });
});
