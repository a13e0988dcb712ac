import { z } from "zod";
import { didYouMean } from "../../config/nearest.js";
import { show } from "../../options.js";

const KINDS: Readonly<Record<string, string>> = {
  string: "a text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
};
const SIZES: Readonly<Record<string, string>> = { string: " characters", array: " entries" };

/** What is wrong with a field, in words that go after its name. */
export function inWords(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === "unrecognized_keys") return unknownField(issue);
  if (issue.code === "invalid_type" && issue.input === undefined) return "is missing";
  if (issue.code === "too_small" && issue.minimum === 1 && issue.origin in SIZES) return "must not be empty";
  if (issue.code === "invalid_union") {
    // The one whose kind it is, if only a part of it is wrong.
    const part = issue.errors.map(([first]) => first).find((first) => first !== undefined && first.path.length > 0);
    if (part !== undefined) return `${part.path.join(".")} ${part.message}`;
  }
  const wanted = wantedBy(issue);
  return wanted === null ? undefined : `must be ${wanted}, and is ${shown(issue)}`;
}

function unknownField({ keys, inst }: z.core.$ZodRawIssue<z.core.$ZodIssueUnrecognizedKeys>): string {
  const [key = ""] = keys;
  const known = inst instanceof z.ZodObject ? Object.keys(inst.shape) : [];
  return `there is no such field${didYouMean(key, known)}`;
}

/** As it goes after "must be"; null: there are no words for it here. */
function wantedBy(issue: z.core.$ZodRawIssue | z.core.$ZodIssue): string | null {
  switch (issue.code) {
    case "invalid_type":
      return KINDS[issue.expected] ?? null;
    case "invalid_value":
      return inARow(issue.values.map(String));
    case "too_big":
      return `${Number(issue.maximum)}${SIZES[issue.origin] ?? ""} at most`;
    case "too_small":
      return `${Number(issue.minimum)}${SIZES[issue.origin] ?? ""} at least`;
    case "invalid_format":
      return issue.format === "datetime" ? "an instant like 2026-11-15T12:00:00Z" : null;
    case "invalid_union": {
      const ways = issue.errors.map(([first]) => (first === undefined ? null : wantedBy(first)));
      return ways.includes(null) ? null : inARow(ways as string[]);
    }
    default:
      return null;
  }
}

function inARow(words: readonly string[]): string {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

/** Of what is too long or too short its length, of the rest what it is. */
function shown({ code, input }: z.core.$ZodRawIssue): string {
  const isSize = code === "too_big" || code === "too_small";
  const counts = isSize && (typeof input === "string" || Array.isArray(input));
  return counts ? String(input.length) : show(input);
}
