import { describe, expect, it } from "vitest";
import {
  firstInexact,
  formatJson,
  isExact,
  memberOf,
  parseJson,
  readForSending,
  summaryOf,
} from "../../src/ui/json-model.js";

function node(text: string): NonNullable<ReturnType<typeof parseJson>["node"]> {
  const { node: found, error } = parseJson(text);
  if (found === undefined) throw new Error(error.message);
  return found;
}

function errorOf(text: string): string {
  const { error } = parseJson(text);
  return error === undefined ? "none" : `${error.line}:${error.column} ${error.message}`;
}

describe("reading JSON without losing digits", () => {
  it("keeps numbers as they were written", () => {
    const text = '{"id":9007199254740993871,"price":1.10,"e":1E400,"small":-0}';
    const root = node(text);
    const numbers = ["id", "price", "e", "small"].map((key) => {
      const member = memberOf(root, key);
      return member?.kind === "number" ? member.text : null;
    });
    expect(numbers).toEqual(["9007199254740993871", "1.10", "1E400", "-0"]);
  });

  it("keeps the order of keys, also of those like numbers", () => {
    const root = node('{"b":1,"10":2,"2":3,"a":4,"b":5}');
    expect(root.kind === "object" && root.entries.map(([key]) => key)).toEqual(["b", "10", "2", "a", "b"]);
  });

  it("reads what JSON.parse reads", () => {
    for (const text of [
      '"\\u00e9\\n\\"\\\\"',
      " [ ] ",
      "[1,[2,{}],null,true,false]",
      '{"__proto__":1}',
      "-1.5e-3",
      '"\u007f\u2028"',
    ]) {
      const root = node(text);
      expect(JSON.parse(formatJson(text, root))).toEqual(JSON.parse(text));
    }
  });

  it("refuses what JSON.parse refuses, with its place", () => {
    const wrong = [
      "",
      "{",
      "[1,]",
      '{"a":1,}',
      "{a:1}",
      "01",
      "1.",
      ".5",
      "+1",
      "NaN",
      "undefined",
      "'a'",
      '"a\nb"',
      '"\\x"',
      '"a',
      "1 2",
      '{"a" 1}',
      "[1 2]",
      "\u00a01",
    ];
    const isAccepted =
      (read: (text: string) => unknown) =>
      (text: string): boolean => {
        try {
          return read(text) !== undefined;
        } catch {
          return false;
        }
      };
    expect(wrong.filter(isAccepted((text) => JSON.parse(text) as unknown))).toEqual([]);
    expect(wrong.filter(isAccepted((text) => parseJson(text).node))).toEqual([]);
    expect(errorOf('{\n  "to": "a",\n  "order": o-1\n}')).toBe('3:12 "o" is not a value. Strings have double quotes.');
    expect(errorOf('{"a":1 "b":2}')).toBe('1:8 A comma or } is missing: there is ".');
    expect(errorOf('["a\nb"]')).toContain("1:4 A string must not contain line breaks");
  });

  it("refuses deep nesting instead of overflowing", () => {
    expect(errorOf("[".repeat(100_000))).toContain("nested deeper than 500");
  });

  it("decodes strings and keys", () => {
    const member = memberOf(node('{"\\u00c9 Key":"Ab\\n\\u00e9\\\\"}'), "É Key");
    expect(member?.kind === "string" && member.value).toBe("Ab\né\\");
  });

  it("knows the place of each value in the text", () => {
    const text = '{"a": [1.0,  {"b":"x"}] }';
    const member = memberOf(node(text), "a");
    expect(text.slice(member?.start, member?.end)).toBe('[1.0,  {"b":"x"}]');
  });

  it("takes the last of equal keys, as JSON.parse does", () => {
    const member = memberOf(node('{"a":1,"a":2}'), "a");
    expect(member?.kind === "number" && member.text).toBe("2");
  });
});

describe("formatting JSON", () => {
  it("indents, and leaves numbers and strings as written", () => {
    const text = '{"n":1.00,"s":"\\u00e9","list":[1,{"x":[]}],"none":{}}';
    expect(formatJson(text, node(text))).toBe(
      '{\n  "n": 1.00,\n  "s": "\\u00e9",\n  "list": [\n    1,\n    {\n      "x": []\n    }\n  ],\n  "none": {}\n}',
    );
  });

  it("sums up what is closed", () => {
    expect(summaryOf(node("[1,2,3]"))).toBe("[3]");
    expect(summaryOf(node('{"after":"2026","x":1}'))).toBe("{2}  after: 2026");
    expect(summaryOf(node("{}"))).toBe("{0}");
  });
});

describe("numbers that JavaScript would round", () => {
  it("finds them, and no others", () => {
    const exact = ["0", "-0", "0.1", "1e21", "1.50", "9007199254740991", "100", "1e-7", "0.000"];
    const rounded = [
      "9007199254740993000e-3",
      "9007199254740993",
      "0.12345678901234567890",
      "1e400",
      "-9007199254740993871",
      "1e-400",
    ];
    expect(exact.filter((text) => !isExact(text))).toEqual([]);
    expect(rounded.filter(isExact)).toEqual([]);
    // However long they are.
    expect(isExact(`1${"0".repeat(250_000)}1`)).toBe(false);
    expect(isExact(`1.${"0".repeat(250_000)}`)).toBe(true);
  });

  it("refuses to send them, with their place", () => {
    expect(firstInexact(node('{"a":[1,9007199254740993]}'))?.text).toBe("9007199254740993");
    const { error } = readForSending('{\n  "id": 9007199254740993\n}');
    expect(error).toMatchObject({ line: 2, column: 9 });
    expect(error?.message).toContain("Send it as a string");
    expect(readForSending('{"id":"9007199254740993"}').value).toEqual({ id: "9007199254740993" });
  });
});
