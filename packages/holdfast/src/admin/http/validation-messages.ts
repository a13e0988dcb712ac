import { z } from "zod";
import { didYouMean } from "../../nearest.js";
import { show } from "../../options.js";

const KINDS: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "an integer",
  boolean: "true or false",
  array: "an array",
  object: "an object",
};
const SIZES: Readonly<Record<string, string>> = { string: " characters", array: " entries" };

/** The message for a validation issue. It follows the name of the field. */
export function validationMessage(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === "unrecognized_keys") return unknownField(issue);
  if (issue.code === "invalid_type" && issue.input === undefined) return "is required";
  if (issue.code === "too_small" && issue.minimum === 1 && issue.origin in SIZES) return "must not be empty";
  if (issue.code === "invalid_union") {
    // If the value matches one alternative except for a nested field, report that field.
    const part = issue.errors.map(([first]) => first).find((first) => first !== undefined && first.path.length > 0);
    if (part !== undefined) return `${part.path.join(".")} ${part.message}`;
  }
  const expected = expectedBy(issue);
  if (expected !== null && (issue.code === "too_big" || issue.code === "too_small") && issue.origin in SIZES)
    return `must have ${expected}, got ${received(issue)}`;
  return expected === null ? undefined : `must be ${expected}, got ${received(issue)}`;
}

function unknownField({ keys, inst }: z.core.$ZodRawIssue<z.core.$ZodIssueUnrecognizedKeys>): string {
  const [key = ""] = keys;
  const known = inst instanceof z.ZodObject ? Object.keys(inst.shape) : [];
  return `unknown field${didYouMean(key, known)}`;
}

/** The end of the sentence "must be …"; null: use the default message. */
function expectedBy(issue: z.core.$ZodRawIssue | z.core.$ZodIssue): string | null {
  switch (issue.code) {
    case "invalid_type":
      return KINDS[issue.expected] ?? null;
    case "invalid_value":
      return joinWithOr(issue.values.map(String));
    case "too_big":
      return `at most ${Number(issue.maximum)}${SIZES[issue.origin] ?? ""}`;
    case "too_small":
      return `at least ${Number(issue.minimum)}${SIZES[issue.origin] ?? ""}`;
    case "invalid_format":
      return issue.format === "datetime" ? "a time like 2026-11-15T12:00:00Z" : null;
    case "invalid_union": {
      const expected = issue.errors.map(([first]) => (first === undefined ? null : expectedBy(first)));
      return expected.includes(null) ? null : joinWithOr(expected as string[]);
    }
    default:
      return null;
  }
}

function joinWithOr(alternatives: readonly string[]): string {
  return alternatives.length < 2
    ? alternatives.join("")
    : `${alternatives.slice(0, -1).join(", ")} or ${alternatives.at(-1)}`;
}

/** The length of a value that is too long or too short; otherwise the value. */
function received({ code, input }: z.core.$ZodRawIssue): string {
  const isSize = code === "too_big" || code === "too_small";
  const hasLength = isSize && (typeof input === "string" || Array.isArray(input));
  return hasLength ? String(input.length) : show(input);
}
