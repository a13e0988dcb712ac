import { holdfast, job, type Holdfast, type JobType, type ListOptions } from "holdfast";
import { dynamodb, type DynamoOptions, type DynamoStore } from "holdfast/dynamodb";
import type { JobFilter, JobPage, StoredJob } from "holdfast/store";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { addAll, claim, finish, newJob, newJobs } from "#src/testing/exercise-store/builders.js";
import { Meter } from "./meter.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();
const SHARDS = 8;
const MAX_REQUESTS = 10;

interface Metered {
  meter: Meter;
  open: (options?: DynamoOptions) => DynamoStore;
  /** The number of requests of a call. */
  sent: (call: () => Promise<unknown>) => Promise<number>;
}

async function metered(shards = SHARDS): Promise<Metered> {
  const table = server.newTable();
  const meter = new Meter();
  const stores: DynamoStore[] = [];
  const open = (options: DynamoOptions = {}): DynamoStore => {
    const store = dynamodb({ client: meter.watch(server.client()), table, shards, ...options });
    stores.push(store);
    return store;
  };
  onTestFinished(async () => {
    for (const store of stores) await store.close();
    await server.drop(table);
  });
  await open().migrate();
  const sent = async (call: () => Promise<unknown>): Promise<number> => {
    meter.reset();
    await call();
    return [...meter.requests.values()].reduce((sum, each) => sum + each, 0);
  };
  return { meter, open, sent };
}

const ofType = (n: number): JobType<{ to: string }, void> =>
  job({ type: `t${n}`, input: z.object({ to: z.string() }), run: () => {} });

interface Scene extends Metered {
  hf: Holdfast;
  types: JobType<{ to: string }, void>[];
}

async function openClient(types: number): Promise<Scene> {
  const scene = await metered();
  const defined = Array.from({ length: types }, (_, n) => ofType(n));
  const hf = await holdfast({ store: scene.open(), jobs: defined, logger: false });
  onTestFinished(() => hf.close());
  // Once for each table.
  await scene.open().cursorKey();
  return { ...scene, hf, types: defined };
}

interface Walk {
  ids: string[];
  calls: number;
  mostRequests: number;
}

/** Every page of a list, and the most requests of a call. */
async function walk({ hf, sent }: Scene, options: ListOptions): Promise<Walk> {
  const result: Walk = { ids: [], calls: 0, mostRequests: 0 };
  let cursor: string | null = null;
  do {
    const requests = await sent(async () => {
      const page: Awaited<ReturnType<Holdfast["list"]>> = await hf.list({ ...options, cursor });
      result.ids.push(...page.jobs.map(({ id }) => id));
      ({ cursor } = page);
    });
    result.calls++;
    result.mostRequests = Math.max(result.mostRequests, requests);
  } while (cursor !== null);
  return result;
}

