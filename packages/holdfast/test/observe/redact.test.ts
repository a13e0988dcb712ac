import fc from "fast-check";
import { InvalidOptionError, redactor } from "holdfast";
import { describe, expect, it } from "vitest";
import { REDACTED } from "#src/observe/redact.js";

describe("a redactor", () => {
  it("hides only values at its paths", () => {
    const value = { input: { user: "ada", password: "secret", nested: { password: "kept" } } };
    expect(redactor(["input.password"])(value)).toEqual({
      input: { user: "ada", password: REDACTED, nested: { password: "kept" } },
    });
  });

  it("matches any key or index with *", () => {
    const cards = [{ number: "1", brand: "a" }, { number: "2" }, "3"];
    expect(redactor(["input.cards.*.number"])({ input: { cards } })).toEqual({
      input: { cards: [{ number: REDACTED, brand: "a" }, { number: REDACTED }, "3"] },
    });
    expect(redactor(["*.token"])({ a: { token: 1 }, token: 2, b: [{ token: 3 }] })).toEqual({
      a: { token: REDACTED },
      token: 2,
      b: [{ token: 3 }],
    });
  });

  it("matches any depth with **, including none", () => {
    const value = { token: 1, a: { token: { deep: 2 }, b: [{ token: null }] } };
    expect(redactor(["**.token"])(value)).toEqual({
      token: REDACTED,
      a: { token: REDACTED, b: [{ token: REDACTED }] },
    });
    expect(redactor(["a.**.b.**.c"])({ a: { b: { c: 1 }, x: { b: { y: { c: 2 } } }, c: 3 } })).toEqual({
      a: { b: { c: REDACTED }, x: { b: { y: { c: REDACTED } } }, c: 3 },
    });
    expect(redactor(["input.**"])({ input: { a: 1 }, output: 2 })).toEqual({ input: REDACTED, output: 2 });
  });

  it("hides objects, array items and the whole value", () => {
    expect(redactor(["input"])({ input: { a: 1 } })).toEqual({ input: REDACTED });
    expect(redactor(["a.1"])({ a: [1, 2, 3] })).toEqual({ a: [1, REDACTED, 3] });
    expect(redactor(["**"])({ a: 1 })).toBe(REDACTED);
  });

  it("treats an escaped dot or star as part of a key", () => {
    const value = { "a.b": 1, a: { b: 2 }, "*": 3, "a\\": { b: 4 } };
    expect(redactor([String.raw`a\.b`])(value)).toEqual({ ...value, "a.b": REDACTED });
    expect(redactor([String.raw`\*`])(value)).toEqual({ ...value, "*": REDACTED });
    expect(redactor([String.raw`a\\.b`])(value)).toEqual({ ...value, "a\\": { b: REDACTED } });
  });

  it("returns the same value if nothing is hidden", () => {
    const value = Object.freeze({ input: Object.freeze({ list: Object.freeze([Object.freeze({ a: 1 })]) }) });
    expect(redactor([])(value)).toBe(value);
    expect(redactor(["**.password", "input.list.*.b"])(value)).toBe(value);
    const shown = redactor(["input.list.*.a"])(value);
    expect([shown.input.list[0]?.a, value.input.list[0]?.a]).toEqual([REDACTED, 1]);
  });

  it("keeps a __proto__ key", () => {
    const value: unknown = JSON.parse(`{"__proto__": {"token": 1, "b": 2}, "c": {"token": 3}}`);
    const shown = redactor(["**.token"])(value);
    expect(JSON.stringify(shown)).toBe(`{"__proto__":{"token":"${REDACTED}","b":2},"c":{"token":"${REDACTED}"}}`);
    expect(Object.getPrototypeOf(shown)).toBe(Object.prototype);
  });

  it("hides values that are nested too deep", () => {
    let value: unknown = { token: "secret" };
    for (let depth = 0; depth < 5_000; depth++) value = [value];
    expect(JSON.stringify(redactor(["**.token"])(value))).not.toContain("secret");
  });

  it("is fast for large payloads and many paths", () => {
    const value = { input: Array.from({ length: 20_000 }, (_, n) => ({ n, token: "x" })) };
    const redact = redactor(Array.from({ length: 100 }, (_, n) => `**.a${n}.**.b`));
    const began = performance.now();
    expect(redact(value)).toBe(value);
    expect(performance.now() - began).toBeLessThan(2_000);
  });

  for (const bad of ["", "a..b", ".a", "a.", ".", "x".repeat(501), 7, null]) {
    it(`refuses the path ${String(JSON.stringify(bad)).slice(0, 20)}`, () => {
      expect(() => redactor(["ok", bad as string])).toThrow(InvalidOptionError);
      expect(() => redactor(["ok", bad as string])).toThrow(/^redact\.1: /);
    });
  }
  it("refuses a non-array and too many paths", () => {
    expect(() => redactor("a" as never)).toThrow(InvalidOptionError);
    expect(() => redactor(Array.from({ length: 101 }, () => "a"))).toThrow(InvalidOptionError);
  });
});

// Few names, so that paths match values; some need escaping.
const NAMES = ["a", "b", "token", "0", "1", "a.b", "*", "__proto__", "\\"];
const key = fc.constantFrom(...NAMES);
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(null, true, 0, 1, "x", ""),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.array(fc.tuple(key, tie("value")), { maxLength: 4 }).map((entries) => Object.fromEntries(entries) as unknown),
  ),
})).value;
const escaped = (name: string): string => name.replaceAll(/[\\.*]/g, String.raw`\$&`);
const path = fc
  .array(fc.oneof(key.map(escaped), fc.constantFrom("*", "**")), { minLength: 1, maxLength: 4 })
  .map((parts) => parts.join("."));

/** A reference implementation of path matching, part by part from the front. */
function names(parts: readonly string[], keys: readonly string[]): boolean {
  const [part, ...rest] = parts;
  if (part === undefined) return keys.length === 0;
  if (part === "**") return names(rest, keys) || (keys.length > 0 && names(parts, keys.slice(1)));
  const [first, ...others] = keys;
  return first !== undefined && (part === "*" || part === escaped(first)) && names(rest, others);
}
const partsOf = (text: string): string[] => text.match(/(?:\\.|[^.\\])+/gs) ?? [];

function expected(value: unknown, paths: readonly string[][], keys: readonly string[]): unknown {
  if (paths.some((parts) => names(parts, keys))) return REDACTED;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((item, index) => expected(item, paths, [...keys, String(index)]));
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, expected(item, paths, [...keys, name])]),
  );
}

describe("for any paths and any value, a redactor", () => {
  it("hides exactly the matching values, without mutation", () => {
    fc.assert(
      fc.property(json, fc.array(path, { maxLength: 4 }), (value, paths) => {
        const before = JSON.stringify(value);
        const shown = redactor(paths)(value);
        expect(JSON.stringify(shown)).toBe(JSON.stringify(expected(value, paths.map(partsOf), [])));
        expect(JSON.stringify(value)).toBe(before);
        expect(redactor(paths)(shown)).toEqual(shown);
      }),
      { numRuns: 2_000 },
    );
  });
});
