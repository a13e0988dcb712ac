import { DriverMissingError, HoldfastError, InvalidOptionError } from "../errors.js";
import { fakeClock, type FakeClock } from "./clock.js";
import { Difference } from "./model-check.js";
import { commands, type Command } from "./model-commands.js";
import type { ComparedStore } from "./exercise-store/harness.js";
import { Comparison } from "./model-comparison.js";
import { readable } from "./model-names.js";
import { shrink } from "./model-shrink.js";

export type { ComparedStore } from "./exercise-store/harness.js";

export interface CompareOptions {
  /** The number of runs, each with a random list of commands. Default 100. */
  runs?: number;
  /** Makes the runs repeatable: a whole number, or the value that a failure printed. Random by default. */
  seed?: number | string | undefined;
  /** The maximum number of commands in a list. Default 80. */
  commands?: number;
}

/** A store differs from the reference model. The message has the shortest list of commands found, and how to repeat it. */
export class StoreMismatchError extends HoldfastError {
  /** The `seed` that reproduces the difference. */
  readonly seed: string;
  constructor(message: string, seed: string, cause: unknown) {
    super("STORE_DIFFERS", message, { cause });
    this.seed = seed;
  }
}

// Shrinking checks after every command instead. Otherwise removing a command would move the checks.
const CHECK_EVERY = 4;
const START = Date.UTC(2026, 0, 1);
// Shrinking stops after this time: a slightly longer list now is better than the shortest one much later.
const SHRINK_MS = 20_000;

/**
 * Runs random lists of commands (enqueue, claim, settle, crash, …) on a store and on the reference model. Throws
 * {@link StoreMismatchError} at the first difference, with the shortest list found. `open` must return a new, empty, migrated
 * store on the given clock each time. Needs the package fast-check.
 *
 * ```ts
 * await compareWithModel((clock) => harness.create(clock), { runs: 300, seed: process.env.HOLDFAST_SEED });
 * ```
 */
export async function compareWithModel(
  open: (clock: FakeClock) => Promise<ComparedStore>,
  options: CompareOptions = {},
): Promise<void> {
  const { runs = 100, commands: most = 80 } = options;
  const fc = await import("fast-check").catch((error: unknown) => {
    throw DriverMissingError.notInstalled("fast-check", error);
  });
  const { seed, path } = readSeed(options.seed);
  const property = fc.asyncProperty(commands(fc, most), (list) => play(open, list, CHECK_EVERY));
  // Unbiased: a bias towards small values would create short lists, which find little.
  const found = await fc.check(property, {
    ...(seed === undefined ? {} : { seed }),
    ...(path === undefined ? {} : { path }),
    numRuns: runs,
    unbiased: true,
    endOnFailure: true,
  });
  if (!found.failed) return;
  const [list = []] = found.counterexample ?? [];
  let problem = found.errorInstance;
  const fails = async (shorter: readonly Command[]): Promise<boolean> => {
    try {
      await play(open, shorter, 1);
      return false;
    } catch (error) {
      problem = error;
      return true;
    }
  };
  const shortest = await shrink(list, fails, SHRINK_MS);
  const replay = `${found.seed}:${found.counterexamplePath}`;
  throw new StoreMismatchError(
    `${problem instanceof Error ? problem.message : String(problem)}\n\n` +
      `Found with ${list.length} commands, shrunk to ${shortest.length}. ` +
      `To replay: HOLDFAST_SEED=${replay} npm test -- model (${found.seed} alone repeats all ${runs} runs)`,
    replay,
    problem instanceof Difference ? problem.cause : problem,
  );
}

/** Runs one list of commands on a new store. */
async function play(
  open: (clock: FakeClock) => Promise<ComparedStore>,
  list: readonly Command[],
  checkEvery: number,
): Promise<void> {
  const clock = fakeClock(START);
  const under = await open(clock);
  const comparison = new Comparison(under, clock, checkEvery);
  try {
    await comparison.follow();
    for (const command of list) await comparison.step(command);
    await comparison.finish();
  } catch (error) {
    const lines = comparison.lines.map((line, at) => `  ${at + 1}. ${line}`);
    const what = error instanceof Error ? error.message : String(error);
    const message = readable(`${what}\n\nafter\n${lines.join("\n")}`, START);
    // A difference needs no stack; an error of the store does.
    throw new Difference(message, error instanceof Difference ? {} : { cause: error });
  } finally {
    await comparison.close();
    await under.dispose();
  }
}

/** Parses `123` or `123:4:0:1`: a seed, and optionally the path to one of its runs. */
function readSeed(given: number | string | undefined): { seed?: number; path?: string } {
  if (given === undefined || given === "") return {};
  const match = /^(-?\d+)(?::([\d:]+))?$/.exec(String(given));
  if (match === null)
    throw new InvalidOptionError(
      "seed",
      `${JSON.stringify(given)} is neither a whole number nor a value printed by a failure`,
    );
  const [, seed, path] = match;
  return { seed: Number(seed), ...(path === undefined ? {} : { path }) };
}
