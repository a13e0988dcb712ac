import { InvalidOptionError, job, type Holdfast, type ListOptions, type Store } from "holdfast";
import { sqlite } from "holdfast/sqlite";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { cleanup, errorOf, expectRefusal, open } from "./scene.js";

const order = job({
  type: "order",
  input: z.object({
    order: z.object({ id: z.string(), lines: z.array(z.object({ sku: z.string() })) }),
    at: z.string().optional(),
  }),
  run: () => {},
});
const input = (n: number) => ({ order: { id: `o-${n}`, lines: [{ sku: `Sku-${n}` }] } });

async function filled(count: number): Promise<Awaited<ReturnType<typeof open>>> {
  const opened = await open({ jobs: [order] });
  await opened.hf.enqueueMany(
    order,
    Array.from({ length: count }, (_, n) => input(n)),
  );
  return opened;
}

describe("a search by input", () => {
  it.each([
    ["a value at a path", { path: "order.id", equals: "o-17" }],
    ["a value in an array", { path: "order.lines.0.sku", equals: "Sku-17" }],
    ["an object", { path: "order", equals: { lines: [{ sku: "Sku-17" }], id: "o-17" } }],
    ["the whole input", { equals: input(17) }],
    ["text in any case", { text: "SKU-17" }],
    ["text below a path", { path: "order.lines", text: "sku-17" }],
  ])("finds %s", async (_what, condition) => {
    const { hf } = await filled(40);
    const { jobs, cursor, examined } = await hf.list({ input: condition });
    expect(jobs.map((each) => each.input)).toEqual([input(17)]);
    expect([cursor, examined]).toEqual([null, 40]);
  });

  it("finds keys and numbers by text", async () => {
    const any = job({ type: "any", input: z.unknown(), run: () => {} });
    const { hf } = await open({ jobs: [any] });
    await hf.enqueue(any, { "customer-9": 1, n: 4711, ok: true });
    for (const text of ["CUSTOMER-9", "4711", "true"])
      expect((await hf.list({ input: { text } })).jobs).toHaveLength(1);
    expect((await hf.list({ input: { text: "4712" } })).jobs).toEqual([]);
  });

  it("distinguishes missing, null and other values", async () => {
    const any = job({ type: "any", input: z.unknown(), run: () => {} });
    const { hf } = await open({ jobs: [any] });
    for (const value of [null, 0, "", "0", false, [], {}]) await hf.enqueue(any, { value });
    await hf.enqueue(any, {});
    for (const equals of [null, 0, "", "0", false, [], {}]) {
      const { jobs } = await hf.list({ input: { path: "value", equals } });
      expect(jobs.map((each) => each.input)).toEqual([{ value: equals }]);
    }
    expect((await hf.list({ input: { path: "__proto__", text: "a" } })).jobs).toEqual([]);
  });

  it("examines a bounded number of jobs and continues by cursor", async () => {
    const { hf } = await filled(2_500);
    const first = await hf.list({ input: { path: "order.id", equals: "o-3" } });
    expect([first.jobs, first.examined]).toEqual([[], 2_000]);
    const second = await hf.list({ input: { path: "order.id", equals: "o-3" }, cursor: first.cursor });
    expect(second.jobs.map((each) => each.input)).toEqual([input(3)]);
    expect([second.cursor, second.examined]).toEqual([null, 500]);
  });

  it("returns each match once, page by page", async () => {
    const { hf } = await filled(450);
    for (const direction of ["newest", "oldest"] as const) {
      const found: string[] = [];
      let cursor: string | null = null;
      do {
        const page: Awaited<ReturnType<typeof hf.list>> = await hf.list({
          input: { text: "o-1" },
          limit: 7,
          cursor,
          order: direction,
        });
        found.push(...page.jobs.map((each) => (each.input as ReturnType<typeof input>).order.id));
        cursor = page.cursor;
      } while (cursor !== null);
      const expected = Array.from({ length: 450 }, (_, n) => `o-${n}`).filter((id) => id.startsWith("o-1"));
      expect(found).toEqual(direction === "oldest" ? expected : expected.toReversed());
    }
  });

  it("works with other conditions, counts and bulk changes", async () => {
    const { hf } = await filled(30);
    await hf.enqueue(cleanup, {}, { tags: ["o-1"] });
    const condition = { path: "order.id", equals: "o-7" };
    expect(await hf.count({ type: "order", input: condition })).toEqual({ count: 1, exact: true });
    expect(await hf.count({ type: "cleanup", input: condition })).toEqual({ count: 0, exact: true });
    expect(await hf.cancel({ input: condition })).toBe(1);
    expect(await hf.update({ input: { text: "o-2" }, state: "pending" }, { priority: 5 })).toBe(11);
    expect((await hf.list({ priority: 5, payloads: false, input: { text: "o-2" } })).jobs[0]?.input).toBeNull();
  });

  it.each([
    ["no condition", {}, "input", /exactly one of equals and text/],
    ["two conditions", { equals: 1, text: "1" }, "input", /exactly one of equals and text/],
    ["a misspelt field", { paht: "a", text: "b" }, "input.paht", /did you mean path\?/],
    ["an empty path", { path: "", text: "a" }, "input.path", /non-empty/],
    ["a path with an empty part", { path: "a..b", text: "a" }, "input.path", /is not a path/],
    ["a path that is none", { path: 7, text: "a" }, "input.path", /non-empty string/],
    ["a string of 1 MB", { text: "x".repeat(1_000_000) }, "input.text", /the limit is 1000/],
    ["a value of 1 MB", { equals: "x".repeat(1_000_000) }, "input.equals", /the limit is 10000/],
    ["a value that is no JSON", { equals: 1n }, "input.equals", /BigInt/],
  ])("%s is refused", async (_what, condition, field, says) => {
    const { hf } = await open();
    await expectRefusal(hf.list({ input: condition as never }), {
      is: InvalidOptionError,
      code: "INVALID_OPTION",
      field,
      says,
    });
  });
});

