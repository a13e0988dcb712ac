import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { KEY_NAMES } from "#src/config/index.js";
import { describe, expect, it } from "vitest";
import { folder } from "../config/scene.js";
import { holdfastCommand, plainEnv, runInProcess, TEST_PROGRAM, type Ended, type RunOptions } from "./scene.js";
import { testProgram } from "./test-program.mjs";

const runTest = (args: readonly string[], options?: RunOptions): Promise<Ended> =>
  runInProcess(testProgram, args, options);

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../../package.json"), "utf8")) as {
  version: string;
};

describe.concurrent("holdfast, as a process", () => {
  it("version", async () => {
    const answers = await Promise.all([["version"], ["--version"]].map((args) => holdfastCommand(args)));
    for (const answer of answers) expect(answer).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
    const { stdout } = await holdfastCommand(["version", "--json"]);
    expect(JSON.parse(stdout)).toEqual({ version });
  });

  it("help at every level, on stdout", async () => {
    const all = await holdfastCommand([]);
    expect(all).toMatchObject({ code: 0, stderr: "" });
    expect(all.stdout).toContain("Usage: holdfast <command> [flags]");
    expect(await holdfastCommand(["--help"])).toEqual(all);
    expect(await holdfastCommand(["help"])).toEqual(all);
    const set = await holdfastCommand(["config", "set", "--help"]);
    expect(set.stdout).toContain("Usage: holdfast config set <key> <value> [flags]");
    expect(await holdfastCommand(["help", "config", "set"])).toEqual(set);
  });

  it("C-18 bad usage: exit code 2, one sentence and a hint on stderr, nothing on stdout", async () => {
    expect(await holdfastCommand(["confg"])).toEqual({
      code: 2,
      stdout: "",
      stderr: 'error: there is no command "confg"; did you mean config?\nhint: holdfast --help shows all commands\n',
    });
    expect(await holdfastCommand(["config", "list", "--jsn"])).toEqual({
      code: 2,
      stdout: "",
      stderr:
        "error: holdfast config list has no flag --jsn; did you mean --json?\nhint: holdfast config list --help shows how it is used\n",
    });
    expect(await holdfastCommand(["help", "confg"])).toMatchObject({ code: 2, stdout: "" });
    expect(await holdfastCommand(["completion", "tcsh"])).toMatchObject({ code: 2, stdout: "" });
  });
});

