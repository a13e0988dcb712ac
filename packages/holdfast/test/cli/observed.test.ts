import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { sentryServer } from "../observe/sentry-server.js";
import { postgresServer } from "../postgres/server.js";
import { type Running, SLOW, storesOf, workspace, type Workspace } from "./workspace.js";

const server = postgresServer();
const sentry = sentryServer();
const onSqlite = (cwd: string): string => `sqlite:${join(cwd, "jobs.db")}`;

/** What a module of these tests begins with: `told` writes a line into a file beside it. */
const HEAD = `
import { appendFileSync } from "node:fs";
import { job } from "holdfast";
const told = (name: string, ...what: unknown[]): void =>
  appendFileSync(new URL("told.jsonl", import.meta.url), JSON.stringify([name, ...what]) + "\\n");
const any = { "~standard": { version: 1, vendor: "test", validate: (value: unknown) => ({ value }) } } as const;
export const charge = job({
  type: "charge",
  input: any,
  retry: { maxAttempts: 2, backoff: { base: 1, jitter: 0 } },
  run: function chargeTheCard() { throw new TypeError("the card was declined"); },
});
export const note = job({ type: "note", run: () => told("ran") });
`;
const LOGGER = `
const line = (level: string) => (fields: object, message: string): void => told("log", level, message, fields);
export const logger = { info: line("info"), warn: line("warn"), error: line("error") };
`;

type Told = [name: string, ...what: unknown[]];

/** A place whose module has this too, and what that tells. */
async function module(body: string, address = onSqlite): Promise<Workspace & { told: (name?: string) => Told[] }> {
  const there = await workspace(address);
  writeFileSync(join(there.cwd, "jobs.ts"), HEAD + body);
  const file = join(there.cwd, "told.jsonl");
  return {
    ...there,
    told(name) {
      // The last may still be written.
      const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : [];
      return lines.map((line) => JSON.parse(line) as Told).filter(([of]) => name === undefined || of === name);
    },
  };
}

async function isRunning({ stdout }: Running): Promise<void> {
  await until("the worker to run", () => stdout().includes("runs"), 60_000);
}

async function stop(worker: Running): Promise<number | null> {
  worker.child.kill("SIGTERM");
  return worker.ended;
}

const REDACT = '[redact]\npaths = ["input.card.number", "**.password"]\n';
const CHARGED = { order: 7, card: { number: "4242" }, password: "secret" };
const SEEN = { order: 7, card: { number: "[redacted]" }, password: "[redacted]" };

describe.each(storesOf(server))("a worker on %s", (_name, address) => {
  it(
    "D-09 gives the reporter of its module each failure, with job, attempt, stack and redacted payload",
    SLOW,
    async () => {
      const { hf, cwd, start, told } = await module(
        `export const reporter = {
        report: ({ error, job, input, final, worker }) => told("report", { stack: error.stack, job, input, final, worker }),
        flush: async () => told("flushed"),
      };`,
        address,
      );
      writeFileSync(join(cwd, "holdfast.toml"), REDACT);
      const { id } = await hf.enqueueNamed("charge", CHARGED, { maxAttempts: 2, user: "u-1", tags: ["money"] });
      const worker = start("worker", "jobs.ts");
      await until("the job to be dead", async () => (await hf.get(id))?.state === "dead", 60_000);
      expect(await stop(worker)).toBe(0);
      const report = (attempt: number): Told => [
        "report",
        {
          stack: expect.stringMatching(/^TypeError: the card was declined\n +at .*chargeTheCard .*jobs\.ts/) as string,
          job: { id, type: "charge", queue: "default", attempt, maxAttempts: 2, user: "u-1", tags: ["money"] },
          input: SEEN,
          final: attempt === 2,
          worker: expect.any(String) as string,
        },
      ];
      expect(told()).toEqual([report(1), report(2), ["flushed"]]);
      // Kept as it is, for whoever looks into it.
      expect(await hf.get(id)).toMatchObject({ state: "dead", attempt: 2, input: CHARGED });
    },
  );
});

