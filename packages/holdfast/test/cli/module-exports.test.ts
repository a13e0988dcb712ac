import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { sentryServer } from "../observe/sentry-server.js";
import { postgresServer } from "../postgres/server.js";
import { type Running, SHORT_LIMITS, SLOW, storesOf, workspace, type Workspace } from "./workspace.js";

const server = postgresServer();
const sentry = sentryServer();
const onSqlite = (cwd: string): string => `sqlite:${join(cwd, "jobs.db")}`;

/** The start of each jobs module: `record` appends a line to a file in the folder. */
const HEAD = `
import { appendFileSync } from "node:fs";
import { job } from "holdfast";
const record = (name: string, ...what: unknown[]): void =>
  appendFileSync(new URL("record.jsonl", import.meta.url), JSON.stringify([name, ...what]) + "\\n");
const any = { "~standard": { version: 1, vendor: "test", validate: (value: unknown) => ({ value }) } } as const;
export const charge = job({
  type: "charge",
  input: any,
  retry: { maxAttempts: 2, backoff: { base: 1, jitter: 0 } },
  run: function chargeTheCard() { throw new TypeError("the card was declined"); },
});
export const note = job({ type: "note", run: () => record("ran") });
`;
const LOGGER = `
const line = (level: string) => (fields: object, message: string): void => record("log", level, message, fields);
export const logger = { info: line("info"), warn: line("warn"), error: line("error") };
`;

type Recorded = [name: string, ...what: unknown[]];

/** A workspace whose jobs module also has this code, and a function that reads what it recorded. */
async function workspaceWith(
  body: string,
  address = onSqlite,
  variables: Readonly<Record<string, string>> = {},
): Promise<Workspace & { recorded: (name?: string) => Recorded[] }> {
  const ws = await workspace(address, variables);
  writeFileSync(join(ws.cwd, "jobs.ts"), HEAD + body);
  const file = join(ws.cwd, "record.jsonl");
  return {
    ...ws,
    recorded(name) {
      // The last line may be incomplete.
      const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : [];
      return lines.map((line) => JSON.parse(line) as Recorded).filter(([of]) => name === undefined || of === name);
    },
  };
}

async function isRunning({ stdout }: Running): Promise<void> {
  await until("the worker to run", () => stdout().includes("started"), 60_000);
}

async function stop(worker: Running): Promise<number | null> {
  worker.child.kill("SIGTERM");
  return worker.ended;
}

const REDACT = '[redact]\npaths = ["input.card.number", "**.password"]\n';
const CHARGED = { order: 7, card: { number: "4242" }, password: "secret" };
const SEEN = { order: 7, card: { number: "[redacted]" }, password: "[redacted]" };

describe.each(storesOf(server))("a worker on %s", (_name, address) => {
  it("D-09 reports each failure with job, stack and redacted payload", SLOW, async () => {
    const { hf, cwd, start, recorded } = await workspaceWith(
      `export const reporter = {
        report: ({ error, job, input, final, worker }) => record("report", { stack: error.stack, job, input, final, worker }),
        flush: async () => record("flushed"),
      };`,
      address,
    );
    writeFileSync(join(cwd, "holdfast.toml"), REDACT);
    const { id } = await hf.enqueueNamed("charge", CHARGED, { maxAttempts: 2, user: "u-1", tags: ["money"] });
    const worker = start("worker", "jobs.ts");
    await until("the job to be dead", async () => (await hf.get(id))?.state === "dead", 60_000);
    expect(await stop(worker)).toBe(0);
    const report = (attempt: number): Recorded => [
      "report",
      {
        stack: expect.stringMatching(/^TypeError: the card was declined\n +at .*chargeTheCard .*jobs\.ts/) as string,
        job: { id, type: "charge", queue: "default", attempt, maxAttempts: 2, user: "u-1", tags: ["money"] },
        input: SEEN,
        final: attempt === 2,
        worker: expect.any(String) as string,
      },
    ];
    expect(recorded()).toEqual([report(1), report(2), ["flushed"]]);
    // The stored job is not redacted.
    expect(await hf.get(id)).toMatchObject({ state: "dead", attempt: 2, input: CHARGED });
  });
});

it("Sentry receives a failure before the command exits", SLOW, async () => {
  const { hf, cwd, spawn } = await workspaceWith(`
    import * as Sentry from "@sentry/node";
    import { sentry } from "holdfast/sentry";
    Sentry.init({ dsn: ${JSON.stringify(sentry.dsn())} });
    export const reporter = sentry(Sentry, { when: "dead" });
  `);
  writeFileSync(join(cwd, "holdfast.toml"), REDACT);
  const { id } = await hf.enqueueNamed("charge", CHARGED, { maxAttempts: 1 });
  expect((await spawn("process", "jobs.ts")).code).toBe(0);
  expect(sentry.arrived).toMatchObject([
    {
      level: "error",
      tags: { "job.id": id, "job.type": "charge", "job.attempt": 1 },
      contexts: { job: { payload: JSON.stringify(SEEN) } },
      exception: { values: [{ type: "TypeError", value: "the card was declined" }] },
    },
  ]);
});

