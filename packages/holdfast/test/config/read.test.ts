import { join } from "node:path";
import {
  InvalidConfigError,
  isKey,
  KEY_NAMES,
  KEYS,
  keyOf,
  modulePath,
  readConfig,
  shownValue,
  showSource,
  toHoldfastOptions,
  toWorkOptions,
  variableOf,
  type KeyName,
} from "#src/config/index.js";
import { DEFAULTS } from "#src/defaults.js";
import { durationMs } from "#src/duration.js";
import { readRetention } from "#src/engine/maintenance.js";
import { readWorkOptions } from "#src/engine/worker/work-options.js";
import { holdfast } from "holdfast";
import { describe, expect, it } from "vitest";
import { folder, problemsOf, read } from "./scene.js";

/** The keys of C-20 with their ranges. */
const RANGES: readonly [KeyName, number, number][] = [
  ["jobs.concurrency", 1, 64],
  ["jobs.poll_interval_ms", 100, 60_000],
  ["jobs.lease_duration_s", 30, 3_600],
  ["jobs.max_retries", 0, 100],
  ["jobs.scheduler_tick_s", 5, 3_600],
  ["jobs.grace_s", 0, 3_600],
  ["server.port", 0, 65_535],
];
const inSection = (name: KeyName, value: string | number | boolean): string => {
  const [section, key] = name.split(".");
  return `[${section}]\n${key} = ${value}\n`;
};

describe("C-20 refuses values out of range with key, value, source and range:", () => {
  for (const [name, min, max] of RANGES) {
    it(`${name} from ${min} to ${max}, in file and environment`, () => {
      for (const right of [min, max]) {
        expect(read(inSection(name, right)).values[name]).toBe(right);
        expect(read(null, { env: { [variableOf(name)]: String(right) } }).values[name]).toBe(right);
      }
      for (const wrong of [min - 1, max + 1]) {
        const range = `${wrong} is not a whole number from ${min} to ${max}`;
        expect(problemsOf(inSection(name, wrong))).toEqual([`${name}: ${range} (holdfast.toml:2)`]);
        const variable = variableOf(name);
        expect(problemsOf(null, { env: { [variable]: String(wrong) } })).toEqual([`${name}: ${range} (${variable})`]);
        const flags = { [name]: { name: "--some-flag", text: String(wrong) } };
        expect(problemsOf(null, { flags })).toEqual([`${name}: ${range} (--some-flag)`]);
      }
    });
  }

  for (const name of ["jobs.enabled", "jobs.scheduler_enabled"] as const) {
    it(`${name} is true or false`, () => {
      for (const value of [true, false]) {
        expect(read(inSection(name, value)).values[name]).toBe(value);
        expect(read(null, { env: { [variableOf(name)]: String(value) } }).values[name]).toBe(value);
      }
      expect(problemsOf(inSection(name, '"yes"'))).toEqual([`${name}: "yes" is not true or false (holdfast.toml:2)`]);
      expect(problemsOf(null, { env: { [variableOf(name)]: "maybe" } })).toEqual([
        `${name}: "maybe" is not true or false (${variableOf(name)})`,
      ]);
    });
  }

  it("fractions, strings and lists are not whole numbers", () => {
    for (const wrong of ["2.5", '"4"', "[4]", "nan", "inf", "2026-01-01"]) {
      const [problem = ""] = problemsOf(inSection("jobs.concurrency", wrong));
      expect(problem).toMatch(/^jobs\.concurrency: .* is not a whole number from 1 to 64 \(holdfast\.toml:2\)$/);
    }
    for (const wrong of ["4x", " ", "0x10", "4 "]) {
      expect(problemsOf(null, { env: { HOLDFAST_JOBS_CONCURRENCY: wrong } })).toHaveLength(1);
    }
  });

  it("durations need a unit", () => {
    expect(problemsOf("[retention]\ncompleted = 7\n")).toEqual([
      'retention.completed: 7 is not a duration such as "30s", "2h" or "7d", or "forever" (holdfast.toml:2)',
    ]);
    expect(problemsOf('[auth]\nsession_ttl = "forever"\n')).toEqual([
      'auth.session_ttl: "forever" is not a duration from 1m to 30d (holdfast.toml:2)',
    ]);
    expect(problemsOf('[auth]\nsession_ttl = "31d"\n')).toHaveLength(1);
    expect(read('[retention]\ncompleted = "1h 30m"\ndead = "forever"\n').values["retention.dead"]).toBe("forever");
  });

  it("jitter is a fraction or a duration", () => {
    expect(read("[retry]\njitter = 0.5\n").values["retry.jitter"]).toBe(0.5);
    expect(read(null, { env: { HOLDFAST_RETRY_JITTER: "0.5" } }).values["retry.jitter"]).toBe(0.5);
    expect(read(null, { env: { HOLDFAST_RETRY_JITTER: "1s" } }).values["retry.jitter"]).toBe("1s");
    expect(problemsOf("[retry]\njitter = 1.5\n")).toEqual([
      'retry.jitter: 1.5 is not a fraction from 0 to 1 or a duration such as "1s" (holdfast.toml:2)',
    ]);
  });

  it("strings", () => {
    expect(problemsOf("[jobs]\nmodule = 5\n")).toEqual([
      "jobs.module: 5 is not a string; put it in quotes (holdfast.toml:2)",
    ]);
  });

  it("choices and lists", () => {
    expect(problemsOf('[log]\nlevel = "loud"\n')).toEqual([
      'log.level: "loud" is not one of error, warn, info, debug, silent (holdfast.toml:2)',
    ]);
    expect(problemsOf('[jobs]\nqueues = "mail"\n')).toHaveLength(1);
    expect(problemsOf('[jobs]\nqueues = ["mail", 3]\n')).toHaveLength(1);
    expect(read(null, { env: { HOLDFAST_JOBS_QUEUES: "mail, video" } }).values["jobs.queues"]).toEqual([
      "mail",
      "video",
    ]);
    expect(read(null, { env: { HOLDFAST_JOBS_QUEUES: '["a,b"]' } }).values["jobs.queues"]).toEqual(["a,b"]);
  });
});

