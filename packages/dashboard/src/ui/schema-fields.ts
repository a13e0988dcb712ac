/** A form from a JSON Schema: which fields it has, and how their texts become values. Pure. */

export type JsonSchema = { readonly [keyword: string]: unknown };

interface Base {
  /** The key in the object. */
  name: string;
  /** Title, or the key. */
  label: string;
  isRequired: boolean;
  isNullable: boolean;
  description: string | null;
  /** Undefined: none. */
  initial: unknown;
  /** "integer, 1 or more". */
  about: string;
}
export type SchemaField = Base &
  (
    | {
        kind: "string";
        format: string | null;
        minLength: number;
        maxLength: number;
        pattern: string | null;
        isLong: boolean;
      }
    | {
        kind: "number";
        isInteger: boolean;
        min: number | null;
        max: number | null;
        step: number | null;
        isMinOpen: boolean;
        isMaxOpen: boolean;
      }
    | { kind: "boolean" }
    | { kind: "enum"; options: readonly unknown[] }
    | { kind: "list"; of: "string" | "number" | "integer"; minItems: number; maxItems: number }
    | { kind: "object"; fields: readonly SchemaField[] }
    /** Anything else: the field is JSON. */
    | { kind: "json" }
  );

const MAX_DEPTH = 4;
const MAX_OPTIONS = 200;
const LONG_TEXT = 200;

/** The fields of an object; null: the schema is not of an object with known fields, so the whole input is JSON. */
export function fieldsOf(schema: JsonSchema): readonly SchemaField[] | null {
  const root = resolve(schema, schema);
  return objectFields(root, schema, 0);
}

function objectFields(schema: JsonSchema, root: JsonSchema, depth: number): readonly SchemaField[] | null {
  const { properties, required, allOf, anyOf, oneOf } = schema;
  if (typesOf(schema).some((type) => type !== "object") || !isObject(properties)) return null;
  // A choice between objects: a form would hide half of it.
  if (allOf !== undefined || anyOf !== undefined || oneOf !== undefined) return null;
  const names = Array.isArray(required) ? required : [];
  return Object.entries(properties).map(([name, given]) => {
    const property = isObject(given) ? given : {};
    return fieldOf(name, property, root, names.includes(name), depth);
  });
}

function fieldOf(name: string, given: JsonSchema, root: JsonSchema, isRequired: boolean, depth: number): SchemaField {
  const { schema, isNullable } = withoutNull(resolve(given, root), root);
  const text = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);
  const base = {
    name,
    label: text(given["title"]) ?? text(schema["title"]) ?? name,
    isRequired,
    isNullable,
    description: text(given["description"]) ?? text(schema["description"]),
    initial: "default" in given ? given["default"] : schema["default"],
  };
  const field = { ...base, about: "", ...kindOf(schema, root, depth) } as SchemaField;
  return { ...field, about: aboutOf(field) };
}

function kindOf(schema: JsonSchema, root: JsonSchema, depth: number): object {
  const number = (key: string): number | null => (typeof schema[key] === "number" ? schema[key] : null);
  const options = optionsOf(schema, root);
  if (options !== null) return { kind: "enum", options };
  const types = typesOf(schema);
  if (types.length > 1 || ["allOf", "anyOf", "oneOf", "not", "if"].some((key) => schema[key] !== undefined))
    return { kind: "json" };
  switch (types[0]) {
    case "string": {
      const format = typeof schema["format"] === "string" ? schema["format"] : null;
      const maxLength = number("maxLength") ?? Infinity;
      return {
        kind: "string",
        format,
        minLength: number("minLength") ?? 0,
        maxLength,
        pattern: typeof schema["pattern"] === "string" ? schema["pattern"] : null,
        isLong: format === null && maxLength > LONG_TEXT && maxLength !== Infinity,
      };
    }
    case "number":
    case "integer": {
      const [min, minOpen] = bound(number("minimum"), number("exclusiveMinimum"), Math.max);
      const [max, maxOpen] = bound(number("maximum"), number("exclusiveMaximum"), Math.min);
      // zod writes the range of exact integers as a limit; it says nothing to people.
      const isReal = (value: number | null): boolean => value !== null && Math.abs(value) < Number.MAX_SAFE_INTEGER;
      return {
        kind: "number",
        isInteger: types[0] === "integer",
        min: isReal(min) ? min : null,
        max: isReal(max) ? max : null,
        step: number("multipleOf"),
        isMinOpen: minOpen,
        isMaxOpen: maxOpen,
      };
    }
    case "boolean":
      return { kind: "boolean" };
    case "array": {
      const items = isObject(schema["items"]) ? resolve(schema["items"], root) : {};
      const [of] = typesOf(items);
      const isPlain =
        typesOf(items).length === 1 && optionsOf(items, root) === null && schema["prefixItems"] === undefined;
      if (!isPlain || (of !== "string" && of !== "number" && of !== "integer")) return { kind: "json" };
      return { kind: "list", of, minItems: number("minItems") ?? 0, maxItems: number("maxItems") ?? Infinity };
    }
    case "object": {
      const fields = depth < MAX_DEPTH ? objectFields(schema, root, depth + 1) : null;
      return fields === null || fields.length === 0 ? { kind: "json" } : { kind: "object", fields };
    }
    default:
      return { kind: "json" };
  }
}

