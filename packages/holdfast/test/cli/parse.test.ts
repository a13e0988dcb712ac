import { command, group, keyFlag, YES, type Command } from "#src/cli/parse/command.js";
import { UsageError } from "#src/cli/errors.js";
import { parseCall } from "#src/cli/parse/parse.js";
import { describe, expect, expectTypeOf, it } from "vitest";

const list = command({
  name: "list",
  summary: "Lists.",
  arguments: { ids: { kind: "text", optional: true, repeated: true, description: "Which." } },
  flags: {
    state: { kind: "choice", choices: ["pending", "dead"], repeated: true, description: "Only these." },
    limit: { kind: "count", min: 1, max: 100, default: 20, short: "n", description: "How many." },
    priority: { kind: "count", min: -100, max: 100, description: "How soon." },
    before: { kind: "duration", description: "Older than." },
    interval: { kind: "duration", min: "100ms", bareMs: true, description: "How often." },
    where: { kind: "json", description: "A filter." },
    queues: { kind: "names", description: "These queues." },
    port: keyFlag("server.port"),
    yes: YES,
  },
  run: () => {},
});
const move = command({
  name: "move",
  summary: "Moves.",
  arguments: {
    by: { kind: "count", min: -9, max: 9, description: "How far." },
    to: { kind: "text", optional: true, description: "Where." },
  },
  flags: { reason: { kind: "text", required: true, description: "Why." } },
  run: () => {},
});
const root: Command = group({
  name: "hf",
  summary: "Root.",
  commands: [
    group({ name: "jobs", summary: "Jobs.", commands: [list, move] }),
    group({
      name: "tokens",
      summary: "Tokens.",
      commands: [command({ name: "revoke", summary: "Ends.", run: () => {} })],
    }),
  ],
});

const parse = (line: string | string[]): ReturnType<typeof parseCall> =>
  parseCall(root, typeof line === "string" ? line.split(" ").filter((word) => word !== "") : line);
const flagsOf = (line: string | string[]): Record<string, unknown> => parse(line).flags;
const refusal = (line: string | string[]): string => {
  try {
    parse(line);
  } catch (error) {
    if (error instanceof UsageError) return error.message;
  }
  throw new Error("nothing was refused");
};

describe("a command line", () => {
  it("may have flags anywhere", () => {
    for (const line of [
      "jobs list --json --limit 5 x",
      "--json jobs --limit 5 list x",
      "--config a.toml jobs list --limit=5 --json x",
    ]) {
      const { path, flags, args } = parse(line);
      expect(path).toEqual(["jobs", "list"]);
      expect(flags).toMatchObject({ json: true, limit: 5 });
      expect(args).toEqual({ ids: ["x"] });
    }
  });

  it("has defaults, switches, repeated and short flags", () => {
    expect(flagsOf("jobs list")).toMatchObject({ limit: 20, state: [], yes: false, json: false });
    expect(flagsOf("jobs list")["before"]).toBeUndefined();
    expect(flagsOf("jobs list --state dead --state=pending -n 3 -y")).toMatchObject({
      state: ["dead", "pending"],
      limit: 3,
      yes: true,
    });
    expect(flagsOf("jobs list --yes --no-yes")).toMatchObject({ yes: false });
    expect(flagsOf("jobs list --yes=false")).toMatchObject({ yes: false });
    expect(flagsOf("jobs list --queues a,b")).toMatchObject({ queues: ["a", "b"] });
    expect(flagsOf("jobs list --interval 5000")).toMatchObject({ interval: "5000ms" });
    expect(flagsOf("jobs list --interval 5s")).toMatchObject({ interval: "5s" });
    expect(flagsOf(["jobs", "list", "--where", '{"a": 1}'])).toMatchObject({ where: { a: 1 } });
  });

  it("may have negative numbers, - and --", () => {
    expect(flagsOf("jobs list --priority -5")).toMatchObject({ priority: -5 });
    expect(flagsOf("jobs list --priority=-5")).toMatchObject({ priority: -5 });
    expect(parse("jobs move -3 --reason x").args).toEqual({ by: -3, to: undefined });
    expect(parse("jobs move --reason - -- -3 --to").args).toEqual({ by: -3, to: "--to" });
    expect(parse("jobs list -").args).toEqual({ ids: ["-"] });
    expect(parse("jobs list -- list --json").args).toEqual({ ids: ["list", "--json"] });
    expect(refusal("jobs move -12 --reason x")).toBe('<by>: "-12" is not a whole number from -9 to 9');
  });

  it("passes on flags that set configuration keys", () => {
    const { flags, keyFlags } = parse("jobs list --port 99999");
    expect(keyFlags).toEqual({ "server.port": { name: "--port", text: "99999" } });
    expect(flags).not.toHaveProperty("port");
  });

  it("shows help for --help, even with mistakes", () => {
    expect(parse("jobs move --help").flags).toMatchObject({ help: true });
    expect(parse("-h jobs").path).toEqual(["jobs"]);
    expect(parse("jobs list --bogus -h").flags).toMatchObject({ help: true });
    expect(parse("").flags).toMatchObject({ help: true, json: false });
    expect(parse("jobs --json -h").flags).toMatchObject({ help: true, json: true });
    expect(parse("--version").flags).toMatchObject({ version: true });
  });
});

