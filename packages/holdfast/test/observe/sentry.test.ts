import * as Sentry from "@sentry/node";
import { holdfast, InvalidOptionError, job, type HoldfastOptions, type JobFailure } from "holdfast";
import { sentry, type SentryClient, type SentryOptions } from "holdfast/sentry";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { folder, recordingLogger } from "../engine/scene.js";
import { dynamoServer } from "../dynamodb/server.js";
import { addressOf, ownSchema } from "../postgres/scene.js";
import { postgresServer } from "../postgres/server.js";
import { sentryServer } from "./sentry-server.js";

const { arrived, dsn } = sentryServer();
beforeAll(() => void Sentry.init({ dsn: dsn() }));
// Before the server stops.
afterAll(() => Sentry.close(2_000));

const postgres = postgresServer();
const dynamo = dynamoServer();
const addresses: Record<string, () => Promise<string>> = {
  SQLite: async () => `sqlite:${await folder()}/jobs.db`,
  PostgreSQL: () => Promise.resolve(addressOf(postgres.url(), ownSchema(postgres))),
  async DynamoDB() {
    const table = dynamo.newTable();
    onTestFinished(() => dynamo.drop(table));
    return dynamo.address(table);
  },
};

async function chargeTheCard(): Promise<never> {
  await Promise.resolve();
  throw new TypeError("the card was declined", { cause: new Error("insufficient funds") });
}
const charge = job({
  type: "charge",
  queue: "billing",
  input: z.object({ order: z.number(), card: z.object({ number: z.string() }), password: z.string() }),
  retry: { maxAttempts: 2, backoff: { base: 1, jitter: 0 } },
  tags: ["money"],
  run: () => chargeTheCard(),
});
const input = { order: 7, card: { number: "4242 4242" }, password: "secret" };
const redact = ["input.card.number", "**.password"];

/** Runs a job to its end on a new client, and waits until its reports have arrived. */
async function work(options: HoldfastOptions): Promise<string> {
  const hf = await holdfast({ jobs: [charge], logger: false, redact, ...options });
  onTestFinished(() => hf.close());
  const { id } = await hf.enqueue(charge, input, { user: "u1" });
  const dead = new Promise((resolve) => hf.on("dead", resolve));
  const worker = hf.work({ poll: 20 });
  await dead;
  await worker.stop();
  // Closing flushes.
  await hf.close();
  return id;
}

describe.each(Object.entries(addresses))("on %s", (_, address) => {
  it("D-09 a failure arrives with job, payload and stack", async () => {
    const store = await address();
    const id = await work({ store, reporter: sentry(Sentry) });
    expect(arrived.map(({ level, tags }) => [level, tags["job.attempt"]])).toEqual([
      ["warning", 1],
      ["error", 2],
    ]);
    for (const event of arrived) {
      expect(event.tags).toMatchObject({ "job.id": id, "job.type": "charge", "job.queue": "billing" });
      expect(event.user).toMatchObject({ id: "u1" });
      expect(event.contexts.job).toMatchObject({
        id,
        type: "charge",
        max_attempts: 2,
        tags: "money",
        failure: "attempt",
      });
      expect(JSON.parse(event.contexts.job["payload"] as string)).toEqual({
        order: 7,
        card: { number: "[redacted]" },
        password: "[redacted]",
      });
      expect(JSON.stringify(event)).not.toMatch(/4242 4242|"secret"/);
      const error = event.exception.values.at(-1);
      expect([error?.type, error?.value]).toEqual(["TypeError", "the card was declined"]);
      const frame = error?.stacktrace?.frames.at(-1);
      expect(frame?.function).toBe("chargeTheCard");
      expect(frame?.filename).toContain("sentry.test");
      expect(event.exception.values.map(({ value }) => value)).toContain("insufficient funds");
    }
    expect(arrived.map(({ fingerprint }) => fingerprint)).toEqual([
      ["holdfast", "charge", "TypeError"],
      ["holdfast", "charge", "TypeError", "dead"],
    ]);

    const later = await holdfast({ store, logger: false });
    onTestFinished(() => later.close());
    await later.maintain();
    const kept = await later.get(id);
    expect(kept).toMatchObject({ state: "dead", type: "charge", input, error: { message: "the card was declined" } });
    expect(kept?.attempts.map(({ attempt, error }) => [attempt, error?.stack?.includes("chargeTheCard")])).toEqual([
      [1, true],
      [2, true],
    ]);
    expect((await later.list({ state: "dead" })).jobs.map((listed) => listed.id)).toEqual([id]);
  });
});

