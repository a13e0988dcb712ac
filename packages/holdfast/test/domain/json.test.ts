import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromJson, jsonBytes, NotJson, refuseNul, toJson } from "#src/job/json.js";

function issueOf(value: unknown): { path: string; message: string } {
  try {
    toJson(value);
  } catch (error) {
    expect(error).toBeInstanceOf(NotJson);
    return (error as NotJson).issue;
  }
  throw new Error("the value was accepted");
}

describe("refuses values that JSON would lose, with their path", () => {
  const cycle: { name: string; self?: unknown } = { name: "x" };
  cycle.self = cycle;
  const shared = { x: 1 };

  it.each<[string, unknown, string, RegExp]>([
    ["a BigInt", { amount: 10n }, "amount", /BigInt.*string/],
    ["a cycle", cycle, "self", /contains itself/],
    ["undefined in a list", { list: [1, undefined] }, "list.1", /undefined.*null/],
    ["a hole in a list", { list: Array.from({ length: 2 }).fill(1, 0, 1) }, "list.1", /undefined/],
    ["NaN", { a: { b: Number.NaN } }, "a.b", /NaN is not a JSON number/],
    ["Infinity", [Number.NEGATIVE_INFINITY], "0", /-Infinity/],
    ["a function", { call: () => 1 }, "call", /function/],
    ["a symbol", { mark: Symbol("s") }, "mark", /symbol/],
    ["a Map", { map: new Map() }, "map", /a Map/],
    ["a Set", { set: new Set([1]) }, "set", /a Set/],
    ["a regular expression", { re: /x/ }, "re", /a RegExp/],
    ["an Error", { error: new Error("x") }, "error", /an? Error/],
    ["a promise", { later: Promise.resolve(1) }, "later", /a Promise/],
    ["typed bytes", { bytes: new Uint8Array(2) }, "bytes", /a Uint8Array/],
    ["an invalid date", { at: new Date("never") }, "at", /invalid date/],
    ["a lone surrogate", { text: "a\ud800b" }, "text", /surrogate/],
    ["a lone surrogate in a key", { in: { "\udc00": 1 } }, "in.\udc00", /surrogate/],
    ["a __proto__ key", JSON.parse('{"__proto__": {"admin": true}}'), "__proto__", /__proto__/],
    ["a nested __proto__ key", JSON.parse('{"a": [{"__proto__": 1}]}'), "a.0.__proto__", /__proto__/],
    ["undefined itself", undefined, "", /undefined/],
    ["a toJSON that throws", { toJSON: () => fail("no JSON of me") }, "", /no JSON of me/],
    ["a getter that throws", Object.defineProperty({}, "x", { enumerable: true, get: () => fail("shut") }), "", /shut/],
  ])("%s", (_name, value, path, message) => {
    const issue = issueOf(value);
    expect(issue.path).toBe(path);
    expect(issue.message).toMatch(message);
  });

  it("refuses deep nesting before a stack overflow", () => {
    let deep: unknown = 1;
    for (let level = 0; level < 100_000; level++) deep = [deep];
    expect(issueOf(deep).message).toMatch(/deeper than 200/);
  });

  it("accepts the same object twice", () => {
    expect(toJson([shared, { shared }])).toBe('[{"x":1},{"shared":{"x":1}}]');
  });

  it("serializes dates and class instances like JSON.stringify", () => {
    class Money {
      amount = 5;
      currency = undefined;
    }
    expect(toJson({ at: new Date(0), price: new Money() })).toBe(
      '{"at":"1970-01-01T00:00:00.000Z","price":{"amount":5}}',
    );
  });
});

describe("properties", () => {
  const withoutProto = fc
    .jsonValue({ noUnicodeString: false })
    .filter((value) => !JSON.stringify(value).includes("__proto__"));

  it("accepted values survive a round trip", () => {
    fc.assert(
      fc.property(withoutProto, (value) => {
        // JSON has no negative zero and no lone surrogates.
        fc.pre(JSON.stringify(value).isWellFormed() && !/\\ud[89a-f]/.test(JSON.stringify(value)));
        expect(toJson(value)).toBe(JSON.stringify(value));
        expect(fromJson(toJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it("throws only NotJson, for any value", () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withSparseArray: true,
      withTypedArray: true,
      withNullPrototype: true,
      withObjectString: true,
      withBoxedValues: true,
    });
    fc.assert(
      fc.property(anything, (value) => {
        let text: string;
        try {
          text = toJson(value);
        } catch (error) {
          expect(error).toBeInstanceOf(NotJson);
          return;
        }
        expect(text).toBe(JSON.stringify(value));
        expect(text.isWellFormed()).toBe(true);
        expect(toJson(fromJson(text))).toBe(toJson(JSON.parse(text)));
      }),
      { numRuns: 500 },
    );
  });

  it("counts sizes in UTF-8 bytes", () => {
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => jsonBytes(text) === Buffer.from(text).length));
    expect(jsonBytes('"€😀"')).toBe(2 + 3 + 4);
  });
});

describe("reading", () => {
  it.each([
    '{"a":{"__proto__":{"x":1},"b":2}}',
    '{"a":{"\\u005f_proto__":{"x":1},"b":2}}',
    '{"a":{"__\\u0070roto__":1,"b":2}}',
  ])("drops a __proto__ key: %s", (text) => {
    const value = fromJson(text) as { a: object };
    expect(Object.keys(value.a)).toEqual(["b"]);
    expect(({} as { x?: unknown }).x).toBeUndefined();
  });

  it("keeps a string that contains __proto__", () => {
    expect(fromJson('{"note":"__proto__","tab":"\\u0009"}')).toEqual({ note: "__proto__", tab: "\t" });
  });
});

function fail(message: string): never {
  throw new Error(message);
}

it("finds a NUL anywhere in a value", () => {
  const text = fc.string({ unit: fc.constantFrom("\0", "\\", "u", "0", "\\u0000", "x") });
  const value = fc.letrec<{ any: unknown }>((tie) => ({
    any: fc.oneof({ depthSize: "small" }, text, fc.array(tie("any")), fc.dictionary(text, tie("any"))),
  })).any;
  fc.assert(
    fc.property(value, (given) => {
      const holds = (part: unknown): boolean =>
        typeof part === "string"
          ? part.includes("\0")
          : Object.entries(part as object).some(([key, item]) => holds(key) || holds(item));
      let refused = false;
      try {
        refuseNul(JSON.stringify(given));
      } catch (error) {
        expect(error).toBeInstanceOf(NotJson);
        refused = true;
      }
      expect(refused).toBe(holds(given));
    }),
  );
});
