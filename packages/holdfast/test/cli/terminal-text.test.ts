import { stderrLogger } from "#src/engine/events/logger.js";
import { createLogger } from "#src/cli/ui/logger.js";
import { tableLines } from "#src/cli/ui/table.js";
import { paint, showsColours } from "#src/cli/ui/style.js";
import { cut, widthOf, wrap } from "#src/cli/ui/text-width.js";
import { clean, cleanBlock, jsonText } from "#src/terminal-text.js";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";

const anything = fc.string({ unit: "binary", maxLength: 60 });
/** Characters that must be escaped. */
const UNSAFE = /\p{C}|\p{Zl}|\p{Zp}|\u00ad|\u034f|\u115f|\u3164|[\ufe00-\ufe0f]|[\u{e0000}-\u{e0fff}]/u;

/** Whether a string has unsafe characters outside of emoji, some of which contain them. */
function isUnsafe(text: string): boolean {
  return UNSAFE.test(text.replaceAll(new RegExp(String.raw`\p{RGI_Emoji}`, "gv"), ""));
}

describe("job text", () => {
  it("has control characters escaped", () => {
    expect(clean("\u001b[31mred\u001b[0m")).toBe("\\x1b[31mred\\x1b[0m");
    expect(clean("a\tb\r\nc\nd")).toBe("a b c d");
    expect(clean("\u009b2J\u007f")).toBe("\\x9b2J\\x7f");
    expect(clean("user\u202etxt.exe")).toBe("user\\u202etxt.exe");
    expect(clean("half \ud83d")).toBe("half \\ud83d");
    expect(cleanBlock("a\n\tb\u0007")).toBe("a\n  b\\x07");
  });

  it("has invisible characters escaped", () => {
    for (const [given, shown] of [
      ["pass\u200bword", "pass\\u200bword"],
      ["a\u200c\u200d\u2060\ufeffb", "a\\u200c\\u200d\\u2060\\ufeffb"],
      ["soft\u00adhyphen", "soft\\xadhyphen"],
      ["tag\u{e0041}\u{e007f}", "tag\\u{e0041}\\u{e007f}"],
      ["selectors\ufe0f\u{e0100}", "selectors\\ufe0f\\u{e0100}"],
      ["fillers \u3164\u115f\u034f", "fillers \\u3164\\u115f\\u034f"],
      ["lines\u2028\u2029\u0085", "lines\\u2028\\u2029\\x85"],
      ["marks\u061c\u200e\u2066", "marks\\u061c\\u200e\\u2066"],
      ["private \ue000 \u{f0000}, none \u0378 \uffff", "private \\ue000 \\u{f0000}, none \\u0378 \\uffff"],
    ] as const) {
      expect(clean(given)).toBe(shown);
      expect(cleanBlock(`${given}\n${given}`)).toBe(`${shown}\n${shown}`);
    }
    expect(jsonText({ "a\u200b": "\u{e0041}" }, 0)).toBe('{"a\\u200b":"\\udb40\\udc41"}');
  });

  it("keeps emoji, without hidden characters", () => {
    const england = "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}";
    for (const emoji of ["👩‍👩‍👧‍👦", "👩🏽‍🚀", "✔️", "1️⃣", "🇩🇪", "❤️‍🔥❤️", england, "日本語 é e\u0301 한글 🎉"]) {
      expect(clean(emoji)).toBe(emoji);
      expect(jsonText(emoji, 0)).toBe(JSON.stringify(emoji));
    }
    expect(clean("👩\u200d\u200d👩")).toBe("👩\\u200d\\u200d👩");
    expect(clean("🎉\ufe0f")).toBe("🎉\\ufe0f");
    expect(clean("\u{1f3f4}\u{e0068}\u{e0069}\u{e007f}")).toBe("🏴\\u{e0068}\\u{e0069}\\u{e007f}");
    expect(clean("1\u200d2")).toBe("1\\u200d2");
  });

  it("is cleaned in linear time", () => {
    // A regular expression that backtracks would never end.
    for (const part of ["👍🏽\ufe0f", "❤\u200d", "\u{e0041}", "1\ufe0f\u20e3", "漢\u200b"]) {
      expect(clean(part.repeat(20_000))).not.toBe("");
    }
  });

  it("never has control characters, also as JSON", () => {
    fc.assert(
      fc.property(anything, (text) => {
        expect(isUnsafe(clean(text))).toBe(false);
        expect(isUnsafe(cleanBlock(text).replaceAll("\n", ""))).toBe(false);
        const json = jsonText({ text }, 2);
        expect(isUnsafe(json.replaceAll("\n", ""))).toBe(false);
        expect(JSON.parse(json)).toEqual({ text });
      }),
    );
  });

  it("is measured in cells", () => {
    expect(widthOf("plain")).toBe(5);
    expect(widthOf("漢字")).toBe(4);
    expect(widthOf("é")).toBe(1);
    expect(widthOf("e\u0301")).toBe(1);
    expect(widthOf("한글")).toBe(4);
    expect(widthOf("👩‍👩‍👧‍👦")).toBe(2);
    expect(widthOf("✔️")).toBe(2);
    expect(widthOf("ａ")).toBe(2);
    expect(widthOf("\u200b")).toBe(0);
  });

  it("is cut between characters with an ellipsis", () => {
    expect(cut("abcdef", 6)).toBe("abcdef");
    expect(cut("abcdef", 5)).toBe("abcd…");
    expect(cut("漢字漢字", 5)).toBe("漢字…");
    expect(cut("漢字漢字", 4)).toBe("漢…");
    expect(cut("👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 3)).toBe("👩‍👩‍👧‍👦…");
    expect(cut("abc", 0)).toBe("");
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 40 }), fc.nat(30), (text, cells) => {
        expect(widthOf(cut(clean(text), cells))).toBeLessThanOrEqual(cells);
      }),
    );
  });

  it("is wrapped between words", () => {
    expect(wrap("one two three", 7)).toEqual(["one two", "three"]);
    expect(wrap("extraordinary", 5)).toEqual(["extraordinary"]);
    expect(wrap("", 5)).toEqual([""]);
  });
});