const LONG = "q".repeat(300);
const LONG_SHOWN = `"${"q".repeat(59)}…"`;

/** Strings that the library refuses, with its message. */
const REFUSED: readonly [name: KeyName, text: string, problem: string][] = [
  ...["jobs.db", "./data/jobs", "C\\jobs.db", ":memory:"].map((path): [KeyName, string, string] => [
    "store",
    path,
    `${JSON.stringify(path)} is not a URL such as sqlite:jobs.db, postgres://… or dynamodb://jobs; did you mean sqlite:${path}?`,
  ]),
  ["store", "postgres", '"postgres" is not a URL such as sqlite:jobs.db, postgres://… or dynamodb://jobs'],
  ["store", "mysql://h/x", '"mysql://h/x" is not a URL such as sqlite:jobs.db, postgres://… or dynamodb://jobs'],
  ["store", "sqlite:", '"sqlite:" cannot be used: has no file name; use "sqlite:jobs.db" or "sqlite::memory:"'],
  [
    "store",
    "postgres://h/x?schema=My%zz",
    '"postgres://h/x?schema=***" cannot be used: schema: "My%zz" must consist of lower-case letters, digits and _ (at most 50 characters, no digit first)',
  ],
  [
    "store",
    "postgres://h/x?shema=my",
    '"postgres://h/x?shema=***" cannot be used: shema is not a URL parameter; did you mean schema?',
  ],
  [
    "store",
    "dynamodb://jobs?regin=x",
    '"dynamodb://jobs?regin=***" cannot be used: "regin" in the URL is none of region, endpoint, shards, marginMs, slack, requests, requestTimeoutMs, stream',
  ],
  [
    "store",
    "dynamodb://jobs?shards=0",
    '"dynamodb://jobs?shards=0" cannot be used: shards: 0 is not a whole number from 1 to 1000',
  ],
  ["jobs.module", "src/jobs", '"src/jobs" is not a path that ends in .ts, .mts, .js, .mjs'],
  ["server.base_path", "ops", '"ops" is not a path such as "/ops", without a trailing slash'],
  ["server.base_path", "/ops/", '"/ops/" is not a path such as "/ops", without a trailing slash'],
  ...["not a host!", "a..b", "-a", "[::1]", "1.2.3", "300.1.1.1", "a/b", "host:80", "q".repeat(64)].map(
    (host): [KeyName, string, string] => [
      "server.host",
      host,
      `${host.length > 60 ? LONG_SHOWN : /^[\d.]+$/.test(host) ? host : `"${host}"`} is not a host name or IP address`,
    ],
  ),
];
/** The same in lists: the message names the invalid item. */
const REFUSED_IN_LIST: readonly [name: KeyName, right: string, wrong: string, problem: string][] = [
  ["jobs.queues", "mail", LONG, `has ${LONG_SHOWN}, which is 300 characters long; the limit is 100`],
  ["redact.paths", "input.a", "input..x", 'has "input..x", which has an empty part; separate names with single dots'],
  ["redact.paths", "**.token", "q".repeat(501), `has ${LONG_SHOWN}, which is not a path of 1 to 500 characters`],
];

