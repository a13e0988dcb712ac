import { execFile } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { TortureResult } from "#src/torture/torture.js";

const main = fileURLToPath(new URL("../../dist/torture/main.js", import.meta.url));

export interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

/** A folder that is deleted after the test. PostgreSQL, which does not run as root, may read it. */
export function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "holdfast-torture-"));
  chmodSync(path, 0o755);
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Runs the command `torture`. */
export function command(...args: string[]): Promise<Ended> {
  const env = { ...process.env, HOLDFAST_BENCH_DIR: folder() };
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { env }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

export function readResult({ stdout, stderr }: Ended): TortureResult {
  if (stdout === "") throw new Error(stderr);
  return JSON.parse(stdout) as TortureResult;
}

export function sumOf(faults: TortureResult["faults"]): number {
  return Object.values(faults).reduce((sum, count) => sum + count, 0);
}
