import { command, group, keyFlag, YES, type Command } from "#src/cli/parse/command.js";
import { BadUsage } from "#src/cli/errors.js";
import { parseCall } from "#src/cli/parse/parse.js";
import { describe, expect, expectTypeOf, it } from "vitest";

const list = command({
  name: "list",
  summary: "Lists.",
  arguments: { ids: { kind: "text", optional: true, repeated: true, says: "Which." } },
  flags: {
    state: { kind: "choice", choices: ["pending", "dead"], repeated: true, says: "Only these." },
    limit: { kind: "count", least: 1, most: 100, default: 20, short: "n", says: "How many." },
    priority: { kind: "count", least: -100, most: 100, says: "How soon." },
    before: { kind: "duration", says: "Older than." },
    interval: { kind: "duration", least: "100ms", bareMs: true, says: "How often." },
    where: { kind: "json", says: "A filter." },
    queues: { kind: "names", says: "These queues." },
    port: keyFlag("server.port"),
    yes: YES,
  },
  run: () => {},
});
const move = command({
  name: "move",
  summary: "Moves.",
  arguments: {
    by: { kind: "count", least: -9, most: 9, says: "How far." },
    to: { kind: "text", optional: true, says: "Where." },
  },
  flags: { reason: { kind: "text", required: true, says: "Why." } },
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
    if (error instanceof BadUsage) return error.message;
  }
  throw new Error("nothing was refused");
};

describe("a call", () => {
  it("has flags before, between and after the words of its command", () => {
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

  it("has defaults, switches, repeated flags and short ones", () => {
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

  it("has negative numbers, a dash for stdin, and anything after --", () => {
    expect(flagsOf("jobs list --priority -5")).toMatchObject({ priority: -5 });
    expect(flagsOf("jobs list --priority=-5")).toMatchObject({ priority: -5 });
    expect(parse("jobs move -3 --reason x").args).toEqual({ by: -3, to: undefined });
    expect(parse("jobs move --reason - -- -3 --to").args).toEqual({ by: -3, to: "--to" });
    expect(parse("jobs list -").args).toEqual({ ids: ["-"] });
    expect(parse("jobs list -- list --json").args).toEqual({ ids: ["list", "--json"] });
    expect(refusal("jobs move -12 --reason x")).toBe('<by>: "-12" is not a whole number from -9 to 9');
  });

  it("keeps flags that set keys for the configuration, unread", () => {
    const { flags, keyFlags } = parse("jobs list --port 99999");
    expect(keyFlags).toEqual({ "server.port": { name: "--port", text: "99999" } });
    expect(flags).not.toHaveProperty("port");
  });

  it("asks for help wherever it says so, also where it is wrong otherwise", () => {
    expect(parse("jobs move --help").flags).toMatchObject({ help: true });
    expect(parse("-h jobs").path).toEqual(["jobs"]);
    expect(parse("jobs list --bogus -h").flags).toMatchObject({ help: true });
    expect(parse("").flags).toMatchObject({ help: true, json: false });
    expect(parse("jobs --json -h").flags).toMatchObject({ help: true, json: true });
    expect(parse("--version").flags).toMatchObject({ version: true });
  });
});

describe("C-18 a bad flag value is refused before anything is done", () => {
  const refused: readonly [line: string, message: string][] = [
    ["jobs list --limit 0", '--limit: "0" is not a whole number from 1 to 100'],
    ["jobs list --limit many", '--limit: "many" is not a whole number from 1 to 100'],
    ["jobs list --state ded", '--state: "ded" is not one of pending, dead; did you mean dead?'],
    ["jobs list --before 7", '--before: "7" is not a duration such as "30s", "2h" or "7d"'],
    [
      "jobs list --interval 5",
      '--interval: "5" is not a duration of at least 100ms such as "30s", "2h" or "7d", or milliseconds such as 5000',
    ],
    ["jobs list --limit 3 --limit 4", "--limit is given 2 times; it can be given once"],
    ["jobs list --limit", "--limit needs a value: a whole number from 1 to 100"],
    ["jobs list --limit --yes", "--limit needs a value: a whole number from 1 to 100"],
    ["jobs list --yes=perhaps", '--yes: "perhaps" is not true or false'],
    ["jobs list --limits 3", "hf jobs list has no flag --limits; did you mean --limit?"],
    ["jobs list --xyzzy", "hf jobs list has no flag --xyzzy"],
    ["jobs list -z", "hf jobs list has no flag -z"],
    ["jobs move 3", "--reason is needed: a non-empty string without control characters"],
    ["jobs move --reason x", "hf jobs move needs <by>: how far"],
    ["jobs move 3 a b --reason x", 'hf jobs move takes <by> [to]; "b" is one too many'],
    ["jobs lst", 'hf jobs has no command "lst"; did you mean list?'],
    ["jobs lst --xyzzy", 'hf jobs has no command "lst"; did you mean list?'],
    ["--no-color jobs --config x ls -y", 'hf jobs has no command "ls"; did you mean list?'],
    ["tokens rm 3 --yes", 'hf tokens has no command "rm"; did you mean revoke?'],
    ["tokens revok 3 --yes", 'hf tokens has no command "revok"; did you mean revoke?'],
    ["jobs --limit 5 lst", "hf jobs has no flag --limit"],
    ["job list", 'there is no command "job"; did you mean jobs?'],
    ["jobs", "hf jobs needs a command: list, move"],
    ["jobs --no-limit", "hf jobs has no flag --no-limit"],
    ["jobs list --__proto__", "hf jobs list has no flag --__proto__"],
    ["jobs list --constructor x", "hf jobs list has no flag --constructor"],
  ];
  for (const [line, message] of refused) {
    it(`${line}`, () => {
      expect(refusal(line)).toBe(message);
    });
  }

  it("bad JSON", () => {
    expect(refusal(["jobs", "list", "--where", "{a: 1}"])).toMatch(/^--where: "\{a: 1\}" is not JSON: /);
  });
});

it("flags and arguments have the types that their table says", () => {
  command({
    name: "typed",
    summary: "Typed.",
    flags: {
      state: { kind: "choice", choices: ["pending", "dead"], repeated: true, says: "x" },
      format: { kind: "choice", choices: ["text", "json"], says: "x" },
      limit: { kind: "count", least: 1, most: 100, default: 20, says: "x" },
      before: { kind: "duration", says: "x" },
      reason: { kind: "text", required: true, says: "x" },
      port: keyFlag("server.port"),
      yes: YES,
    },
    arguments: {
      id: { kind: "text", says: "x" },
      more: { kind: "text", optional: true, says: "x" },
      rest: { kind: "count", least: 0, most: 1, repeated: true, optional: true, says: "x" },
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