describe("requests of a search or a count, 8 shards", () => {
  // More than 512 bytes, so that inputs are in separate items.
  const large = "x".repeat(600);

  it("at most 10 without conditions, and each job once", { timeout: 60_000 }, async () => {
    const scene = await openClient(5);
    const { hf, types, sent } = scene;
    const ids: string[] = [];
    for (const type of types) {
      const inputs = Array.from({ length: 60 }, (_, n) => ({ to: n % 10 === 0 ? `ada ${large}` : `bob ${large}` }));
      ids.push(...(await hf.enqueueMany(type, inputs, { tags: ["x"] })).map((result) => result.id ?? ""));
    }
    for (const text of ["ada", "bob", "none"]) {
      for (const limit of [1_000, 3]) {
        const found = await walk(scene, { input: { text }, limit });
        expect(found.mostRequests).toBeLessThanOrEqual(MAX_REQUESTS);
        const expected = ids.filter((_, n) => text === ((n % 60) % 10 === 0 ? "ada" : "bob"));
        expect(found.ids.toSorted()).toEqual(expected.toSorted());
      }
    }
    const one = await walk(scene, { type: "t0", input: { text: "ada" }, limit: 1 });
    expect([one.ids.length, one.mostRequests <= MAX_REQUESTS]).toEqual([6, true]);
    for (const filter of [{ tag: "x" }, { type: "t0", tag: "x" }, { tag: "none" }, { input: { text: "none" } }])
      expect(await sent(() => hf.count(filter))).toBeLessThanOrEqual(MAX_REQUESTS);
    expect(await sent(() => hf.list({ type: "t0", state: "dead", input: { text: "none" } }))).toBeLessThanOrEqual(
      MAX_REQUESTS,
    );
  });

  it("at most 10 to count the jobs of a state in one lane", { timeout: 60_000 }, async () => {
    const { hf, types, sent } = await openClient(2);
    for (const type of types) await hf.enqueueMany(type, [{ to: "a" }, { to: "b" }, { to: "c" }]);
    await hf.cancel((await hf.list({ limit: 1 })).jobs.map(({ id }) => id));
    for (const [state, count] of [
      ["pending", 5],
      ["failed", 0],
      ["dead", 0],
      ["cancelled", 1],
      ["completed", 0],
    ] as const) {
      expect(await sent(() => hf.count({ state }))).toBeLessThanOrEqual(MAX_REQUESTS);
      expect((await hf.count({ state })).count).toBe(count);
    }
  });

  it("at most 10 to count by state in any number of lanes", { timeout: 60_000 }, async () => {
    const { hf, types, sent } = await openClient(2);
    const [type] = types as [JobType<{ to: string }, void>];
    for (let n = 0; n < 60; n++) await hf.enqueue(type, { to: "a" }, { queue: `q${n % 3}`, priority: n % 2 });
    await hf.cancel((await hf.list({ limit: 5 })).jobs.map(({ id }) => id));
    for (const filter of [
      {},
      { state: "pending" as const },
      { state: "running" as const },
      { state: "dead" as const },
    ]) {
      const counted = await hf.count(filter);
      expect(await sent(() => hf.count(filter))).toBeLessThanOrEqual(MAX_REQUESTS);
      expect(counted.count).toBeLessThanOrEqual(60);
    }
    // 48 partitions, of which 9 are read.
    const pending = await hf.count({ state: "pending" });
    expect(pending.count).toBeGreaterThan(0);
    expect(pending.exact).toBe(false);
    // A queue has 8 partitions for each priority: those of one priority are read, and one of the other.
    expect((await hf.count({ state: "pending", queue: "q0" })).exact).toBe(false);
    expect(await hf.count({ state: "dead" })).toEqual({ count: 0, exact: true });
    expect((await hf.stats()).states.pending).toBe(55);
  });

  it("at most 10 to count running jobs", { timeout: 60_000 }, async () => {
    const { hf, types, sent, open } = await openClient(1);
    const [type] = types as [JobType<{ to: string }, void>];
    const store = open();
    const running = async (count: number): Promise<void> => {
      await hf.enqueueMany(
        type,
        Array.from({ length: count }, () => ({ to: "a" })),
      );
      const claimed = await claim(store, { limit: count });
      expect(claimed).toHaveLength(count);
      await store.start(claimed.slice(20).map((each) => ({ ...each, startedAt: 0 })));
    };
    await running(90);
    expect(await hf.count({ state: "claimed" })).toEqual({ count: 20, exact: true });
    expect(await hf.count({ state: "running" })).toEqual({ count: 70, exact: true });
    expect(await hf.count({ state: ["claimed", "running"] })).toEqual({ count: 90, exact: true });
    await running(60);
    // Whether a job was started is in the job, and one request reads 100 of them.
    const { count, exact } = await hf.count({ state: "running" });
    expect([count >= 60 && count < 110, exact]).toEqual([true, false]);
    expect(await hf.count({ state: ["claimed", "running"] })).toEqual({ count: 150, exact: true });
    expect(await sent(() => hf.count({ state: "running" }))).toBeLessThanOrEqual(MAX_REQUESTS);
  });

  it("at most 10 with 40 types", { timeout: 60_000 }, async () => {
    const scene = await openClient(40);
    const ids: string[] = [];
    for (const type of scene.types) ids.push((await scene.hf.enqueue(type, { to: large })).id);
    const found = await walk(scene, { input: { text: "x" } });
    expect(found.mostRequests).toBeLessThanOrEqual(MAX_REQUESTS);
    expect(found.ids.toSorted()).toEqual(ids.toSorted());
  });

  it("at most 10 for live states in 10 lanes", { timeout: 60_000 }, async () => {
    const scene = await openClient(2);
    const { hf, types, sent } = scene;
    const ids: string[] = [];
    for (let n = 0; n < 100; n++) {
      const options = { queue: `q${n % 5}`, priority: n % 10 < 5 ? 0 : 1, tags: ["x"] };
      ids.push((await hf.enqueue(types[n % 2] as JobType<{ to: string }, void>, { to: large }, options)).id);
    }
    const found = await walk(scene, { state: ["pending", "failed"], input: { text: "x" } });
    expect(found.mostRequests).toBeLessThanOrEqual(MAX_REQUESTS);
    expect(found.ids.toSorted()).toEqual(ids.toSorted());
    expect(await sent(() => hf.count({ state: "pending", tag: "x" }))).toBeLessThanOrEqual(MAX_REQUESTS);
  });

  it("at most 10 if other conditions match few jobs", { timeout: 60_000 }, async () => {
    const scene = await openClient(1);
    const { hf, types } = scene;
    const [type] = types as [JobType<{ to: string }, void>];
    const ids: string[] = [];
    for (let n = 0; n < 10; n++) {
      const [first] = await hf.enqueueMany(type, [{ to: "y" }], { tags: ["rare"], user: "ada" });
      ids.push(first?.id ?? "");
      const inputs = Array.from({ length: 100 }, () => ({ to: "x" }));
      await hf.enqueueMany(type, inputs, { user: "ada" });
    }
    for (const options of [{ type: "t0" }, { user: "ada" }, { state: "pending" as const }]) {
      const found = await walk(scene, { ...options, tag: "rare", input: { text: "y" } });
      expect(found.mostRequests).toBeLessThanOrEqual(MAX_REQUESTS);
      expect(found.ids.toSorted()).toEqual(ids.toSorted());
      expect(await scene.sent(() => hf.count({ ...options, tag: "rare" }))).toBeLessThanOrEqual(MAX_REQUESTS);
    }
  });
});

