import { chmodSync, lstatSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import {
  InvalidConfigError,
  KEY_NAMES,
  keyOf,
  readConfig,
  setKey,
  unsetKey,
  type KeyName,
  type Value,
} from "#src/config/index.js";
import type { FormName } from "#src/config/forms.js";
import { setInText, tomlValue, unsetInText } from "#src/config/toml-edit.js";
import { layoutOf } from "#src/config/toml-text.js";
import { parse } from "smol-toml";
import { describe, expect, it } from "vitest";
import { folder } from "./scene.js";

describe("setting an existing key", () => {
  it("replaces only its value", () => {
    const before = "# mine\n[jobs]   # of the shop\n  concurrency   =  4   # four\n\n[log]\nlevel='warn'\n";
    expect(setInText(before, "jobs.concurrency", 8)).toBe(before.replace("4   #", "8   #"));
    expect(setInText(before, "log.level", "info")).toBe(before.replace("'warn'", '"info"'));
  });

  it("finds inline, dotted and quoted keys", () => {
    expect(setInText("jobs = { concurrency = 4, grace_s = 1 }", "jobs.concurrency", 8)).toBe(
      "jobs = { concurrency = 8, grace_s = 1 }",
    );
    expect(setInText("jobs.concurrency = 4", "jobs.concurrency", 8)).toBe("jobs.concurrency = 8");
    expect(setInText("[\"jobs\"]\n'concurrency'=4", "jobs.concurrency", 8)).toBe("[\"jobs\"]\n'concurrency'=8");
  });

  it("replaces a multi-line value with comments", () => {
    const before = '[jobs]\nqueues = [\n  "a", # ]\n  "b]",\n] # end\ngrace_s = 1\n';
    expect(setInText(before, "jobs.queues", ["c"])).toBe('[jobs]\nqueues = ["c"] # end\ngrace_s = 1\n');
    const block = 'store = """\n[jobs]\nconcurrency = 1"""  # x\n[jobs]\nconcurrency = 2';
    expect(setInText(block, "jobs.concurrency", 3)).toBe(block.replace("= 2", "= 3"));
    expect(setInText("store = '''a''''' # x", "store", "b")).toBe('store = "b" # x');
  });
});

describe("setting a new key", () => {
  it("adds it to its section, with the same indentation", () => {
    const before = "[jobs]\n  concurrency = 4 # x\n\n# of the log\n[log]\n";
    expect(setInText(before, "jobs.grace_s", 1)).toBe(
      "[jobs]\n  concurrency = 4 # x\n  grace_s = 1\n\n# of the log\n[log]\n",
    );
    expect(setInText(before, "log.level", "info")).toBe(`${before}level = "info"\n`);
  });

  it("adds it to an inline table or after dotted keys", () => {
    expect(setInText("jobs = { grace_s = 1 } # x\n", "jobs.concurrency", 8)).toBe(
      "jobs = { grace_s = 1, concurrency = 8 } # x\n",
    );
    expect(setInText("jobs = {}", "jobs.concurrency", 8)).toBe("jobs = { concurrency = 8 }");
    expect(setInText("jobs.grace_s = 1\n[log]\n", "jobs.concurrency", 8)).toBe(
      "jobs.grace_s = 1\njobs.concurrency = 8\n[log]\n",
    );
  });

  it("adds a new section at the end", () => {
    expect(setInText("", "jobs.grace_s", 1)).toBe("[jobs]\ngrace_s = 1\n");
    expect(setInText("[log]\nlevel = 'info'", "jobs.grace_s", 1)).toBe(
      "[log]\nlevel = 'info'\n\n[jobs]\ngrace_s = 1\n",
    );
    expect(setInText("[log]\r\n", "jobs.grace_s", 1)).toBe("[log]\r\n\r\n[jobs]\r\ngrace_s = 1\r\n");
  });

  it("adds a top-level key above the first section", () => {
    expect(setInText("", "store", "sqlite:a")).toBe('store = "sqlite:a"\n');
    expect(setInText("# jobs\n[jobs]\n", "store", "sqlite:a")).toBe('store = "sqlite:a"\n\n# jobs\n[jobs]\n');
    expect(setInText("# The shop\n\n# jobs\n[jobs]\n", "store", "sqlite:a")).toBe(
      '# The shop\n\nstore = "sqlite:a"\n\n# jobs\n[jobs]\n',
    );
    expect(setInText("\ufeff[jobs]\n", "store", "sqlite:a")).toBe('\ufeffstore = "sqlite:a"\n\n[jobs]\n');
  });

  it("fails if its section is not a section", () => {
    expect(setInText("jobs = 3", "jobs.grace_s", 1)).toBeNull();
    expect(setInText("[[jobs]]", "jobs.grace_s", 1)).toBeNull();
  });
});

describe("unsetting a key", () => {
  it("removes all its lines", () => {
    expect(unsetInText("[jobs]\ngrace_s = 1 # x\n# y\n", "jobs.grace_s")).toBe("[jobs]\n# y\n");
    expect(unsetInText("[jobs]\nqueues = [\n 'a',\n]\ngrace_s = 1", "jobs.queues")).toBe("[jobs]\ngrace_s = 1");
    expect(unsetInText("\ufeffstore = 'x'", "store")).toBe("\ufeff");
  });

  it("keeps an inline table valid", () => {
    const text = "jobs = { grace_s = 1, concurrency = 2, max_retries = 3 }";
    expect(unsetInText(text, "jobs.grace_s")).toBe("jobs = { concurrency = 2, max_retries = 3 }");
    expect(unsetInText(text, "jobs.concurrency")).toBe("jobs = { grace_s = 1, max_retries = 3 }");
    expect(unsetInText(text, "jobs.max_retries")).toBe("jobs = { grace_s = 1, concurrency = 2 }");
    expect(unsetInText("jobs = { grace_s = 1, }", "jobs.grace_s")).toBe("jobs = {  }");
  });
});

/** A value that the key allows. */
function valueOf(name: KeyName): fc.Arbitrary<Value> {
  const key = keyOf(name);
  const text = fc
    .string({ unit: "grapheme", minLength: 1, maxLength: 20 })
    .filter((each) => !/\p{Cc}|^\s*$/u.test(each));
  switch (key.kind) {
    case "switch":
      return fc.boolean();
    case "count":
      return fc.integer({ min: key.min, max: key.max });
    case "number":
      return fc.double({ min: key.min, max: key.max, noNaN: true });
    case "choice":
      return fc.constantFrom(...key.choices);
    case "names":
      return fc.array(key.form === undefined ? text : FORMED[key.form](text), { maxLength: 4 });
    case "duration":
      return fc.integer({ min: 60, max: 86_400 }).map((s) => `${s}s`);
    case "jitter":
      return fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constant("1s"));
    case "text":
      return key.form === undefined ? text : FORMED[key.form](text);
    case "json":
      return text;
  }
}

