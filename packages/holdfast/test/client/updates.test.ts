import { holdfast, InvalidInputError, InvalidOptionError, job, JobNotFoundError, JobNotWaitingError } from "holdfast";
import type { Holdfast, HoldfastOptions } from "holdfast";
import { sqlite } from "holdfast/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { cleanup, double, errorOf, expectRefusal, jobOf, open, START } from "./scene.js";

const missing = "018f4d2e-7b3a-7c11-8a55-0123456789ab";
const HOUR = 3_600_000;

describe("update", () => {
  it("changes a waiting job", async () => {
    const { hf } = await open({ jobs: [double] });
    const { id } = await hf.enqueue(double, { n: 1 }, { tags: ["old"], unique: "k" });
    const before = await jobOf(hf, id);
    const runAt = new Date(START + HOUR);
    const change = { priority: 7, queue: "slow", input: { n: 2 }, tags: ["new"], maxAttempts: 9 };
    await hf.update(id, { ...change, runAt, expiresAt: START + 2 * HOUR });
    expect(await jobOf(hf, id)).toEqual({
      ...before,
      ...change,
      runAt,
      dueAt: runAt,
      expiresAt: new Date(START + 2 * HOUR),
    });
    await hf.update(id, { expiresAt: null, delay: "1m" });
    expect(await jobOf(hf, id)).toMatchObject({ expiresAt: null, dueAt: new Date(START + 60_000) });
  });

  it("emits an event", async () => {
    const { hf } = await open();
    const seen: string[] = [];
    hf.on("updated", ({ id }) => void seen.push(id));
    const { id } = await hf.enqueue(cleanup, {}, { delay: "1h" });
    await hf.update(id, { priority: 1 });
    await hf.promote(id);
    expect(seen).toEqual([id, id]);
  });

  it("promote makes a job due now", async () => {
    const { hf } = await open({ jobs: [cleanup] });
    const { id } = await hf.enqueue(cleanup, {}, { delay: "1h" });
    expect(await hf.runNext()).toBe(false);
    await hf.promote(id);
    expect(await hf.runNext()).toBe(true);
  });

  it("a failed job keeps its history and its attempts", async () => {
    const failing = job({ type: "failing", run: () => Promise.reject(new Error("down")) });
    const { hf } = await open({ jobs: [failing] });
    const { id } = await hf.enqueue(failing);
    await hf.runNext();
    await hf.update(id, { maxAttempts: 9, delay: 0 });
    expect(await jobOf(hf, id)).toMatchObject({
      state: "failed",
      attempt: 1,
      maxAttempts: 9,
      attempts: [{ attempt: 1 }],
    });
    await hf.runNext();
    expect(await jobOf(hf, id)).toMatchObject({ attempt: 2 });
  });

  it("is refused with the state of a job that does not wait", async () => {
    const { hf } = await open({ jobs: [cleanup] });
    const { id } = await hf.enqueue(cleanup);
    const [lease] = await hf.claim();
    const refused = await errorOf(hf.update(id, { priority: 3 }));
    expect(refused).toBeInstanceOf(JobNotWaitingError);
    expect(refused).toMatchObject({ code: "JOB_NOT_WAITING", id, state: "claimed" });
    await lease?.complete();
    await expect(hf.promote(id)).rejects.toMatchObject({ code: "JOB_NOT_WAITING", state: "completed" });
    expect(await errorOf(hf.update(missing, { priority: 3 }))).toBeInstanceOf(JobNotFoundError);
    expect((await jobOf(hf, id)).priority).toBe(0);
  });

  it.each([
    ["nothing", {}, "update", /at least one change/],
    ["a misspelt option", { prioritty: 3 }, "prioritty", /did you mean priority\?/],
    ["an undefined value", { priority: undefined }, "priority", /is undefined/],
    ["two times", { delay: "1m", runAt: START }, "delay", /cannot be combined/],
    ["a queue that is none", { queue: "*" }, "queue", /not a queue name/],
    ["no time", { runAt: "tomorrow" }, "runAt", /is not a valid time/],
    ["an expiry in the past", { expiresAt: START - 1 }, "expiresAt", /is in the past/],
    ["an expiry before it is due", { delay: "2h", expiresAt: START + HOUR }, "expiresAt", /due after it expires/],
    ["too many tags", { tags: Array.from({ length: 21 }, String) }, "tags", /at most 20/],
    ["no attempts", { maxAttempts: 0 }, "maxAttempts", /whole number from 1/],
  ])("%s is refused and changes nothing", async (_what, change, field, says) => {
    const { hf } = await open({ jobs: [double] });
    const { id } = await hf.enqueue(double, { n: 1 });
    const before = await jobOf(hf, id);
    await expectRefusal(hf.update(id, change as never), {
      is: InvalidOptionError,
      code: "INVALID_OPTION",
      field,
      says,
    });
    expect(await jobOf(hf, id)).toEqual(before);
  });

  it("an input that breaks the schema of the type is refused", async () => {
    const { hf } = await open({ jobs: [double] });
    const { id } = await hf.enqueue(double, { n: 1 });
    await expect(hf.update(id, { input: { n: "two" } })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    await expect(hf.update(id, { input: { n: "x".repeat(300_000) } })).rejects.toMatchObject({
      code: "PAYLOAD_TOO_LARGE",
    });
    expect((await jobOf(hf, id)).input).toEqual({ n: 1 });
  });

  it("attempts that were used already are refused", async () => {
    const failing = job({ type: "failing", run: () => Promise.reject(new Error("down")) });
    const { hf } = await open({ jobs: [failing] });
    const { id } = await hf.enqueue(failing);
    await hf.runNext();
    await expect(hf.update(id, { maxAttempts: 1 })).rejects.toThrow(
      "maxAttempts must be more than the job has used: 1 attempt",
    );
  });

  it("by filter changes what waits, with progress", async () => {
    const { hf } = await open({ jobs: [cleanup, double] });
    for (let n = 0; n < 5; n++) await hf.enqueue(double, { n }, { queue: n < 4 ? "slow" : "other" });
    await hf.claim({ queues: ["slow"], limit: 1 });
    const progress: unknown[] = [];
    const changed = await hf.update(
      { queue: "slow" },
      { queue: "fast" },
      { onProgress: (each) => void progress.push(each) },
    );
    expect(changed).toBe(3);
    expect(progress).toEqual([{ examined: 4, changed: 3 }]);
    expect((await hf.count({ queue: "fast" })).count).toBe(3);
    expect(await hf.promote({ queue: "fast", state: "pending" })).toBe(3);
    await expectRefusal(hf.update({}, { priority: 1 }), {
      is: InvalidOptionError,
      code: "INVALID_OPTION",
      field: "filter",
    });
  });

  it("by filter names the jobs that it does not change", async () => {
    const { hf, clock } = await open({ jobs: [cleanup] });
    const enqueue = async (expiresAt?: number): Promise<string> =>
      (await hf.enqueue(cleanup, {}, { queue: "slow", ...(expiresAt !== undefined && { expiresAt }) })).id;
    const [waiting, expiring, done] = [await enqueue(), await enqueue(clock.now() + HOUR), await enqueue()];
    await hf.cancel(done);
    const unchanged: unknown[] = [];
    const onUnchanged = (jobs: readonly unknown[]): void => void unchanged.push(...jobs);
    const id = [waiting, expiring, done, missing];
    expect(await hf.update({ id }, { delay: "2h" }, { onUnchanged })).toBe(1);
    expect(unchanged).toEqual([
      { id: done, reason: "is cancelled" },
      { id: expiring, reason: "delay would make the job due after it expires, so it could never run" },
      { id: missing, reason: "not found" },
    ]);
    unchanged.length = 0;
    expect(await hf.promote({ queue: "slow" }, { onUnchanged })).toBe(2);
    expect(unchanged).toEqual([{ id: done, reason: "is cancelled" }]);
  });

  it("by filter validates the input for every type", async () => {
    const text = job({ type: "text", input: z.object({ n: z.string() }), run: () => {} });
    const { hf } = await open({ jobs: [double, text] });
    await hf.enqueue(double, { n: 1 });
    const { id } = await hf.enqueue(text, { n: "one" });
    await expect(hf.update({ state: "pending" }, { input: { n: 2 } })).rejects.toMatchObject({ code: "INVALID_INPUT" });
    expect((await jobOf(hf, id)).input).toEqual({ n: "one" });
  });
});

describe("promote", () => {
  it("names the job if it has expired", async () => {
    const { hf, clock } = await open();
    const { id } = await hf.enqueue(cleanup, {}, { delay: "1m", expiresAt: START + 120_000 });
    await clock.advance("3m");
    await expectRefusal(hf.promote(id), {
      is: InvalidOptionError,
      code: "INVALID_OPTION",
      field: "id",
      says: /expired at 2026-01-01T00:02:00.000Z/,
    });
    expect(await hf.promote({ id })).toBe(0);
  });
});

describe("a new input by filter", () => {
  const text = job({ type: "text", input: z.object({ n: z.string() }), run: () => {} });

  it("stops when its signal aborts while it is checked", async () => {
    const store = sqlite(":memory:");
    const { hf } = await open({ store, jobs: [double, text] });
    await hf.enqueueMany(
      text,
      Array.from({ length: 4_500 }, (_, n) => ({ n: `n${n}` })),
    );
    const stop = new AbortController();
    const list = store.list.bind(store);
    let calls = 0;
    store.list = (...given) => {
      calls++;
      stop.abort();
      return list(...given);
    };
    const updating = hf.update({ input: { text: "none" } }, { input: { n: 2 } }, { signal: stop.signal });
    await expect(updating).rejects.toMatchObject({ name: "AbortError" });
    // Those of one search, which examines 2,000 jobs.
    expect(calls).toBeLessThan(15);
  });

  it("changes nothing if the type of a matching job rejects it", async () => {
    const { hf } = await open({ jobs: [double, text] });
    await hf.enqueue(text, { n: "one" });
    for (let n = 0; n < 300; n++) await hf.enqueue(double, { n: 1 });
    await expectRefusal(hf.update({ state: "pending" }, { input: { n: 2 } }), {
      is: InvalidInputError,
      code: "INVALID_INPUT",
      says: /^input of text: n: /,
    });
    expect((await hf.count({ type: "double", input: { equals: { n: 2 } } })).count).toBe(0);
  });

  it("ignores types that no matching job has", async () => {
    const { hf } = await open({ jobs: [double, text] });
    await hf.enqueue(text, { n: "one" }, { tags: ["other"] });
    await hf.enqueue(double, { n: 1 }, { tags: ["mine"] });
    expect(await hf.update({ tag: "mine" }, { input: { n: 2 } })).toBe(1);
    expect(await hf.update({ type: "double" }, { input: { n: 3 } })).toBe(1);
    expect(await hf.update({ input: { path: "n", equals: 3 } }, { input: { n: 4 } })).toBe(1);
    await hf.cancel({ tag: "other" });
    expect(await hf.update({ state: ["pending", "cancelled"] }, { input: { n: 5 } })).toBe(1);
  });
});

describe("keys", () => {
  it("get, list and cancel find the job that holds a key", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(cleanup, {}, { unique: "invoice-7" });
    const mine = await hf.enqueue(cleanup, {}, { unique: "invoice-7", user: "ada" });
    expect((await hf.get({ key: "invoice-7" }))?.id).toBe(id);
    expect((await hf.get({ key: "invoice-7", user: "ada" }))?.id).toBe(mine.id);
    expect((await hf.forUser("ada").get({ key: "invoice-7" }))?.id).toBe(mine.id);
    expect((await hf.list({ key: "invoice-7" })).jobs.map((each) => each.id)).toEqual([id]);
    expect(await hf.cancel({ key: "invoice-7" })).toBe(1);
    expect(await hf.get({ key: "invoice-7" })).toBeNull();
    expect(await hf.cancel({ key: "invoice-7" })).toBe(0);
    expect((await hf.get(mine.id))?.state).toBe("pending");
  });

  it.each([[""], [5], [null]])("user %j of a key is refused", async (user) => {
    const { hf } = await open();
    const refused = { is: InvalidOptionError, code: "INVALID_OPTION", field: "user" };
    await expectRefusal(hf.get({ key: "k", user: user as never }), refused);
    await expectRefusal(hf.freeKey({ key: "k", user: user as never }), refused);
  });

  it("the view of a user refuses the key of another", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(cleanup, {}, { unique: "k", user: "ada" });
    const view = hf.forUser("ada");
    const refused = { is: InvalidOptionError, code: "INVALID_OPTION", field: "user", says: /limited to "ada"/ };
    await expectRefusal(view.get({ key: "k", user: "bob" } as { key: string }), refused);
    expect((await view.get({ key: "k", user: "ada" } as { key: string }))?.id).toBe(id);
  });

  it("a key per day is found with its scope", async () => {
    const { hf, clock } = await open();
    const scope = { calendar: "day" } as const;
    const { id } = await hf.enqueue(cleanup, {}, { unique: { key: "digest", scope } });
    expect((await hf.get({ key: "digest", scope }))?.id).toBe(id);
    expect(await hf.get({ key: "digest" })).toBeNull();
    await clock.advance("1d");
    expect(await hf.get({ key: "digest", scope })).toBeNull();
  });

  it("freeKey frees the key of a deleted job", async () => {
    const { hf, clock } = await open({ retention: { cancelled: 0 } });
    const unique = { key: "once", scope: "forever" } as const;
    const { id } = await hf.enqueue(cleanup, {}, { unique });
    expect(await hf.freeKey("once")).toBe("held");
    await hf.cancel(id);
    await clock.advance("1m");
    await hf.maintain();
    expect(await hf.enqueue(cleanup, {}, { unique })).toMatchObject({ duplicate: true, id });
    expect(await hf.freeKey({ key: "once" })).toBe("freed");
    expect(await hf.freeKey("once")).toBe("missing");
    expect(await hf.enqueue(cleanup, {}, { unique })).toMatchObject({ duplicate: false });
  });
});

