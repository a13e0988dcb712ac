import { execFile, spawnSync } from "node:child_process";
import { chmod, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chromiumPath } from "#src/dashboard/browser.js";
import { listedFilters } from "#src/listed.js";
import type { Report } from "#src/report.js";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "holdfast-bench-test-"));
  // If started by root, the server runs as another user, which must be able to read its data.
  await chmod(folder, 0o755);
});
afterAll(() => rm(folder, { recursive: true }));

interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

function bench(...args: string[]): Promise<Ended> {
  return benchWith({}, args);
}

function benchWith(variables: Record<string, string>, args: readonly string[]): Promise<Ended> {
  const env = { ...process.env, HOLDFAST_BENCH_DIR: folder, ...variables };
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...args], { env }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** Left out where there is no Chromium. */
const IN_CHROMIUM: Readonly<Record<string, readonly string[]>> =
  chromiumPath() === null
    ? {}
    : {
        "dashboard-list": ["p95", "p50"],
        "dashboard-tasks": [
          "overview",
          "overviewLong",
          "overviewFrames",
          "jobs",
          "jobsLong",
          "jobsFrames",
          "transitions",
        ],
        "dashboard-queries": [
          "busyCalls",
          "busyQueries",
          "transitions",
          "idleCalls",
          "idleQueries",
          "closedCalls",
          "closedQueries",
        ],
      };
/** The targets of these cases: on SQLite, statements have none. */
const targetsInChromium = (isServer: boolean): number => (chromiumPath() === null ? 0 : isServer ? 7 : 5);

const INSIGHT = [
  "search by input",
  "search by input, of one type",
  "search by input, large ones",
  "search by error",
  "count by tag",
  "count by priority",
  "count by type",
  "count by input",
  "explain",
  "error groups",
  "jobs of a group",
  "count of a group",
  "history of a day",
  "history of 30 days",
];

const ROWS: Readonly<Record<string, readonly string[]>> = {
  drain: ["rate", "rateToSmallBatch", "cpu", "claimBatch", "settleBatch"],
  "drain-future": ["rate"],
  "drain-finished": ["rate"],
  "drain-held": ["rate"],
  "drain-expired": ["settledRate", "runRate"],
  "drain-followed": ["rate"],
  "drain-types": ["rate"],
  "claim-types": ["p50", "p99"],
  "drain-processes": ["rate"],
  "drain-large": ["rate"],
  "event-loop": ["p99", "max"],
  enqueue: ["rate"],
  "enqueue-at-once": ["rate", "rateToOne"],
  "enqueue-many": ["rate"],
  latency: ["p50", "p99"],
  "latency-across": ["p50", "p99"],
  lanes: ["p50", "p99", "idle"],
  "schedules-due": ["all", "p50", "p99"],
  "schedules-idle": ["rate"],
  startup: ["new", "existing"],
  list: ["stats", ...Object.keys(listedFilters(10_000, 0)), "all jobs, from the middle"],
  insight: INSIGHT.flatMap((name) => [name, `${name}, worst`]),
  memory: ["peakRss", "rate"],
  "password-reset": ["p95", "p50", "drained", "p95Apart", "p50Apart", "drainedApart"],
  "password-reset-unknown": [
    "difference",
    "known",
    "unknown",
    "differenceRepeated",
    "knownRepeated",
    "unknownRepeated",
  ],
  "stripe-webhook": ["p95", "p50", "drained", "p95Apart", "p50Apart", "drainedApart"],
  newsletter: ["peakRss", "rssGrowth", "heapGrowth", "rate"],
  ...IN_CHROMIUM,
};
const OVER_A_WIRE: Readonly<Record<string, readonly string[]>> = { "after-commit": ["p50", "p99"], idle: ["queries"] };

const CHARGED: Readonly<Record<string, readonly string[]>> = {
  drain: ["rate", "rateToSmallBatch", "cpu", "claimBatch", "settleBatch"],
  "enqueue-many": ["rate"],
  insight: INSIGHT,
  ...IN_CHROMIUM,
  requests: ["requests", "reads", "lost"],
  units: ["job", "lost", "listed", "counts", "reads", "keyedJob", "keys"],
  "idle-units": ["requests", "reads", "writes"],
};

