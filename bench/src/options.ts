import { parseArgs } from "node:util";
import type { StoreName } from "./bed.js";
import { CASES } from "./cases/index.js";
import { UsageError } from "./usage-error.js";

/** To measure the cases of a store. */
export interface MeasureOptions {
  kind: "measure";
  store: StoreName;
  json: boolean;
  check: boolean;
  only: readonly string[];
  jobs: number;
  rounds: number;
}

/** To compare this build with that of a commit. */
export interface CompareOptions {
  kind: "compare";
  store: StoreName;
  json: boolean;
  /** What git knows the commit by. */
  against: string;
  /** How fast this build must be, in multiples of how fast the other one is. */
  atLeast: number;
  rounds: number;
}

export type Options = MeasureOptions | CompareOptions;

const STORES: readonly StoreName[] = ["sqlite", "postgres", "dynamodb"];
const JOBS = { usual: 100_000, least: 1_000, most: 1_000_000 };
// The emulator takes a few hundred writes a second.
const JOBS_ON_DYNAMODB = { usual: 2_000, least: 100, most: 1_000_000 };
const ROUNDS = { usual: 3, least: 1, most: 20 };
// Fewer would give neither ten pairs of drains nor an interval to rely on.
export const COMPARED_ROUNDS: typeof ROUNDS = { usual: 20, least: 10, most: 200 };
const AT_LEAST = 0.98;

export const HELP: string = `Measures Holdfast on a store, against the same writes by hand.

  npm run bench -- <store> [options]

  store            ${STORES.join(", ")}
  --only a,b       only these cases
  --jobs N         jobs a drain; the rest follows (default ${JOBS.usual}, ${JOBS_ON_DYNAMODB.usual} on dynamodb; 10000 for a quick look, at code that is still cold)
  --rounds N       how often each trial runs; figures are medians (default ${ROUNDS.usual})
  --json           one JSON document on stdout instead of the table
  --check          exit code 1 if a target is missed
  --help           this text

  npm run bench -- <store> --against <commit> [--at-least ratio] [--rounds N] [--json]

  Compares the speed of the store's calls and of drains with that of a commit, which is built for it. Both builds take
  turns for about five minutes. Exit code 1 if an interval lies below the ratio (default ${AT_LEAST}) as a whole.

Cases: ${Object.keys(CASES).join(", ")}.

Trials of all cases take turns, each in a process of its own, so that noise hits both sides of a comparison. Files live in
a folder below the current one, or below HOLDFAST_BENCH_DIR, and are removed afterwards: measure on the disk you mean.`;

/** The options of a command line; null where only the help is wanted. */
export function readOptions(args: readonly string[]): Options | null {
  const { values, positionals } = parse(args);
  if (values.help === true) return null;
  const [store, ...more] = positionals;
  if (store === undefined) throw new UsageError(`Name the store to measure: ${STORES.join(", ")}.`);
  if (!STORES.includes(store as StoreName))
    throw new UsageError(`There is no bench for ${store}, only for ${STORES.join(", ")}.`);
  if (more.length > 0) throw new UsageError(`${more.join(" ")} is one argument too many: the bench takes one store.`);
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
    throw new UsageError(`--at-least takes a ratio such as ${AT_LEAST}, not ${atLeast === "" ? "nothing" : atLeast}.`);
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
    // Node's message goes on with advice about `--`, which helps nobody here.
    const [sentence = ""] = (error as Error).message.split(/\.\s/);
    throw new UsageError(`${sentence.replace(/\.$/, "")}; --help lists the options.`);
  }
}

function readOnly(text: string | undefined): readonly string[] {
  if (text === undefined) return Object.keys(CASES);
  const names = text.split(",").map((name) => name.trim());
  const unknown = names.filter((name) => !Object.hasOwn(CASES, name));
  if (unknown.length > 0) throw new UsageError(`There is no case ${unknown.join(", ")}; --help lists the cases.`);
  return Object.keys(CASES).filter((name) => names.includes(name));
}

function readNumber(text: string | undefined, flag: string, { usual, least, most }: typeof JOBS): number {
  if (text === undefined) return usual;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= least && value <= most) return value;
  throw new UsageError(`${flag} takes a whole number from ${least} to ${most}, not ${text === "" ? "nothing" : text}.`);
}