describe("a job that changes between the check and the write", () => {
  /** A client, and a hook that runs once between reading a job and changing it. */
  async function racing(
    jobs: HoldfastOptions["jobs"] & {},
  ): Promise<{ hf: Holdfast; between: (work: () => Promise<unknown>) => void }> {
    const store = sqlite(":memory:");
    const update = store.update.bind(store);
    let work: (() => Promise<unknown>) | null = null;
    store.update = async (...args) => {
      const now = work;
      work = null;
      await now?.();
      return update(...args);
    };
    const hf = await holdfast({ store, jobs, logger: false });
    onTestFinished(() => hf.close());
    return { hf, between: (given) => void (work = given) };
  }
  const failing = job({
    type: "failing",
    retry: { maxAttempts: 5, backoff: { base: 0 } },
    run: () => Promise.reject(new Error("down")),
  });

  it("is not left without attempts", async () => {
    const { hf, between } = await racing([failing]);
    const { id } = await hf.enqueue(failing);
    between(async () => {
      await hf.runNext();
      await hf.runNext();
    });
    await expectRefusal(hf.update(id, { maxAttempts: 1 }), {
      is: InvalidOptionError,
      code: "INVALID_OPTION",
      field: "maxAttempts",
      says: /2 attempts/,
    });
    expect(await jobOf(hf, id)).toMatchObject({ state: "failed", attempt: 2, maxAttempts: 5 });
  });

  it("is left out by an update by filter", async () => {
    const { hf, between } = await racing([failing]);
    const [{ id }] = [await hf.enqueue(failing), await hf.enqueue(failing, undefined, { delay: "1h" })];
    between(() => hf.runNext());
    expect(await hf.update({ type: "failing" }, { maxAttempts: 1 })).toBe(1);
    expect(await jobOf(hf, id)).toMatchObject({ attempt: 1, maxAttempts: 5 });
  });

  it("gets an input that is valid for its new type, or none", async () => {
    const any = job({ type: "any", input: z.object({ n: z.unknown() }), run: () => {} });
    const { hf, between } = await racing([double, any]);
    const options = { delay: "1h", unique: { key: "k", onConflict: "replace" } } as const;
    const { id } = await hf.enqueue(any, { n: 0 }, options);
    between(() => hf.enqueue(double, { n: 1 }, options));
    await expect(hf.update(id, { input: { n: "one" } })).rejects.toBeInstanceOf(InvalidInputError);
    expect(await jobOf(hf, id)).toMatchObject({ type: "double", input: { n: 1 } });
    await hf.enqueue(any, { n: 0 }, options);
    between(() => hf.enqueue(double, { n: 1 }, options));
    await hf.update(id, { input: { n: 2 } });
    expect(await jobOf(hf, id)).toMatchObject({ type: "double", input: { n: 2 } });
  });

  it("is not made due after it expires", async () => {
    const { hf, between } = await racing([cleanup]);
    const { id } = await hf.enqueue(cleanup, undefined, { delay: "1m" });
    between(() => hf.update(id, { expiresAt: Date.now() + HOUR }));
    await expectRefusal(hf.update(id, { delay: "2h" }), {
      is: InvalidOptionError,
      code: "INVALID_OPTION",
      field: "delay",
    });
  });
});
