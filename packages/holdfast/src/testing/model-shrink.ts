import type { Command } from "./model-commands.js";

/** The simplest value of each field. A command that still fails with it is easier to read. */
const PLAINEST: Readonly<Record<string, unknown>> = {
  user: null,
  unique: null,
  runAtFromNow: null,
  expiresInMs: null,
  again: null,
  queues: null,
  types: null,
  delayMs: 0,
  inputBytes: 0,
  priority: 0,
  tags: [],
  job: null,
  nextRun: null,
  reason: null,
  stretch: false,
  times: 1,
  cron: false,
  catchUp: "skip",
  overlap: "allow",
};
const PLAIN_PLACES = [0, 1, 2, 3];

/**
 * The shortest and simplest list that still fails, as far as found within `ms`. Made for lists of commands: a general
 * shrinker cuts lists at their ends, but most unnecessary commands are in the middle.
 */
export async function shrink(
  list: readonly Command[],
  fails: (list: readonly Command[]) => Promise<boolean>,
  ms: number,
): Promise<readonly Command[]> {
  const end = performance.now() + ms;
  let best = list;
  /** Accepts the candidate if it still fails. */
  const improve = async (candidate: readonly Command[]): Promise<boolean> => {
    if (performance.now() > end || !(await fails(candidate))) return false;
    best = candidate;
    return true;
  };
  const simplify = async (at: number): Promise<boolean> => {
    for (const plainer of plainerForms(best[at])) if (await improve(best.with(at, plainer as Command))) return true;
    return false;
  };
  let improved = true;
  while (improved) {
    improved = false;
    // Large cuts first, from the end: each successful one saves many small ones.
    for (let size = Math.ceil(best.length / 2); size >= 1; size = Math.floor(size / 2)) {
      for (let at = best.length - size; at >= 0; at -= size) {
        if (await improve(best.toSpliced(at, size))) improved = true;
      }
    }
    for (const at of best.keys()) while (await simplify(at)) improved = true;
  }
  return best;
}

/** The same command with one simpler field. */
function* plainerForms(value: unknown, name = ""): Generator<unknown> {
  if (Object.hasOwn(PLAINEST, name)) {
    const plainest = PLAINEST[name];
    if (JSON.stringify(value) !== JSON.stringify(plainest)) yield plainest;
  }
  if (Array.isArray(value)) {
    const items: readonly unknown[] = value;
    if (items.length > 1) for (const at of items.keys()) yield items.toSpliced(at, 1);
    for (const [at, item] of items.entries()) {
      for (const plainer of plainerForms(item, "nth")) yield items.with(at, plainer);
    }
  } else if (typeof value === "object" && value !== null) {
    for (const [field, inner] of Object.entries(value)) {
      for (const plainer of plainerForms(inner, field)) yield { ...value, [field]: plainer };
    }
  } else if (name === "nth" && typeof value === "number") {
    for (const place of PLAIN_PLACES) if (place < value) yield place;
  }
}