it("a bulk change by input changes each job once", { timeout: 30_000 }, async () => {
  const { hf, types } = await openClient(1);
  const [type] = types as [JobType<{ to: string }, void>];
  const inputs = Array.from({ length: 130 }, () => ({ to: "ada" }));
  await hf.enqueueMany(type, inputs);
  // It moves each job to a later place.
  const changed = await hf.update(
    { state: "pending", input: { text: "ada" } },
    { delay: "1h" },
    { onProgress: ({ examined }) => expect(examined).toBeLessThanOrEqual(130) },
  );
  expect(changed).toBe(130);
});

/** Every page of a list in any order. */
async function all(store: DynamoStore, filter: JobFilter, limit: number): Promise<StoredJob[]> {
  const found: StoredJob[] = [];
  let cursor: string | null = null;
  do {
    const page: JobPage = await store.list(filter, { limit, cursor, anyOrder: true });
    found.push(...page.jobs);
    ({ cursor } = page);
  } while (cursor !== null);
  return found;
}

const idsOf = (jobs: readonly { id: string }[]): string[] => jobs.map(({ id }) => id).toSorted();

describe("a list in any order", () => {
  it("is in order if it is in few partitions", async () => {
    const { open } = await metered(2);
    const store = open();
    const added: string[] = [];
    for (let n = 0; n < 12; n++) added.unshift(...(await addAll(store, [newJob()])));
    expect((await all(store, {}, 5)).map(({ id }) => id)).toEqual(added);
  });

  it("continues if types are added after a page in order", async () => {
    const { open } = await metered(2);
    const store = open();
    const added: string[] = [];
    for (let n = 0; n < 20; n++) added.unshift(...(await addAll(store, [newJob({ type: "a" })])));
    const first: JobPage = await store.list({}, { limit: 5, cursor: null, anyOrder: true });
    const types = Array.from({ length: 9 }, (_, n) => `later${n}`);
    await addAll(
      store,
      types.map((type) => newJob({ type })),
    );
    const found = first.jobs.map(({ id }) => id);
    let { cursor } = first;
    while (cursor !== null) {
      const page: JobPage = await store.list({}, { limit: 5, cursor, anyOrder: true });
      found.push(...page.jobs.filter(({ type }) => type === "a").map(({ id }) => id));
      ({ cursor } = page);
    }
    expect(found.toSorted()).toEqual(added.toSorted());
  });

  it("reads more ids than one request returns", async () => {
    const { open, sent } = await metered(1);
    const store = open();
    const jobs = newJobs(250, { input: JSON.stringify("x".repeat(600)) });
    await addAll(store, jobs);
    const ids = jobs.map(({ id }) => id);
    expect(idsOf(await all(store, { ids }, 30))).toEqual(ids.toSorted());
    expect(await sent(() => store.list({ ids }, { limit: 100, cursor: null, anyOrder: true }))).toBeLessThanOrEqual(2);
  });

  it("reads at most 8 MB of inputs per page", { timeout: 30_000 }, async () => {
    const { open, sent } = await metered(1);
    const store = open();
    for (let n = 0; n < 30; n++) await addAll(store, [newJob({ input: JSON.stringify("x".repeat(390_000)) })]);
    const pages: number[] = [];
    let cursor: string | null = null;
    do {
      const requests = await sent(async () => {
        const page: JobPage = await store.list({}, { limit: 100, cursor, anyOrder: true });
        pages.push(page.jobs.length);
        ({ cursor } = page);
      });
      expect(requests).toBeLessThanOrEqual(MAX_REQUESTS);
    } while (cursor !== null);
    expect(pages).toEqual([20, 10]);
  });

  it("finds live jobs behind entries that do not match", async () => {
    const { open } = await metered(1);
    const store = open();
    await addAll(store, newJobs(700, { type: "other" }));
    for (const leased of await claim(store, { limit: 20 })) await finish(store, leased, "failed", { delayMs: 9_000 });
    const [id] = await addAll(store, [newJob({ type: "wanted" })]);
    expect(idsOf(await all(store, { states: ["pending"], types: ["wanted"] }, 2))).toEqual([id]);
    expect(await all(store, { states: ["failed"] }, 7)).toHaveLength(20);
  });

  it("returns every job if DynamoDB returns short pages", async () => {
    const { open } = await metered(2);
    const client = server.client();
    client.middlewareStack.add(
      (next, { commandName }) =>
        (args) => {
          if (commandName === "QueryCommand") Object.assign(args.input, { Limit: 2 });
          return next(args);
        },
      { step: "initialize" },
    );
    const store = open({ client });
    const added = await addAll(open(), newJobs(30));
    expect(idsOf(await all(store, {}, 10))).toEqual(added.toSorted());
    expect(idsOf(await all(store, { states: ["pending"] }, 10))).toEqual(added.toSorted());
  });

  it.each([
    ["a list in order", {}, false],
    ["a list of live jobs", { states: ["pending" as const] }, true],
    ["a user's list", { user: "ada" }, true],
  ])("refuses its cursor for %s", async (_what, filter, anyOrder) => {
    const { open } = await metered();
    const store = open();
    await addAll(store, newJobs(9));
    const { cursor } = await store.list({}, { limit: 1, cursor: null, anyOrder: true });
    expect(cursor).not.toBeNull();
    await expect(store.list(filter, { limit: 1, cursor, anyOrder })).rejects.toMatchObject({ field: "cursor" });
  });
});
