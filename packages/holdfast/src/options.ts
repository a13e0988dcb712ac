import { LIMITS } from "./defaults.js";
import { InvalidOptionError } from "./errors.js";
import { nearest } from "./nearest.js";

/** Formats a value for an error message. Never throws, and the result is short. */
export function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length <= 60 ? value : `${value.slice(0, 59)}…`);
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" && value !== null ? "an object" : String(value);
}

/** Reads a name: a non-empty string without control characters. */
export function readName(value: unknown, field: string, maxLength: number): string {
  if (typeof value !== "string" || value === "") throw new InvalidOptionError(field, "must be a non-empty string");
  if (value.length > maxLength)
    throw new InvalidOptionError(field, `is ${value.length} characters long; the limit is ${maxLength}`);
  // oxlint-disable-next-line no-control-regex -- the expression must match control characters
  if (/[\u0000-\u001f\u007f]/.test(value) || !value.isWellFormed()) {
    throw new InvalidOptionError(field, "contains control characters or broken Unicode");
  }
  return value;
}

/** Reads the name of a queue. `*` is refused: the caller probably means all queues, and would get a queue called `*`. */
export function readQueue(value: unknown, field = "queue", orElse = ", or omit the option"): string {
  const queue = readName(value, field, LIMITS.queueLength);
  if (queue.trim() === "") throw new InvalidOptionError(field, "must not consist of spaces only");
  if (queue !== "*") return queue;
  throw new InvalidOptionError(
    field,
    `"*" is not a queue name and does not mean all queues; name each queue (hf.queues() lists them)${orElse}`,
  );
}

export function readPriority(value: unknown): number {
  if (!Number.isInteger(value) || Math.abs(value as number) > LIMITS.priority) {
    throw new InvalidOptionError(
      "priority",
      `${show(value)} is not a whole number from -${LIMITS.priority} to ${LIMITS.priority}`,
    );
  }
  return (value as number) + 0;
}

export function readTags(tags: readonly string[]): readonly string[] {
  if (!Array.isArray(tags) || tags.length > LIMITS.tags)
    throw new InvalidOptionError("tags", `must be an array of at most ${LIMITS.tags} tags`);
  return [...new Set(tags.map((tag, index) => readName(tag, `tags.${index}`, LIMITS.tagLength)))];
}

export function readCount(value: unknown, field: string, min: number, max: number): number {
  if (!Number.isInteger(value) || (value as number) < min || (value as number) > max) {
    throw new InvalidOptionError(field, `${show(value)} is not a whole number from ${min} to ${max}`);
  }
  return value as number;
}

/**
 * The keys of an options interface, to refuse unknown options. The compiler checks that they are complete: a key that is missing
 * here, or that the interface does not have, is an error.
 */
export function optionKeys<Options extends object>(keys: {
  readonly [Key in keyof Required<Options>]: true;
}): ReadonlySet<string> {
  return new Set(Object.keys(keys));
}

/**
 * Refuses unknown options: a misspelled one would be ignored silently, and in JavaScript no compiler catches it. `elsewhere`
 * suggests where a misplaced option belongs.
 */
export function refuseUnknown(
  options: object,
  known: ReadonlySet<string>,
  what: string,
  elsewhere?: (key: string) => string | null,
): void {
  refuse(options, known, { what, within: "", ...(elsewhere !== undefined && { elsewhere }) });
}

/** Refuses fields that are present but undefined: a missing value must not look like an omitted field. */
export function refuseUndefined(options: object, advice = "give it a value, or leave it out"): void {
  for (const [field, value] of Object.entries(options)) {
    if (value === undefined) throw new InvalidOptionError(field, `is undefined; ${advice}`);
  }
}

/** The same for nested options: the error names the full path. */
export function refuseUnknownIn(
  options: object,
  known: ReadonlySet<string>,
  path: string,
  elsewhere?: (key: string) => string | null,
): void {
  refuse(options, known, { what: path, within: `${path}.`, ...(elsewhere !== undefined && { elsewhere }) });
}

interface Where {
  readonly what: string;
  readonly within: string;
  readonly elsewhere?: (key: string) => string | null;
}

function refuse(options: object, known: ReadonlySet<string>, { what, within, elsewhere }: Where): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new InvalidOptionError(what, `${show(options)} is not an options object; known: ${[...known].join(", ")}`);
  }
  for (const key of Object.keys(options)) {
    if (known.has(key)) continue;
    const meant = elsewhere?.(key) ?? nearest(key, [...known]);
    throw new InvalidOptionError(
      `${within}${key}`,
      `is not an option of ${what}; known: ${[...known].join(", ")}${meant === null ? "" : `; did you mean ${meant}?`}`,
    );
  }
}
