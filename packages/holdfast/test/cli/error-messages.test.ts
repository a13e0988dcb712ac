import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { ownSchema } from "../postgres/scene.js";
import { postgresServer } from "../postgres/server.js";
import { emptyWorkspace, SLOW, workspace } from "./workspace.js";
import { holdfastCommand } from "./scene.js";

const ID = "018f4d2e-7b3a-7c11-8a55-0123456789ab";
const server = postgresServer();
const onFile = (cwd: string): string => `sqlite:${join(cwd, "jobs.db")}`;

const USAGE: string = expect.stringMatching(/./) as string;

/** Commands that read or change an existing store. */
const NEED_STORE: readonly (readonly string[])[] = [
  ["stats"],
  ["jobs", "list"],
  ["jobs", "retry-dead"],
  ["schedules", "list"],
  ["queues", "pause", "mail"],
  ["workers"],
  ["tokens", "list"],
  ["audit"],
];

describe("a missing store", () => {
  it("is not created by commands that read", SLOW, async () => {
    const { cwd } = emptyWorkspace(onFile);
    for (const args of NEED_STORE) {
      const { code, stdout, stderr } = await holdfastCommand(args, { cwd });
      expect({ args, code, stdout, stderr }).toEqual({
        args,
        code: 1,
        stdout: "",
        stderr:
          "error: the database holdfast.db does not exist\n" +
          "hint: no store is configured, so the default is used; to create it, run: holdfast migrate\n",
      });
    }
    expect(readdirSync(cwd).filter((name) => name.startsWith("holdfast.db"))).toEqual([]);
  });

  it("is created by the first enqueue, schedule or token", SLOW, async () => {
    for (const args of [
      ["enqueue", "mail"],
      ["schedules", "create", "a", "mail", "--every", "1h"],
      ["tokens", "create", "a", "--role", "admin"],
    ]) {
      const { cwd, run } = emptyWorkspace(onFile);
      expect({ args, ...(await run(...args)) }).toMatchObject({ args, code: 0 });
      expect(existsSync(join(cwd, "jobs.db"))).toBe(true);
    }
  });

  it("is not migrated by commands that read", SLOW, async () => {
    const schema = ownSchema(server);
    const { run } = await workspace(() => `${server.url()}?schema=${schema}`);
    const latest = async (): Promise<number> => {
      const { rows } = await server.query(`SELECT max(version) AS version FROM ${schema}.migrations`);
      return (rows[0] as { version: number }).version;
    };
    const last = await latest();
    await server.query(`DELETE FROM ${schema}.migrations WHERE version = ${last}`);
    const { code, stdout, stderr } = await run("stats");
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(
      new RegExp(
        `^error: the schema is out of date; pending migrations: migration ${last}: .+\\n` +
          "hint: run: holdfast migrate\\n$",
      ),
    );
    expect(await latest()).toBe(last - 1);
  });
});

describe("an unusable store", () => {
  it("is reported with its source, without the password", SLOW, async () => {
    const { cwd } = emptyWorkspace(onFile);
    writeFileSync(join(cwd, "holdfast.toml"), 'store = "postgres://ada:secret@127.0.0.1:1/jobs"\n');
    for (const [args, env, error, hint] of [
      [["stats"], {}, /PostgreSQL at .+ cannot be reached: .+ECONNREFUSED/, "the store is set by holdfast.toml:1"],
      [["doctor"], {}, /PostgreSQL at .+ cannot be reached: .+ECONNREFUSED/, "the store is set by holdfast.toml:1"],
      [
        ["worker", "jobs.ts"],
        { HOLDFAST_STORE: "sqlite:/dev/null/a" },
        /\/dev\/null\/a cannot be opened as a SQLite database: ENOTDIR/,
        "the store is set by HOLDFAST_STORE",
      ],
    ] as const) {
      const { code, stdout, stderr } = await holdfastCommand(args, { cwd, env });
      expect({ args, code, stdout }).toEqual({ args, code: 1, stdout: "" });
      const lines = stderr.split("\n");
      expect(lines).toHaveLength(3);
      expect(lines[0]).toMatch(error);
      expect(lines[1]).toBe(`hint: ${hint}`);
      expect(stderr).not.toContain("secret");
    }
  });
});