function bound(
  closed: number | null,
  open: number | null,
  tighter: (a: number, b: number) => number,
): [number | null, boolean] {
  if (open === null) return [closed, false];
  if (closed === null) return [open, true];
  return tighter(closed, open) === closed && closed !== open ? [closed, false] : [open, true];
}

/** The values of `enum`, of `const`, or of alternatives that are all `const`. */
function optionsOf(schema: JsonSchema, root: JsonSchema): readonly unknown[] | null {
  const isPlain = (value: unknown): boolean => value === null || typeof value !== "object";
  if ("const" in schema) return isPlain(schema["const"]) ? [schema["const"]] : null;
  const { enum: values } = schema;
  if (Array.isArray(values)) return values.every(isPlain) && values.length <= MAX_OPTIONS ? values : null;
  const choices = schema["anyOf"] ?? schema["oneOf"];
  if (!Array.isArray(choices) || choices.length === 0) return null;
  const each = choices.map((choice) => (isObject(choice) ? resolve(choice, root) : {}));
  return each.every((choice) => "const" in choice && isPlain(choice["const"]))
    ? each.map((choice) => choice["const"])
    : null;
}

/** `["string", "null"]` and `anyOf: [T, { type: "null" }]` are T that may be null. */
function withoutNull(schema: JsonSchema, root: JsonSchema): { schema: JsonSchema; isNullable: boolean } {
  const types = typesOf(schema);
  if (types.includes("null") && types.length > 1) {
    const others = types.filter((type) => type !== "null");
    return { schema: { ...schema, type: others.length === 1 ? others[0] : others }, isNullable: true };
  }
  const key = Array.isArray(schema["anyOf"]) ? "anyOf" : "oneOf";
  const choices = schema[key];
  if (!Array.isArray(choices)) return { schema, isNullable: false };
  const others = choices.filter((choice) => !(isObject(choice) && choice["type"] === "null"));
  if (others.length === choices.length) return { schema, isNullable: false };
  const { [key]: _choices, ...rest } = schema;
  const [only] = others;
  if (others.length === 1 && isObject(only)) return { schema: { ...rest, ...resolve(only, root) }, isNullable: true };
  return { schema: { ...rest, [key]: others }, isNullable: true };
}

/** Follows references within the schema. */
function resolve(schema: JsonSchema, root: JsonSchema): JsonSchema {
  let current = schema;
  for (let steps = 0; steps < 10; steps++) {
    const { $ref: reference, ...rest } = current;
    if (typeof reference !== "string" || !reference.startsWith("#")) return current;
    let found: unknown = root;
    for (const part of reference.slice(1).split("/").slice(1)) {
      const key = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
      found = isObject(found) && Object.hasOwn(found, key) ? found[key] : undefined;
    }
    if (!isObject(found)) return {};
    current = { ...found, ...rest };
  }
  return {};
}

function typesOf({ type }: JsonSchema): string[] {
  if (Array.isArray(type)) return type.filter((each) => typeof each === "string");
  return typeof type === "string" ? [type] : [];
}

