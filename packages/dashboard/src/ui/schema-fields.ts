/** A form from a JSON Schema: which fields it has, and how their texts become values. The server checks them with the schema itself. */

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
    | { kind: "string"; format: string | null; minLength: number; maxLength: number; isLong: boolean }
    | { kind: "number"; isInteger: boolean; range: readonly string[] }
    | { kind: "boolean" }
    | { kind: "enum"; options: readonly unknown[] }
    | { kind: "list"; of: "string" | "number" | "integer" }
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
        isLong: format === null && maxLength > LONG_TEXT && maxLength !== Infinity,
      };
    }
    case "number":
    case "integer": {
      return { kind: "number", isInteger: types[0] === "integer", range: rangeOf(schema) };
    }
    case "boolean":
      return { kind: "boolean" };
    case "array": {
      const items = isObject(schema["items"]) ? resolve(schema["items"], root) : {};
      const [of] = typesOf(items);
      const isPlain =
        typesOf(items).length === 1 && optionsOf(items, root) === null && schema["prefixItems"] === undefined;
      if (!isPlain || (of !== "string" && of !== "number" && of !== "integer")) return { kind: "json" };
      return { kind: "list", of };
    }
    case "object": {
      const fields = depth < MAX_DEPTH ? objectFields(schema, root, depth + 1) : null;
      return fields === null || fields.length === 0 ? { kind: "json" } : { kind: "object", fields };
    }
    default:
      return { kind: "json" };
  }
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

function aboutOf(field: SchemaField): string {
  const parts: string[] = [];
  switch (field.kind) {
    case "string":
      parts.push(field.format === null ? "string" : field.format);
      if (field.maxLength !== Infinity) parts.push(`up to ${field.maxLength} characters`);
      break;
    case "number":
      parts.push(field.isInteger ? "integer" : "number", ...field.range);
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

function rangeOf({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }: JsonSchema): string[] {
  const part = (value: unknown, words: (value: number) => string): string[] =>
    // zod writes the range of exact integers as a limit; it says nothing to people.
    typeof value === "number" && Math.abs(value) < Number.MAX_SAFE_INTEGER ? [words(value)] : [];
  return [
    ...part(exclusiveMinimum, (value) => `more than ${value}`),
    ...part(minimum, (value) => `${value} or more`),
    ...part(exclusiveMaximum, (value) => `less than ${value}`),
    ...part(maximum, (value) => `${value} or less`),
    ...part(multipleOf, (value) => `a multiple of ${value}`),
  ];
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

/** The input of a field as a value; undefined: the key is left out. What is no number stays a string, and the server says so. */
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
