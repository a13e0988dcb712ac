import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Report } from "#src/report.js";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "holdfast-bench-test-"));
});
afterAll(() => rm(folder, { recursive: true }));

function bench(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const env = { ...process.env, HOLDFAST_BENCH_DIR: folder };
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { env }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

describe("npm run bench", () => {
  it("measures every case and prints one JSON document", { timeout: 180_000 }, async () => {
    const { code, stdout, stderr } = await bench("sqlite", "--json", "--jobs", "2000", "--rounds", "1");
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const report = JSON.parse(stdout) as Report;

    expect(report).toMatchObject({ version: 1, store: "sqlite", jobs: 2000, rounds: 1 });
    expect(report.machine.cores).toBeGreaterThan(0);
    expect(report.machine.node).toBe(process.version);
    expect(report.database["sqlite"]).toMatch(/^3\./);
    expect(Object.fromEntries(report.cases.map(({ name, rows }) => [name, rows.map((row) => row.name)]))).toEqual({
      drain: ["rate", "rateToSmallBatch", "cpu", "claimBatch", "settleBatch"],
      "drain-future": ["rate"],
      "drain-finished": ["rate"],
      "drain-expired": ["settledRate", "runRate"],
      "drain-types": ["rate"],
      "drain-processes": ["rate"],
      "drain-large": ["rate"],
      "event-loop": ["p99", "max"],
      enqueue: ["rate"],
      "enqueue-at-once": ["rate", "rateToOne"],
      "enqueue-many": ["rate"],
      latency: ["p50", "p99"],
      "latency-across": ["p50", "p99"],
      "schedules-due": ["all", "p50", "p99"],
      "schedules-idle": ["rate"],
      startup: ["new", "existing"],
      memory: ["peakRss", "rate"],
    });
    for (const { rows } of report.cases) {
      for (const { figure, baseline, comparison } of rows) {
        const numbers = [figure.value, ...figure.rounds, ...(baseline?.figure.rounds ?? []), comparison?.value ?? 0];
        expect(numbers.filter((value) => !Number.isFinite(value))).toEqual([]);
      }
    }
    expect(report.targets.met + report.targets.missed).toBe(11);
    expect(await readdir(folder)).toEqual([]);
  });

  it("prints an aligned table with only the cases asked for", { timeout: 60_000 }, async () => {
    const { stdout } = await bench("sqlite", "--only", "enqueue", "--jobs", "1000", "--rounds", "1");
    expect(stdout).toMatch(/^enqueue {2}one by one +[\d,]+\/s +[\d,]+\/s {2}raw one-row commits +[\d.]+×$/m);
    expect(stdout).not.toContain("drain ");
  });

  it.each([
    [[], "Name the store to measure: sqlite."],
    [["oracle"], "There is no bench for oracle, only for sqlite."],
    [["sqlite", "--fast"], "Unknown option '--fast'; --help lists the options."],
    [["sqlite", "--jobs", "many"], "--jobs takes a whole number from 1000 to 1000000, not many."],
    [["sqlite", "--only", "drain,nap"], "There is no case nap; --help lists the cases."],
  ])("answers %j with one sentence and exit code 2", async (args, sentence) => {
    expect(await bench(...args)).toEqual({ code: 2, stdout: "", stderr: `${sentence}\n` });
  });

  it("explains itself", async () => {
    const { code, stdout } = await bench("--help");
    expect(code).toBe(0);
    expect(stdout).toContain("npm run bench -- <store> [options]");
  });
});