function isObject(value: unknown): value is JsonSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const FORMATS: Readonly<Record<string, string>> = {
  email: "email",
  uri: "URL",
  url: "URL",
  uuid: "UUID",
  date: "date",
  "date-time": "date and time",
  time: "time",
  ipv4: "IPv4 address",
  ipv6: "IPv6 address",
};

function aboutOf(field: SchemaField): string {
  const parts: string[] = [];
  switch (field.kind) {
    case "string":
      parts.push(field.format === null ? "string" : (FORMATS[field.format] ?? field.format));
      if (field.maxLength !== Infinity) parts.push(`up to ${field.maxLength} characters`);
      break;
    case "number":
      parts.push(field.isInteger ? "integer" : "number", ...rangeOf(field));
      break;
    case "boolean":
      parts.push("boolean");
      break;
    case "enum":
      parts.push(field.options.length === 1 ? "fixed" : `one of ${field.options.length}`);
      break;
    case "list":
      parts.push(`list of ${field.of === "integer" ? "integers" : `${field.of}s`}`);
      break;
    case "json":
      parts.push("JSON");
      break;
    case "object":
  }
  const { initial, isRequired, isNullable } = field;
  if (initial !== undefined && (initial === null || typeof initial !== "object"))
    parts.push(`default ${plainText(initial)}`);
  else if (!isRequired) parts.push("optional");
  if (isNullable) parts.push("may be null");
  return parts.join(", ");
}

function rangeOf({
  min,
  max,
  isMinOpen: minOpen,
  isMaxOpen: maxOpen,
  step,
}: SchemaField & { kind: "number" }): string[] {
  const parts: string[] = [];
  if (min !== null && max !== null && !minOpen && !maxOpen) parts.push(`${min} to ${max}`);
  else {
    if (min !== null) parts.push(minOpen ? `more than ${min}` : `${min} or more`);
    if (max !== null) parts.push(maxOpen ? `less than ${max}` : `${max} or less`);
  }
  if (step !== null) parts.push(`a multiple of ${step}`);
  return parts;
}

/** The object with the defaults of its fields; required booleans are false, and required objects are there. */
export function initialValue(fields: readonly SchemaField[]): Record<string, unknown> {
  const value: Record<string, unknown> = {};
  for (const field of fields) {
    if (field.initial !== undefined) value[field.name] = field.initial;
    else if (field.kind === "boolean" && field.isRequired) value[field.name] = false;
    else if (field.kind === "enum" && field.options.length === 1 && field.isRequired)
      [value[field.name]] = field.options;
    else if (field.kind === "object" && field.isRequired) value[field.name] = initialValue(field.fields);
  }
  return value;
}

/** What was typed into a field, as a value; undefined: the key is left out. What is no number stays a string, and the check says so. */
export function valueOf(field: SchemaField, text: string): unknown {
  if (text === "" && !(field.kind === "string" && field.isRequired && field.minLength === 0 && !field.isNullable))
    return undefined;
  switch (field.kind) {
    case "number":
      return numberOf(text) ?? text;
    case "enum":
      return field.options[Number(text)];
    case "list":
      return text
        .split("\n")
        .filter((line) => line.trim() !== "")
        .map((line) => (field.of === "string" ? line.trim() : (numberOf(line) ?? line.trim())));
    case "boolean":
      return text === "true";
    default:
      return text;
  }
}

/** A value as the text of its field. */
export function textOf(field: SchemaField, value: unknown): string {
  if (value === undefined || value === null) return "";
  if (field.kind === "enum") {
    const at = field.options.indexOf(value);
    return at < 0 ? "" : String(at);
  }
  if (field.kind === "list" && Array.isArray(value)) return value.map(plainText).join("\n");
  return plainText(value);
}

/** A string as it is, anything else as JSON. */
export function plainText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function numberOf(text: string): number | null {
  const trimmed = text.trim();
  return /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(trimmed) && Number.isFinite(Number(trimmed))
    ? Number(trimmed)
    : null;
}

