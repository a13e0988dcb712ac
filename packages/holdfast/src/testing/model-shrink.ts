import type { Command } from "./model-commands.js";

/** The plainest value of a field; a command that fails with these as well is easier to read. */
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
};
const PLAIN_PLACES = [0, 1, 2, 3];

/**
 * The shortest and plainest list that still fails, as far as it is found in `ms`. Written for lists of commands, which
 * a general shrinker cuts at their ends, while most of what is idle lies in the middle.
 */
export async function shrink(
  list: readonly Command[],
  fails: (list: readonly Command[]) => Promise<boolean>,
  ms: number,
): Promise<readonly Command[]> {
  const end = performance.now() + ms;
  let best = list;
  let improved = true;
  while (improved) {
    improved = false;
    for (const candidate of candidates(best)) {
      if (performance.now() > end) return best;
      if (!(await fails(candidate))) continue;
      best = candidate;
      improved = true;
      break;
    }
  }
  return best;
}

/** Large cuts first: each one that works saves many small ones. */
function* candidates(list: readonly Command[]): Generator<readonly Command[]> {
  for (let size = Math.floor(list.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let at = list.length - size; at >= 0; at -= size) yield list.toSpliced(at, size);
  }
  for (const [at, command] of list.entries()) {
    for (const plainer of plainerForms(command)) yield list.with(at, plainer as Command);
  }
}

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