it("Sentry hears of a failure before the command ends", SLOW, async () => {
  const { hf, cwd, spawn } = await module(`
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

it("OpenTelemetry in a module has a trace from the enqueue into the handler, sent by teardown", SLOW, async () => {
  const { spawn, told } = await module(`
    import { context, trace } from "@opentelemetry/api";
    import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
    import { BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";
    import { openTelemetry } from "holdfast/opentelemetry";
    const exporter = {
      export(spans, done) {
        for (const span of spans) told("span", span.name, span.spanContext().spanId, span.parentSpanContext?.spanId ?? null);
        done({ code: 0 });
      },
      shutdown: async () => {},
    };
    // It keeps spans for minutes, unless it is told that this is the end.
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
  const spans = told("span") as [string, string, string, string | null][];
  const of = (name: string): { id: string | undefined; parent: string | null | undefined } => {
    const [, , id, parent] = spans.find(([, other]) => other === name) ?? [];
    return { id, parent };
  };
  expect(spans).toHaveLength(3);
  expect(of("publish default").parent).toBeNull();
  expect(of("process default").parent).toBe(of("publish default").id);
  expect(of("draw").parent).toBe(of("process default").id);
});

/** A module with all of it, whose handlers write down the trace they run in. */
const ALL = `
import { AsyncLocalStorage } from "node:async_hooks";
const within = new AsyncLocalStorage<string>();
export const telemetry = {
  enqueue: ({ type }) => ({ carrier: { from: type }, end: ({ id }) => told("enqueued", id !== null) }),
  run: ({ job, carrier }) => ({
    inside: (handler) => within.run("in " + job.type, handler),
    end: ({ outcome }) => told("ended", job.type, carrier, outcome),
  }),
};
export const reporter = { report: ({ job }) => told("report", job.type) };
export const traced = job({ type: "traced", run: async () => { await null; told("within", within.getStore()); } });
export const setup = async (hf) => { await hf.enqueue(traced); await hf.enqueue(charge, {}, { maxAttempts: 1 }); };
export const teardown = async () => { await null; told("torn down"); };
`;

describe("what a module exports counts as it does for a client", () => {
  it.each([["worker"], ["process"], ["dev", "--port", "0"]])("%s", SLOW, async (command, ...flags) => {
    const { hf, start, told } = await module(ALL + LOGGER);
    const running = start(command, "jobs.ts", ...flags);
    await until("both jobs to end", () => told("ended").length === 2, 60_000);
    expect(await (command === "process" ? running.ended : stop(running))).toBe(0);
    expect(told("enqueued")).toEqual([
      ["enqueued", true],
      ["enqueued", true],
    ]);
    expect(told("within")).toEqual([["within", "in traced"]]);
    expect(told("ended")).toEqual(
      expect.arrayContaining([
        ["ended", "traced", { from: "traced" }, "completed"],
        ["ended", "charge", { from: "charge" }, "dead"],
      ]),
    );
    expect(told("report")).toEqual([["report", "charge"]]);
    expect(told("log")).toContainEqual(["log", "error", "job is dead", expect.objectContaining({ type: "charge" })]);
    expect(running.stderr()).not.toContain("job is dead");
    expect(told().at(-1)).toEqual(["torn down"]);
    expect((await hf.stats()).states).toMatchObject({ completed: 1, dead: 1 });
  });
});

describe("a logger of the module's", () => {
  it("has all of the log, whatever log.level says, and stderr none of it", SLOW, async () => {
    const { hf, cwd, start, told } = await module(LOGGER);
    writeFileSync(join(cwd, "holdfast.toml"), '[log]\nlevel = "silent"\nformat = "json"\n');
    const { id } = await hf.enqueueNamed("charge", {}, { maxAttempts: 1 });
    const worker = start("worker", "jobs.ts");
    await until("the job to be dead", async () => (await hf.get(id))?.state === "dead", 60_000);
    expect(await stop(worker)).toBe(0);
    const lines = told("log").map(([, level, message]) => [level, message]);
    expect(lines).toContainEqual(["error", "job is dead"]);
    expect(worker.stderr()).toBe("");
  });

  it("that throws loses no line, and ends nothing", SLOW, async () => {
    const { hf, run } = await module(`
      const full = () => { throw new Error("the disk is full"); };
      export const logger = { info: full, warn: full, error: full };
    `);
    const { id } = await hf.enqueueNamed("charge", {}, { maxAttempts: 1 });
    const { code, stderr } = await run("process", "jobs.ts");
    expect(code).toBe(0);
    expect((await hf.get(id))?.state).toBe("dead");
    expect(stderr).toMatch(
      / error job is dead .+\n.+ error the logger failed; what it cannot write goes here error="the disk is full"\n/,
    );
  });

  it("is told of what nobody caught, with the jobs under way, and teardown still comes", SLOW, async () => {
    const { hf, spawn, told } = await module(`${ALL.replace(/^export const setup.*$/m, "")}${LOGGER}
      export const floating = job({
        type: "floating",
        async run() {
          void Promise.reject(new Error("nobody waits for me"));
          await new Promise(() => {});
        },
      });
    `);
    const { id } = await hf.enqueueNamed("floating");
    const { code, stderr } = await spawn("process", "jobs.ts");
    expect(code).toBe(1);
    expect(told("log")).toContainEqual([
      "log",
      "error",
      expect.stringMatching(/^a promise was rejected and nobody caught it; this process ends/),
      expect.objectContaining({ underWay: [`floating ${id}`] }),
    ]);
    expect(stderr).not.toContain("nobody caught it");
    expect(told("torn down")).toHaveLength(1);
  });
});

describe("teardown", () => {
  it(
    "comes once after SIGTERM, when the jobs under way have ended and the reporter has been flushed",
    SLOW,
    async () => {
      const { hf, start, told } = await module(`
      export const slow = job({
        type: "slow",
        async run({ signal }) {
          told("begun");
          // Ends when the worker has been asked to stop.
          await new Promise((resolve) => void process.once("SIGTERM", resolve));
          told("done", signal.aborted);
        },
      });
      export const reporter = { report() {}, flush: async () => told("flushed") };
      export async function teardown() {
        await new Promise((resolve) => setImmediate(resolve));
        told("torn down");
      }
    `);
      const worker = start("worker", "jobs.ts");
      await isRunning(worker);
      await hf.enqueueNamed("slow");
      await until("the job to run", () => told("begun").length === 1, 60_000);
      expect(await stop(worker)).toBe(0);
      expect(told()).toEqual([["begun"], ["done", false], ["flushed"], ["torn down"]]);
    },
  );

  it("that fails is told in the log, and is a failure", SLOW, async () => {
    const { run } = await module('export function teardown() { throw new Error("nobody answers"); }');
    const { code, stdout, stderr } = await run("process", "jobs.ts");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "0 jobs ran\n" });
    expect(stderr).toMatch(/^\S+ error teardown in jobs\.ts failed error="nobody answers"\n$/);
  });

  it("that never ends is not waited for, and is a failure", SLOW, async () => {
    const { start } = await module("export const teardown = () => new Promise(() => setInterval(() => {}, 1_000));");
    const worker = start("worker", "jobs.ts");
    await isRunning(worker);
    const asked = performance.now();
    expect(await stop(worker)).toBe(1);
    expect(performance.now() - asked).toBeLessThan(30_000);
    expect(worker.stderr()).toMatch(
      / error teardown in jobs\.ts did not end within 5s; this process ends without it\n/,
    );
  });

  it("comes too where setup fails, whose failure is what is told", SLOW, async () => {
    const { run, told } = await module(`
      export const setup = () => Promise.reject(new Error("no schedules today"));
      export const teardown = () => told("torn down");
    `);
    const { code, stderr } = await run("worker", "jobs.ts");
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: setup in jobs\.ts failed: no schedules today\n/);
    expect(told()).toEqual([["torn down"]]);
  });
});

it("an export by such a name that is something else ends the command before it works", SLOW, async () => {
  const { run, hf } = await module("export const reporter = (error: Error) => console.error(error);");
  await hf.enqueueNamed("note");
  expect(await run("worker", "jobs.ts")).toEqual({
    code: 1,
    stdout: "",
    stderr:
      "error: reporter in jobs.ts must be an object with a function report\nhint: export const reporter = sentry(Sentry), or one of your own\n",
  });
  expect((await hf.stats()).states.pending).toBe(1);
});