describe("refuses values that would fail later, with key, value and source:", () => {
  const inFile = (name: KeyName, value: string): string =>
    name.includes(".") ? inSection(name, value) : `\n${name} = ${value}\n`;
  it.each(REFUSED)("%s, %j", (name, text, problem) => {
    expect(problemsOf(inFile(name, JSON.stringify(text)))).toEqual([`${name}: ${problem} (holdfast.toml:2)`]);
    const env = { [variableOf(name)]: text };
    expect(problemsOf(null, { env })).toEqual([`${name}: ${problem} (${variableOf(name)})`]);
    expect(problemsOf(null, { flags: { [name]: { name: "--some-flag", text } } })).toEqual([
      `${name}: ${problem} (--some-flag)`,
    ]);
  });

  it.each(REFUSED_IN_LIST)("%s, a list that begins with %j", (name, right, wrong, problem) => {
    const [inToml = "", ...more] = problemsOf(inFile(name, JSON.stringify([right, wrong])));
    expect(inToml.slice(0, name.length + 3)).toBe(`${name}: [`);
    expect(inToml.slice(inToml.indexOf(problem))).toBe(`${problem} (holdfast.toml:2)`);
    expect(more).toEqual([]);
    const [inVariable = ""] = problemsOf(null, { env: { [variableOf(name)]: `${right},${wrong}` } });
    expect(inVariable.slice(inVariable.indexOf(problem))).toBe(`${problem} (${variableOf(name)})`);
    // The only item of a list is not repeated in the message.
    const [inFlag = ""] = problemsOf(null, { flags: { [name]: { name: "--some-flag", text: wrong } } });
    expect(inFlag.endsWith(`${problem.slice(problem.indexOf(", which ") + ", which".length)} (--some-flag)`)).toBe(
      true,
    );
    expect(inFlag).not.toContain("which");
  });

  it("accepts unusual valid values", () => {
    const right: readonly [KeyName, string][] = [
      ...["localhost", "db_1", "a-b.example.com.", "müller.example", "0.0.0.0", "::", "fe80::1%eth0", "1and1.de"].map(
        (host): [KeyName, string] => ["server.host", host],
      ),
      ["server.base_path", "/ops/a.b~c"],
      ["server.base_path", "/"],
      ["jobs.module", "./my jobs/All.jobs.mts"],
      ["store", "sqlite:a?b#c.db"],
      ["store", "postgresql://ada:x@h/x?sslmode=require&schema=my"],
      ["store", "dynamodb://jobs?region=eu-central-1&shards=8"],
    ];
    for (const [name, text] of right) {
      expect(read(null, { env: { [variableOf(name)]: text } }).values[name]).toBe(text);
    }
    const env = { HOLDFAST_REDACT_PATHS: "input.user.*,**.a\\.b", HOLDFAST_JOBS_QUEUES: "q".repeat(100) };
    expect(read(null, { env }).values["redact.paths"]).toEqual(["input.user.*", "**.a\\.b"]);
  });

  it("an empty variable", () => {
    const empty = "is empty; unset the variable, or give it a value";
    const env = { HOLDFAST_STORE: "", HOLDFAST_URL: "" };
    expect(problemsOf(null, { env })).toEqual([`store: ${empty} (HOLDFAST_STORE)`, `HOLDFAST_URL ${empty}`]);
  });

  it("the session secret, by variable and without showing it", () => {
    const env = { HOLDFAST_SESSION_SECRET: "short", HOLDFAST_SERVER_PORT: "x" };
    expect(problemsOf(null, { env })).toEqual([
      'server.port: "x" is not a whole number from 0 to 65535 (HOLDFAST_SERVER_PORT)',
      "HOLDFAST_SESSION_SECRET must be a string of at least 32 characters",
    ]);
    expect(read(null, { env: { HOLDFAST_SESSION_SECRET: "" } }).warnings).toEqual([]);
    expect(read(null, { env: { HOLDFAST_SESSION_SECRET: "s".repeat(32) } }).warnings).toEqual([]);
  });
});

