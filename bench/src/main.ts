import { comparisonTable } from "./against/comparison-table.js";
import { compareWith } from "./against/run.js";
import type { Bed } from "./bed.js";
import { makeFolder, openBed } from "./beds.js";
import { scaleOf, type Bench, type MakeCase } from "./case.js";
import { CASES } from "./cases/index.js";
import { HELP, readOptions, type CompareOptions, type MeasureOptions } from "./options.js";
import { stderrProgress } from "./progress.js";
import { report } from "./report.js";
import { runRounds } from "./rounds.js";
import { table } from "./table.js";
import { UsageError } from "./usage-error.js";

async function measure(options: MeasureOptions): Promise<void> {
  const begun = performance.now();
  const bed = await openBed(options.store, makeFolder());
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
  const open = (): Promise<Bed> => openBed(options.store, makeFolder());
  const result = await compareWith(options, open, stderrProgress());
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
