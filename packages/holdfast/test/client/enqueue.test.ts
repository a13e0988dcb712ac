import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { cleanup, double, jobCount, jobOf, open, START, stateOf } from "./scene.js";

describe("when a job runs", () => {
  it("A-08 E-01 enqueue returns the id of a claimable job", async () => {
    const { hf } = await open();
    const result = await hf.enqueue(double, { n: 1 });
    expect(result).toEqual({ id: expect.any(String), duplicate: false, replaced: false });
    const [lease] = await hf.claim();
    expect(lease).toMatchObject({ id: result.id, type: "double", input: { n: 1 }, attempt: 1 });
  });

  it.each<[string, object]>([
    ["a delay", { delay: "10m" }],
    ["a runAt", { runAt: new Date(START + 600_000) }],
    ["a runAt in milliseconds", { runAt: START + 600_000 }],
    ["a runAt as ISO text", { runAt: "2026-01-01T00:10:00Z" }],
  ])("A-08 E-01 %s keeps the job unclaimable until then", async (_name, options) => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup, {}, options);
    const stored = await jobOf(hf, id);
    expect(stored.runAt).toEqual(new Date(START + 600_000));
    expect(stored.dueAt).toEqual(stored.runAt);
    await clock.advance(599_999);
    expect(await hf.claim()).toEqual([]);
    await clock.advance(1);
    expect((await hf.claim())[0]?.id).toBe(id);
  });

  it("a runAt in the past is due before earlier enqueued jobs", async () => {
    const { hf } = await open();
    await hf.enqueue(cleanup);
    const { id } = await hf.enqueue(cleanup, {}, { runAt: START - 1_000 });
    expect((await hf.claim())[0]?.id).toBe(id);
  });

  it("A-09 higher priority first, then the older due time, then the older job", async () => {
    const { hf, clock } = await open();
    const add = async (n: number, options: object): Promise<void> => void (await hf.enqueue(double, { n }, options));
    await add(5, { priority: -100 });
    await add(4, {});
    await add(3, { runAt: START - 1 });
    await add(2, { priority: 100 });
    await add(1, { priority: 100, runAt: START - 5 });
    await clock.advance(1);
    const leases = await hf.claim({ limit: 10 });
    expect(leases.map((lease) => (lease.input as { n: number }).n)).toEqual([1, 2, 3, 4, 5]);
  });

  it("A-34 an expired job is never claimed and becomes dead", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup, {}, { expiresAt: START + 1_000 });
    const { id: fine } = await hf.enqueue(cleanup);
    expect((await jobOf(hf, id)).expiresAt).toEqual(new Date(START + 1_000));
    await clock.advance(1_000);
    expect((await hf.claim({ limit: 10 })).map((lease) => lease.id)).toEqual([fine]);
    expect(await jobOf(hf, id)).toMatchObject({ state: "dead", attempt: 0, error: { code: "EXPIRED" } });
  });

  it("a job claimed before it expires runs to its end", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup, {}, { expiresAt: START + 1_000 });
    await clock.advance(999);
    const [lease] = await hf.claim();
    await clock.advance(5_000);
    await lease?.complete();
    expect(await stateOf(hf, id)).toBe("completed");
  });
});

describe("queue, user and names", () => {
  it("queue, user, tags and attempts are stored", async () => {
    const { hf } = await open();
    const given = { queue: "mail", user: "ada", tags: ["vip", "eu", "vip"], maxAttempts: 2, priority: 7 };
    const { id } = await hf.enqueue(double, { n: 1 }, given);
    expect(await hf.get(id)).toMatchObject({ ...given, tags: ["vip", "eu"] });
    expect(await hf.claim({ queues: ["default"] })).toEqual([]);
    const [lease] = await hf.claim({ queues: ["mail"] });
    expect(lease).toMatchObject({ id, queue: "mail", user: "ada", maxAttempts: 2 });
  });

  it("names of Object.prototype are ordinary names", async () => {
    const { hf } = await open();
    for (const name of ["__proto__", "constructor", "toString", "'; DROP TABLE holdfast_jobs; --", "büro 🏠"]) {
      const { id } = await hf.enqueue(cleanup, {}, { queue: name, user: name, tags: [name], unique: name });
      expect(await hf.get(id)).toMatchObject({ queue: name, user: name, tags: [name], key: name });
      expect((await hf.list({ queue: name, user: name, tag: name })).jobs.map((found) => found.id)).toEqual([id]);
    }
    expect(await jobCount(hf)).toBe(5);
  });
});

describe("an explicit id", () => {
  const id = "018F4D2E-7B3A-7C11-8A55-0123456789AB";

  it("makes a repeated enqueue return the same job", async () => {
    const { hf } = await open();
    const own = id.toLowerCase();
    const again = { id: own, duplicate: true, replaced: false };
    expect(await hf.enqueue(double, { n: 1 }, { id })).toEqual({ id: own, duplicate: false, replaced: false });
    expect(await hf.enqueue(double, { n: 2 }, { id })).toEqual(again);
    const [lease] = await hf.claim();
    expect(await hf.enqueue(double, { n: 3 }, { id })).toEqual(again);
    await lease?.complete();
    expect(await hf.enqueue(double, { n: 4 }, { id })).toEqual(again);
    expect(await hf.get(id)).toMatchObject({ state: "completed", input: { n: 1 } });
    expect(await jobCount(hf)).toBe(1);
  });

  it("makes twenty concurrent enqueues one job", async () => {
    const { hf } = await open();
    const results = await Promise.all(Array.from({ length: 20 }, (_, n) => hf.enqueue(double, { n }, { id })));
    expect(results.filter((result) => !result.duplicate)).toHaveLength(1);
    expect(await jobCount(hf)).toBe(1);
  });
});

describe("defaults of the job type", () => {
  const report = job({
    type: "report",
    queue: "reports",
    priority: 9,
    expiresAfter: "1h",
    tags: ["nightly"],
    retry: { maxAttempts: 7 },
    input: z.object({ day: z.string() }),
    run: () => {},
  });

  it("set queue, priority, expiry, tags and attempts", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(report, { day: "monday" });
    expect(await hf.get(id)).toMatchObject({
      queue: "reports",
      priority: 9,
      expiresAt: new Date(START + 3_600_000),
      tags: ["nightly"],
      maxAttempts: 7,
    });
  });

  it("are overridden by the call", async () => {
    const { hf } = await open();
    const own = { queue: "adhoc", priority: -1, expiresAt: new Date(START + 5_000), tags: [], maxAttempts: 1 };
    const { id } = await hf.enqueue(report, { day: "monday" }, own);
    expect(await hf.get(id)).toMatchObject(own);
  });

  it("fall back to the general defaults", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(cleanup);
    const defaults = {
      queue: "default",
      priority: 0,
      expiresAt: null,
      tags: [],
      maxAttempts: 4,
      user: null,
      key: null,
    };
    expect(await hf.get(id)).toMatchObject({ ...defaults, input: {} });
  });
});

it("fifty concurrent enqueues return and emit their own ids", async () => {
  const { hf } = await open();
  const events: string[] = [];
  hf.on("enqueued", ({ id }) => events.push(id));
  const results = await Promise.all(Array.from({ length: 50 }, (_, n) => hf.enqueue(double, { n })));
  expect(new Set(results.map((result) => result.id)).size).toBe(50);
  expect(events).toEqual(results.map((result) => result.id));
  for (const [n, { id }] of results.entries()) expect((await jobOf(hf, id)).input).toEqual({ n });
});