describe("reports all problems", () => {
  it("from file, environment and flags", () => {
    const toml = `
stor = "sqlite:x.db"
[jobs]
concurrency = 65
max_retry = 3
[servr]
port = 1
`;
    const env = { HOLDFAST_JOBS_GRACE_S: "-1", HOLDFAST_STORE: "" };
    const flags = { "server.port": { name: "--port", text: "70000" } };
    expect(problemsOf(toml, { env, flags })).toEqual([
      "stor is not a key; did you mean store? (holdfast.toml:2)",
      "jobs.max_retry is not a key; did you mean jobs.max_retries? (holdfast.toml:5)",
      "servr is not a key; did you mean server? (holdfast.toml:6)",
      "store: is empty; unset the variable, or give it a value (HOLDFAST_STORE)",
      "jobs.concurrency: 65 is not a whole number from 1 to 64 (holdfast.toml:4)",
      "jobs.grace_s: -1 is not a whole number from 0 to 3600 (HOLDFAST_JOBS_GRACE_S)",
      "server.port: 70000 is not a whole number from 0 to 65535 (--port)",
    ]);
  });

  it("in one message", () => {
    const message = (toml: string): string => {
      try {
        read(toml);
      } catch (error) {
        if (error instanceof InvalidConfigError) return error.message;
      }
      throw new Error("nothing was refused");
    };
    expect(message("[jobs]\nconcurrency = 0\n")).toMatch(/^jobs\.concurrency: 0 is not/);
    expect(message("[jobs]\nconcurrency = 0\ngrace_s = -1\n")).toMatch(
      /^the configuration has 2 problems:\n {2}jobs\.concurrency: .*\n {2}jobs\.grace_s: .*$/,
    );
  });
});

