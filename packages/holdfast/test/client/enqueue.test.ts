import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { cleanup, double, jobCount, jobOf, open, START, stateOf } from "./scene.js";

describe("when a job runs", () => {
  it("A-08 E-01 enqueue returns the id of a job that can be claimed at once", async () => {
    const { hf } = await open();
    const answer = await hf.enqueue(double, { n: 1 });
    expect(answer).toEqual({ id: expect.any(String), duplicate: false, replaced: false });
    const [lease] = await hf.claim();
    expect(lease).toMatchObject({ id: answer.id, type: "double", input: { n: 1 }, attempt: 1 });
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

  it("a runAt in the past is due at once, and before what was enqueued earlier", async () => {
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

  it("A-34 a job past its expiresAt is never claimed and goes dead", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup, {}, { expiresAt: START + 1_000 });
    const { id: fine } = await hf.enqueue(cleanup);
    expect((await jobOf(hf, id)).expiresAt).toEqual(new Date(START + 1_000));
    await clock.advance(1_000);
    expect((await hf.claim({ limit: 10 })).map((lease) => lease.id)).toEqual([fine]);
    expect(await jobOf(hf, id)).toMatchObject({ state: "dead", attempt: 0, error: { code: "EXPIRED" } });
  });

  it("a job claimed a moment before it expires still runs to its end", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup, {}, { expiresAt: START + 1_000 });
    await clock.advance(999);
    const [lease] = await hf.claim();
    await clock.advance(5_000);
    await lease?.complete();
    expect(await stateOf(hf, id)).toBe("completed");
  });
});

describe("where a job goes and whose it is", () => {
  it("a queue of its own, a user, tags and attempts are stored and come back", async () => {
    const { hf } = await open();
    const given = { queue: "mail", user: "ada", tags: ["vip", "eu", "vip"], maxAttempts: 2, priority: 7 };
    const { id } = await hf.enqueue(double, { n: 1 }, given);
    expect(await hf.get(id)).toMatchObject({ ...given, tags: ["vip", "eu"] });
    expect(await hf.claim({ queues: ["default"] })).toEqual([]);
    const [lease] = await hf.claim({ queues: ["mail"] });
    expect(lease).toMatchObject({ id, queue: "mail", user: "ada", maxAttempts: 2 });
  });

  it("names are taken as they are, whatever every object happens to have", async () => {
    const { hf } = await open();
    for (const name of ["__proto__", "constructor", "toString", "'; DROP TABLE holdfast_jobs; --", "büro 🏠"]) {
      const { id } = await hf.enqueue(cleanup, {}, { queue: name, user: name, tags: [name], unique: name });
      expect(await hf.get(id)).toMatchObject({ queue: name, user: name, tags: [name], key: name });
      expect((await hf.list({ queue: name, user: name, tag: name })).jobs.map((found) => found.id)).toEqual([id]);
    }
    expect(await jobCount(hf)).toBe(5);
  });
});

describe("a job's own id", () => {
  const id = "018F4D2E-7B3A-7C11-8A55-0123456789AB";

  it("an enqueue repeated with its own id is the same job, waiting, running or finished", async () => {
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

  it("twenty at once with one id make one job", async () => {
    const { hf } = await open();
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => hf.enqueue(double, { n }, { id })));
    expect(answers.filter((answer) => !answer.duplicate)).toHaveLength(1);
    expect(await jobCount(hf)).toBe(1);
  });
});

describe("what a job type says counts where the call is silent", () => {
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

  it("queue, priority, expiry, tags and attempts come from the type", async () => {
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

  it("the call overrides each of them", async () => {
    const { hf } = await open();
    const own = { queue: "adhoc", priority: -1, expiresAt: new Date(START + 5_000), tags: [], maxAttempts: 1 };
    const { id } = await hf.enqueue(report, { day: "monday" }, own);
    expect(await hf.get(id)).toMatchObject(own);
  });

  it("a type that says nothing gets the defaults", async () => {
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

it("fifty enqueues at once each get their own answer, and an event tells of each", async () => {
  const { hf } = await open();
  const heard: string[] = [];
  hf.on("enqueued", ({ id }) => heard.push(id));
  const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => hf.enqueue(double, { n })));
  expect(new Set(answers.map((answer) => answer.id)).size).toBe(50);
  expect(heard).toEqual(answers.map((answer) => answer.id));
  for (const [n, { id }] of answers.entries()) expect((await jobOf(hf, id)).input).toEqual({ n });
});
