import fc from "fast-check";
import { InvalidOptionError } from "holdfast";
import { describe, expect, it } from "vitest";
import { readCron } from "#src/schedule/cron.js";
import { DAY_MS, matchesAfter } from "./oracle.js";

const iso = (at: number | null | undefined): string => (at == null ? "never" : new Date(at).toISOString());

function refusal(given: unknown): InvalidOptionError {
  try {
    readCron(given);
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidOptionError);
    return error as InvalidOptionError;
  }
  throw new Error("it was accepted");
}

function matches(pattern: string, after: string, count: number): string[] {
  const cron = readCron(pattern);
  const found: number[] = [];
  for (let next = cron.next(Date.parse(after)); next !== null && found.length < count; next = cron.next(next)) {
    found.push(next);
  }
  return found.map(iso);
}

/** The first difference between pattern and oracle in the next three years; null if they agree. */
function disagreement(pattern: string, after: number, count = 4): string | null {
  const until = after + 3 * 366 * DAY_MS;
  const cron = readCron(pattern);
  const actual: string[] = [];
  for (let next = cron.next(after); actual.length < count && next !== null && next <= until; next = cron.next(next)) {
    actual.push(iso(next));
  }
  const expected = matchesAfter(pattern, after, until, count).map(iso);
  const index = Array.from({ length: count }).findIndex((_, at) => expected[at] !== actual[at]);
  if (index < 0) return null;
  return `"${pattern}" after ${iso(after)}: the oracle has ${expected[index] ?? "none"}, next ${actual[index] ?? "none"}`;
}