describe("an invalid setting", () => {
  const what = "a URL such as sqlite:jobs.db, postgres://… or dynamodb://jobs";

  it("is reported with its key and source", SLOW, async () => {
    const { cwd } = emptyWorkspace(onFile);
    writeFileSync(join(cwd, "holdfast.toml"), '[redact]\npaths = ["input.a", "input..x"]\n');
    const redaction =
      'redact.paths: ["input.a","input..x"] has "input..x", which has an empty part; separate names with single dots (holdfast.toml:2)';
    for (const [args, env, more] of [
      [["stats"], {}, []],
      [["jobs", "list"], {}, []],
      [
        ["worker", "jobs.ts"],
        { HOLDFAST_JOBS_QUEUES: "q".repeat(300) },
        [/^jobs\.queues: .+\(HOLDFAST_JOBS_QUEUES\)$/],
      ],
      [["serve"], { HOLDFAST_SERVER_BASE_PATH: "ops" }, [/^server\.base_path: "ops" .+\(HOLDFAST_SERVER_BASE_PATH\)$/]],
      [["serve", "--host", "not a host!"], {}, [/^server\.host: "not a host!" is not .+\(--host\)$/]],
      [["serve"], { HOLDFAST_SESSION_SECRET: "short" }, [/^HOLDFAST_SESSION_SECRET must be .+ 32 characters$/]],
    ] as const) {
      const { code, stdout, stderr } = await holdfastCommand(args, { cwd, env });
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: "" });
      const printed = stderr.trimEnd().split("\n");
      const problems =
        printed.length === 1 ? [printed[0]?.replace("error: ", "")] : printed.slice(1).map((line) => line.trim());
      expect(problems).toHaveLength(1 + more.length);
      expect(problems).toContain(redaction);
      for (const pattern of more) expect(problems).toContainEqual(expect.stringMatching(pattern));
    }
    expect(existsSync(join(cwd, "holdfast.db"))).toBe(false);
  });

  it("is printed without the password", SLOW, async () => {
    const { cwd } = emptyWorkspace(onFile);
    expect(await holdfastCommand(["stats", "--store", "mysql://ada:secret@h/x"], { cwd })).toEqual({
      code: 2,
      stdout: "",
      stderr: `error: store: "mysql://ada:***@h/x" is not ${what} (--store)\n`,
    });
    expect(await holdfastCommand(["config", "set", "store", "mysql://ada:secret@h/x"], { cwd })).toEqual({
      code: 2,
      stdout: "",
      stderr: `error: store: "mysql://ada:***@h/x" is not ${what}\nhint: run: holdfast config set --help\n`,
    });
  });
});

/** Starts a server that is not Holdfast. */
async function otherServer(listener: RequestListener): Promise<string> {
  const listening = createServer(listener);
  onTestFinished(() => void listening.close());
  await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
}

describe("a server", () => {
  it("that is not Holdfast is reported", SLOW, async () => {
    for (const status of [200, 502]) {
      const url = await otherServer((_request, response) => {
        response.writeHead(status, { "content-type": "text/html" }).end("<html>hello");
      });
      expect(await holdfastCommand(["stats", "--url", url])).toEqual({
        code: 1,
        stdout: "",
        stderr:
          `error: ${url} responded with status ${status}, but not as a Holdfast server\n` +
          "hint: check the URL, and any proxy in between\n",
      });
    }
  });

  it("that redirects gets no changes", SLOW, async () => {
    const asked: string[] = [];
    const url = await otherServer(({ method = "", url: path = "" }, response) => {
      asked.push(`${method} ${path}`);
      response.writeHead(302, { location: `/ops${path}` }).end();
    });
    const { code, stdout, stderr } = await holdfastCommand(["enqueue", "mail", "{}", "--url", url, "--json"]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(JSON.parse(stderr)).toMatchObject({
      error: {
        code: "UNEXPECTED_RESPONSE",
        message: expect.stringContaining("redirects to /ops/api/admin/jobs") as string,
      },
    });
    expect(asked).toEqual(["POST /api/admin/jobs"]);
  });

  it("error of a proxy is not reported as ours", SLOW, async () => {
    for (const [status, body] of [
      [401, "<p>Please log in"],
      [400, "<p>Bad request"],
      [404, '{"error":"Not Found"}'],
      [200, '{"ok":true}'],
    ] as const) {
      const url = await otherServer((_request, response) => {
        const type = body.startsWith("{") ? "application/json" : "text/html";
        response.writeHead(status, { "content-type": type }).end(body);
      });
      const { code, stderr } = await holdfastCommand(["stats", "--url", url], { env: { HOLDFAST_TOKEN: "x" } });
      expect({ status, code, stderr }).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(
          `^error: ${url} responded with status ${status}, but not as a Holdfast server\nhint: `,
        ) as string,
      });
    }
  });

  it("URL must not contain a password", SLOW, async () => {
    for (const more of [[], ["--json", "--verbose"]]) {
      const ended = await holdfastCommand(["stats", "--url", "http://ada:hunter2@127.0.0.1:1", ...more]);
      expect(ended.code).toBe(2);
      expect(ended.stderr).toContain("must not contain a user name or password");
      expect(ended.stderr + ended.stdout).not.toContain("hunter2");
    }
    const odd = await holdfastCommand(["stats", "--url", "ftp://ada:hunter2@127.0.0.1"]);
    expect(odd.stderr).toContain("is not a valid URL");
    expect(odd.stderr).not.toContain("hunter2");
  });

  it("accepts the printed URL and rejects bad tokens", SLOW, async () => {
    const { start, hf, cwd } = await workspace(onFile);
    const { token } = await hf.tokens.create({ name: "a", role: "viewer" });
    const serving = start("serve", "--port", "0");
    await until("the server to listen", () => serving.stdout().includes("http://"), 60_000);
    const [url = ""] = /http:\S+/.exec(serving.stdout()) ?? [];
    expect(url).toMatch(/\/api\/admin$/);
    for (const given of [url, `${url}/`, url.replace("/api/admin", "")]) {
      const { code } = await holdfastCommand(["stats", "--url", given], { cwd, env: { HOLDFAST_TOKEN: token } });
      expect({ given, code }).toEqual({ given, code: 0 });
    }
    const hint =
      "hint: set HOLDFAST_TOKEN to a valid token; to create one, run on the store, without --url: holdfast tokens create <name> --role <role>\n";
    const wrong = await holdfastCommand(["stats", "--url", url, "--token", "nonsense"], { cwd });
    expect(wrong).toMatchObject({
      code: 1,
      stderr: `error: ${url} rejected the token (invalid, expired or revoked)\n${hint}`,
    });
    const none = await holdfastCommand(["stats", "--url", url], { cwd });
    expect(none).toMatchObject({ code: 1, stderr: `error: ${url} requires an API token\n${hint}` });
  });
});