/** Strings of each format, with any letters where it allows them. */
const FORMED: Readonly<Record<FormName, (text: fc.Arbitrary<string>) => fc.Arbitrary<string>>> = {
  store: (text) => text.map((each) => `sqlite:./${each}`),
  queue: (text) => text.filter((each) => each.length <= 100 && each !== "*"),
  module: (text) => text.map((each) => `${each}jobs.ts`),
  host: () => fc.oneof(fc.domain(), fc.ipV4(), fc.ipV6()),
  "base path": () => fc.stringMatching(/^\/[a-z]{1,9}$/),
  redaction: (text) => text.map((each) => `input.${each.replaceAll(/[.\\]/g, "\\$&")}`),
  instant: () => fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
  past: () => fc.nat({ max: 100 }).map((days) => `${days}d`),
  future: () => fc.nat({ max: 100 }).map((days) => `${days}d`),
};

const comment = fc.constantFrom("", "", " # x", '\t# [jobs] = "', "#'''", "# a = { b = [");
const spaces = fc.constantFrom("", " ", "  ", "\t");

/** A value as a person may write it. */
function written(value: Value): fc.Arbitrary<string> {
  if (typeof value === "object") {
    return fc.array(comment, { minLength: value.length, maxLength: value.length }).map((comments) => {
      const items = value.map((item, index) => `\n  ${tomlValue(item)},${comments[index]}`);
      return items.length === 0 ? "[ ]" : `[${items.join("")}\n]`;
    });
  }
  if (typeof value !== "string") return fc.constant(tomlValue(value));
  const forms = [
    tomlValue(value),
    `"""${tomlValue(value).slice(1, -1)}"""`,
    `"""\\\n   ${tomlValue(value).slice(1, -1)}"""`,
  ];
  // An escaped line break also removes the following spaces.
  if (/^\s/.test(value)) forms.pop();
  if (!value.includes("'")) forms.push(`'${value}'`, `'''${value}'''`);
  return fc.constantFrom(...forms);
}

interface Scene {
  text: string;
  values: Map<KeyName, Value>;
}

