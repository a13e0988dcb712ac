import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { redactor } from "holdfast";
import { LIMITS } from "#src/defaults.js";
import { restorer } from "#src/restore.js";

const MARK = "[redacted]";

describe("restoring redacted values", () => {
  const restore = restorer(["a.secret", "list.*.secret", "keys.*", "**.deep", "whole"]);

  it.each<[what: string, sent: unknown, stored: unknown, expected: unknown]>([
    ["a value", { a: { secret: MARK } }, { a: { secret: "x" } }, { a: { secret: "x" } }],
    [
      "null and false too",
      { a: { secret: MARK }, deep: MARK },
      { a: { secret: null }, deep: false },
      { a: { secret: null }, deep: false },
    ],
    ["an object", { whole: MARK }, { whole: { b: [1] } }, { whole: { b: [1] } }],
    [
      "keeps a different value that was sent",
      { a: { secret: "new" } },
      { a: { secret: "x" } },
      { a: { secret: "new" } },
    ],
    ["nothing where no path hides", { a: { other: MARK } }, { a: { other: "x" } }, { a: { other: MARK } }],
    ["nothing inside of what is hidden", { whole: { b: MARK } }, { whole: { b: 1 } }, { whole: { b: MARK } }],
    ["at any depth", { x: [{ deep: MARK }] }, { x: [{ deep: 1 }] }, { x: [{ deep: 1 }] }],
    [
      "in an array with edited items",
      { list: [{ secret: MARK, n: 9 }] },
      { list: [{ secret: "x", n: 1 }] },
      { list: [{ secret: "x", n: 9 }] },
    ],
    ["in a list that grew at its end", { keys: [MARK, MARK, "c"] }, { keys: ["a", "b"] }, { keys: ["a", "b", "c"] }],
    ["in a list without marks that was cut", { keys: ["z"] }, { keys: ["a", "b"] }, { keys: ["z"] }],
  ])("%s", (_what, sent, stored, expected) => expect(restore(sent, stored)).toEqual(expected));

  it.each<[what: string, sent: unknown, stored: unknown, field: string]>([
    ["where nothing is stored", { a: { secret: MARK } }, { a: {} }, "a.secret"],
    ["where what is stored is no object", { a: { secret: MARK } }, { a: "text" }, "a.secret"],
    ["where there is only what all objects have", { keys: { constructor: MARK } }, { keys: {} }, "keys.constructor"],
    ["in a list that was cut", { keys: [MARK] }, { keys: ["a", "b"] }, "keys.0"],
    ["in a list that grew in front", { keys: ["new", MARK, MARK] }, { keys: ["a", "b"] }, "keys.1"],
    [
      "in a reversed array",
      {
        list: [
          { secret: MARK, n: 2 },
          { secret: MARK, n: 1 },
        ],
      },
      {
        list: [
          { secret: "a", n: 1 },
          { secret: "b", n: 2 },
        ],
      },
      "list.0",
    ],
    ["past the end of a list", { keys: [MARK, MARK] }, { keys: ["a"] }, "keys.1"],
  ])("is refused %s", (_what, sent, stored, field) =>
    expect(() => restore(sent, stored)).toThrow(expect.objectContaining({ code: "INVALID_OPTION", field })),
  );

  it("refuses payloads that are too deep or too large", () => {
    const deep = JSON.parse(`${"[".repeat(5_000)}1${"]".repeat(5_000)}`) as unknown;
    expect(() => restore({ list: [{ secret: MARK, deep }] }, {})).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", field: expect.stringMatching(/^list\.0\.deep/) as string }),
    );
    const long = { list: [{ secret: MARK, text: "x".repeat(300_000) }] };
    expect(() => restore(long, {})).toThrow(expect.objectContaining({ code: "PAYLOAD_TOO_LARGE" }));
    // Without placeholders, the depth is checked when it is stored.
    const nested = JSON.parse(`${"[".repeat(500)}1${"]".repeat(500)}`) as unknown;
    const unmarked = { list: [{ secret: "new", deep: nested }] };
    expect(restore(unmarked, {})).toBe(unmarked);
  });

  it("accepts payloads up to the size limit after restoring", () => {
    const most = LIMITS.payloadBytes;
    const padded = (secret: string, bytes: number): { secret: string; pad: string } => {
      const empty = { secret, pad: "" };
      return { secret, pad: "é".repeat(Math.floor((bytes - JSON.stringify(empty).length) / 2)) };
    };
    for (const bytes of [most - 21, most - 11, most - 1, most]) {
      const stored = padded("s3cr3t-xxx", bytes);
      expect(restore({ a: { ...stored, secret: MARK } }, { a: stored })).toEqual({ a: stored });
    }
    const short = { keys: Array<number>(most / 2 - 1).fill(1) };
    expect(restore(redactor(["keys.*"])(short), short)).toEqual(short);
  });

  it("restores any value for any paths", () => {
    const keys = fc.constantFrom("a", "b", "c", "0", "1");
    const part = fc.oneof(keys, fc.constantFrom("*", "**"));
    const paths = fc.array(
      fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(".")),
      { maxLength: 4 },
    );
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.integer(),
        fc.dictionary(keys, tie("value"), { noNullPrototype: true }),
        fc.array(tie("value"), { maxLength: 3 }),
      ),
    }));
    fc.assert(
      fc.property(paths, value, (given, stored) => {
        expect(restorer(given)(redactor(given)(stored), stored)).toEqual(stored);
      }),
      { numRuns: 2_000 },
    );
  });
});
