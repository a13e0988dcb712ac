import { InvalidInputError, InvalidOptionError, job } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { cleanup, double, errorOf, expectRefusal, jobOf, open, untyped } from "./scene.js";

const is = { is: InvalidOptionError, code: "INVALID_OPTION" } as const;
const ID = "018f4d2e-7b3a-7c11-8a55-0123456789ab";

async function messageOf(action: Promise<unknown> | (() => unknown)): Promise<string> {
  return ((await errorOf(action)) as Error).message;
}

describe("a mistaken call says what to do", () => {
  it.each(["list", "count"] as const)("%s refuses a condition that is undefined", async (call) => {
    const { hf } = await open();
    await expectRefusal(untyped(hf)[call]({ user: undefined }), { ...is, field: "user", says: /is undefined/ });
    await expectRefusal(untyped(hf)[call]({ state: "dead", id: undefined }), { ...is, field: "id" });
  });

  it("list accepts options of the page that are undefined", async () => {
    const { hf } = await open();
    expect((await untyped(hf).list({ cursor: undefined, limit: undefined })) as object).toMatchObject({ jobs: [] });
  });

  it.each<[string, "get" | "freeKey" | "pause" | "resume" | "update" | "promote" | "list", unknown[], string]>([
    ["a key that is undefined", "get", [{ key: undefined }], "key is undefined; give it a value"],
    ["a freed key that is undefined", "freeKey", [{ key: undefined }], "key is undefined; give it a value"],
    [
      "a user that is undefined",
      "get",
      [{ key: "k", user: undefined }],
      "user is undefined; give it a value, or leave it out",
    ],
    [
      "an unknown scope",
      "get",
      [{ key: "k", scope: "day" }],
      'scope: "day" is none of "waiting", "live", "forever", { period }, { calendar }',
    ],
    [
      "an unknown calendar",
      "freeKey",
      [{ key: "k", scope: { calendar: "era" } }],
      'scope.calendar: "era" is none of "hour", "day", "week", "month", "year"',
    ],
    [
      "a scope in a filter",
      "list",
      [{ key: { key: "k", scope: { calendar: "era" } } }],
      'key.scope.calendar: "era" is none of "hour", "day", "week", "month", "year"',
    ],
    [
      "a paused queue that is undefined",
      "pause",
      [undefined],
      "queue is undefined; for all queues call pause() without an argument",
    ],
    [
      "a resumed queue that is undefined",
      "resume",
      [undefined],
      "queue is undefined; for all queues call resume() without an argument",
    ],
    ["a queue of spaces", "pause", ["  "], "queue must not consist of spaces only"],
    [
      "an update of several ids",
      "update",
      [[ID], { priority: 1 }],
      "update: for several jobs use a filter: { id: [...] }",
    ],
    ["a promotion of several ids", "promote", [[ID]], "promote: for several jobs use a filter: { id: [...] }"],
    ["a promotion of nothing", "promote", [], "promote needs a job id or a filter"],
    ["an update of nothing", "update", [undefined, { priority: 1 }], "update needs a job id or a filter"],
    [
      "an update by an empty filter",
      "update",
      [{}, { priority: 1 }],
      'filter must contain at least one condition, e.g. { state: "pending" }',
    ],
    [
      "a promotion with a delay",
      "promote",
      [ID, { delay: "1h" }],
      "delay is not an option of promote; known: signal, onProgress, onUnchanged",
    ],
  ])("%s", async (_what, call, args, message) => {
    const { hf } = await open();
    expect(await messageOf(() => untyped(hf)[call](...args))).toBe(message);
  });

  it("a key is found with the scope it was enqueued with", async () => {
    const { hf } = await open();
    for (const scope of ["live", "waiting", "forever", { period: "1h" }] as const) {
      const key = JSON.stringify(scope);
      const { id } = await hf.enqueue(cleanup, {}, { unique: { key, scope } });
      expect((await hf.get({ key, scope }))?.id).toBe(id);
      expect((await hf.list({ key: { key, scope } })).jobs.map((each) => each.id)).toEqual([id]);
      expect(await hf.freeKey({ key, scope })).toBe("held");
    }
  });

  it("an update says what to do with the job", async () => {
    const { hf } = await open({ jobs: [cleanup] });
    const { id } = await hf.enqueue(cleanup);
    const [lease] = await hf.claim();
    expect(await messageOf(hf.update(id, { priority: 1 }))).toBe(
      `job ${id} is claimed; only a pending or failed job can be updated; stop it first with hf.cancel(id)`,
    );
    await lease?.complete();
    expect(await messageOf(hf.update(id, { priority: 1 }))).toBe(
      `job ${id} is completed; only a pending or failed job can be updated; hf.rerun(id) enqueues a copy`,
    );
  });

  it("options in place of the input are recognized", async () => {
    const { hf } = await open({ jobs: [cleanup] });
    const error = await errorOf(untyped(hf).enqueue(cleanup, { delay: "1h" }));
    expect(error).toBeInstanceOf(InvalidInputError);
    expect((error as Error).message).toContain("pass the options after the input: enqueue(cleanup, {}, { delay })");
    expect(await messageOf(untyped(hf).enqueue(cleanup, { to: "ada" }))).not.toContain("pass the options");
  });

  it.each<[string, object, string]>([
    ["no retries", { retry: false }, "for a single attempt pass { maxAttempts: 1 }"],
    ["a backoff of its own", { backoff: { base: "1s" } }, "did you mean retry.backoff?"],
    ["attempts of its own", { maxAttempts: 3 }, "did you mean retry.maxAttempts?"],
    ["a timeout of none", { timeout: "none" }, "; for no timeout pass false"],
    ["a timeout of 0", { timeout: 0 }, "timeout must be longer than 0; for no timeout pass false"],
    ["a queue of spaces", { queue: " " }, "queue must not consist of spaces only"],
  ])("job() with %s", async (_what, options, says) => {
    expect(await messageOf(() => job({ type: "a", run: () => {}, ...options } as never))).toContain(says);
  });

  it("a percentage in place of a fraction", async () => {
    const steps = job({ type: "steps", run: ({ progress }) => progress(50) });
    const { hf } = await open({ jobs: [steps] });
    const { id } = await hf.enqueue(steps);
    await hf.runNext();
    expect((await jobOf(hf, id)).error?.message).toBe("progress: 50 is not a fraction from 0 to 1; for 50 % pass 0.5");
  });

  it("a failed backoff function is logged as such", async () => {
    const logged: string[] = [];
    const log = (_fields: unknown, message: string): void => void logged.push(message);
    const logger = { info: () => {}, warn: () => {}, error: log };
    const failing = (backoff: () => never) =>
      job({ type: "failing", retry: { backoff }, run: () => Promise.reject(new Error("down")) });
    for (const backoff of [() => raise("boom"), () => "soon" as never]) {
      const { hf } = await open({ jobs: [failing(backoff)], logger });
      await hf.enqueueNamed("failing");
      await hf.runNext();
    }
    expect(logged).toEqual([
      "the backoff function failed; retrying in 30 s",
      "the backoff function returned no valid delay; retrying in 30 s",
    ]);
  });
});

