import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";

const EXAMPLE = join(import.meta.dirname, "../examples/quickstart");

it("npx holdfast works in this repository", async () => {
  const command = join(import.meta.dirname, "../node_modules/.bin/holdfast");
  const { stdout } = await promisify(execFile)(command, ["version"], { shell: process.platform === "win32" });
  expect(stdout).toMatch(/^\d+\.\d+\.\d+/);
});

it("the quick start runs as npm start runs it, prints its steps, and is short", async () => {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-quickstart-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [join(EXAMPLE, "dist/main.js")], {
    cwd: folder,
  });
  expect(stderr).toBe("");
  for (const part of [
    /email\.welcome, attempt 1: .*ada@example\.com/,
    /crm\.sync failed: CRM is busy \(attempt 1\)/,
    /crm\.sync failed: CRM is busy \(attempt 2\)/,
    /crm\.sync, attempt 3: /,
    /Enqueued 3 jobs\. The fourth call has the unique key of the third job\. Duplicate: true\./,
    /email\.welcome, attempt 1: .*grace@example\.com/,
    /holds 3 completed jobs/,
  ]) {
    expect(stdout).toMatch(part);
  }
  expect((await readFile(join(EXAMPLE, "main.ts"), "utf8")).trimEnd().split("\n").length).toBeLessThanOrEqual(40);
});