it("OpenTelemetry traces a job from enqueue to handler", SLOW, async () => {
  const { spawn, recorded } = await workspaceWith(`
    import { context, trace } from "@opentelemetry/api";
    import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
    import { BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
    import { openTelemetry } from "holdfast/opentelemetry";
    const exporter = {
      export(spans, done) {
        for (const span of spans) record("span", span.name, span.spanContext().spanId, span.parentSpanContext?.spanId ?? null);
        done({ code: 0 });
      },
      shutdown: async () => {},
    };
    // It buffers spans for minutes, unless it is shut down.
    const provider = new BasicTracerProvider({
      spanProcessors: [new BatchSpanProcessor(exporter, { scheduledDelayMillis: 600_000 })],
    });
    trace.setGlobalTracerProvider(provider);
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    export const telemetry = openTelemetry();
    export const render = job({
      type: "render",
      run: () => trace.getTracer("app").startActiveSpan("draw", (span) => span.end()),
    });
    export const setup = (hf) => hf.enqueue(render);
    export const teardown = () => provider.shutdown();
  `);
  expect((await spawn("process", "jobs.ts")).code).toBe(0);
  const spans = recorded("span") as [string, string, string, string | null][];
  const of = (name: string): { id: string | undefined; parent: string | null | undefined } => {
    const [, , id, parent] = spans.find(([, other]) => other === name) ?? [];
    return { id, parent };
  };
  expect(spans).toHaveLength(3);
  expect(of("publish default").parent).toBeNull();
  expect(of("process default").parent).toBe(of("publish default").id);
  expect(of("draw").parent).toBe(of("process default").id);
});

/** A module with all named exports, whose handlers record the trace they run in. */
const ALL = `
import { AsyncLocalStorage } from "node:async_hooks";
const within = new AsyncLocalStorage<string>();
export const telemetry = {
  enqueue: ({ type }) => ({ carrier: { from: type }, end: ({ id }) => record("enqueued", id !== null) }),
  run: ({ job, carrier }) => ({
    inside: (handler) => within.run("in " + job.type, handler),
    end: ({ outcome }) => record("ended", job.type, carrier, outcome),
  }),
};
export const reporter = { report: ({ job }) => record("report", job.type) };
export const traced = job({ type: "traced", run: async () => { await null; record("within", within.getStore()); } });
export const setup = async (hf) => { await hf.enqueue(traced); await hf.enqueue(charge, {}, { maxAttempts: 1 }); };
export const teardown = async () => { await null; record("torn down"); };
`;

describe("the exports of a module are used by", () => {
  it.each([["worker"], ["process"], ["dev", "--port", "0"]])("%s", SLOW, async (command, ...flags) => {
    const { hf, start, recorded } = await workspaceWith(ALL + LOGGER);
    const running = start(command, "jobs.ts", ...flags);
    await until("both jobs to end", () => recorded("ended").length === 2, 60_000);
    expect(await (command === "process" ? running.ended : stop(running))).toBe(0);
    expect(recorded("enqueued")).toEqual([
      ["enqueued", true],
      ["enqueued", true],
    ]);
    expect(recorded("within")).toEqual([["within", "in traced"]]);
    expect(recorded("ended")).toEqual(
      expect.arrayContaining([
        ["ended", "traced", { from: "traced" }, "completed"],
        ["ended", "charge", { from: "charge" }, "dead"],
      ]),
    );
    expect(recorded("report")).toEqual([["report", "charge"]]);
    expect(recorded("log")).toContainEqual([
      "log",
      "error",
      "job is dead",
      expect.objectContaining({ type: "charge" }),
    ]);
    expect(running.stderr()).not.toContain("job is dead");
    expect(recorded().at(-1)).toEqual(["torn down"]);
    expect((await hf.stats()).states).toMatchObject({ completed: 1, dead: 1 });
  });
});