describe("unknown names", () => {
  it("are refused in the file, with a suggestion", () => {
    expect(problemsOf("[jobs]\nconcurency = 3\n")).toEqual([
      "jobs.concurency is not a key; did you mean jobs.concurrency? (holdfast.toml:2)",
    ]);
    expect(problemsOf("concurrency = 3\n")).toEqual([
      "concurrency is not a key; did you mean jobs.concurrency? (holdfast.toml:1)",
    ]);
    expect(problemsOf("[jobs]\nport = 3\n")).toEqual([
      "jobs.port is not a key; did you mean server.port? (holdfast.toml:2)",
    ]);
    expect(problemsOf("[jobs]\nxyzzy = 3\n")).toEqual(["jobs.xyzzy is not a key (holdfast.toml:2)"]);
    expect(problemsOf("jobs = 3\n")).toEqual([
      "jobs: 3 is not a section; write [jobs] above its keys (holdfast.toml:1)",
    ]);
    expect(problemsOf("[[jobs]]\nconcurrency = 3\n")).toHaveLength(1);
    expect(problemsOf("[jobs.concurrency]\nx = 3\n")).toEqual([
      "jobs.concurrency: an object is not a whole number from 1 to 64 (holdfast.toml:1)",
    ]);
  });

  it("cause a warning in the environment, with a suggestion", () => {
    const env = { HOLDFAST_JOB_CONCURRENCY: "3", HOLDFAST_ZZZ: "1", HOLDFAST_URL: "http://x", PATH: "/bin" };
    expect(read(null, { env }).warnings).toEqual([
      "the variable HOLDFAST_JOB_CONCURRENCY is unknown and has no effect; did you mean HOLDFAST_JOBS_CONCURRENCY?",
      "the variable HOLDFAST_ZZZ is unknown and has no effect",
    ]);
  });
});

describe("sources", () => {
  it("C-20 flags override variables, file and defaults, in this order", () => {
    const toml = "[jobs]\nconcurrency = 2\ngrace_s = 2\nmax_retries = 2\n";
    const env = { HOLDFAST_JOBS_CONCURRENCY: "3", HOLDFAST_JOBS_GRACE_S: "3" };
    const flags = { "jobs.concurrency": { name: "--concurrency", text: "5" } };
    const config = read(toml, { env, flags });
    const valueOf = (name: KeyName): [unknown, string] => [
      config.values[name],
      showSource(config.sources[name], config.cwd),
    ];
    expect(valueOf("jobs.concurrency")).toEqual([5, "--concurrency"]);
    expect(valueOf("jobs.grace_s")).toEqual([3, "HOLDFAST_JOBS_GRACE_S"]);
    expect(valueOf("jobs.max_retries")).toEqual([2, "holdfast.toml:4"]);
    expect(valueOf("jobs.scheduler_tick_s")).toEqual([5, "default"]);
  });

  it("reports an invalid value that is overridden", () => {
    expect(problemsOf("[jobs]\nconcurrency = 0\n", { env: { HOLDFAST_JOBS_CONCURRENCY: "3" } })).toHaveLength(1);
  });

  it("returns the line of the key", () => {
    const lines = (toml: string): string => {
      const config = read(toml);
      return showSource(config.sources["jobs.concurrency"], config.cwd);
    };
    expect(lines('\ufeff# x\r\nstore = """\\\r\n  sqlite:a.db"""\r\njobs.concurrency = 3\r\n')).toBe("holdfast.toml:4");
    expect(lines("jobs = { grace_s = 3,\n concurrency = 3 }\n")).toBe("holdfast.toml:2");
    expect(lines('[ \'jobs\' ] # [jobs]\nqueues = [ # x\n \'a]\', "b\\"", \n]\n"concurrency" = 3')).toBe(
      "holdfast.toml:5",
    );
  });
});