describe("C-11 refuses an invalid pattern", () => {
  it.each<[pattern: string, field: string, problem: RegExp]>([
    ["60 * * * *", "minute", /"60", which is not a whole number from 0 to 59/],
    ["-1 * * * *", "minute", /is invalid at/],
    ["1.5 * * * *", "minute", /"1\.5"/],
    ["1e1 * * * *", "minute", /"1E1"/],
    ["0x5 * * * *", "minute", /"0X5"/],
    ["007 * * * *", "minute", /"007"/],
    ["0-99999999 * * * *", "minute", /"99999999"/],
    ["99999999999999999999 * * * *", "minute", /not a whole number/],
    ["5-1 * * * *", "minute", /from 5 down to 1/],
    ["1-2-3 * * * *", "minute", /is invalid at/],
    ["1- * * * *", "minute", /is invalid at/],
    ["*-5 * * * *", "minute", /is invalid at/],
    ["*5 * * * *", "minute", /"\*5"/],
    ["** * * * *", "minute", /"\*\*"/],
    ["*/0 * * * *", "minute", /step "0"/],
    ["*/99 * * * *", "minute", /step "99"/],
    ["*/-5 * * * *", "minute", /is invalid at/],
    ["*/x * * * *", "minute", /step "X"/],
    ["*/ * * * *", "minute", /is invalid at/],
    ["/5 * * * *", "minute", /is invalid at/],
    ["*/5/5 * * * *", "minute", /is invalid at/],
    ["5/15 * * * *", "minute", /step without a range.*write 5-59\/15/],
    [", * * * *", "minute", /empty item/],
    ["1,,2 * * * *", "minute", /empty item/],
    ["1, * * * *", "minute", /empty item/],
    [",1 * * * *", "minute", /empty item/],
    ["? * * * *", "minute", /must not be \?, which is only for days/],
    ["L * * * *", "minute", /"L"/],
    ["MON * * * *", "minute", /"MON"/],
    ["H * * * *", "minute", /"H"/],
    ["$(id) * * * *", "minute", /"\$\(ID\)"/],
    ["\u0665 * * * *", "minute", /"\u0665"/],
    ["\uff15 * * * *", "minute", /"\uff15"/],
    ["\u0000 * * * *", "minute", /"\\u0000"/],
    ["5\u0007 * * * *", "minute", /"5\\u0007"/],
    ["60 * * * * *", "second", /"60"/],
    ["? * * * * *", "second", /must not be \?/],
    ["*/60 * * * * *", "second", /step "60"/],
    ["0 24 * * *", "hour", /"24", which is not a whole number from 0 to 23/],
    ["0 */2,?/3 * * *", "hour", /must not be \?/],
    ["0 8pm * * *", "hour", /"8PM"/],
    ["0 22-2 * * *", "hour", /from 22 down to 2; write it as two ranges/],
    ["0 W * * *", "hour", /"W"/],
    ["0 8 0 * *", "day of month", /"0", which is not a whole number from 1 to 31/],
    ["0 8 32 * *", "day of month", /"32"/],
    ["0 8 L-3 * *", "day of month", /"L"/],
    ["0 8 1-L * *", "day of month", /"L"/],
    ["0 8 5L * *", "day of month", /"5L"/],
    ["0 8 W * *", "day of month", /"W"/],
    ["0 8 0W * *", "day of month", /"0W"/],
    ["0 8 32W * *", "day of month", /"32W"/],
    ["0 8 1-5W * *", "day of month", /"5W"/],
    ["0 8 WL * *", "day of month", /"WL"/],
    ["0 8 1,LW * *", "day of month", /LW with other days/],
    ["0 8 LW,lw * *", "day of month", /LW with other days/],
    ["0 8 1#2 * *", "day of month", /"1#2"/],
    ["0 8 +1 * *", "day of month", /"\+1"/],
    ["0 8 1 0 *", "month", /"0", which is not a whole number from 1 to 12 or one of JAN/],
    ["0 8 1 ? *", "month", /must not be \?/],
    ["0 8 1 13 *", "month", /"13"/],
    ["0 8 1 JANUARY *", "month", /"JANUARY"/],
    ["0 8 1 JNA *", "month", /"JNA"/],
    ["0 8 1 MON *", "month", /"MON"/],
    ["0 8 1 DEC-JAN *", "month", /from DEC down to JAN/],
    ["0 8 1 L *", "month", /"L"/],
    ["0 8 * * 8", "day of week", /"8", which is not a whole number from 0 to 7 or one of SUN/],
    ["0 8 * * MONDAY", "day of week", /"MONDAY"/],
    ["0 8 * * MNO", "day of week", /"MNO"/],
    ["0 8 * * JAN", "day of week", /"JAN"/],
    ["0 8 * * FRI-MON", "day of week", /from FRI down to MON/],
    ["0 8 * * L", "day of week", /"L"/],
    ["0 8 * * LW", "day of week", /"LW"/],
    ["0 8 * * 5W", "day of week", /"5W"/],
    ["0 8 * * MON#0", "day of week", /"MON#0"/],
    ["0 8 * * MON#6", "day of week", /"MON#6"/],
    ["0 8 * * MON#", "day of week", /"MON#"/],
    ["0 8 * * #2", "day of week", /"#2"/],
    ["0 8 * * *#2", "day of week", /is invalid at/],
    ["0 8 * * *L", "day of week", /is invalid at/],
    ["0 8 * * +", "day of week", /empty item/],
    ["0 8 * * ++MON", "day of week", /"\+MON"/],
    ["0 8 * * MON,+TUE", "day of week", /"\+TUE"/],
    ["0 8 * * 1/2", "day of week", /step without a range.*write 1-7\/2/],
  ])("%s: the %s field", (pattern, field, problem) => {
    const error = refusal(pattern);
    expect(error.field).toBe("cron");
    expect(error.message).toMatch(new RegExp(`^cron: ".+": the ${field} field "`));
    expect(error.message).toMatch(problem);
  });

  it.each<[string, unknown, RegExp]>([
    ["an empty text", "", /has 0 fields; a pattern has five \(minute, .*or six/],
    ["only spaces", "   ", /has 0 fields/],
    ["one field", "5", /has 1 field;/],
    ["four fields", "0 8 * *", /has 4 fields/],
    ["seven fields", "0 0 8 * * * 2026", /has 7 fields/],
    ["words", "every day at eight o'clock sharp", /has 6 fields|second field/],
    ["an unknown word", "@fortnightly", /is none of @yearly, .*@hourly/],
    ["a word of other crons", "@reboot", /is none of/],
    ["a word that every object has", "@constructor", /is none of/],
    ["a word and more", "@daily 5", /is none of/],
    ["a word among fields", "0 @daily * * *", /hour field/],
    ["a word alone", "@", /is none of/],
    ["10,000 characters", "1,".repeat(5_000), /is 10000 characters long; the limit is 200/],
    ["10,000 spaces in a pattern", `0 8${" ".repeat(10_000)}* * *`, /characters long/],
    ["a lone surrogate", "\ud800 * * * *", /minute field/],
    ["a number", 5, /5 is not a cron pattern/],
    ["null", null, /null is not/],
    ["undefined", undefined, /undefined is not/],
    ["a BigInt", 5n, /is not a cron pattern/],
    ["a symbol", Symbol("cron"), /is not a cron pattern/],
    ["a function", () => "0 8 * * *", /a function is not/],
    ["a list of fields", ["0", "8", "*", "*", "*"], /an array is not/],
    ["a date", new Date(0), /an object is not/],
    ["a String object", Object("0 8 * * *"), /an object is not/],
    ["an object that will not be text", { toString: () => expect.fail("was asked") }, /an object is not/],
  ])("%s", (_what, given, problem) => {
    const error = refusal(given);
    expect([error.code, error.field]).toEqual(["INVALID_OPTION", "cron"]);
    expect(error.message).toMatch(problem);
  });
});

describe("every error message", () => {
  const alphabet = fc.constantFrom(..."0123456789*?/,-LW#+ MONJANSUNx@\u001b\u0000".split(""));
  const anyString = fc.string({ unit: alphabet, maxLength: 40 });
  const fiveTexts = fc.array(fc.string({ unit: alphabet, minLength: 1, maxLength: 6 }), { minLength: 5, maxLength: 6 });
  const given = fc.oneof(
    anyString,
    fiveTexts.map((fields) => fields.join(" ")),
    fc.array(fc.nat(0xffff), { maxLength: 300 }).map((codes) => String.fromCharCode(...codes)),
  );

  function refusalOf(text: string): string | null {
    try {
      readCron(text);
      return null;
    } catch (error) {
      expect(error).toBeInstanceOf(InvalidOptionError);
      return (error as InvalidOptionError).message;
    }
  }

  it("is short and ends with a valid example", () => {
    fc.assert(
      fc.property(given, (text) => {
        const message = refusalOf(text);
        if (message === null) return;
        const [, example] = /; for example (".+")$/.exec(message) ?? [];
        readCron(JSON.parse(example!));
        expect(message.length).toBeLessThan(600);
      }),
      { numRuns: 1_000 },
    );
  });

  it("suggests only valid patterns", () => {
    const item = fc.string({ unit: alphabet, minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(fc.nat(5), item, item, (field, from, step) => {
        const withField = (text: string): string => "* * * * * *".split(" ").with(field, text).join(" ");
        const [, instead] = /; write (\S+); for example/.exec(refusalOf(withField(`${from}/${step}`)) ?? "") ?? [];
        if (instead !== undefined) expect(refusalOf(withField(instead))).toBeNull();
      }),
      {
        numRuns: 1_000,
        examples: [
          [1, "5", "15"],
          [1, "5", "99"],
          [1, "abc", "5"],
        ],
      },
    );
  });

  it("contains no control characters", () => {
    fc.assert(
      fc.property(given, (text) => (refusalOf(text) ?? "").split("").every((letter) => letter >= " ")),
      { numRuns: 1_000, examples: [["\u001b[31m/5 * * * *"]] },
    );
  });

  it("is fast, even for regex denial of service", () => {
    const started = performance.now();
    for (const part of ["*", "1-", "1,", "*/", "L", "MON#", "-", "/", "+", "?", "0", "@"]) {
      refusal(`${part.repeat(Math.floor(190 / part.length))} * * * !`);
    }
    expect(performance.now() - started).toBeLessThan(1_000);
  });
});

describe("the meaning of a pattern", () => {
  it.each([
    ["@yearly", "0 0 1 1 *"],
    ["@annually", "0 0 1 1 *"],
    ["@monthly", "0 0 1 * *"],
    ["@weekly", "0 0 * * 0"],
    ["@daily", "0 0 * * *"],
    ["@midnight", "0 0 * * *"],
    ["@hourly", "0 * * * *"],
    ["@Daily", "0 0 * * *"],
    ["  \t0   8\n* *\u00a0*  ", "0 8 * * *"],
    ["0 8 1 jan,Feb mon-Fri", "0 8 1 1,2 1-5"],
    ["0 8 l * *", "0 8 L * *"],
    ["0 8 lw * *", "0 8 LW * *"],
    ["0 8 15w * *", "0 8 15W * *"],
    ["0 8 * * fri#l", "0 8 * * 5L"],
    ["0 8 * * 5#L", "0 8 * * 5L"],
    ["0 8 * * 7", "0 8 * * 0"],
    ["0 8 * * SUN", "0 8 * * 0"],
    ["0 8 * * FRI-SUN", "0 8 * * 0,5,6"],
    ["0 8 * * 5-7", "0 8 * * 0,5,6"],
    ["0 8 * * 5-SUN", "0 8 * * 0,5,6"],
    ["0 8 * * 5-0", "0 8 * * 0,5,6"],
    ["0 8 * * 0-0", "0 8 * * 0"],
    ["0 8 * * SUN-SUN", "0 8 * * 0"],
    ["0 8 ? * ?", "0 8 * * *"],
    ["00 08 01 01 *", "0 8 1 1 *"],
    ["0 0 8 * * *", "0 8 * * *"],
  ])("%j is %s", (pattern, same) => {
    const after = "2026-01-30T12:34:56.789Z";
    expect(matches(pattern, after, 20)).toEqual(matches(same, after, 20));
    expect(readCron(pattern).namesTimes).toBe(readCron(same).namesTimes);
  });

  it.each<[string, boolean]>([
    ["0 8 * * *", true],
    ["0,30 8-18 * * MON-FRI", true],
    ["0-59/10 0-23 * * *", true],
    ["30 0 8 * * *", true],
    ["* 8 * * *", false],
    ["*/5 8 * * *", false],
    ["0 * * * *", false],
    ["0 1,*/2 * * *", false],
    ["* 0 8 * * *", false],
  ])("%s has fixed times: %s", (pattern, namesTimes) => {
    expect(readCron(pattern).namesTimes).toBe(namesTimes);
  });

  it("keeps its text, trimmed", () => {
    expect(readCron("  0 8 * * mon ").text).toBe("0 8 * * mon");
  });

  it("next returns a strictly later match", () => {
    const cron = readCron("*/10 * * * * *");
    expect([0, 1, 999, 9_999, 10_000, -1].map((wall) => cron.next(wall))).toEqual([
      10_000, 10_000, 10_000, 10_000, 20_000, 0,
    ]);
  });

  it.each(["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31W 4 *", "0 0 1-7 * +MON#2", "0 0 29 2 +MON#1"])(
    "%s never matches, which is found quickly",
    (pattern) => {
      const started = performance.now();
      expect(readCron(pattern).next(Date.UTC(2026, 0, 1))).toBeNull();
      expect(performance.now() - started).toBeLessThan(1_000);
    },
  );

  it("finds a date that occurs every 28 years", () => {
    expect(matches("0 0 29 2 +MON", "2026-01-01T00:00Z", 2)).toEqual([
      "2044-02-29T00:00:00.000Z",
      "2072-02-29T00:00:00.000Z",
    ]);
  });

  // A search that takes 31 February for 3 March skips the 1st and 2nd.
  it.each([
    ["0 0 1,31 * *", "2026-02-02T00:00Z", "2026-03-01T00:00:00.000Z"],
    ["0 0 */3 * *", "2028-02-28T00:00Z", "2028-03-01T00:00:00.000Z"],
    ["0 0 */5 * *", "2026-02-26T00:00Z", "2026-03-01T00:00:00.000Z"],
    ["0 0 */10 * *", "2026-02-21T00:00Z", "2026-03-01T00:00:00.000Z"],
    ["0 0 2,31 * *", "2026-02-02T00:00Z", "2026-03-02T00:00:00.000Z"],
    ["0 0 1 * MON", "2026-02-24T00:00Z", "2026-03-01T00:00:00.000Z"],
    ["0 0 * * MON#5,SUN#1", "2026-02-24T00:00Z", "2026-03-01T00:00:00.000Z"],
  ])("%s after %s matches on %s", (pattern, after, first) => {
    expect(matches(pattern, after, 1)).toEqual([first]);
  });
});

describe("next agrees with the oracle", () => {
  const upTo = (least: number, most: number) => fc.integer({ min: least, max: most });
  // Patterns differ most at the ends of months, especially of February.
  const after = fc.oneof(
    fc.integer({ min: Date.UTC(2020, 0, 1), max: Date.UTC(2040, 0, 1) }),
    fc.tuple(upTo(2020, 2040), upTo(20, 31), fc.nat(DAY_MS)).map(([year, day, ms]) => Date.UTC(year, 1, day) + ms),
  );
  const name = (names: string) => fc.constantFrom(...names.split(" "));
  const listOf = (items: fc.Arbitrary<string>) =>
    fc.array(items, { minLength: 1, maxLength: 3 }).map((list) => list.join());

  /** `*`, `5`, `1-5`, and both kinds of steps. */
  function field(least: number, most: number, wild = "*"): fc.Arbitrary<string> {
    const range = fc
      .tuple(upTo(least, most), upTo(least, most))
      .map((ends) => ends.toSorted((a, b) => a - b).join("-"));
    const step = upTo(1, most);
    return fc.oneof(
      { weight: 2, arbitrary: fc.constantFrom("*", wild) },
      { weight: 3, arbitrary: upTo(least, most).map(String) },
      { weight: 1, arbitrary: range },
      { weight: 1, arbitrary: fc.tuple(range, step).map((parts) => parts.join("/")) },
      { weight: 1, arbitrary: step.map((every) => `*/${every}`) },
    );
  }

  const weekday = fc.oneof(upTo(0, 7).map(String), name("SUN MON TUE wed thu FRI SAT MON-FRI SAT-SUN 1-5/2"));
  const nth = fc.tuple(weekday, name("#1 #2 #3 #4 #5 #L L #l l")).map((parts) => parts.join(""));
  const pattern = fc
    .tuple(
      fc.option(listOf(field(0, 59)), { nil: "" }),
      listOf(field(0, 59)),
      listOf(field(0, 23)),
      fc.oneof(
        listOf(
          fc.oneof(
            field(1, 31, "?"),
            fc.constant("L"),
            upTo(1, 31).map((day) => `${day}W`),
          ),
        ),
        name("LW lw * *"),
      ),
      fc.oneof(listOf(fc.oneof(field(1, 12), name("JAN feb Mar SEP-DEC JUN-aug/2"))), name("* * *")),
      fc.tuple(fc.constantFrom("", "+"), listOf(fc.oneof(field(0, 6, "?"), weekday, nth))),
    )
    .map(([second, minute, hour, day, month, [sign, weekdays]]) =>
      `${second} ${minute} ${hour} ${day} ${month} ${sign}${weekdays}`.trim(),
    );

  it("for every kind of pattern and any time", () => {
    const aside = fc.array(fc.integer({ min: -40 * DAY_MS, max: 40 * DAY_MS }), { maxLength: 3 });
    fc.assert(
      fc.property(pattern, after, aside, (text, from, others) => {
        for (const at of [from, ...others.map((ms) => from + ms)]) expect(disagreement(text, at, 3)).toBeNull();
      }),
      { numRuns: 300 },
    );
  });

  it("for random strings that parse", () => {
    const item = fc.string({
      unit: fc.constantFrom(..."00112233456789**??/,--LW##+".split("")),
      minLength: 1,
      maxLength: 4,
    });
    const mostlyStars = fc.array(fc.oneof(item, fc.constant("*")), { minLength: 5, maxLength: 6 });
    let accepted = 0;
    fc.assert(
      fc.property(mostlyStars, after, (fields, from) => {
        const text = fields.join(" ");
        try {
          readCron(text);
        } catch (error) {
          expect(error).toBeInstanceOf(InvalidOptionError);
          return;
        }
        accepted++;
        expect(disagreement(text, from, 2)).toBeNull();
      }),
      { numRuns: 3_000 },
    );
    expect(accepted).toBeGreaterThan(100);
  });
});
