import { randomUUID } from "node:crypto";

/** Fields of results that are sent as the JSON text they are stored as. */
const RAW = new WeakMap<object, Readonly<Record<string, string>>>();

/** Marks fields of a result: their values are sent as these JSON texts, with all digits of their numbers. */
export function withRawJson<Result extends object>(result: Result, texts: Readonly<Record<string, string>>): Result {
  RAW.set(result, texts);
  return result;
}

/** `JSON.stringify`, with the fields of `withRawJson`. */
export function stringify(body: unknown): string {
  const texts = typeof body === "object" && body !== null ? RAW.get(body) : undefined;
  if (texts === undefined) return JSON.stringify(body);
  // The marks are random, so no other string of the result contains one.
  const marks = Object.fromEntries(Object.keys(texts).map((field) => [field, `raw-${randomUUID()}`]));
  let json = JSON.stringify({ ...(body as object), ...marks });
  for (const [field, mark] of Object.entries(marks)) json = json.replace(`"${mark}"`, () => texts[field] as string);
  return json;
}

/**
 * The text, if it says the same as `value`, which was parsed from it, except that numbers of `value` may have lost digits. Null if
 * the value says all that the text does, or if the text has something else that the value has not: of two fields with the same name,
 * a parser drops the first, and nothing would redact it.
 */
export function losslessText(text: string, value: unknown): string | null {
  return JSON.stringify(value) === text || !hasLostDigits(text) || hasDroppedName(text) ? null : text;
}

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|[{}[\],:]/g;

function hasLostDigits(text: string): boolean {
  for (const [token] of text.matchAll(TOKEN)) if (/^[-\d]/.test(token) && !isExact(token)) return true;
  return false;
}

/** Whether the number that a program reads has the digits of the text, apart from zeros that do not count. */
function isExact(token: string): boolean {
  return digitsOf(token) === digitsOf(String(Number(token)));
}

/** A number as its digits without zeros around them, and a power of ten. */
function digitsOf(token: string): string {
  const [, sign = "", whole = "", part = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(token) ?? [];
  const digits = `${whole}${part}`.replace(/^0+/, "");
  const shown = withoutLastZeros(digits);
  if (shown === "") return whole === "" ? token : "0";
  return `${sign}${shown}e${Number(exponent) - part.length + digits.length - shown.length}`;
}

/** Not by a regular expression, which would take minutes for 250,000 zeros before another digit. */
function withoutLastZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === "0") end--;
  return digits.slice(0, end);
}

function hasDroppedName(text: string): boolean {
  // For each open bracket: the names of an object so far, or null for an array.
  const open: (Set<string> | null)[] = [];
  let last = "";
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === "{") open.push(new Set());
    else if (token === "[") open.push(null);
    else if (token === "}" || token === "]") open.pop();
    else if (token === ":") {
      const names = open.at(-1);
      const name = JSON.parse(last) as string;
      // No parser of ours keeps this name.
      if (name === "__proto__" || names?.has(name) === true) return true;
      names?.add(name);
    }
    last = token;
  }
  return false;
}