describe("an input path", () => {
  it.each([
    ["$.order.id", "write order.id"],
    ["$", "leave the path out for the whole input"],
    ["items[0]", "write items.0"],
    ["$['a.b'][0].sku", 'write ["a.b",0,"sku"]'],
    ["items.*", "write a position, e.g. items.0, or search below items with text"],
    ["items[*].sku", "write a position, e.g. items.0.sku, or search below items with text"],
  ])("%s is refused with the right form", async (path, says) => {
    const { hf } = await open();
    expect(await messageOf(hf.list({ input: { path, text: "a" } }))).toBe(
      `input.path: ${JSON.stringify(path)} looks like JSONPath; ${says}`,
    );
  });

  it("may be an array, for names with dots", async () => {
    const any = job({ type: "any", input: z.unknown(), run: () => {} });
    const { hf } = await open({ jobs: [any] });
    const { id } = await hf.enqueue(any, { "a.b": [{ "c[0]": 1, $ref: 2 }] });
    for (const condition of [
      { path: ["a.b", 0, "c[0]"], equals: 1 },
      { path: ["a.b", "0", "$ref"], equals: 2 },
      { path: ["a.b"], text: "ref" },
    ])
      expect((await hf.list({ input: condition as never })).jobs.map((each) => each.id)).toEqual([id]);
    for (const path of [[], [""], [-1], [1.5], [null], Array.from({ length: 101 }, () => "a")])
      await expectRefusal(hf.list({ input: { path: path as never, text: "a" } }), { ...is, field: "input.path" });
  });

  it("has exactly one of equals and text", async () => {
    const { hf } = await open();
    for (const condition of [{}, { equals: 1, text: "1" }])
      expect(await messageOf(hf.list({ input: condition as never }))).toMatch(
        /^input must have exactly one of equals and text/,
      );
  });
});

describe("an update with the job type", () => {
  it("checks the type of the job and the input", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(double, { n: 1 }, { delay: "1h" });
    await hf.update(double, id, { input: { n: 2 }, priority: 3 });
    expect(await jobOf(hf, id)).toMatchObject({ input: { n: 2 }, priority: 3 });
    expect(await messageOf(hf.update(cleanup, id, { priority: 1 }))).toBe(
      `type: job ${id} is of type double, not cleanup`,
    );
    expect(await errorOf(hf.update(double, id, { input: { n: "x" } as never }))).toBeInstanceOf(InvalidInputError);
    expect(await messageOf(untyped(hf).update(double, { state: "pending" }, { priority: 1 }))).toMatch(/^id: /);
    expect(await jobOf(hf, id)).toMatchObject({ input: { n: 2 }, priority: 3 });
  });
});

it("forUser counts the jobs of the user", async () => {
  const { hf } = await open();
  await hf.enqueue(cleanup, {}, { user: "ada" });
  await hf.enqueue(cleanup, {}, { user: "bob" });
  const ada = hf.forUser("ada");
  expect(await ada.count()).toEqual({ count: 1, exact: true });
  expect(await ada.count({ type: cleanup }, { atMost: 5 })).toEqual({ count: 1, exact: true });
  await expectRefusal(ada.count({ user: "bob" } as never), { ...is, field: "user" });
});

it("a type can keep its jobs forever", async () => {
  const kept = job({ type: "kept", retention: { completed: false }, run: () => {} });
  const { hf, clock } = await open({ jobs: [kept, cleanup], retention: { completed: "1h" } });
  const { id } = await hf.enqueue(kept);
  const { id: other } = await hf.enqueue(cleanup);
  await hf.drain();
  await clock.advance("400d");
  await hf.maintain();
  expect([await hf.get(id), await hf.get(other)]).toMatchObject([{ state: "completed" }, null]);
});

function raise(message: string): never {
  throw new Error(message);
}