describe.concurrent("holdfast config", () => {
  it("C-20 set and get by key: what is set is got, and comments stay", async () => {
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
    // As text, as it was typed, and as JSON, with its type.
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

  it("C-20 values outside of their range are refused with the key's name, by set and by variable, and the file is left alone", async () => {
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
        stderr: `error: ${key}: "${value}" is not ${range}\nhint: holdfast config set --help shows how it is used\n`,
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

  it("set refuses what would stop the commands after it", async () => {
    const cwd = folder({ "holdfast.toml": "# mine\n" });
    const long = "q".repeat(300);
    const wrong = [
      ["redact.paths", "input..x", /"input\.\.x" has an empty part/, /a list of at most 100 paths such as/],
      ["server.base_path", "ops", /is not a path such as "\/ops"/, null],
      ["server.host", "not a host!", /is not the name or the IP address of a host/, null],
      ["jobs.queues", `mail,${long}`, /which is 300 characters long/, /names of at most 100 characters each/],
      ["jobs.module", "jobs.txt", /is not a path that ends in \.ts/, null],
      ["store", "jobs.db", /is not an address such as sqlite:jobs\.db/, null],
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
      // What the error says already the hint does not say again.
      expect(hint.startsWith(range === null ? "hint: holdfast config set --help" : `hint: ${key} is `)).toBe(true);
      if (range !== null) expect(hint).toMatch(range);
      expect(more).toEqual([""]);
    }
    expect(readFileSync(join(cwd, "holdfast.toml"), "utf8")).toBe("# mine\n");
  });

  it("tells all problems at once", async () => {
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

  it("list shows each value with its source, and no password", async () => {
    const cwd = folder({ "holdfast.toml": 'store = "postgres://ada:lovelace@db/shop"\n[jobs]\nconcurrency = 8\n' });
    const env = { HOLDFAST_JOBS_GRACE_S: "5", HOLDFAST_JOBS_CONCURENCY: "3" };
    const { code, stdout, stderr } = await holdfastCommand(["config", "list"], { cwd, env });
    expect(code).toBe(0);
    expect(stderr).toBe(
      "warning: the variable HOLDFAST_JOBS_CONCURENCY sets nothing; did you mean HOLDFAST_JOBS_CONCURRENCY?\n",
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

  it("list --json gives one document, with the same shape always", async () => {
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

  it("get gives the store as it is, and an empty line for what is not set", async () => {
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
        'error: "jobs.concurency" is not a key; did you mean jobs.concurrency?\nhint: holdfast config list shows all keys\n',
    });
  });

  it("set makes the file, hides passwords, tells of a variable that counts for more, and mends a bad file", async () => {
    const cwd = folder();
    const env = { HOLDFAST_STORE: "sqlite:x.db" };
    expect(await holdfastCommand(["config", "set", "store", "postgres://ada:lovelace@db/shop"], { cwd, env })).toEqual({
      code: 0,
      stdout: "store = postgres://ada:***@db/shop in holdfast.toml\n",
      stderr: "warning: HOLDFAST_STORE is set and counts for more than the file\n",
    });
    const bad = folder({ "holdfast.toml": "[jobs]\nconcurrency = 99 # oh\n" });
    expect(await holdfastCommand(["config", "set", "jobs.concurrency", "9"], { cwd: bad })).toMatchObject({ code: 0 });
    expect(readFileSync(join(bad, "holdfast.toml"), "utf8")).toBe("[jobs]\nconcurrency = 9 # oh\n");
  });

  it("unset takes a key out, once", async () => {
    const cwd = folder({ "holdfast.toml": "[jobs]\nconcurrency = 9\n" });
    const unset = (): ReturnType<typeof holdfastCommand> =>
      holdfastCommand(["config", "unset", "jobs.concurrency"], { cwd });
    expect(await unset()).toEqual({ code: 0, stdout: "jobs.concurrency is no longer in holdfast.toml\n", stderr: "" });
    expect(await unset()).toEqual({ code: 0, stdout: "jobs.concurrency is not in holdfast.toml\n", stderr: "" });
  });

  it("path shows the file that is used", async () => {
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
        "error: there is no holdfast.toml in this folder or above it\nhint: holdfast config set <key> <value> makes one\n",
    });
  });
});

describe.concurrent("the frame of commands", () => {
  it("C-16 a command that runs jobs starts nothing where jobs.enabled is off, and is done", async () => {
    const cwd = folder({ "holdfast.toml": "[jobs]\nenabled = false\n" });
    expect(await runTest(["work"], { cwd })).toEqual({
      code: 0,
      stdout: "nothing is started: jobs.enabled is false (holdfast.toml:2)\n",
      stderr: "",
    });
    expect(JSON.parse((await runTest(["work", "--json"], { cwd })).stdout)).toMatchObject({ started: false });
  });

  it("C-20 a flag counts for more than variable and file, and is refused with the key's name", async () => {
    const cwd = folder({ "holdfast.toml": "[jobs]\nconcurrency = 2\n" });
    const env = { HOLDFAST_JOBS_CONCURRENCY: "3" };
    expect((await runTest(["work", "--concurrency", "5"], { cwd, env })).stdout).toBe("works on 5\n");
    expect((await runTest(["work"], { cwd, env })).stdout).toBe("works on 3\n");
    expect((await runTest(["work"], { cwd })).stdout).toBe("works on 2\n");
    expect(await runTest(["work", "--concurrency", "65"], { cwd })).toEqual({
      code: 2,
      stdout: "",
      stderr: "error: jobs.concurrency: 65 is not a whole number from 1 to 64 (--concurrency)\n",
    });
  });

  it("gives flags and arguments their types", async () => {
    const args = ["work", "a.ts", "--state", "dead", "-p", "-5", "--input", '{"a":[1]}', "--json"];
    const { stdout } = await runTest(args, { cwd: folder() });
    expect(JSON.parse(stdout)).toMatchObject({ state: ["dead"], priority: -5, input: { a: [1] }, module: "a.ts" });
  });

  it("an error that nobody expected is one sentence, with its stack under --verbose only", async () => {
    expect(await runTest(["boom"])).toEqual({
      code: 1,
      stdout: "",
      stderr: "error: it went wrong\nhint: --verbose shows where it comes from\n",
    });
    const { stderr } = await runTest(["boom", "--verbose"]);
    expect(stderr).toMatch(/^error: it went wrong\nError: it went wrong\n {4}at .*test-program\.mjs/);
    expect(stderr).toContain("caused by: TypeError: deep down");
  });

  it("text of jobs does nothing to the terminal, neither as a table nor as JSON", async () => {
    const { stdout } = await runTest(["show"]);
    // oxlint-disable-next-line no-control-regex -- just what must not be there
    expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    expect(stdout).toContain("\\x1b]0;owned\\x07\\x1b[31mred");
    const { stdout: json } = await runTest(["show", "--json"]);
    expect(json).toMatch(/^\{\n {2}"jobs": \[/);
    // oxlint-disable-next-line no-control-regex -- just what must not be there
    expect(json).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    expect(JSON.parse(json)).toMatchObject({ jobs: [{ error: expect.stringContaining("\u009b2J") as string }] });
  });

  it("colours only where they are asked for, when it is no terminal", async () => {
    expect((await runTest(["show"])).stdout).not.toContain("\u001b");
    expect((await runTest(["show"], { env: { FORCE_COLOR: "1" } })).stdout).toContain("\u001b[31m\\x1b]0;owned");
    expect((await runTest(["show", "--no-color"], { env: { FORCE_COLOR: "1" } })).stdout).not.toContain("\u001b");
    expect((await runTest(["boom", "--color"])).stderr).toContain("\u001b[31merror:\u001b[39m it went wrong");
  });

  it("what destroys needs --yes where nobody can be asked", async () => {
    expect(await runTest(["destroy"], { input: "y\n" })).toEqual({
      code: 2,
      stdout: "",
      stderr: "error: Destroy it all? Nobody can be asked here, so nothing was done\nhint: add --yes to do it\n",
    });
    expect(await runTest(["destroy", "--yes"])).toEqual({ code: 0, stdout: "destroyed\n", stderr: "" });
    expect((await runTest(["destroy", "-y", "--json"])).stdout).toBe('{\n  "destroyed": true\n}\n');
  });

  it("progress is a line on stderr where there is no terminal", async () => {
    expect(await runTest(["count", "--json"])).toEqual({
      code: 0,
      stdout: '{\n  "counted": 4000\n}\n',
      stderr: "counting 4,000 of 4,000 (100 %)\n",
    });
  });

  it.skipIf(!existsSync("/dev/full"))("an answer that cannot be written is a failure, told in a sentence", () => {
    const line = `"${process.execPath}" "${TEST_PROGRAM}" show > /dev/full`;
    const { status, stderr } = spawnSync("sh", ["-c", line], { env: plainEnv(), encoding: "utf8" });
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: "error: the answer could not be written: ENOSPC: no space left on device, write\n",
    });
  });

  it("stdin is read up to a limit", async () => {
    expect((await runTest(["echo"], { input: "grüße" })).stdout).toBe("grüße\n");
    expect(await runTest(["echo"], { input: "x".repeat(101) })).toMatchObject({
      code: 1,
      stderr: "error: stdin is longer than 100 bytes\n",
    });
  });
});