describe("the file", () => {
  it("is the nearest, from the current folder upwards", () => {
    const cwd = folder({ "holdfast.toml": "[jobs]\nconcurrency = 7\n", "a/b/c.txt": "", "a/x/holdfast.toml": "" });
    expect(readConfig({ cwd: join(cwd, "a/b"), env: {} }).file).toBe(join(cwd, "holdfast.toml"));
    expect(readConfig({ cwd: join(cwd, "a/x"), env: {} }).file).toBe(join(cwd, "a/x/holdfast.toml"));
  });

  it("is named by --config or HOLDFAST_CONFIG and must exist", () => {
    const cwd = folder({ "one.toml": "[jobs]\nconcurrency = 1\n", "two.toml": "[jobs]\nconcurrency = 2\n" });
    const env = { HOLDFAST_CONFIG: "two.toml" };
    expect(readConfig({ cwd, env }).values["jobs.concurrency"]).toBe(2);
    expect(readConfig({ cwd, env, file: "one.toml" }).values["jobs.concurrency"]).toBe(1);
    expect(problemsOf(null, { cwd, file: "three.toml" })).toEqual(["file three.toml (from --config) does not exist"]);
    expect(problemsOf(null, { cwd, env: { HOLDFAST_CONFIG: "no/such.toml" } })).toEqual([
      "file no/such.toml (from HOLDFAST_CONFIG) does not exist",
    ]);
    expect(problemsOf(null, { cwd, env: { HOLDFAST_CONFIG: "" } })).toHaveLength(1);
  });

  it("is refused if not TOML, without quoting its content", () => {
    expect(problemsOf('[jobs]\nstore = "postgres://ada:secret@db/x\n')).toEqual([
      "holdfast.toml:2:36 is not valid TOML: control characters are not allowed in strings",
    ]);
  });

  it("is refused if a folder or not UTF-8", () => {
    const cwd = folder({ "some/thing.txt": "" });
    expect(problemsOf(null, { cwd, file: "some" })[0]).toMatch(/^some cannot be read: EISDIR/);
  });
});

describe("secrets", () => {
  const store = "postgres://ada:lovelace@db.example.com:5432/shop";
  it("hides the password of a store as ***", () => {
    const config = read(`store = "${store}"\n`);
    expect(config.values.store).toBe(store);
    expect(shownValue(config, "store")).toBe("postgres://ada:***@db.example.com:5432/shop");
  });

  it("hides the password in problems, however unusual the URL", () => {
    const odd = `postgres://ada:love@lace/x@db\u0007`;
    const problems = problemsOf(null, { env: { HOLDFAST_STORE: odd } });
    expect(problems.join()).not.toMatch(/love|lace/);
    expect(problems.join()).toContain("postgres://ada:***@db");
  });
});

describe("the table of keys", () => {
  it("has valid defaults", () => {
    for (const name of KEY_NAMES) {
      const { default: value, kind } = keyOf(name);
      if (value === null) continue;
      const [section, key = section] = name.split(".");
      const written = JSON.stringify(value);
      const toml = name.includes(".") ? `[${section}]\n${key} = ${written}\n` : `${name} = ${written}\n`;
      expect(read(toml).values[name], `${name} of kind ${kind}`).toEqual(value);
    }
  });

  it("has a different variable for each key", () => {
    expect(new Set(KEY_NAMES.map(variableOf)).size).toBe(KEY_NAMES.length);
    expect(variableOf("jobs.poll_interval_ms")).toBe("HOLDFAST_JOBS_POLL_INTERVAL_MS");
    expect(isKey("toString")).toBe(false);
  });

  it("has the same defaults as the library", () => {
    const config = read(null);
    expect(readWorkOptions(toWorkOptions(config) ?? {})).toEqual(readWorkOptions({}));
    const { store, retry, retention, scheduler } = toHoldfastOptions(config);
    expect(store).toBe(`sqlite:${join(config.cwd, "holdfast.db")}`);
    expect(retry.maxAttempts).toBe(DEFAULTS.maxAttempts);
    const { base, factor, max, jitter } = KEYS_OF_RETRY;
    expect({ base: durationMs(base, ""), factor, max: durationMs(max, ""), jitter }).toEqual(DEFAULTS.backoff);
    expect(readRetention(retention)).toEqual(readRetention({}));
    expect(scheduler).toEqual({ tick: DEFAULTS.schedule.tickMs });
  });
});
const KEYS_OF_RETRY = {
  base: KEYS["retry.base"].default,
  factor: KEYS["retry.factor"].default,
  max: KEYS["retry.max"].default,
  jitter: KEYS["retry.jitter"].default,
};