describe("log lines", () => {
  const message = "done\u009b2J\u202e\u200b\u{e0041}";

  it("are clean as text and as JSON", () => {
    for (const format of ["text", "json"] as const) {
      let line = "";
      const log = createLogger({ level: "info", format, write: (text) => (line = text), now: () => new Date(0) });
      log.error({ error: new Error(message), [message]: message }, message);
      expect(line.endsWith("\n")).toBe(true);
      expect({ format, unsafe: isUnsafe(line.slice(0, -1)) }).toEqual({ format, unsafe: false });
      if (format === "json") expect(JSON.parse(line)).toMatchObject({ message, [message]: message });
    }
  });

  it("are clean with the default logger", () => {
    const written = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    stderrLogger.error({ error: new Error(message), job: message }, message);
    const [[line]] = written.mock.calls as [[string]];
    written.mockRestore();
    expect(line).toMatch(/^holdfast error: done\\x9b2J.+\n$/);
    expect(isUnsafe(line.slice(0, -1))).toBe(false);
  });
});

describe("tables", () => {
  const columns = [{ title: "Id", whole: true as const }, { title: "What" }, { title: "N", align: "right" as const }];
  const rows = [
    ["id-1", "short", "1"],
    ["id-2", "one line with a long title", "1000"],
  ];

  it("are as wide as their content", () => {
    expect(tableLines(columns, rows, { cells: null, colours: false })).toEqual([
      "Id    What                           N",
      "id-1  short                          1",
      "id-2  one line with a long title  1000",
    ]);
  });

  it("are cut to the width of the terminal", () => {
    const lines = tableLines(columns, rows, { cells: 24, colours: false });
    expect(lines).toEqual(["Id    What             N", "id-1  short            1", "id-2  one line wi…  1000"]);
  });

  it("become blocks on a narrow terminal", () => {
    const narrow = [...rows, ["id-3", "", ""]];
    const lines = tableLines(columns, narrow, { cells: 12, colours: false });
    expect(lines.join("\n")).toBe(
      "Id:   id-1\nWhat: short\nN:    1\n\nId:   id-2\nWhat: one line with a long title\nN:    1000\n\nId:   id-3",
    );
  });

  it("put a wide column below each row", () => {
    const wide = [{ title: "Id", whole: true, below: true }, { title: "What", minWidth: 8 }, { title: "N" }] as const;
    const at = (cells: number): string => tableLines(wide, rows, { cells, colours: false }).join("\n");
    expect(at(20)).toBe("Id    What      N\nid-1  short     1\nid-2  one lin…  1000");
    expect(at(19)).toBe("What           N\nshort          1\n  id-1\none line wit…  1000\n  id-2");
    expect(at(5)).toContain("Id:   id-1\nWhat: short");
  });

  it("are never wider than the terminal", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(anything, anything, anything), { maxLength: 6 }),
        fc.integer({ min: 30, max: 90 }),
        (cells, width) => {
          const free = [{ title: "A" }, { title: "B" }, { title: "C" }];
          for (const line of tableLines(free, cells, { cells: width, colours: false })) {
            expect(widthOf(line)).toBeLessThanOrEqual(width);
            expect(isUnsafe(line)).toBe(false);
          }
        },
      ),
    );
  });

  it("keep columns aligned with colours", () => {
    const [, line = ""] = tableLines([{ title: "State" }, { title: "X" }], [[paint("dead", "red"), "y"]], {
      cells: null,
      colours: true,
    });
    expect(line).toBe("\u001b[31mdead\u001b[39m   y");
  });
});

describe("colours", () => {
  const choose = (env: Record<string, string>, terminal: boolean, flag?: boolean): boolean =>
    showsColours({ env, terminal, flag });
  it("depend on terminal, variables and flags", () => {
    expect(choose({}, true)).toBe(true);
    expect(choose({}, false)).toBe(false);
    expect(choose({ NO_COLOR: "1" }, true)).toBe(false);
    expect(choose({ NO_COLOR: "" }, true)).toBe(true);
    expect(choose({ TERM: "dumb" }, true)).toBe(false);
    expect(choose({ FORCE_COLOR: "1" }, false)).toBe(true);
    expect(choose({ FORCE_COLOR: "0" }, true)).toBe(false);
    expect(choose({ FORCE_COLOR: "1", NO_COLOR: "1" }, false)).toBe(true);
    expect(choose({ FORCE_COLOR: "1" }, true, false)).toBe(false);
    expect(choose({ NO_COLOR: "1" }, false, true)).toBe(true);
  });
});