describe("the logger of a module", () => {
  it("receives all lines at every log.level", SLOW, async () => {
    const { hf, cwd, start, recorded } = await workspaceWith(LOGGER);
    writeFileSync(join(cwd, "holdfast.toml"), '[log]\nlevel = "silent"\nformat = "json"\n');
    const { id } = await hf.enqueueNamed("charge", {}, { maxAttempts: 1 });
    const worker = start("worker", "jobs.ts");
    await until("the job to be dead", async () => (await hf.get(id))?.state === "dead", 60_000);
    expect(await stop(worker)).toBe(0);
    const lines = recorded("log").map(([, level, message]) => [level, message]);
    expect(lines).toContainEqual(["error", "job is dead"]);
    expect(worker.stderr()).toBe("");
  });

  it("that throws is replaced by stderr", SLOW, async () => {
    const { hf, run } = await workspaceWith(`
      const full = () => { throw new Error("the disk is full"); };
      export const logger = { info: full, warn: full, error: full };
    `);
    const { id } = await hf.enqueueNamed("charge", {}, { maxAttempts: 1 });
    const { code, stderr } = await run("process", "jobs.ts");
    expect(code).toBe(0);
    expect((await hf.get(id))?.state).toBe("dead");
    expect(stderr).toMatch(
      / error job is dead .+\n.+ error the logger failed; its lines are written here error="the disk is full"\n/,
    );
  });

  it("receives uncaught errors with the running jobs", SLOW, async () => {
    const body = `${ALL.replace(/^export const setup.*$/m, "")}${LOGGER}
      export const floating = job({
        type: "floating",
        async run() {
          void Promise.reject(new Error("unhandled"));
          await new Promise(() => {});
        },
      });
    `;
    const { hf, spawn, recorded } = await workspaceWith(body, onSqlite, SHORT_LIMITS);
    const { id } = await hf.enqueueNamed("floating");
    const { code, stderr } = await spawn("process", "jobs.ts");
    expect(code).toBe(1);
    expect(recorded("log")).toContainEqual([
      "log",
      "error",
      expect.stringMatching(/^unhandled promise rejection; shutting down/),
      expect.objectContaining({ running: [`floating ${id}`] }),
    ]);
    expect(stderr).not.toContain("unhandled promise rejection");
    expect(recorded("torn down")).toHaveLength(1);
  });
});

describe("teardown", () => {
  it("runs after running jobs and the reporter flush", SLOW, async () => {
    const { hf, start, recorded } = await workspaceWith(`
      export const slow = job({
        type: "slow",
        async run({ signal }) {
          record("started");
          // Ends when the worker has been asked to stop.
          await new Promise((resolve) => void process.once("SIGTERM", resolve));
          record("done", signal.aborted);
        },
      });
      export const reporter = { report() {}, flush: async () => record("flushed") };
      export async function teardown() {
        await new Promise((resolve) => setImmediate(resolve));
        record("torn down");
      }
    `);
    const worker = start("worker", "jobs.ts");
    await isRunning(worker);
    await hf.enqueueNamed("slow");
    await until("the job to run", () => recorded("started").length === 1, 60_000);
    expect(await stop(worker)).toBe(0);
    expect(recorded()).toEqual([["started"], ["done", false], ["flushed"], ["torn down"]]);
  });

  it("that fails is logged, with exit code 1", SLOW, async () => {
    const { run } = await workspaceWith('export function teardown() { throw new Error("no response"); }');
    const { code, stdout, stderr } = await run("process", "jobs.ts");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "0 jobs ran\n" });
    expect(stderr).toMatch(/^\S+ error teardown in jobs\.ts failed error="no response"\n$/);
  });

  it("that hangs times out, with exit code 1", SLOW, async () => {
    const body = "export const teardown = () => new Promise(() => setInterval(() => {}, 1_000));";
    const { start } = await workspaceWith(body, onSqlite, SHORT_LIMITS);
    const worker = start("worker", "jobs.ts");
    await isRunning(worker);
    const asked = performance.now();
    expect(await stop(worker)).toBe(1);
    expect(performance.now() - asked).toBeLessThan(30_000);
    expect(worker.stderr()).toMatch(/ error teardown in jobs\.ts timed out after 5s; exiting without it\n/);
  });

  it("also runs after setup fails", SLOW, async () => {
    const { run, recorded } = await workspaceWith(`
      export const setup = () => Promise.reject(new Error("no schedules today"));
      export const teardown = () => record("torn down");
    `);
    const { code, stderr } = await run("worker", "jobs.ts");
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: setup in jobs\.ts failed: no schedules today\n/);
    expect(recorded()).toEqual([["torn down"]]);
  });
});

it("an export of the wrong shape stops the command", SLOW, async () => {
  const { run, hf } = await workspaceWith("export const reporter = (error: Error) => console.error(error);");
  await hf.enqueueNamed("note");
  expect(await run("worker", "jobs.ts")).toEqual({
    code: 1,
    stdout: "",
    stderr:
      "error: reporter in jobs.ts must be an object with a report() function\nhint: export const reporter = sentry(Sentry), or your own object\n",
  });
  expect((await hf.stats()).states.pending).toBe(1);
});
