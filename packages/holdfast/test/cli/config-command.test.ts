import { readFileSync } from "node:fs";
import { join } from "node:path";
import { KEY_NAMES } from "#src/config/index.js";
import { describe, expect, it } from "vitest";
import { folder } from "../config/scene.js";
import { holdfastCommand } from "./scene.js";

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../../package.json"), "utf8")) as {
  version: string;
};

describe.concurrent("holdfast", () => {
  it("prints the version", async () => {
    const results = await Promise.all([["version"], ["--version"]].map((args) => holdfastCommand(args)));
    for (const result of results) expect(result).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
    const { stdout } = await holdfastCommand(["version", "--json"]);
    expect(JSON.parse(stdout)).toEqual({ version });
  });

  it("prints help at every level", async () => {
    const all = await holdfastCommand([]);
    expect(all).toMatchObject({ code: 0, stderr: "" });
    expect(all.stdout).toContain("Usage: holdfast <command> [flags]");
    expect(await holdfastCommand(["--help"])).toEqual(all);
    expect(await holdfastCommand(["help"])).toEqual(all);
    const set = await holdfastCommand(["config", "set", "--help"]);
    expect(set.stdout).toContain("Usage: holdfast config set <key> <value> [flags]");
    expect(await holdfastCommand(["help", "config", "set"])).toEqual(set);
  });

  it("C-18 exits with 2 and a hint after bad usage", async () => {
    expect(await holdfastCommand(["confg"])).toEqual({
      code: 2,
      stdout: "",
      stderr: 'error: unknown command "confg"; did you mean config?\nhint: run: holdfast --help\n',
    });
    expect(await holdfastCommand(["config", "list", "--jsn"])).toEqual({
      code: 2,
      stdout: "",
      stderr:
        "error: holdfast config list: unknown flag --jsn; did you mean --json?\nhint: run: holdfast config list --help\n",
    });
    expect(await holdfastCommand(["help", "confg"])).toMatchObject({ code: 2, stdout: "" });
    expect(await holdfastCommand(["completion", "tcsh"])).toMatchObject({ code: 2, stdout: "" });
  });
});