/** A file with some keys in sections, inline tables or dotted names, and with many comments. */
const scene: fc.Arbitrary<Scene> = fc
  .record({
    keys: fc.uniqueArray(fc.constantFrom(...KEY_NAMES), { maxLength: 12 }),
    ending: fc.constantFrom("\n", "\r\n"),
    lastEnds: fc.boolean(),
    mark: fc.boolean(),
  })
  .chain(({ keys, ending, lastEnds, mark }) => {
    const sections = new Map<string, KeyName[]>();
    for (const key of keys) {
      const section = key.includes(".") ? key.slice(0, key.indexOf(".")) : "";
      sections.set(section, [...(sections.get(section) ?? []), key]);
    }
    const order = [...sections.keys()];
    return fc
      .record({
        pairs: fc.tuple(
          ...keys.map((key) =>
            valueOf(key).chain((value) =>
              fc.record({
                key: fc.constant(key),
                value: fc.constant(value),
                text: written(value),
                before: fc.constantFrom("", "# of a key\n", "\n", "\n# a\n\n"),
                indent: spaces,
                left: spaces,
                right: spaces,
                comment,
                quoted: fc.boolean(),
              }),
            ),
          ),
        ),
        styles: fc.tuple(...order.map(() => fc.constantFrom("section", "inline", "dotted"))),
        shuffled: fc.shuffledSubarray(order, { minLength: order.length, maxLength: order.length }),
        head: fc.constantFrom("", "# A file\n", "# A file\n\n", "\n\n"),
      })
      .map(({ pairs, styles, shuffled, head }) => {
        const name = (pair: (typeof pairs)[number]): string => {
          const own = pair.key.slice(pair.key.indexOf(".") + 1);
          return pair.quoted ? JSON.stringify(own) : own;
        };
        const line = (pair: (typeof pairs)[number], prefix = ""): string =>
          `${pair.before}${pair.indent}${prefix}${name(pair)}${pair.left}=${pair.right}${pair.text}${pair.comment}\n`;
        let top = "";
        let below = "";
        for (const section of shuffled) {
          const style = section === "" ? "dotted" : styles[order.indexOf(section)];
          const own = pairs.filter((pair) => sections.get(section)?.includes(pair.key));
          if (style === "section") below += `[${section}]\n${own.map((pair) => line(pair)).join("")}`;
          else if (style === "dotted") top += own.map((pair) => line(pair, section && `${section}.`)).join("");
          else
            top += `${section} = {${own.map((pair) => ` ${name(pair)} = ${tomlValue(pair.value)}`).join(",")} } # x\n`;
        }
        const text = (head + top + below).replaceAll("\n", ending);
        const cut = lastEnds || !text.endsWith(ending) ? text : text.slice(0, -ending.length);
        return {
          text: mark ? `\ufeff${cut}` : cut,
          values: new Map(pairs.map(({ key, value }) => [key, value] as const)),
        };
      });
  })
  .filter(({ text }) => {
    try {
      parse(text);
      return true;
    } catch {
      return false;
    }
  });

const change = fc.constantFrom(...KEY_NAMES).chain((key) => fc.tuple(fc.constant(key), valueOf(key)));

/** How many lines of `before` are in `after` unchanged, from the top and from the bottom. */
function untouched(before: readonly string[], after: readonly string[]): number {
  let top = 0;
  while (top < before.length && top < after.length && before[top] === after[top]) top++;
  let bottom = 0;
  const common = Math.min(before.length, after.length) - top;
  while (bottom < common && before.at(-1 - bottom) === after.at(-1 - bottom)) bottom++;
  return top + bottom;
}

