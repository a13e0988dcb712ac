import { LIMITS } from "./defaults.js";
import { InvalidOption, PayloadTooLarge } from "./errors.js";
import { jsonBytes, NotJson, toJson } from "./json.js";
import { REDACTED, redactionOf, redactor, type State } from "./redact.js";

/**
 * Puts back what was redacted: gives what somebody sent, with the stored value wherever the mark stands at a path that is
 * redacted. Throws `InvalidOption` where there is no such value, or where it cannot be told which is meant, and `PayloadTooLarge` where
 * marks stand in what is too large to be stored.
 */
export type Restorer = (sent: unknown, stored: unknown) => unknown;

// Deeper than any payload may be: what is nested further is refused for that.
const DEEPEST = 250;

/**
 * The other way of `redactor(paths)`: who edits a payload as it is shown sends the marks back with it, and they must not be
 * stored in place of what they stand for.
 */
export function restorer(paths: readonly string[]): Restorer {
  const start = redactionOf(paths);
  const redact = redactor(paths);
  return (sent, stored) => {
    const seen: Seen = { marked: new Set(), marks: 0 };
    if (!mark(sent, start, 0, seen)) return sent;
    // Never handed on with its marks: whoever stores it may find that it fits, and stores them.
    refuseUnstorable(sent, seen.marks);
    return restore(sent, { stored, shown: redact(stored), state: start, path: [] }, seen.marked);
  };
}

/** What is too long or too deep to be stored, whatever the marks stand for: to put that back would only cost. */
function refuseUnstorable(sent: unknown, marks: number): void {
  // The parts are what is stored, each by itself.
  for (const [part, value] of Object.entries(sent ?? {})) {
    const bytes = bytesOf(part, value) - marks * (MARK_BYTES - 1);
    if (bytes > LIMITS.payloadBytes) throw new PayloadTooLarge(part, bytes, LIMITS.payloadBytes);
  }
}
// A value of a single byte may stand where a mark was sent. What is stored is measured again then.
const MARK_BYTES = JSON.stringify(REDACTED).length;

function bytesOf(part: string, value: unknown): number {
  try {
    return jsonBytes(toJson(value));
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    throw new InvalidOption([part, error.issue.path].filter((name) => name !== "").join("."), error.issue.message);
  }
}

interface Seen {
  marked: Set<unknown>;
  marks: number;
}

/** Finds the lists and objects that have a mark inside, and counts the marks. */
function mark(sent: unknown, state: State, depth: number, seen: Seen): boolean {
  if (state.places.length === 0 || depth > DEEPEST) return false;
  if (state.hidden) {
    if (sent === REDACTED) seen.marks++;
    return sent === REDACTED;
  }
  if (typeof sent !== "object" || sent === null) return false;
  let found = false;
  for (const [key, item] of Object.entries(sent)) found = mark(item, state.step(key), depth + 1, seen) || found;
  if (found) seen.marked.add(sent);
  return found;
}

/** A place in a payload: what the store has there, and how that is shown. */
interface Place {
  stored: unknown;
  shown: unknown;
  state: State;
  path: readonly string[];
}

function restore(sent: unknown, place: Place, marked: ReadonlySet<unknown>): unknown {
  const { stored, state, path } = place;
  if (state.hidden) {
    if (sent !== REDACTED) return sent;
    if (stored === undefined) throw refused(path, "and nothing is stored there; write the value itself");
    return stored;
  }
  if (!marked.has(sent)) return sent;
  if (!Array.isArray(sent)) {
    const entries = Object.entries(sent as object).map(([key, item]) => [key, restore(item, at(place, key), marked)]);
    return Object.fromEntries(entries) as object;
  }
  const shown: readonly unknown[] = Array.isArray(place.shown) ? place.shown : [];
  const before = shown.map((item) => JSON.stringify(item));
  const after = sent.map((item) => JSON.stringify(item));
  const known = new Set(before);
  // A value is known by its index only as long as the others have stayed in their places, or new ones follow them.
  const isLonger = before.every((text, nth) => text === after[nth]);
  const isInPlace = (index: number): boolean =>
    isLonger || (sent.length === shown.length && (after[index] === before[index] || !known.has(after[index] ?? "")));
  return sent.map((item: unknown, index) => {
    const inside = at(place, String(index));
    const isMarked = marked.has(item) || (item === REDACTED && inside.state.hidden);
    if (isMarked && !isInPlace(index)) {
      throw refused(inside.path, "in a list that was put in another order or cut; write the value itself");
    }
    return restore(item, inside, marked);
  });
}

function at({ stored, shown, state, path }: Place, key: string): Place {
  return { stored: own(stored, key), shown: own(shown, key), state: state.step(key), path: [...path, key] };
}

function own(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as Record<string, unknown>)[key];
}

function refused(path: readonly string[], why: string): InvalidOption {
  return new InvalidOption(
    path.join("."),
    `is ${JSON.stringify(REDACTED)}, which stands for a value that is not shown, ${why}`,
  );
}
