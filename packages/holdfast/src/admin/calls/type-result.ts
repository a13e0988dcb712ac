import type { EngineContext } from "../../engine/context.js";
import type { JobType } from "../../job/job.js";
import type { Redactor } from "../../redact.js";
import type { TypeResult } from "../contract/api-types.js";

const MAX_SCHEMA_LENGTH = 200_000;
const TARGET = "draft-2020-12";

/** What this server knows of a job type. */
export function typeResult({ types, retry, redact }: EngineContext, name: string): TypeResult {
  const type = types.get(name);
  const unknown = { type: name, known: false, defaults: null, description: null, takesInput: null, input: null };
  if (type === undefined) return unknown;
  const { queue, priority, timeoutMs, tags } = type;
  const input = inputSchema(type, redact);
  const description = input?.["description"];
  return {
    type: name,
    known: true,
    defaults: { queue, priority, maxAttempts: retry.applyTo(type).maxAttempts, timeoutMs, tags },
    description: typeof description === "string" ? description : null,
    takesInput: type.schema !== null,
    input,
  };
}

type JsonSchema = Record<string, unknown>;

/** The JSON Schema of the input, as Standard JSON Schema offers it; null if the schema does not, or cannot be represented. */
function inputSchema({ schema }: JobType, redact: Redactor): JsonSchema | null {
  try {
    const standard = schema?.["~standard"] as { jsonSchema?: { input?: (options: object) => unknown } } | undefined;
    // It is the user's code: the result may be anything.
    const text = JSON.stringify(standard?.jsonSchema?.input?.({ target: TARGET }) ?? null);
    if (text === undefined || text.length > MAX_SCHEMA_LENGTH) return null;
    const parsed: unknown = JSON.parse(text);
    return isSchema(parsed) ? withoutSecrets(parsed, [], redact) : null;
  } catch {
    return null;
  }
}

function isSchema(value: unknown): value is JsonSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Keywords with values of the input. */
const VALUES = ["default", "examples", "example", "const", "enum"];

/**
 * The schema without default values, examples and constants where the redaction hides the input. `path`: the names that lead to the
 * value; null where they are not known, as in `$defs`: nothing of those is shown.
 */
function withoutSecrets(schema: JsonSchema, path: readonly string[] | null, redact: Redactor): JsonSchema {
  const shown: JsonSchema = {};
  for (const [keyword, value] of Object.entries(schema)) {
    if (VALUES.includes(keyword)) {
      const given: unknown[] = keyword === "examples" || keyword === "enum" ? [value].flat() : [value];
      if (
        path === null ? keyword !== "enum" && keyword !== "const" : given.some((each) => isHidden(each, path, redact))
      )
        continue;
      define(shown, keyword, value);
    } else define(shown, keyword, withoutSecretsBelow(keyword, value, path, redact));
  }
  return shown;
}

function withoutSecretsBelow(
  keyword: string,
  value: unknown,
  path: readonly string[] | null,
  redact: Redactor,
): unknown {
  const below = (child: unknown, name: string | null): unknown =>
    isSchema(child) ? withoutSecrets(child, path === null || name === null ? path : [...path, name], redact) : child;
  switch (keyword) {
    case "properties":
      return isSchema(value) ? mapped(value, (child, name) => below(child, name)) : value;
    case "$defs":
    case "definitions":
    case "patternProperties":
    case "dependentSchemas":
      return isSchema(value)
        ? mapped(value, (child) => (isSchema(child) ? withoutSecrets(child, null, redact) : child))
        : value;
    case "prefixItems":
      return Array.isArray(value) ? value.map((child, at) => below(child, String(at))) : value;
    case "items":
      return below(value, "0");
    case "additionalProperties":
    case "unevaluatedProperties":
    case "contains":
    case "propertyNames":
      return isSchema(value) ? withoutSecrets(value, null, redact) : value;
    case "allOf":
    case "anyOf":
    case "oneOf":
      return Array.isArray(value) ? value.map((child) => below(child, null)) : value;
    case "not":
    case "if":
    case "then":
    case "else":
      return below(value, null);
    default:
      return value;
  }
}

/** Whether the redaction changes this value of the input, or one above it. */
function isHidden(value: unknown, path: readonly string[], redact: Redactor): boolean {
  let input: unknown = value;
  for (const name of path.toReversed()) input = define({}, name, input);
  const whole = { input };
  return redact(whole) !== whole;
}

function mapped(object: JsonSchema, map: (value: unknown, name: string) => unknown): JsonSchema {
  const result: JsonSchema = {};
  for (const [name, value] of Object.entries(object)) define(result, name, map(value, name));
  return result;
}

/** Not by assignment, which would lose a name such as `__proto__`. */
function define(object: JsonSchema, name: string, value: unknown): JsonSchema {
  return Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}