describe("a wrong command line", () => {
  it("is reported with a hint to --help", SLOW, async () => {
    const { run } = await workspace(onFile);
    for (const [args, code, error, hint] of [
      [["jobs", "cancel", ID, "x"], 2, /"x" is not a UUID/, "run: holdfast jobs cancel --help"],
      [["jobs", "show", "x"], 2, /"x" is not a UUID/, "run: holdfast jobs show --help"],
      [["jobs", "list", "--cursor", "x"], 2, /not a cursor/, "run: holdfast jobs list --help"],
      [["schedules", "create", "a", "b"], 2, /either/, "run: holdfast schedules create --help"],
      [["tokens", "revoke", "x", "--yes"], 2, /holdfast tokens list shows/, "run: holdfast tokens revoke --help"],
      [
        ["enqueue", "mail", "--queue", "*"],
        2,
        /name each queue \(holdfast queues list lists them\), or omit the option$/,
        "run: holdfast enqueue --help",
      ],
      [["enqueue", "mail", "-"], 2, /the input on stdin is empty/, "omit the - for a job without input"],
      [
        ["process"],
        2,
        /no jobs module given/,
        "pass its path, e.g. jobs.ts, or run: holdfast config set jobs.module jobs.ts",
      ],
    ] as const) {
      const ended = await run(...args);
      expect({ args, code: ended.code, stdout: ended.stdout }).toEqual({ args, code, stdout: "" });
      const lines = ended.stderr.split("\n");
      expect(lines[0]).toMatch(error);
      expect(lines.slice(1)).toEqual([`hint: ${hint}`, ""]);
    }
  });

  it("with an unknown name is reported with the command that lists them", SLOW, async () => {
    const { run, store, cwd } = await workspace(onFile);
    expect((await run("schedules", "show", "x")).stderr).toBe(
      'error: schedule "x" not found\nhint: to list all schedules, run: holdfast schedules list\n',
    );
    const token = "0123456789abcdef";
    const { stderr } = await holdfastCommand(["tokens", "revoke", token, "--yes", "--store", store], { cwd });
    expect(stderr).toBe(
      `error: token ${token} not found\nhint: to list all tokens, run: holdfast tokens list --store ${store}\n`,
    );
  });

  it("with --host or --port needs --serve", SLOW, async () => {
    const { run } = emptyWorkspace(onFile);
    for (const [flag, value] of [
      ["--port", "1234"],
      ["--host", "127.0.0.1"],
    ] as const) {
      expect(await run("worker", "jobs.ts", flag, value)).toEqual({
        code: 2,
        stdout: "",
        stderr: `error: ${flag} requires --serve\nhint: add --serve to also serve the admin API, or omit the flag\n`,
      });
    }
  });

  it("is reported once, without repetition", SLOW, async () => {
    const { run, cwd } = await workspace(onFile);
    const help = "hint: run: holdfast config set --help\n";
    const paths = "hint: redact.paths is a list of at most 100 paths such as input.user.email\n";
    const keys = "hint: to list all keys, run: holdfast config list\n";
    for (const [args, message] of [
      [
        ["config", "set", "redact.paths", "a..b"],
        `redact.paths: "a..b" has an empty part; separate names with single dots\n${paths}`,
      ],
      [
        ["config", "set", "redact.paths", "a,b..c"],
        `redact.paths: "a,b..c" has "b..c", which has an empty part; separate names with single dots\n${paths}`,
      ],
      [["config", "set", "jobs.concurrency", "0"], `jobs.concurrency: "0" is not a whole number from 1 to 64\n${help}`],
      [["config", "get", "jobs"], `"jobs" is not a key, but a section with keys such as jobs.enabled\n${keys}`],
      [
        ["enqueue", "mail", "--module", "/no/such.ts"],
        "file not found: /no/such.ts\nhint: jobs.module is set by --module\n",
      ],
      [["process", "/no/such.ts"], "file not found: /no/such.ts\n"],
      [["import", "/no/such.json"], "/no/such.json cannot be read: ENOENT: no such file or directory\n"],
      [["stats", "--config", cwd], `${cwd} cannot be read: EISDIR: illegal operation on a directory\n`],
    ] as const) {
      expect({ args, stderr: (await run(...args)).stderr }).toEqual({ args, stderr: `error: ${message}` });
    }
  });

  it("names a module that cannot be loaded", SLOW, async () => {
    const { cwd, run } = await workspace(onFile);
    writeFileSync(join(cwd, "needs.ts"), 'import "nowhere-to-be-found";\n');
    const job = 'import { job } from "holdfast";\nexport const a = job({ type: "a", run() {} });\n';
    writeFileSync(join(cwd, "setup.ts"), `${job}export function setup() { throw new Error("no such table"); }\n`);
    expect((await run("process", "gone.ts")).stderr).toBe(
      `error: file not found: gone.ts\nhint: looked for ${join(cwd, "gone.ts")}\n`,
    );
    writeFileSync(join(cwd, "holdfast.toml"), '[jobs]\nmodule = "gone.ts"\n');
    for (const args of [["process"], ["dev"]]) {
      expect((await run(...args)).stderr).toBe(
        `error: file not found: gone.ts\nhint: looked for ${join(cwd, "gone.ts")}; jobs.module is set by holdfast.toml:2\n`,
      );
    }
    expect((await run("process", "needs.ts")).stderr).toMatch(
      /^error: needs\.ts cannot be loaded: Cannot find (?:module|package) 'nowhere-to-be-found'[^\n]{0,80}\nhint: run with --verbose/,
    );
    expect((await run("process", "setup.ts")).stderr).toBe(
      "error: setup in setup.ts failed: no such table\nhint: run with --verbose for the stack trace\n",
    );
  });
});

