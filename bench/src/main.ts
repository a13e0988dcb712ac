import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { comparisonTable } from "./against/comparison-table.js";
import { compareWith } from "./against/run.js";
import type { Bed, StoreName } from "./bed.js";
import { scaleOf, type Bench, type MakeCase } from "./case.js";
import { CASES } from "./cases/index.js";
import { HELP, readOptions, type CompareOptions, type MeasureOptions } from "./options.js";
import { stderrProgress } from "./progress.js";
import { report } from "./report.js";
import { runRounds } from "./rounds.js";
import { table } from "./table.js";
import { UsageError } from "./usage-error.js";

/** The bed of each store. Loaded on demand, because each needs its driver. */
const BEDS: Record<StoreName, (folder: string) => Promise<Bed>> = {
  sqlite: async (folder) => (await import("./bed-sqlite.js")).sqliteBed(folder),
  postgres: async (folder) => (await import("./bed-postgres.js")).postgresBed(folder),
  dynamodb: async () => (await import("./bed-dynamodb.js")).dynamoBed(),
};

/** A folder for this run. It is removed when the process exits, even after an error. */
function makeFolder(): string {
  const base = resolve(process.env["HOLDFAST_BENCH_DIR"] ?? ".");
  mkdirSync(base, { recursive: true });
  const folder = mkdtempSync(join(base, "holdfast-bench-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  process.once("SIGINT", () => process.exit(130));
  process.once("SIGTERM", () => process.exit(143));
  return folder;
}

async function measure(options: MeasureOptions): Promise<void> {
  const begun = performance.now();
  const bed = await BEDS[options.store](makeFolder());
  try {
    const bench: Bench = { bed, scale: scaleOf(options.jobs, options.rounds, bed.limits.background) };
    const { cases: measured } = bed.limits;
    const wanted = options.only.filter((name) => measured?.includes(name) ?? true);
    const made = wanted.map((name) => (CASES[name] as MakeCase)(bench));
    const cases = made.filter((each) => each !== null);
    const samples = await runRounds(cases, options.rounds, stderrProgress());
    const result = await report(bench, cases, samples, (performance.now() - begun) / 1_000);
    console.log(options.json ? JSON.stringify(result, null, 2) : table(result));
    if (options.check && result.targets.missed > 0) process.exitCode = 1;
  } finally {
    await bed.close();
  }
}

async function compare(options: CompareOptions): Promise<void> {
  const openBed = (): Promise<Bed> => BEDS[options.store](makeFolder());
  const result = await compareWith(options, openBed, stderrProgress());
  console.log(options.json ? JSON.stringify(result, null, 2) : comparisonTable(result));
  if (!result.met) process.exitCode = 1;
}

try {
  const options = readOptions(process.argv.slice(2));
  if (options === null) console.log(HELP);
  else if (options.kind === "compare") await compare(options);
  else await measure(options);
} catch (error) {
  const usage = error instanceof UsageError;
  console.error(usage ? error.message : error);
  process.exitCode = usage ? 2 : 1;
}
// Set last: stopping our own server would otherwise change the exit code.
process.exit();