describe.concurrent("holdfast config", () => {
  it("C-20 sets and gets keys, and keeps comments", async () => {
    const cwd = folder({ "holdfast.toml": "# The shop\n[jobs] # here\nconcurrency = 4 # four\n" });
    const typed: readonly [key: string, value: string, got: unknown][] = [
      ["jobs.enabled", "false", false],
      ["jobs.concurrency", "8", 8],
      ["jobs.poll_interval_ms", "250", 250],
      ["jobs.lease_duration_s", "60", 60],
      ["jobs.max_retries", "0", 0],
      ["jobs.scheduler_enabled", "true", true],
      ["jobs.scheduler_tick_s", "3600", 3_600],
      ["jobs.queues", "mail,video", ["mail", "video"]],
      ["retention.dead", "forever", "forever"],
      ["log.level", "warn", "warn"],
    ];
    for (const [key, value] of typed) {
      const written = key === "jobs.queues" ? '["mail","video"]' : value;
      expect(await holdfastCommand(["config", "set", key, value], { cwd })).toEqual({
        code: 0,
        stdout: `${key} = ${written} in holdfast.toml\n`,
        stderr: "",
      });
    }
    // As text like the input, and as JSON with its type.
    const got = await Promise.all(typed.map(([key]) => holdfastCommand(["config", "get", key], { cwd })));
    expect(got.map(({ stdout }) => stdout)).toEqual(
      typed.map(([key, value]) => `${key === "jobs.queues" ? '["mail","video"]' : value}\n`),
    );
    const { stdout: json } = await holdfastCommand(["config", "list", "--json"], { cwd });
    const { values } = JSON.parse(json) as { values: { key: string; value: unknown }[] };
    for (const [key, , value] of typed) expect(values.find((each) => each.key === key)).toMatchObject({ value });
    expect(readFileSync(join(cwd, "holdfast.toml"), "utf8")).toBe(
      `# The shop
[jobs] # here
concurrency = 8 # four
enabled = false
poll_interval_ms = 250
lease_duration_s = 60
max_retries = 0
scheduler_enabled = true
scheduler_tick_s = 3600
queues = ["mail", "video"]

[retention]
dead = "forever"

[log]
level = "warn"
`,
    );
  });

  it("C-20 rejects values outside their range by key", async () => {
    const cwd = folder({ "holdfast.toml": "[jobs]\nconcurrency = 4\n" });
    const wrong = [
      ["jobs.enabled", "maybe", "true or false"],
      ["jobs.concurrency", "65", "a whole number from 1 to 64"],
      ["jobs.poll_interval_ms", "99", "a whole number from 100 to 60000"],
      ["jobs.lease_duration_s", "29", "a whole number from 30 to 3600"],
      ["jobs.max_retries", "-1", "a whole number from 0 to 100"],
      ["jobs.scheduler_enabled", "2", "true or false"],
      ["jobs.scheduler_tick_s", "4", "a whole number from 5 to 3600"],
    ] as const;
    const refused = await Promise.all(
      wrong.map(([key, value]) => holdfastCommand(["config", "set", key, value], { cwd })),
    );
    expect(refused).toEqual(
      wrong.map(([key, value, range]) => ({
        code: 2,
        stdout: "",
        stderr: `error: ${key}: "${value}" is not ${range}\nhint: run: holdfast config set --help\n`,
      })),
    );
    const variableOf = (key: string): string => `HOLDFAST_${key.replace(".", "_").toUpperCase()}`;
    const env = Object.fromEntries(wrong.map(([key, value]) => [variableOf(key), value]));
    const shown = (value: string): string => (/\d/.test(value) ? value : `"${value}"`);
    expect(await holdfastCommand(["config", "list"], { cwd, env })).toEqual({
      code: 2,
      stdout: "",
      stderr: `error: the configuration has 7 problems:\n${wrong
        .map(([key, value, range]) => `  ${key}: ${shown(value)} is not ${range} (${variableOf(key)})\n`)
        .join("")}`,
    });
    expect(readFileSync(join(cwd, "holdfast.toml"), "utf8")).toBe("[jobs]\nconcurrency = 4\n");
  });

  it("set rejects values that later commands would reject", async () => {
    const cwd = folder({ "holdfast.toml": "# mine\n" });
    const long = "q".repeat(300);
    const wrong = [
      ["redact.paths", "input..x", /"input\.\.x" has an empty part/, /a list of at most 100 paths such as/],
      ["server.base_path", "ops", /is not a path such as "\/ops"/, null],
      ["server.host", "not a host!", /is not a host name or IP address/, null],
      ["jobs.queues", `mail,${long}`, /which is 300 characters long/, /names of at most 100 characters each/],
      ["jobs.module", "jobs.txt", /is not a path that ends in \.ts/, null],
      ["store", "jobs.db", /is not a URL such as sqlite:jobs\.db/, null],
    ] as const;
    const refused = await Promise.all(
      wrong.map(([key, value]) => holdfastCommand(["config", "set", key, value], { cwd })),
    );
    for (const [index, [key, , problem, range]] of wrong.entries()) {
      const { code, stdout, stderr = "" } = refused[index] ?? {};
      expect({ key, code, stdout }).toEqual({ key, code: 2, stdout: "" });
      const [error = "", hint = "", ...more] = stderr.split("\n");
      expect(error.startsWith(`error: ${key}: `)).toBe(true);
      expect(error).toMatch(problem);
      // The hint does not repeat the error.
      expect(hint.startsWith(range === null ? "hint: run: holdfast config set --help" : `hint: ${key} is `)).toBe(true);
      if (range !== null) expect(hint).toMatch(range);
      expect(more).toEqual([""]);
    }
    expect(readFileSync(join(cwd, "holdfast.toml"), "utf8")).toBe("# mine\n");
  });

  it("reports all problems together", async () => {
    const cwd = folder({ "holdfast.toml": "[jobs]\nconcurrency = 0\nconcurency = 3\n" });
    expect(await holdfastCommand(["config", "list"], { cwd })).toEqual({
      code: 2,
      stdout: "",
      stderr: `error: the configuration has 2 problems:
  jobs.concurency is not a key; did you mean jobs.concurrency? (holdfast.toml:3)
  jobs.concurrency: 0 is not a whole number from 1 to 64 (holdfast.toml:2)
`,
    });
  });

  it("list prints values with sources, without passwords", async () => {
    const cwd = folder({ "holdfast.toml": 'store = "postgres://ada:lovelace@db/shop"\n[jobs]\nconcurrency = 8\n' });
    const env = { HOLDFAST_JOBS_GRACE_S: "5", HOLDFAST_JOBS_CONCURENCY: "3" };
    const { code, stdout, stderr } = await holdfastCommand(["config", "list"], { cwd, env });
    expect(code).toBe(0);
    expect(stderr).toBe(
      "warning: the variable HOLDFAST_JOBS_CONCURENCY is unknown and has no effect; did you mean HOLDFAST_JOBS_CONCURRENCY?\n",
    );
    const lines = stdout
      .trimEnd()
      .split("\n")
      .map((line) => line.split(/ {2,}/));
    expect(lines[0]).toEqual(["Key", "Value", "Source"]);
    expect(lines.slice(1).map(([key]) => key)).toEqual(KEY_NAMES);
    expect(lines).toContainEqual(["store", "postgres://ada:***@db/shop", "holdfast.toml:1"]);
    expect(lines).toContainEqual(["jobs.concurrency", "8", "holdfast.toml:3"]);
    expect(lines).toContainEqual(["jobs.grace_s", "5", "HOLDFAST_JOBS_GRACE_S"]);
    expect(lines).toContainEqual(["jobs.max_retries", "3", "default"]);
    expect(lines).toContainEqual(["jobs.queues", "not set", "default"]);
  });

  it("list --json always has the same shape", async () => {
    const cwd = folder({ "holdfast.toml": 'store = "postgres://ada:lovelace@db/shop"\n' });
    const { stdout } = await holdfastCommand(["config", "list", "--json"], { cwd });
    const document = JSON.parse(stdout) as { file: string; values: { key: string; value: unknown; source: object }[] };
    expect(document.file).toBe(join(cwd, "holdfast.toml"));
    expect(document.values.map(({ key }) => key)).toEqual(KEY_NAMES);
    expect(document.values[0]).toEqual({
      key: "store",
      value: "postgres://ada:***@db/shop",
      source: { kind: "file", file: join(cwd, "holdfast.toml"), line: 1 },
    });
    expect(document.values.at(-1)).toEqual({ key: "log.format", value: "text", source: { kind: "default" } });
  });

  it("get prints the full store address", async () => {
    const cwd = folder();
    const env = { HOLDFAST_STORE: "postgres://ada:lovelace@db/shop" };
    expect((await holdfastCommand(["config", "get", "store"], { cwd, env })).stdout).toBe(
      "postgres://ada:lovelace@db/shop\n",
    );
    expect(await holdfastCommand(["config", "get", "jobs.module"], { cwd })).toEqual({
      code: 0,
      stdout: "\n",
      stderr: "",
    });
    expect(await holdfastCommand(["config", "get", "jobs.concurency"], { cwd })).toEqual({
      code: 2,
      stdout: "",
      stderr:
        'error: "jobs.concurency" is not a key; did you mean jobs.concurrency?\nhint: to list all keys, run: holdfast config list\n',
    });
  });

  it("set creates or fixes the file, warns about variables", async () => {
    const cwd = folder();
    const env = { HOLDFAST_STORE: "sqlite:x.db" };
    expect(await holdfastCommand(["config", "set", "store", "postgres://ada:lovelace@db/shop"], { cwd, env })).toEqual({
      code: 0,
      stdout: "store = postgres://ada:***@db/shop in holdfast.toml\n",
      stderr: "warning: HOLDFAST_STORE is set and overrides the file\n",
    });
    const bad = folder({ "holdfast.toml": "[jobs]\nconcurrency = 99 # oh\n" });
    expect(await holdfastCommand(["config", "set", "jobs.concurrency", "9"], { cwd: bad })).toMatchObject({ code: 0 });
    expect(readFileSync(join(bad, "holdfast.toml"), "utf8")).toBe("[jobs]\nconcurrency = 9 # oh\n");
  });

  it("unset removes a key", async () => {
    const cwd = folder({ "holdfast.toml": "[jobs]\nconcurrency = 9\n" });
    const unset = (): ReturnType<typeof holdfastCommand> =>
      holdfastCommand(["config", "unset", "jobs.concurrency"], { cwd });
    expect(await unset()).toEqual({ code: 0, stdout: "Removed jobs.concurrency from holdfast.toml\n", stderr: "" });
    expect(await unset()).toEqual({ code: 0, stdout: "jobs.concurrency was not set in holdfast.toml\n", stderr: "" });
  });

  it("path prints the file in use", async () => {
    const cwd = folder({ "holdfast.toml": "", "below/other.toml": "" });
    const below = join(cwd, "below");
    expect((await holdfastCommand(["config", "path"], { cwd: below })).stdout).toBe(`${join(cwd, "holdfast.toml")}\n`);
    expect((await holdfastCommand(["config", "path", "--config", "other.toml"], { cwd: below })).stdout).toBe(
      `${join(below, "other.toml")}\n`,
    );
    expect(await holdfastCommand(["config", "path"], { cwd: folder() })).toEqual({
      code: 1,
      stdout: "",
      stderr:
        "error: no holdfast.toml in this folder or its parents\nhint: to create one, run: holdfast config set <key> <value>\n",
    });
  });
});