/** A store in memory whose calls of `list` are recorded, with the bytes of the inputs that they read; `before` runs before each. */
function watched(before: (call: number) => Promise<unknown> = async () => {}): {
  store: Store;
  limits: number[];
  read: number[];
} {
  const store = sqlite(":memory:");
  const list = store.list.bind(store);
  const limits: number[] = [];
  const read: number[] = [];
  store.list = async (filter, page) => {
    limits.push(page.limit);
    await before(limits.length);
    const result = await list(filter, page);
    read.push(result.jobs.reduce((sum, { input: text }) => sum + text.length, 0));
    return result;
  };
  return { store, limits, read };
}

describe("a search while jobs change", () => {
  it.each([1, 3, 5])("skips no job that still matches, in pages of %d", async (limit) => {
    let change = async (): Promise<unknown> => undefined;
    const { store, limits } = watched(async (call) => call === 2 && change());
    const { hf } = await open({ store, jobs: [order] });
    const ids: string[] = [];
    for (let n = 0; n < 20; n++) ids.push((await hf.enqueue(order, input(n))).id);
    change = () => hf.cancel(ids.slice(17));
    const options: ListOptions = { state: "pending", input: { text: "o-1" }, limit };
    const found: string[] = [];
    limits.length = 0;
    for await (const page of pages(hf, options)) found.push(...page.jobs.map((each) => each.id));
    const left = ids.filter((_, n) => n === 1 || (n >= 10 && n < 17)).toReversed();
    expect(found.filter((id) => left.includes(id))).toEqual(left);
    expect(new Set(found).size).toBe(found.length);
  });
});

async function* pages(hf: Holdfast, options: ListOptions): AsyncGenerator<Awaited<ReturnType<Holdfast["list"]>>> {
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Holdfast["list"]>> = await hf.list({ ...options, cursor });
    yield page;
    cursor = page.cursor;
  } while (cursor !== null);
}