/** What is wrong with a value, in a sentence; null: nothing that the form can see. The server checks with the real schema. */
export function problemOf(field: SchemaField, value: unknown): string | null {
  if (value === undefined) {
    const isMissing = field.isRequired && field.initial === undefined && field.kind !== "json";
    return isMissing ? "is required" : null;
  }
  if (value === null) return field.isNullable ? null : "must not be null";
  switch (field.kind) {
    case "string":
      return stringProblem(field, value);
    case "number":
      return numberProblem(field, value);
    case "boolean":
      return typeof value === "boolean" ? null : "must be true or false";
    case "enum":
      return field.options.includes(value)
        ? null
        : `must be one of ${field.options.slice(0, 5).map(plainText).join(", ")}`;
    case "list": {
      if (!Array.isArray(value)) return "must be a list";
      if (value.length < field.minItems) return `must have at least ${field.minItems} lines`;
      if (value.length > field.maxItems) return `must have at most ${field.maxItems} lines`;
      const isWrong =
        field.of !== "string" &&
        value.some((item) => typeof item !== "number" || (field.of === "integer" && !Number.isInteger(item)));
      return isWrong ? `must have one ${field.of} per line` : null;
    }
    case "object":
      return typeof value === "object" && !Array.isArray(value) ? null : "must be an object";
    case "json":
      return null;
  }
}

const EMAIL = /^[^\s@]+@[^\s@]+\.[^\s@]+$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

function stringProblem(
  { format, minLength, maxLength, pattern }: SchemaField & { kind: "string" },
  value: unknown,
): string | null {
  if (typeof value !== "string") return "must be a string";
  // As JSON Schema counts: characters, not UTF-16 units.
  const length = Array.from(value).length;
  if (length < minLength) return minLength === 1 ? "must not be empty" : `must have at least ${minLength} characters`;
  if (length > maxLength) return `must have at most ${maxLength} characters`;
  if (format === "email" && !EMAIL.test(value)) return "must be an email address";
  if (format === "uuid" && !UUID.test(value)) return "must be a UUID";
  if ((format === "uri" || format === "url") && !URL.canParse(value)) return "must be a URL";
  if (format === "date-time" && !/^\d{4}-\d\d-\d\dT.*(?:Z|[+-]\d\d:?\d\d)$/.test(value))
    return "must be a time such as 2026-11-18T09:30:00Z";
  if (format === "date" && !/^\d{4}-\d\d-\d\d$/.test(value)) return "must be a date such as 2026-11-18";
  // A known format says more than its pattern.
  if (pattern === null || (format !== null && format in FORMATS)) return null;
  return matches(pattern, value) ? null : `must match ${pattern}`;
}

function matches(pattern: string, value: string): boolean {
  // A pattern may be slow on a long text; the server decides.
  if (value.length > 1_000) return true;
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}

function numberProblem(field: SchemaField & { kind: "number" }, value: unknown): string | null {
  const { isInteger, min, max, isMinOpen: minOpen, isMaxOpen: maxOpen, step } = field;
  if (typeof value !== "number")
    return `must be ${isInteger ? "an integer" : "a number"}, not the string ${JSON.stringify(value).slice(0, 40)}`;
  if (isInteger && !Number.isInteger(value)) return "must be an integer";
  if (isInteger && !Number.isSafeInteger(value)) return "has more digits than a number in JavaScript";
  if (min !== null && (minOpen ? value <= min : value < min))
    return `must be ${minOpen ? `more than ${min}` : `${min} or more`}`;
  if (max !== null && (maxOpen ? value >= max : value > max))
    return `must be ${maxOpen ? `less than ${max}` : `${max} or less`}`;
  if (step !== null && Math.abs(value / step - Math.round(value / step)) > 1e-9) return `must be a multiple of ${step}`;
  return null;
}

/** All problems of an object, with the paths of their fields. */
export function problemsOf(
  fields: readonly SchemaField[],
  value: unknown,
  path = "",
): { path: string; message: string }[] {
  const object = isObject(value) ? value : {};
  return fields.flatMap((field) => {
    const own = `${path}${field.name}`;
    const member = object[field.name];
    const problem = problemOf(field, member);
    if (problem !== null) return [{ path: own, message: problem }];
    return field.kind === "object" && member != null ? problemsOf(field.fields, member, `${own}.`) : [];
  });
}
