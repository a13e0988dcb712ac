import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { ownSchema } from "../postgres/scene.js";
import { postgresServer } from "../postgres/server.js";
import { bare, place, SLOW } from "./place.js";
import { holdfastCommand } from "./scene.js";

const ID = "018f4d2e-7b3a-7c11-8a55-0123456789ab";
const server = postgresServer();
const onFile = (cwd: string): string => `sqlite:${join(cwd, "jobs.db")}`;

const USAGE: string = expect.stringMatching(/./) as string;

/** Commands that look, or change what is there. */
const LOOKS: readonly (readonly string[])[] = [
  ["stats"],
  ["jobs", "list"],
  ["jobs", "retry-dead"],
  ["schedules", "list"],
  ["queues", "pause", "mail"],
  ["workers"],
  ["tokens", "list"],
  ["audit"],
];

describe("a store that is not there", () => {
  it("is not made by commands that only look: in the wrong folder they would find nothing", SLOW, async () => {
    const { cwd } = bare(onFile);
    for (const args of LOOKS) {
      const { code, stdout, stderr } = await holdfastCommand(args, { cwd });
      expect({ args, code, stdout, stderr }).toEqual({
        args,
        code: 1,
        stdout: "",
        stderr:
          "error: there is no database holdfast.db\n" +
          "hint: no store is configured, so it is the default; holdfast migrate makes it, as do dev, worker and enqueue\n",
      });
    }
    expect(readdirSync(cwd).filter((name) => name.startsWith("holdfast.db"))).toEqual([]);
  });

  it("is made by the first enqueue, schedule or token", SLOW, async () => {
    for (const args of [
      ["enqueue", "mail"],
      ["schedules", "create", "a", "mail", "--every", "1h"],
      ["tokens", "create", "a", "--role", "admin"],
    ]) {
      const { cwd, run } = bare(onFile);
      expect({ args, ...(await run(...args)) }).toMatchObject({ args, code: 0 });
      expect(existsSync(join(cwd, "jobs.db"))).toBe(true);
    }
  });

  it("a database of an older version is not migrated by a look", SLOW, async () => {
    const schema = ownSchema(server);
    const { run } = await place(() => `${server.url()}?schema=${schema}`);
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
        `^error: the schema of the store is not this version's; pending: migration ${last}: .+\\n` +
          "hint: holdfast migrate brings it there\\n$",
      ),
    );
    expect(await latest()).toBe(last - 1);
  });
});