/** Why DynamoDB cannot be measured; null if it can. */
function withoutDynamo(): string | null {
  if (process.env["HOLDFAST_BENCH_DYNAMODB"] !== undefined) return null;
  const { status, stderr } = spawnSync("java", ["-version"], { encoding: "utf8" });
  const version = status === 0 ? Number(/version "(\d+)/.exec(stderr)?.[1] ?? 0) : 0;
  return version >= 17 ? null : "DynamoDB Local needs Java 17 or later";
}

describe("npm run bench", () => {
  it.for([
    ["sqlite", /^3\./, ROWS, 91 + targetsInChromium(false), 1_000],
    ["postgres", /^\d\d\./, { ...ROWS, ...OVER_A_WIRE }, 95 + targetsInChromium(true), 1_000],
    ["dynamodb", /^local \d/, CHARGED, 18 + targetsInChromium(true), 100],
  ] as const)(
    "measures every case of %s and prints one JSON document",
    { timeout: 300_000 },
    async ([store, version, rows, targets, jobs], { skip }) => {
      const reason = store === "dynamodb" ? withoutDynamo() : null;
      if (reason !== null) return skip(reason);
      const { code, stdout, stderr } = await bench(store, "--json", "--jobs", String(jobs), "--rounds", "1");
      expect({ code, stderr }).toMatchObject({ code: 0 });
      const report = JSON.parse(stdout) as Report;

      expect(report).toMatchObject({ version: 1, store, jobs, rounds: 1 });
      expect(report.machine.cores).toBeGreaterThan(0);
      expect(report.machine.node).toBe(process.version);
      expect(report.database[store]).toMatch(version);
      const names = report.cases.map((each) => [each.name, each.rows.map((row) => row.name)] as const);
      expect(Object.fromEntries(names)).toEqual(rows);
      for (const { rows: lines } of report.cases) {
        for (const { figure, baseline, comparison } of lines) {
          const numbers = [figure.value, ...figure.rounds, ...(baseline?.figure.rounds ?? []), comparison?.value ?? 0];
          expect(numbers.filter((value) => !Number.isFinite(value))).toEqual([]);
        }
      }
      expect(report.targets.met + report.targets.missed).toBe(targets);
      expect(await readdir(folder)).toEqual([]);
    },
  );

  it("prints an aligned table of the requested cases", { timeout: 60_000 }, async () => {
    const { stdout } = await bench("sqlite", "--only", "enqueue", "--jobs", "1000", "--rounds", "1");
    expect(stdout).toMatch(/^enqueue {2}one by one +[\d,]+\/s +[\d,]+\/s {2}raw one-row commits +[\d.]+×$/m);
    expect(stdout).not.toContain("drain ");
  });

  it.each([
    [[], "Name the store to measure: sqlite, postgres, dynamodb."],
    [["oracle"], "Unknown store oracle; choose one of sqlite, postgres, dynamodb."],
    [["sqlite", "--fast"], "Unknown option '--fast'; --help lists the options."],
    [["sqlite", "--jobs", "many"], "--jobs must be an integer from 1000 to 1000000, not many."],
    [["sqlite", "--only", "drain,nap"], "Unknown case nap; --help lists the cases."],
  ])("rejects %j with one sentence and exit code 2", async (args, sentence) => {
    expect(await bench(...args)).toEqual({ code: 2, stdout: "", stderr: `${sentence}\n` });
  });

  it("leaves out the dashboard where there is no Chromium", { timeout: 60_000 }, async () => {
    const args = ["sqlite", "--only", "startup,dashboard-list,dashboard-tasks", "--jobs", "1000", "--rounds", "1"];
    const { code, stdout, stderr } = await benchWith({ HOLDFAST_CHROMIUM: join(folder, "none") }, args);
    expect(code).toBe(0);
    expect(stdout).toContain("startup");
    expect(stdout).not.toContain("dashboard");
    expect(stderr.match(/Chromium was not found/g)).toHaveLength(1);
  });

  it("prints its help", async () => {
    const { code, stdout } = await bench("--help");
    expect(code).toBe(0);
    expect(stdout).toContain("npm run bench -- <store> [options]");
  });
});