describe("conversion to options", () => {
  it("passes every key to client and worker options", async () => {
    const toml = `
store = "sqlite:data/jobs.db"
[jobs]
concurrency = 8
poll_interval_ms = 250
lease_duration_s = 60
max_retries = 0
scheduler_tick_s = 10
grace_s = 0
queues = ["mail"]
module = "src/jobs.ts"
[retry]
base = "1s"
factor = 3
max = "1m"
jitter = "2s"
[retention]
completed = "1d"
dead = "forever"
cancelled = "0s"
audit = "1w"
`;
    const config = read(toml);
    expect(toWorkOptions(config)).toEqual({ concurrency: 8, poll: 250, lease: 60_000, grace: 0, queues: ["mail"] });
    expect(toHoldfastOptions(config)).toEqual({
      store: `sqlite:${join(config.cwd, "data/jobs.db")}`,
      retry: { maxAttempts: 1, backoff: { base: "1s", factor: 3, max: "1m", jitter: "2s" } },
      retention: { completed: "1d", dead: false, cancelled: "0s", audit: "1w" },
      scheduler: { tick: 10_000 },
    });
    expect(modulePath(config)).toBe(join(config.cwd, "src/jobs.ts"));
    const hf = await holdfast({ ...toHoldfastOptions(config), logger: false });
    await hf.close();
  });

  it("adjusts a default retry bound, refuses contradicting ones", () => {
    const curve = (toml: string): unknown => toHoldfastOptions(read(toml)).retry.backoff;
    expect(curve('[retry]\nbase = "1h"\n')).toMatchObject({ base: "1h", max: "1h" });
    expect(curve('[retry]\nmax = "10s"\n')).toMatchObject({ base: "10s", max: "10s" });
    expect(() => curve('[retry]\nbase = "1h"\nmax = "15m"\n')).toThrow(
      'retry.base: "1h" is longer than retry.max, "15m" (holdfast.toml:2, holdfast.toml:3)',
    );
  });

  it("C-16 enabled = false starts neither worker nor scheduler", () => {
    const config = read("[jobs]\nenabled = false\n");
    expect(toWorkOptions(config)).toBeNull();
    expect(toHoldfastOptions(config).scheduler).toBe(false);
    expect(toHoldfastOptions(read("[jobs]\nscheduler_enabled = false\n")).scheduler).toBe(false);
  });

  it("resolves a path against its file or the current folder", () => {
    const top = folder({ "holdfast.toml": 'store = "sqlite:a.db"\n[jobs]\nmodule = "jobs.ts"\n', "below/x": "" });
    const cwd = join(top, "below");
    const inFile = readConfig({ cwd, env: {} });
    expect(toHoldfastOptions(inFile).store).toBe(`sqlite:${join(top, "a.db")}`);
    expect(modulePath(inFile)).toBe(join(top, "jobs.ts"));
    const elsewhere = readConfig({ cwd, env: { HOLDFAST_STORE: "sqlite:b.db", HOLDFAST_JOBS_MODULE: "x.ts" } });
    expect(toHoldfastOptions(elsewhere).store).toBe(`sqlite:${join(cwd, "b.db")}`);
    expect(modulePath(elsewhere)).toBe(join(cwd, "x.ts"));
  });

  it("does not change URLs that are not relative files", () => {
    for (const store of [
      "sqlite::memory:",
      "sqlite:/var/a.db",
      "sqlite:///var/a.db",
      "postgres://x/y",
      "dynamodb://jobs",
    ]) {
      expect(toHoldfastOptions(read(null, { env: { HOLDFAST_STORE: store } })).store).toBe(store);
    }
  });
});