describe("a store that cannot be used", () => {
  it("is told in a sentence, with who named it and without its password", SLOW, async () => {
    const { cwd } = bare(onFile);
    writeFileSync(join(cwd, "holdfast.toml"), 'store = "postgres://ada:secret@127.0.0.1:1/jobs"\n');
    for (const [args, env, error, hint] of [
      [["stats"], {}, /PostgreSQL at .+ cannot be reached: .+ECONNREFUSED/, "its address comes from holdfast.toml:1"],
      [["doctor"], {}, /PostgreSQL at .+ cannot be reached: .+ECONNREFUSED/, "its address comes from holdfast.toml:1"],
      [
        ["worker", "jobs.ts"],
        { HOLDFAST_STORE: "sqlite:/dev/null/a" },
        /\/dev\/null\/a cannot be opened as a SQLite database: ENOTDIR/,
        "its address comes from HOLDFAST_STORE",
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

describe("a setting that cannot be used", () => {
  const what = "an address such as sqlite:jobs.db, postgres://… or dynamodb://jobs";

  it("is told with its key and who set it, before anything is opened", SLOW, async () => {
    const { cwd } = bare(onFile);
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
      [["serve"], { HOLDFAST_SESSION_SECRET: "short" }, [/^HOLDFAST_SESSION_SECRET: must be .+ 32 characters$/]],
    ] as const) {
      const { code, stdout, stderr } = await holdfastCommand(args, { cwd, env });
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: "" });
      const told = stderr.trimEnd().split("\n");
      const problems = told.length === 1 ? [told[0]?.replace("error: ", "")] : told.slice(1).map((line) => line.trim());
      expect(problems).toHaveLength(1 + more.length);
      expect(problems).toContain(redaction);
      for (const pattern of more) expect(problems).toContainEqual(expect.stringMatching(pattern));
    }
    expect(existsSync(join(cwd, "holdfast.db"))).toBe(false);
  });

  it("and may hold a password is shown without it", SLOW, async () => {
    const { cwd } = bare(onFile);
    expect(await holdfastCommand(["stats", "--store", "mysql://ada:secret@h/x"], { cwd })).toEqual({
      code: 2,
      stdout: "",
      stderr: `error: store: "mysql://ada:***@h/x" is not ${what} (--store)\n`,
    });
    expect(await holdfastCommand(["config", "set", "store", "mysql://ada:secret@h/x"], { cwd })).toEqual({
      code: 2,
      stdout: "",
      stderr: `error: store: "mysql://ada:***@h/x" is not ${what}\nhint: holdfast config set --help shows how it is used\n`,
    });
  });
});

/** A server that is none of ours. */
async function stranger(listener: RequestListener): Promise<string> {
  const listening = createServer(listener);
  onTestFinished(() => void listening.close());
  await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
}

describe("a server", () => {
  it("that is not Holdfast's is told as that", SLOW, async () => {
    for (const status of [200, 502]) {
      const url = await stranger((_request, response) => {
        response.writeHead(status, { "content-type": "text/html" }).end("<html>hello");
      });
      expect(await holdfastCommand(["stats", "--url", url])).toEqual({
        code: 1,
        stdout: "",
        stderr:
          `error: ${url} answered ${status}, and not as Holdfast does\n` +
          "hint: is it the address of holdfast serve, or of your own server, and is there a proxy between?\n",
      });
    }
  });

  it("that sends on to another address gets no change: it would arrive as a look", SLOW, async () => {
    const asked: string[] = [];
    const url = await stranger(({ method = "", url: path = "" }, response) => {
      asked.push(`${method} ${path}`);
      response.writeHead(302, { location: `/ops${path}` }).end();
    });
    const { code, stdout, stderr } = await holdfastCommand(["enqueue", "mail", "{}", "--url", url, "--json"]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(JSON.parse(stderr)).toMatchObject({
      error: { code: "NOT_HOLDFAST", message: expect.stringContaining("sends on to /ops/api/admin/jobs") as string },
    });
    expect(asked).toEqual(["POST /api/admin/jobs"]);
  });

  it(
    "before which something else refuses is not taken for ours: neither the token nor the call was wrong",
    SLOW,
    async () => {
      for (const [status, body] of [
        [401, "<p>Please log in"],
        [400, "<p>Bad request"],
        [404, '{"error":"Not Found"}'],
        [200, '{"ok":true}'],
      ] as const) {
        const url = await stranger((_request, response) => {
          const type = body.startsWith("{") ? "application/json" : "text/html";
          response.writeHead(status, { "content-type": type }).end(body);
        });
        const { code, stderr } = await holdfastCommand(["stats", "--url", url], { env: { HOLDFAST_TOKEN: "x" } });
        expect({ status, code, stderr }).toMatchObject({
          code: 1,
          stderr: expect.stringMatching(
            `^error: ${url} answered ${status}, and not as Holdfast does\nhint: `,
          ) as string,
        });
      }
    },
  );

  it("is named without a name and password, which are neither sent nor shown", SLOW, async () => {
    for (const more of [[], ["--json", "--verbose"]]) {
      const ended = await holdfastCommand(["stats", "--url", "http://ada:hunter2@127.0.0.1:1", ...more]);
      expect(ended.code).toBe(2);
      expect(ended.stderr).toContain("has a name or password in it");
      expect(ended.stderr + ended.stdout).not.toContain("hunter2");
    }
    const odd = await holdfastCommand(["stats", "--url", "ftp://ada:hunter2@127.0.0.1"]);
    expect(odd.stderr).toContain("is no address of a server");
    expect(odd.stderr).not.toContain("hunter2");
  });

  it("is reached by the address that serve tells, and says what is wrong with a token", SLOW, async () => {
    const { start, hf, cwd } = await place(onFile);
    const { token } = await hf.tokens.create({ name: "a", role: "viewer" });
    const serving = start("serve", "--port", "0");
    await until("the server to listen", () => serving.stdout().includes("http://"), 60_000);
    const [url = ""] = /http:\S+/.exec(serving.stdout()) ?? [];
    expect(url).toMatch(/\/api\/admin$/);
    for (const given of [url, `${url}/`, url.replace("/api/admin", "")]) {
      const { code } = await holdfastCommand(["stats", "--url", given], { cwd, env: { HOLDFAST_TOKEN: token } });
      expect({ given, code }).toEqual({ given, code: 0 });
    }
    const hint = "hint: set HOLDFAST_TOKEN; holdfast tokens create makes one\n";
    const wrong = await holdfastCommand(["stats", "--url", url, "--token", "nonsense"], { cwd });
    expect(wrong).toMatchObject({ code: 1, stderr: `error: ${url} does not know this token, or no longer\n${hint}` });
    const none = await holdfastCommand(["stats", "--url", url], { cwd });
    expect(none).toMatchObject({ code: 1, stderr: `error: ${url} asks for a token\n${hint}` });
  });
});

describe("what was typed", () => {
  it("and is wrong is told with how it is used, in the words of the command", SLOW, async () => {
    const { run } = await place(onFile);
    for (const [args, code, error, hint] of [
      [
        ["jobs", "cancel", ID, "x"],
        2,
        /"x" is not the id of a job/,
        "holdfast jobs cancel --help shows how it is used",
      ],
      [["jobs", "show", "x"], 2, /"x" is not a UUID/, "holdfast jobs show --help shows how it is used"],
      [["jobs", "list", "--cursor", "x"], 2, /not a cursor/, "holdfast jobs list --help shows how it is used"],
      [["schedules", "create", "a", "b"], 2, /either/, "holdfast schedules create --help shows how it is used"],
      [
        ["tokens", "revoke", "x", "--yes"],
        2,
        /holdfast tokens list shows/,
        "holdfast tokens revoke --help shows how it is used",
      ],
      [
        ["queues", "pause", "*"],
        2,
        /name each queue \(holdfast queues list lists them\)$/,
        "holdfast queues pause --help shows how it is used",
      ],
      [["enqueue", "mail", "-"], 2, /the input is empty/, "leave it out for a job without input"],
      [["process"], 2, /no module/, "give its path, such as jobs.ts; or once: holdfast config set jobs.module jobs.ts"],
    ] as const) {
      const ended = await run(...args);
      expect({ args, code: ended.code, stdout: ended.stdout }).toEqual({ args, code, stdout: "" });
      const lines = ended.stderr.split("\n");
      expect(lines[0]).toMatch(error);
      expect(lines.slice(1)).toEqual([`hint: ${hint}`, ""]);
    }
    expect((await run("schedules", "show", "x")).stderr).toBe(
      'error: schedule "x" not found; holdfast schedules list lists all schedules\n',
    );
  });

  it("is told once, and not again in other words", SLOW, async () => {
    const { run, cwd } = await place(onFile);
    const help = "hint: holdfast config set --help shows how it is used\n";
    const paths = "hint: redact.paths is a list of at most 100 paths such as input.user.email\n";
    const keys = "hint: holdfast config list shows all keys\n";
    for (const [args, told] of [
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
        "there is no file /no/such.ts\nhint: jobs.module comes from --module\n",
      ],
      [["process", "/no/such.ts"], "there is no file /no/such.ts\n"],
      [["import", "/no/such.json"], "/no/such.json cannot be read: ENOENT: no such file or directory\n"],
      [["stats", "--config", cwd], `${cwd} cannot be read: EISDIR: illegal operation on a directory\n`],
    ] as const) {
      expect({ args, stderr: (await run(...args)).stderr }).toEqual({ args, stderr: `error: ${told}` });
    }
  });

  it("a module that is not there, needs what is not there, or fails in setup is named", SLOW, async () => {
    const { cwd, run } = await place(onFile);
    writeFileSync(join(cwd, "needs.ts"), 'import "nowhere-to-be-found";\n');
    const job = 'import { job } from "holdfast";\nexport const a = job({ type: "a", run() {} });\n';
    writeFileSync(join(cwd, "setup.ts"), `${job}export function setup() { throw new Error("no such table"); }\n`);
    expect((await run("process", "gone.ts")).stderr).toBe(
      `error: there is no file gone.ts\nhint: looked for ${join(cwd, "gone.ts")}\n`,
    );
    writeFileSync(join(cwd, "holdfast.toml"), '[jobs]\nmodule = "gone.ts"\n');
    for (const args of [["process"], ["dev"]]) {
      expect((await run(...args)).stderr).toBe(
        `error: there is no file gone.ts\nhint: looked for ${join(cwd, "gone.ts")}; jobs.module comes from holdfast.toml:2\n`,
      );
    }
    expect((await run("process", "needs.ts")).stderr).toMatch(
      /^error: needs\.ts cannot be loaded: Cannot find (?:module|package) 'nowhere-to-be-found'[^\n]{0,80}\nhint: --verbose/,
    );
    expect((await run("process", "setup.ts")).stderr).toBe(
      "error: setup in setup.ts failed: no such table\nhint: --verbose shows where it fails\n",
    );
  });
});

describe("with --json", () => {
  it("a failure is one JSON line on stderr, with a code, and stdout stays empty", SLOW, async () => {
    const { run, cwd } = await place(onFile);
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
        { code: "BAD_USAGE", message: "holdfast jobs list has no flag --nonsense", hint: USAGE },
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
