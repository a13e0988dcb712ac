import { createLogger } from "#src/cli/ui/logger.js";
import { createOutput, type Output } from "#src/cli/ui/output.js";
import { errorText } from "#src/cli/ui/report.js";
import { CommandError } from "#src/cli/errors.js";
import { describe, expect, it } from "vitest";

interface Scene {
  output: Output;
  stdout: string[];
  stderr: string[];
  time: { now: number };
}

function scene({ json = false, cells = null }: { json?: boolean; cells?: number | null } = {}): Scene {
  const stdout: string[] = [];
  const stderr: string[] = [];
  const time = { now: 0 };
  const output = createOutput({
    stdout: { write: (text) => void stdout.push(text), terminalWidth: () => cells, terminal: null },
    stderr: { write: (text) => void stderr.push(text), terminalWidth: () => cells, terminal: null },
    json,
    colours: { stdout: false, stderr: false },
    stdoutClosed: new AbortController().signal,
    now: () => time.now,
  });
  return { output, stdout, stderr, time };
}

describe("a result", () => {
  it("is one JSON document, or text", () => {
    const human = scene();
    human.output.result({ a: 1 }, (writer) => {
      writer.line("one", " two");
      writer.fields([
        ["id", "x"],
        ["a longer", "y"],
      ]);
    });
    expect(human.stdout.join("")).toBe("one two\nid:       x\na longer: y\n");
    const json = scene({ json: true });
    json.output.result({ a: new Date(0) }, () => {
      throw new Error("for people only");
    });
    expect(json.stdout.join("")).toBe('{\n  "a": "1970-01-01T00:00:00.000Z"\n}\n');
    expect(() => json.output.result({}, () => {})).toThrow(/two results/);
  });

  it("may be one of several JSON lines", () => {
    const { output, stdout } = scene({ json: true });
    output.event({ n: 1 }, () => {});
    output.event({ n: 2 }, () => {});
    expect(stdout.join("")).toBe('{"n":1}\n{"n":2}\n');
  });
});

describe("progress", () => {
  it("is a bar on a terminal", () => {
    const { output, stderr, time } = scene({ cells: 60 });
    const progress = output.progress("purging", 1_000);
    progress.update(1);
    expect(stderr).toEqual([]);
    time.now = 100;
    progress.update(250);
    expect(stderr.splice(0)).toEqual(["\r\u001b[K█████░░░░░░░░░░░░░░░ purging 250 of 1,000 (25 %)"]);
    output.warn("odd");
    expect(stderr.splice(0)).toEqual([
      "\r\u001b[K",
      "warning: odd\n",
      "\r\u001b[K█████░░░░░░░░░░░░░░░ purging 250 of 1,000 (25 %)",
    ]);
    progress.update(1_000);
    progress.end();
    progress.end();
    output.note("after");
    expect(stderr).toEqual(["\r\u001b[Kpurging 1,000 of 1,000 (100 %)\n", "after\n"]);
  });

  it("is a line every few seconds elsewhere", () => {
    const { output, stderr, time } = scene();
    const progress = output.progress("importing", null);
    for (time.now = 0; time.now <= 12_000; time.now += 100) progress.update(time.now);
    progress.end();
    expect(stderr).toEqual(["importing 5,000\n", "importing 10,000\n", "importing 12,000\n"]);
  });
});

describe("an error", () => {
  const plain = { colours: false, verbose: false };
  it("is a sentence with a hint, with control characters escaped", () => {
    expect(errorText(new CommandError("it is so", { hint: "do so" }), plain)).toBe("error: it is so\nhint: do so\n");
    expect(errorText(new CommandError("\u001b[2J"), plain)).toBe("error: \\x1b[2J\n");
  });
  it("has a message even if Node gives none", () => {
    const refused = new AggregateError([new Error("connect ECONNREFUSED 127.0.0.1:5432")], "");
    expect(errorText(refused, plain)).toMatch(/^error: connect ECONNREFUSED 127\.0\.0\.1:5432\n/);
    expect(errorText(Object.assign(new Error(""), { code: "ENOENT" }), plain)).toMatch(/^error: ENOENT\n/);
    expect(errorText("a string", plain)).toMatch(/^error: a string\n/);
  });
});

describe("the log", () => {
  const lines = (level: "error" | "warn" | "info" | "silent", format: "text" | "json"): string[] => {
    const written: string[] = [];
    const logger = createLogger({ level, format, write: (line) => void written.push(line), now: () => new Date(0) });
    logger.info({ worker: "w1" }, "started");
    logger.warn({ note: "a b\n\u001b" }, "odd");
    logger.error({ error: new TypeError("no") }, "failed");
    return written;
  };
  it("has one line per entry at its level", () => {
    expect(lines("info", "text")).toEqual([
      "1970-01-01T00:00:00.000Z info  started worker=w1\n",
      '1970-01-01T00:00:00.000Z warn  odd note="a b\\n\\u001b"\n',
      '1970-01-01T00:00:00.000Z error failed error="no"\n',
    ]);
    expect(lines("error", "text")).toHaveLength(1);
    expect(lines("silent", "text")).toEqual([]);
  });
  it("may be JSON, with the fields of an error", () => {
    const [warn = "", error = ""] = lines("warn", "json");
    expect(JSON.parse(warn)).toEqual({
      time: "1970-01-01T00:00:00.000Z",
      level: "warn",
      message: "odd",
      note: "a b\n\u001b",
    });
    expect(JSON.parse(error)).toMatchObject({ level: "error", error: { name: "TypeError", message: "no" } });
  });
});
