import { parseArgs } from "node:util";
import type { StoreName } from "../bed.js";
import { UsageError } from "../usage-error.js";
import type { TortureOptions } from "./torture.js";

const STORES: readonly StoreName[] = ["sqlite", "postgres", "dynamodb"];
const USUAL_RUNS = 100;

export const HELP: string = `Usage: npm run torture -- --store <store> [options]

Runs jobs with 20 steps in worker processes, kills and pauses these at planned places, and checks that no step was lost or
repeated.

  --store <store>  ${STORES.join(", ")}.
  --runs <n>       How many jobs to run (default ${USUAL_RUNS}).
  --minutes <n>    How long to run, instead of --runs.
  --seed <n>       Plans jobs and faults (default: from the time). The seed of a violation repeats its round.
  --json           Prints the result as JSON.
  --help           Prints this help.

The exit code is 1 if a rule was violated. Files are written to a folder below the current one, or below HOLDFAST_BENCH_DIR, and
removed afterwards.`;

export type CommandLine = TortureOptions & { json: boolean };

/** Parses the command line; null if only the help is requested. */
export function readOptions(args: readonly string[], now: number): CommandLine | null {
  const values = parse(args);
  if (values.help === true) return null;
  const { store, runs, minutes } = values;
  if (!STORES.includes(store as StoreName)) throw new UsageError(`Name the store with --store: ${STORES.join(", ")}.`);
  if (runs !== undefined && minutes !== undefined)
    throw new UsageError("--runs cannot be used together with --minutes.");
  return {
    store: store as StoreName,
    json: values.json === true,
    runs: minutes === undefined ? readCount(runs ?? String(USUAL_RUNS), "--runs") : null,
    minutes: minutes === undefined ? null : readCount(minutes, "--minutes"),
    seed: readSeed(values.seed, now),
  };
}

function parse(args: readonly string[]): {
  help?: boolean;
  json?: boolean;
  store?: string;
  runs?: string;
  minutes?: string;
  seed?: string;
} {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        help: { type: "boolean", short: "h" },
        json: { type: "boolean" },
        store: { type: "string" },
        runs: { type: "string" },
        minutes: { type: "string" },
        seed: { type: "string" },
      },
    });
    return values;
  } catch (error) {
    const [sentence = ""] = (error as Error).message.split(/\.\s/);
    throw new UsageError(`${sentence.replace(/\.$/, "")}; --help lists the options.`);
  }
}

function readCount(text: string, flag: string): number {
  if (/^\d{1,6}$/.test(text) && Number(text) > 0) return Number(text);
  throw new UsageError(`${flag} must be an integer from 1 to 999999, not ${text === "" ? "empty" : text}.`);
}

function readSeed(text: string | undefined, now: number): number {
  if (text === undefined) return now % 1_000_000_000;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new UsageError(`--seed must be an integer from 0 to 999999999, not ${text === "" ? "empty" : text}.`);
}