describe("a search among large inputs", () => {
  const large = job({ type: "large", input: z.string(), run: () => "y".repeat(200_000) });

  it("reads as many jobs as its limit of bytes allows", async () => {
    const { store, limits } = watched();
    const { hf } = await open({ store, jobs: [large] });
    for (let n = 0; n < 60; n++) await hf.enqueue(large, "x".repeat(200_000));
    await hf.drain();
    limits.length = 0;
    const { examined } = await hf.list({ input: { text: "z" } });
    expect(limits[0]).toBe(5);
    expect(Math.max(...limits.slice(1))).toBeLessThanOrEqual(2);
    expect(examined * 400_000).toBeLessThan(9_000_000);
  });

  it("reads no large page after many small jobs", async () => {
    const { store, read } = watched();
    const { hf } = await open({ store, jobs: [large, order] });
    await hf.enqueueMany(
      large,
      Array.from({ length: 60 }, () => "x".repeat(200_000)),
    );
    await hf.enqueueMany(
      order,
      Array.from({ length: 155 }, (_, n) => input(n)),
    );
    read.length = 0;
    const { examined } = await hf.list({ input: { text: "z" } });
    expect(Math.max(...read)).toBeLessThanOrEqual(1_000_000);
    expect(read.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThanOrEqual(8_200_000);
    expect(examined).toBeGreaterThan(155);
  });

  it("by error reads only the payloads of the jobs that it finds", async () => {
    const failing = job({
      type: "failing",
      input: z.string(),
      retry: { maxAttempts: 1 },
      run: ({ input: text }) => {
        throw new Error(`failed at ${text[0]}`);
      },
    });
    const { store, read } = watched();
    const { hf } = await open({ store, jobs: [failing] });
    for (const letter of ["a", "b", "c", "d"]) await hf.enqueue(failing, letter.repeat(10_000));
    await hf.drain();
    read.length = 0;
    const { jobs, examined } = await hf.list({ error: "failed at c" });
    expect([jobs.map((each) => each.input), examined]).toEqual([["c".repeat(10_000)], 4]);
    expect(read.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(11_000);
    expect((await hf.list({ error: "failed at c", payloads: false })).jobs[0]?.input).toBeNull();
  });

  it("lets other work of the process run between pages", async () => {
    const { hf } = await filled(1_000);
    let turns = 0;
    let isDone = false;
    const count = (): void => void (isDone || (turns++, setImmediate(count)));
    setImmediate(count);
    await hf.list({ input: { text: "none" } });
    isDone = true;
    expect(turns).toBeGreaterThan(5);
  });
});

describe("list", () => {
  it("filters by id, priority and parent", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(cleanup, {}, { priority: 5 });
    const other = await hf.enqueue(cleanup);
    expect((await hf.list({ priority: 5 })).jobs.map((each) => each.id)).toEqual([id]);
    expect((await hf.list({ id: [other.id, id], order: "oldest" })).jobs.map((each) => each.id)).toEqual([
      id,
      other.id,
    ]);
    expect((await hf.list({ parent: id })).jobs).toEqual([]);
  });

  it.each([
    ["an unknown order", { order: "random" }, "order"],
    ["an id that is none", { id: "x" }, "id"],
    ["too many ids", { id: Array.from({ length: 1_001 }, () => "018f4d2e-7b3a-7c11-8a55-0123456789ab") }, "id"],
    ["a parent that is none", { parent: "me" }, "parent"],
    ["a priority out of range", { priority: 101 }, "priority"],
    ["an empty key", { key: "" }, "key"],
    ["a key without its scope", { key: { key: "k" } }, "key.scope"],
  ])("refuses %s", async (_what, options, field) => {
    const { hf } = await open();
    await expectRefusal(hf.list(options as never), { is: InvalidOptionError, code: "INVALID_OPTION", field });
  });

  it("refuses a cursor of other conditions, of another order or another store", async () => {
    const { hf } = await open();
    for (let n = 0; n < 3; n++) await hf.enqueue(cleanup, {}, { user: "ada" });
    const { cursor } = await hf.list({ limit: 1, user: "ada" });
    for (const other of [
      {},
      { user: "bob" },
      { user: "ada", order: "oldest" as const },
      { user: "ada", priority: 0 },
    ]) {
      await expect(hf.list({ ...other, cursor })).rejects.toThrow(/^cursor belongs to a list with other conditions/);
    }
    const search = { user: "ada", input: { text: "n" } };
    await expect(hf.list({ ...search, cursor })).rejects.toThrow(/^cursor belongs to a list with other conditions/);
    expect((await hf.list({ limit: 2, user: "ada", cursor })).jobs).toHaveLength(2);
    const elsewhere = await open();
    await expect(elsewhere.hf.list({ user: "ada", cursor })).rejects.toThrow(
      /^cursor is not a cursor of an earlier page/,
    );
  });
});

describe("count", () => {
  it("is exact up to its limit", async () => {
    const { hf } = await open();
    await hf.enqueueMany(
      cleanup,
      Array.from({ length: 30 }, () => undefined),
      { each: (_, n) => ({ tags: n < 20 ? ["a"] : [] }) },
    );
    expect(await hf.count()).toEqual({ count: 30, exact: true });
    expect(await hf.count({ tag: "a" })).toEqual({ count: 20, exact: true });
    expect(await hf.count({ tag: "a" }, { atMost: 20 })).toEqual({ count: 20, exact: true });
    expect(await hf.count({ tag: "a" }, { atMost: 19 })).toEqual({ count: 19, exact: false });
    expect(await hf.count({ state: "pending", type: cleanup }, { atMost: 5 })).toEqual({ count: 5, exact: false });
    expect(await hf.count({ state: "dead" })).toEqual({ count: 0, exact: true });
    expect(await hf.count({ key: "none" })).toEqual({ count: 0, exact: true });
  });

  it("by input goes on to its limit", async () => {
    const { hf } = await filled(2_500);
    const condition = { path: "order.lines.0.sku", text: "sku" };
    expect(await hf.count({ input: condition })).toEqual({ count: 2_500, exact: true });
    expect(await hf.count({ input: condition }, { atMost: 2_200 })).toEqual({ count: 2_200, exact: false });
  });

  it("ends after a limited time, whatever its limit", async () => {
    let spentMs = 0;
    const fake = fakeClock();
    const store = sqlite(":memory:");
    const skip = (store.skip as NonNullable<Store["skip"]>).bind(store);
    const limits: number[] = [];
    store.skip = async (filter, page) => {
      limits.push(page.limit);
      spentMs += 10;
      return skip(filter, page);
    };
    const { hf } = await open({ store, clock: { ...fake, monotonic: () => fake.monotonic() + spentMs } });
    await hf.enqueueMany(
      cleanup,
      Array.from({ length: 7_000 }, () => undefined),
      { tags: ["a"] },
    );
    expect(await hf.count({ tag: "a" }, { atMost: 1_000_000_000 })).toEqual({ count: 6_000, exact: false });
    expect(limits).toEqual([2_000, 2_000, 2_000]);
  });

  it("begins no store call that would end too late", async () => {
    let spentMs = 0;
    const fake = fakeClock();
    const store = sqlite(":memory:");
    const [list, skip] = [store.list.bind(store), (store.skip as NonNullable<Store["skip"]>).bind(store)];
    const calls = { list: 0, skip: 0 };
    store.skip = async (filter, page) => {
      calls.skip++;
      spentMs += 22;
      return skip(filter, page);
    };
    store.list = async (filter, page) => {
      calls.list++;
      spentMs += 22;
      return list(filter, page);
    };
    const { hf } = await open({ store, clock: { ...fake, monotonic: () => fake.monotonic() + spentMs } });
    await hf.enqueueMany(
      cleanup,
      Array.from({ length: 5_000 }, () => undefined),
      { tags: ["a"] },
    );
    expect(await hf.count({ tag: "a" })).toEqual({ count: 2_000, exact: false });
    calls.list = 0;
    await hf.list({ input: { text: "none" } });
    // The first page of a search is small, however long it takes.
    expect(calls).toEqual({ list: 2, skip: 1 });
  });

  it.each([[0], [1.5], ["all"]])("refuses atMost %j", async (atMost) => {
    const { hf } = await open();
    expect(await errorOf(hf.count({}, { atMost: atMost as never }))).toMatchObject({ field: "atMost" });
  });
});

describe("a search by error", () => {
  it("finds text of the message or code, in any case", async () => {
    const failing = job({
      type: "failing",
      input: z.object({ message: z.string(), code: z.string().optional() }),
      retry: { maxAttempts: 1 },
      run: ({ input: { message, code } }) => {
        throw Object.assign(new Error(message), code === undefined ? {} : { code });
      },
    });
    const { hf } = await open({ jobs: [failing, order] });
    await hf.enqueueMany(failing, [
      { message: "Request Timeout after 30 s" },
      { message: "no route", code: "ETIMEDOUT" },
      { message: "bad address" },
    ]);
    await hf.drain();
    await hf.enqueueMany(order, [input(1), input(2)]);
    const found = async (options: ListOptions): Promise<unknown[]> =>
      (await hf.list(options)).jobs.map(({ error }) => error?.message ?? null).toReversed();
    expect(await found({ error: "TIME" })).toEqual(["Request Timeout after 30 s", "no route"]);
    expect(await found({ error: "timeout" })).toEqual(["Request Timeout after 30 s"]);
    expect(await found({ error: "etimedout", payloads: false })).toEqual(["no route"]);
    expect(await found({ error: "time", input: { path: "message", text: "route" } })).toEqual(["no route"]);
    expect(await found({ error: "time", state: "pending" })).toEqual([]);
    expect(await hf.list({ error: "nothing" })).toEqual({ jobs: [], cursor: null, examined: 5 });
    expect(await hf.count({ error: "time" })).toEqual({ count: 2, exact: true });
    expect(await hf.count({ error: "time" }, { atMost: 1 })).toEqual({ count: 1, exact: false });
    expect(await hf.retry({ error: "Bad Address" })).toBe(1);
    // A retry clears the error.
    expect(await found({ error: "bad" })).toEqual([]);
  });

  it("continues at its cursor, which belongs to the text", async () => {
    const failing = job({
      type: "failing",
      input: z.number(),
      retry: { maxAttempts: 1 },
      run: ({ input: n }) => {
        throw new Error(`${n % 2 === 0 ? "even" : "odd"} ${n}`);
      },
    });
    const { hf } = await open({ jobs: [failing] });
    await hf.enqueueMany(
      failing,
      Array.from({ length: 9 }, (_, n) => n),
    );
    await hf.drain();
    const first = await hf.list({ error: "even", limit: 2 });
    const second = await hf.list({ error: "even", limit: 9, cursor: first.cursor });
    expect([...first.jobs, ...second.jobs].map((each) => each.input)).toEqual([8, 6, 4, 2, 0]);
    await expect(hf.list({ error: "odd", cursor: first.cursor })).rejects.toMatchObject({ field: "cursor" });
    for (const error of ["", 5, "x".repeat(1_001)])
      await expect(hf.list({ error: error as string })).rejects.toMatchObject({ field: "error" });
  });
});