describe("with --json", () => {
  it("prints a failure as one JSON line on stderr", SLOW, async () => {
    const { run, cwd } = await workspace(onFile);
    const id = "018f4d2e-7b3a-7c11-8a55-0123456789ab";
    for (const [args, code, error] of [
      [["jobs", "show", id], 1, { code: "JOB_NOT_FOUND", message: expect.stringContaining(id) as string }],
      [
        ["jobs", "show", "x"],
        2,
        { code: "BAD_USAGE", message: expect.stringContaining('"x" is not a UUID') as string, hint: USAGE },
      ],
      [
        ["jobs", "list", "--nonsense"],
        2,
        { code: "BAD_USAGE", message: "holdfast jobs list: unknown flag --nonsense", hint: USAGE },
      ],
      [
        ["stats", "--url", "http://127.0.0.1:1"],
        1,
        { code: "SERVER_UNREACHABLE", message: expect.stringContaining("cannot be reached") as string, hint: USAGE },
      ],
    ] as const) {
      const ended = await run(...args, "--json");
      expect({ args, code: ended.code, stdout: ended.stdout }).toEqual({ args, code, stdout: "" });
      expect(ended.stderr.split("\n")).toHaveLength(2);
      expect(JSON.parse(ended.stderr)).toEqual({ error });
    }
    const verbose = await run("jobs", "show", id, "--json", "--verbose");
    expect(JSON.parse(verbose.stderr)).toMatchObject({ error: { stack: expect.stringMatching(/\n +at /) as string } });
    writeFileSync(join(cwd, "holdfast.toml"), "jobs.concurrency = 0\n");
    const config = await run("stats", "--json");
    expect(config.code).toBe(2);
    expect(JSON.parse(config.stderr)).toMatchObject({ error: { code: "INVALID_CONFIG" } });
    expect((await run("stats", "--json", "--no-json")).stderr).toMatch(/^error: /);
  });
});