describe("the adapter for Sentry", () => {
  it("reports only dead jobs with when: dead", async () => {
    await work({ store: "sqlite::memory:", reporter: sentry(Sentry, { when: "dead" }) });
    expect(arrived.map(({ level, contexts }) => [level, contexts.job["final"]])).toEqual([["error", true]]);
  });

  it("groups by a given fingerprint or Sentry's own", async () => {
    const fingerprint = ({ job: { type }, kind }: JobFailure): string[] => [type, kind];
    await work({ store: "sqlite::memory:", reporter: sentry(Sentry, { when: "dead", fingerprint }) });
    await work({ store: "sqlite::memory:", reporter: sentry(Sentry, { when: "dead", fingerprint: null }) });
    expect(arrived.map((event) => event.fingerprint)).toEqual([["charge", "attempt"], undefined]);
  });

  it("does not affect the application's own events", async () => {
    await work({ store: "sqlite::memory:", reporter: sentry(Sentry, { when: "dead" }) });
    Sentry.captureException(new Error("elsewhere"));
    await Sentry.flush(2_000);
    expect(arrived.map(({ tags, contexts }) => [tags?.["job.id"] === undefined, contexts.job === undefined])).toEqual([
      [false, false],
      [true, true],
    ]);
  });

  it("reports jobs without a handler and non-error values", async () => {
    const reporter = sentry(Sentry);
    const odd = job({ type: "odd", retry: { maxAttempts: 1 }, run: () => Promise.reject({ not: "an error" }) });
    const hf = await holdfast({ store: "sqlite::memory:", jobs: [odd], reporter, logger: false });
    await hf.enqueue(odd, {});
    await hf.enqueue(job({ type: "unknown", run: () => {} }), {});
    await hf.drain({ unknownType: "dead", concurrency: 1 });
    await hf.close();
    const byType = new Map(arrived.map((event) => [event.tags["job.type"], event]));
    expect(byType.size).toBe(2);
    expect(byType.get("odd")?.fingerprint).toEqual(["holdfast", "odd", "thrown value", "dead"]);
    expect(byType.get("unknown")?.fingerprint).toEqual(["holdfast", "unknown", "no-handler", "dead"]);
    expect(byType.get("unknown")?.exception.values[0]?.value).toBe("No handler registered for job_type: unknown");
  });

  it("truncates a large payload", async () => {
    const large = job({
      type: "large",
      input: z.object({ text: z.string() }),
      retry: { maxAttempts: 1 },
      run: () => Promise.reject(new Error("no")),
    });
    const hf = await holdfast({ store: "sqlite::memory:", jobs: [large], reporter: sentry(Sentry), logger: false });
    await hf.enqueue(large, { text: "é".repeat(100_000) });
    await hf.drain();
    await hf.close();
    expect(arrived[0]?.contexts.job["payload"]).toHaveLength(8_000);
  });

  it("does not affect jobs when it throws", async () => {
    const broken: SentryClient = {
      withScope: () => {
        throw new Error("no Sentry");
      },
      captureException: () => {},
    };
    const { logger, lines } = recordingLogger();
    await work({ store: "sqlite::memory:", reporter: sentry(broken), logger });
    expect(lines.filter(({ message }) => message === "the error reporter failed")).toHaveLength(2);
  });

  for (const [what, client, options] of [
    ["what is no SDK", {}, {}],
    ["a misspelt option", Sentry, { whem: "dead" }],
    ["another when", Sentry, { when: "sometimes" }],
    ["a fingerprint that is no function", Sentry, { fingerprint: ["a"] }],
  ] as const) {
    it(`refuses ${what}`, () => {
      expect(() => sentry(client as SentryClient, options as SentryOptions)).toThrow(InvalidOptionError);
    });
  }
});
