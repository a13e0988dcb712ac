import { parseArgs } from "node:util";
import type { StoreName } from "./bed.js";
import { CASES } from "./cases/index.js";
import { UsageError } from "./usage-error.js";

/** Options to measure the cases of a store. */
export interface MeasureOptions {
  kind: "measure";
  store: StoreName;
  json: boolean;
  check: boolean;
  only: readonly string[];
  jobs: number;
  rounds: number;
}

/** Options to compare this build with that of a commit. */
export interface CompareOptions {
  kind: "compare";
  store: StoreName;
  json: boolean;
  /** A name of the commit in git. */
  against: string;
  /** The minimum speed of this build, relative to the other one. */
  atLeast: number;
  rounds: number;
}

export type Options = MeasureOptions | CompareOptions;

const STORES: readonly StoreName[] = ["sqlite", "postgres", "dynamodb"];
const JOBS = { usual: 100_000, min: 1_000, max: 1_000_000 };
// The emulator takes a few hundred writes a second.
const JOBS_ON_DYNAMODB = { usual: 2_000, min: 100, max: 1_000_000 };
const ROUNDS = { usual: 3, min: 1, max: 20 };
// Fewer rounds give less than ten pairs of drains and no reliable interval.
export const COMPARED_ROUNDS: typeof ROUNDS = { usual: 20, min: 10, max: 200 };
const AT_LEAST = 0.98;

export const HELP: string = `Measure Holdfast on a store, compared with the same writes without Holdfast.

  npm run bench -- <store> [options]

  store            ${STORES.join(", ")}
  --only a,b       only these cases
  --jobs N         jobs per drain; other sizes follow (default ${JOBS.usual}, ${JOBS_ON_DYNAMODB.usual} on dynamodb; 10000 for a quick check, with cold code)
  --rounds N       how often each trial runs; figures are medians (default ${ROUNDS.usual})
  --json           one JSON document on stdout instead of the table
  --check          exit code 1 if a target is missed
  --help           show this help

  npm run bench -- <store> --against <commit> [--at-least ratio] [--rounds N] [--json]

  Compare the speed of store calls and of drains with that of a commit, which is built first. Both builds alternate for
  about five minutes. Exit code 1 if a whole interval is below the ratio (default ${AT_LEAST}).

Cases: ${Object.keys(CASES).join(", ")}.

Trials of all cases alternate, each in its own process, so that noise affects both sides of a comparison. Files are written to
a folder below the current one, or below HOLDFAST_BENCH_DIR, and removed afterwards: choose the disk that you want to measure.`;

/** Parses the command line; null if only the help is requested. */
export function readOptions(args: readonly string[]): Options | null {
  const { values, positionals } = parse(args);
  if (values.help === true) return null;
  const [store, ...more] = positionals;
  if (store === undefined) throw new UsageError(`Name the store to measure: ${STORES.join(", ")}.`);
  if (!STORES.includes(store as StoreName))
    throw new UsageError(`Unknown store ${store}; choose one of ${STORES.join(", ")}.`);
  if (more.length > 0) throw new UsageError(`Unexpected argument ${more.join(" ")}: only one store can be measured.`);
  const json = values.json === true;
  if (values.against !== undefined) return readCompare(values, store as StoreName, values.against, json);
  if (values["at-least"] !== undefined) throw new UsageError("--at-least needs --against.");
  return {
    kind: "measure",
    store: store as StoreName,
    json,
    check: values.check === true,
    only: readOnly(values.only),
    jobs: readNumber(values.jobs, "--jobs", store === "dynamodb" ? JOBS_ON_DYNAMODB : JOBS),
    rounds: readNumber(values.rounds, "--rounds", ROUNDS),
  };
}

function readCompare(values: Values, store: StoreName, against: string, json: boolean): CompareOptions {
  for (const flag of ["only", "jobs", "check"] as const) {
    if (values[flag] !== undefined) throw new UsageError(`--${flag} cannot be used together with --against.`);
  }
  const atLeast = values["at-least"] ?? String(AT_LEAST);
  if (!/^\d+(?:\.\d+)?$/.test(atLeast) || Number(atLeast) === 0)
    throw new UsageError(`--at-least must be a ratio such as ${AT_LEAST}, not ${atLeast === "" ? "empty" : atLeast}.`);
  const rounds = readNumber(values.rounds, "--rounds", COMPARED_ROUNDS);
  return { kind: "compare", store, json, against, atLeast: Number(atLeast), rounds };
}

interface Values {
  help?: boolean;
  json?: boolean;
  check?: boolean;
  only?: string;
  jobs?: string;
  rounds?: string;
  against?: string;
  "at-least"?: string;
}

function parse(args: readonly string[]): { values: Values; positionals: string[] } {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        help: { type: "boolean", short: "h" },
        json: { type: "boolean" },
        check: { type: "boolean" },
        only: { type: "string" },
        jobs: { type: "string" },
        rounds: { type: "string" },
        against: { type: "string" },
        "at-least": { type: "string" },
      },
    });
  } catch (error) {
    // The rest of Node's message is advice about `--`, which does not help here.
    const [sentence = ""] = (error as Error).message.split(/\.\s/);
    throw new UsageError(`${sentence.replace(/\.$/, "")}; --help lists the options.`);
  }
}

function readOnly(text: string | undefined): readonly string[] {
  if (text === undefined) return Object.keys(CASES);
  const names = text.split(",").map((name) => name.trim());
  const unknown = names.filter((name) => !Object.hasOwn(CASES, name));
  if (unknown.length > 0) throw new UsageError(`Unknown case ${unknown.join(", ")}; --help lists the cases.`);
  return Object.keys(CASES).filter((name) => names.includes(name));
}

function readNumber(text: string | undefined, flag: string, { usual, min, max }: typeof JOBS): number {
  if (text === undefined) return usual;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= min && value <= max) return value;
  throw new UsageError(`${flag} must be an integer from ${min} to ${max}, not ${text === "" ? "empty" : text}.`);
}