describe("C-18 rejects a bad command line", () => {
  const refused: readonly [line: string, message: string][] = [
    ["jobs list --limit 0", '--limit: "0" is not a whole number from 1 to 100'],
    ["jobs list --limit many", '--limit: "many" is not a whole number from 1 to 100'],
    ["jobs list --state ded", '--state: "ded" is not one of pending, dead; did you mean dead?'],
    ["jobs list --before 7", '--before: "7" is not a duration such as "30s", "2h" or "7d"'],
    [
      "jobs list --interval 5",
      '--interval: "5" is not a duration of at least 100ms such as "30s", "2h" or "7d", or milliseconds such as 5000',
    ],
    ["jobs list --limit 3 --limit 4", "--limit was given 2 times; give it once"],
    ["jobs list --limit", "--limit needs a value: a whole number from 1 to 100"],
    ["jobs list --limit --yes", "--limit needs a value: a whole number from 1 to 100"],
    ["jobs list --yes=perhaps", '--yes: "perhaps" is not true or false'],
    ["jobs list --limits 3", "hf jobs list: unknown flag --limits; did you mean --limit?"],
    ["jobs list --xyzzy", "hf jobs list: unknown flag --xyzzy"],
    ["jobs list -z", "hf jobs list: unknown flag -z"],
    ["jobs move 3", "--reason is required: a non-empty string without control characters"],
    ["jobs move 3 --reason=", "--reason is empty; omit the flag, or give it a value"],
    ["jobs move --reason x", "hf jobs move: missing argument <by>"],
    ["jobs move 3 a b --reason x", 'hf jobs move takes <by> [to]; unexpected argument "b"'],
    ["jobs lst", 'hf jobs: unknown command "lst"; did you mean list?'],
    ["jobs lst --help", 'hf jobs: unknown command "lst"; did you mean list?'],
    ["--help job", 'unknown command "job"; did you mean jobs?'],
    ["job -h", 'unknown command "job"; did you mean jobs?'],
    ["jobs lst --xyzzy", 'hf jobs: unknown command "lst"; did you mean list?'],
    ["--no-color jobs --config x ls -y", 'hf jobs: unknown command "ls"; did you mean list?'],
    ["tokens rm 3 --yes", 'hf tokens: unknown command "rm"; did you mean revoke?'],
    ["tokens revok 3 --yes", 'hf tokens: unknown command "revok"; did you mean revoke?'],
    ["jobs --limit 5 lst", "hf jobs: unknown flag --limit"],
    ["job list", 'unknown command "job"; did you mean jobs?'],
    ["jobs", "hf jobs needs a command: list, move"],
    ["jobs --no-limit", "hf jobs: unknown flag --no-limit"],
    ["jobs list --__proto__", "hf jobs list: unknown flag --__proto__"],
    ["jobs list --constructor x", "hf jobs list: unknown flag --constructor"],
  ];
  for (const [line, message] of refused) {
    it(`${line}`, () => {
      expect(refusal(line)).toBe(message);
    });
  }

  it("an empty argument", () => {
    expect(refusal(["jobs", "move", "3", "", "--reason", "x"])).toBe("<to> is empty; give it a value");
  });

  it("bad JSON", () => {
    expect(refusal(["jobs", "list", "--where", "{a: 1}"])).toMatch(/^--where: "\{a: 1\}" is not JSON: /);
  });
});

it("flags and arguments are typed by their definitions", () => {
  command({
    name: "typed",
    summary: "Typed.",
    flags: {
      state: { kind: "choice", choices: ["pending", "dead"], repeated: true, description: "x" },
      format: { kind: "choice", choices: ["text", "json"], description: "x" },
      limit: { kind: "count", min: 1, max: 100, default: 20, description: "x" },
      before: { kind: "duration", description: "x" },
      reason: { kind: "text", required: true, description: "x" },
      port: keyFlag("server.port"),
      yes: YES,
    },
    arguments: {
      id: { kind: "text", description: "x" },
      more: { kind: "text", optional: true, description: "x" },
      rest: { kind: "count", min: 0, max: 1, repeated: true, optional: true, description: "x" },
    },
    run(_context, { flags, args }) {
      expectTypeOf(flags).toEqualTypeOf<{
        readonly state: readonly ("pending" | "dead")[];
        readonly format: "text" | "json" | undefined;
        readonly limit: number;
        readonly before: string | undefined;
        readonly reason: string;
        readonly yes: boolean;
      }>();
      expectTypeOf(args).toEqualTypeOf<{
        readonly id: string;
        readonly more: string | undefined;
        readonly rest: readonly number[];
      }>();
    },
  });
});
