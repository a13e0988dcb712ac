import { LIMITS } from "./defaults.js";
import { InvalidOptionError, PayloadTooLargeError } from "./errors.js";
import { jsonBytes, NotJson, pathText, toJson } from "./job/json.js";
import { REDACTED, redactionOf, redactor, type MatcherState } from "./redact.js";

/**
 * Restores redacted values: returns `sent` with each placeholder at a redacted path replaced by the stored value. Throws
 * `InvalidOptionError` if no value is stored there or if it is ambiguous which one is meant, and `PayloadTooLargeError` if a part
 * with placeholders is too large to be stored.
 */
export type Restorer = (sent: unknown, stored: unknown) => unknown;

// Deeper than any valid payload. Deeper values are refused: see `refuseNotJson`.
const MAX_DEPTH = 250;

/**
 * The inverse of `redactor(paths)`. A client that edits a redacted payload sends the placeholders back, and they must not be
 * stored instead of the real values.
 */
export function restorer(paths: readonly string[]): Restorer {
  const start = redactionOf(paths);
  const redact = redactor(paths);
  return (sent, stored) => {
    const parts = Object.entries(typeof sent === "object" && sent !== null ? sent : { "": sent });
    // A quick check first: a payload may have very many values, and most have no placeholder.
    if (!parts.map(([part, value]) => serialize(part, value)).some((json) => json.includes(PLACEHOLDER))) return sent;
    const marked = new Set<unknown>();
    if (!mark(sent, start, 0, marked)) return sent;
    // `mark` ignores values that are nested too deep. Refuse them here, or their placeholders would be stored.
    for (const [part, value] of parts) refuseNotJson(part, value);
    return restore(sent, { stored, shown: redact(stored), state: start, path: [] }, marked);
  };
}

const PLACEHOLDER = JSON.stringify(REDACTED);

/** Serializes a part. Refuses one that is too large to be stored, whatever values replace its placeholders. */
function serialize(part: string, value: unknown): string {
  const json = stringified(value) ?? refuseNotJson(part, value);
  const bytes = jsonBytes(json);
  if (bytes <= LIMITS.payloadBytes) return json;
  // Each placeholder may become a value of one byte. The restored payload is measured again when it is stored.
  const minBytes = bytes - (json.split(PLACEHOLDER).length - 1) * (PLACEHOLDER.length - 1);
  if (minBytes > LIMITS.payloadBytes) throw new PayloadTooLargeError(part, minBytes, LIMITS.payloadBytes);
  return json;
}

/** Null if `JSON.stringify` throws, for example because the value is nested too deep. */
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

/** Collects the arrays and objects that contain a placeholder. */
function mark(sent: unknown, state: MatcherState, depth: number, marked: Set<unknown>): boolean {
  if (state.positions.length === 0 || depth > MAX_DEPTH) return false;
  if (state.hidden) return sent === REDACTED;
  if (typeof sent !== "object" || sent === null) return false;
  let found = false;
  const visit = (item: unknown, key: string): void => {
    found = mark(item, state.step(key), depth + 1, marked) || found;
  };
  if (Array.isArray(sent)) for (let index = 0; index < sent.length; index++) visit(sent[index], String(index));
  else for (const key of Object.keys(sent)) visit((sent as Record<string, unknown>)[key], key);
  if (found) marked.add(sent);
  return found;
}

/** A position in a payload: the stored value there, and its redacted form. */
interface Position {
  stored: unknown;
  shown: unknown;
  state: MatcherState;
  path: readonly string[];
}

function restore(sent: unknown, position: Position, marked: ReadonlySet<unknown>): unknown {
  const { stored, state, path } = position;
  if (state.hidden) {
    if (sent !== REDACTED) return sent;
    if (stored === undefined) throw refused(path, "but no value is stored there; send the actual value");
    return stored;
  }
  if (!marked.has(sent)) return sent;
  if (!Array.isArray(sent)) {
    const entries = Object.entries(sent as object).map(([key, item]) => [
      key,
      restore(item, at(position, key), marked),
    ]);
    return Object.fromEntries(entries) as object;
  }
  const shown: readonly unknown[] = Array.isArray(position.shown) ? position.shown : [];
  const before = shown.map((item) => JSON.stringify(item));
  const after = sent.map((item) => JSON.stringify(item));
  const known = new Set(before);
  // An index identifies a value only if the other items kept their positions or new items were appended.
  const keepsPrefix = before.every((json, nth) => json === after[nth]);
  const isInPlace = (index: number): boolean =>
    keepsPrefix || (sent.length === shown.length && (after[index] === before[index] || !known.has(after[index] ?? "")));
  return sent.map((item: unknown, index) => {
    const inside = at(position, String(index));
    const isMarked = marked.has(item) || (item === REDACTED && inside.state.hidden);
    if (isMarked && !isInPlace(index)) {
      throw refused(inside.path, "in an array that was reordered or shortened; send the actual value");
    }
    return restore(item, inside, marked);
  });
}

function at({ stored, shown, state, path }: Position, key: string): Position {
  return { stored: own(stored, key), shown: own(shown, key), state: state.step(key), path: [...path, key] };
}

function own(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as Record<string, unknown>)[key];
}

function refused(path: readonly string[], why: string): InvalidOptionError {
  return new InvalidOptionError(
    pathText(path),
    `is ${JSON.stringify(REDACTED)}, the placeholder of a hidden value, ${why}`,
  );
}
