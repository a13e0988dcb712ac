import { LIMITS } from "./defaults.js";
import { InvalidOptionError, PayloadTooLargeError } from "./errors.js";
import { jsonBytes, NotJson, pathText, toJson } from "./job/json.js";
import { REDACTED, redactionOf, redactor, type State } from "./redact.js";

/**
 * Puts back what was redacted: gives what somebody sent, with the stored value wherever the mark stands at a path that is
 * redacted. Throws `InvalidOptionError` where there is no such value, or where it cannot be told which is meant, and `PayloadTooLargeError` where
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
    const parts = Object.entries(typeof sent === "object" && sent !== null ? sent : { "": sent });
    // Before anything looks at each value: there may be very many, and mostly no mark among them.
    if (!parts.map(([part, value]) => writtenOf(part, value)).some((text) => text.includes(MARK))) return sent;
    const marked = new Set<unknown>();
    if (!mark(sent, start, 0, marked)) return sent;
    // Never handed on with its marks: who stores it may find that it fits, and stores them.
    for (const [part, value] of parts) refuseNotJson(part, value);
    return restore(sent, { stored, shown: redact(stored), state: start, path: [] }, marked);
  };
}

const MARK = JSON.stringify(REDACTED);

/** A part as JSON. What is too long to be stored, whatever its marks stand for, is refused: to put that back would only cost. */
function writtenOf(part: string, value: unknown): string {
  const text = stringified(value) ?? refuseNotJson(part, value);
  const bytes = jsonBytes(text);
  if (bytes <= LIMITS.payloadBytes) return text;
  // A value of a single byte may stand where a mark was sent. What is stored is measured again then.
  const least = bytes - (text.split(MARK).length - 1) * (MARK.length - 1);
  if (least > LIMITS.payloadBytes) throw new PayloadTooLargeError(part, least, LIMITS.payloadBytes);
  return text;
}

/** Null: it is nested too deep. */
function stringified(value: unknown): string | null {
  try {
    return JSON.stringify(value) ?? "";
  } catch {
    return null;
  }
}

function refuseNotJson(part: string, value: unknown): string {
  try {
    return toJson(value);
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    throw new InvalidOptionError([part, error.issue.path].filter((name) => name !== "").join("."), error.issue.message);
  }
}

/** Finds the lists and objects that have a mark inside. */
function mark(sent: unknown, state: State, depth: number, marked: Set<unknown>): boolean {
  if (state.places.length === 0 || depth > DEEPEST) return false;
  if (state.hidden) return sent === REDACTED;
  if (typeof sent !== "object" || sent === null) return false;
  let found = false;
  const look = (item: unknown, key: string): void => {
    found = mark(item, state.step(key), depth + 1, marked) || found;
  };
  if (Array.isArray(sent)) for (let index = 0; index < sent.length; index++) look(sent[index], String(index));
  else for (const key of Object.keys(sent)) look((sent as Record<string, unknown>)[key], key);
  if (found) marked.add(sent);
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

function refused(path: readonly string[], why: string): InvalidOptionError {
  return new InvalidOptionError(
    pathText(path),
    `is ${JSON.stringify(REDACTED)}, which stands for a value that is not shown, ${why}`,
  );
}