describe("properties of random files with comments", () => {
  const runs = { numRuns: 400 };

  it("C-20 set changes one value and no other line", () => {
    const cwd = folder();
    const path = join(cwd, "holdfast.toml");
    fc.assert(
      fc.property(scene, change, ({ text, values }, [key, value]) => {
        const pair = layoutOf(text).pairs.find((each) => each.path.join(".") === key);
        // Not with setKey, which writes to disk each time.
        const edited = setInText(text, key, value) ?? "";
        writeFileSync(path, edited);
        const { values: after } = readConfig({ cwd, env: {} });
        expect(after[key]).toEqual(value);
        for (const [other, was] of values) if (other !== key) expect(after[other]).toEqual(was);
        // Including line breaks: a last line without one may get one.
        const linesOf = (of: string): string[] =>
          of
            .replace(/^\ufeff/, "")
            .replace(/[^\n]$/, `$&${of.includes("\r\n") ? "\r\n" : "\n"}`)
            .split(/(?<=\n)/);
        expect(edited.startsWith("\ufeff")).toBe(text.startsWith("\ufeff"));
        const changed =
          pair === undefined
            ? // A key of an inline table is added to its line.
              Number(layoutOf(text).pairs.some((each) => each.path.join(".") === key.split(".")[0] && key !== "store"))
            : text.slice(pair.valueStart, pair.valueEnd).split("\n").length;
        const lines = linesOf(text);
        expect(untouched(lines, linesOf(edited))).toBeGreaterThanOrEqual(
          lines.filter((line) => line !== "").length - changed,
        );
      }),
      runs,
    );
  });

  it("unset removes one value and no other", () => {
    fc.assert(
      fc.property(scene, ({ text, values }) => {
        let edited = text;
        for (const key of values.keys()) {
          const next = unsetInText(edited, key);
          expect(next, `${key} in ${edited}`).not.toBeNull();
          edited = next ?? "";
        }
        expect(Object.values(parse(edited)).every((each) => Object.keys(each as object).length === 0)).toBe(true);
        const comments = (of: string): number =>
          of.split("\n").filter((line) => /^\s*# (?:of a key|a|A file)\r?$/.test(line)).length;
        expect(comments(edited)).toBe(comments(text));
      }),
      runs,
    );
  });

  it("setting the same value again is idempotent", () => {
    fc.assert(
      fc.property(scene, change, ({ text }, [key, value]) => {
        const once = setInText(text, key, value);
        expect(once).not.toBeNull();
        expect(setInText(once ?? "", key, value)).toBe(once);
      }),
      runs,
    );
  });
});

describe("the written file", () => {
  it("is replaced atomically and keeps its mode", async () => {
    const cwd = folder({ "holdfast.toml": "[jobs]\n", "below/x": "" });
    const path = join(cwd, "holdfast.toml");
    chmodSync(path, 0o664);
    const before = statSync(path).ino;
    expect((await setKey({ cwd: join(cwd, "below"), env: {} }, "jobs.grace_s", 9)).path).toBe(path);
    expect(readFileSync(path, "utf8")).toBe("[jobs]\ngrace_s = 9\n");
    expect(statSync(path).mode & 0o777).toBe(0o664);
    expect(statSync(path).ino).not.toBe(before);
    expect(readdirSync(cwd).toSorted()).toEqual(["below", "holdfast.toml"]);
  });

  it("is created if missing, or at --config", async () => {
    const cwd = folder();
    expect((await setKey({ cwd, env: {} }, "jobs.grace_s", 9)).path).toBe(join(cwd, "holdfast.toml"));
    expect((await setKey({ cwd, env: {}, file: "other.toml" }, "jobs.grace_s", 9)).path).toBe(join(cwd, "other.toml"));
    expect(readFileSync(join(cwd, "other.toml"), "utf8")).toBe("[jobs]\ngrace_s = 9\n");
  });

  it("may be a symbolic link, which stays", async () => {
    const cwd = folder({ "real/shared.toml": "" });
    symlinkSync(join(cwd, "real/shared.toml"), join(cwd, "holdfast.toml"));
    await setKey({ cwd, env: {} }, "jobs.grace_s", 9);
    expect(lstatSync(join(cwd, "holdfast.toml")).isSymbolicLink()).toBe(true);
    expect(readFileSync(join(cwd, "real/shared.toml"), "utf8")).toBe("[jobs]\ngrace_s = 9\n");
  });

  it("is not written if it cannot be edited or is unchanged", async () => {
    const cwd = folder({ "holdfast.toml": "jobs = 3\n" });
    const path = join(cwd, "holdfast.toml");
    await expect(setKey({ cwd, env: {} }, "jobs.grace_s", 9)).rejects.toThrow(InvalidConfigError);
    expect(readFileSync(path, "utf8")).toBe("jobs = 3\n");
    writeFileSync(path, "[jobs]\ngrace_s = 9\n");
    const before = statSync(path).ino;
    await setKey({ cwd, env: {} }, "jobs.grace_s", 9);
    expect(statSync(path).ino).toBe(before);
    expect(await unsetKey({ cwd, env: {} }, "jobs.concurrency")).toBeNull();
    expect(await unsetKey({ cwd, env: {} }, "jobs.grace_s")).toBe(path);
    expect(readFileSync(path, "utf8")).toBe("[jobs]\n");
  });
});
