import { LIMITS } from "./defaults.js";
import { InvalidOptionError } from "./errors.js";

/** A value as an error message shows it: never throws, never long. */
export function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length <= 60 ? value : `${value.slice(0, 59)}…`);
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" && value !== null ? "an object" : String(value);
}

/** A text that names something: not empty, not too long, no control characters. */
export function readName(value: unknown, field: string, longest: number): string {
  if (typeof value !== "string" || value === "")
    throw new InvalidOptionError(field, "must be a text that is not empty");
  if (value.length > longest)
    throw new InvalidOptionError(field, `is ${value.length} characters long; at most ${longest}`);
  // oxlint-disable-next-line no-control-regex -- control characters are just what is looked for
  if (/[\u0000-\u001f\u007f]/.test(value) || !value.isWellFormed()) {
    throw new InvalidOptionError(field, "contains control characters or broken Unicode");
  }
  return value;
}

/** The name of a queue. `*` is none: whoever writes it means all of them, and would get a queue that nobody uses. */
export function readQueue(value: unknown, field = "queue", orElse = ", or leave the option out"): string {
  const queue = readName(value, field, LIMITS.queueLength);
  if (queue !== "*") return queue;
  throw new InvalidOptionError(
    field,
    `"*" is not the name of a queue, nor does it mean all of them; name each queue (hf.queues() lists them)${orElse}`,
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
    throw new InvalidOptionError("tags", `must be a list of at most ${LIMITS.tags}`);
  return [...new Set(tags.map((tag, index) => readName(tag, `tags.${index}`, LIMITS.tagLength)))];
}

export function readCount(value: unknown, field: string, least: number, most: number): number {
  if (!Number.isInteger(value) || (value as number) < least || (value as number) > most) {
    throw new InvalidOptionError(field, `${show(value)} is not a whole number from ${least} to ${most}`);
  }
  return value as number;
}

/** A misspelt option would be ignored in silence; in plain JavaScript no compiler catches it. */
export function refuseUnknown(options: object, known: ReadonlySet<string>, what: string): void {
  refuse(options, known, { what, within: "" });
}

/** The same for options within an option: the error names the whole path. `elsewhere`: where one that others have belongs. */
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
    throw new InvalidOptionError(what, `${show(options)} is not an object of options; known: ${[...known].join(", ")}`);
  }
  for (const key of Object.keys(options)) {
    if (known.has(key)) continue;
    const other = elsewhere?.(key) ?? null;
    const meant = other === null ? "" : `; did you mean ${other}?`;
    throw new InvalidOptionError(
      `${within}${key}`,
      `is not an option of ${what}; known: ${[...known].join(", ")}${meant}`,
    );
  }
}
