import { holdfast, job, type Holdfast, type JobType } from "holdfast";
import { dynamodb, type DynamoOptions, type DynamoStore } from "holdfast/dynamodb";
import { fakeClock } from "holdfast/testing";
import type { ClaimedJob } from "#src/store.js";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import {
  add,
  addAll,
  claim,
  claimOne,
  failureOf,
  finish,
  key,
  LEASE_MS,
  newJob,
  newJobs,
  SECOND,
  settleOne,
} from "#src/testing/exercise-store/builders.js";
import { newErrorGroup } from "./every-call.js";
import { Meter } from "./meter.js";
import { openClient } from "./scene.js";
import { dynamoServer } from "./server.js";

// The units that DynamoDB reports: the figures of docs/guides/dynamodb-costs.md.

const server = dynamoServer({ alone: true });
const anyInput = z.object({ to: z.string() });
const JOBS = 200;
const WORKERS = 8;
const ROUNDS = 5;

/** A table with counted requests. None of them may be a scan. */
async function metered(options: DynamoOptions = {}): Promise<{ meter: Meter; open: () => DynamoStore }> {
  const table = server.newTable();
  const meter = new Meter();
  const stores: DynamoStore[] = [];
  const open = (): DynamoStore => {
    const store = dynamodb({ client: meter.watch(server.client()), table, ...options });
    stores.push(store);
    return store;
  };
  onTestFinished(async () => {
    for (const store of stores) await store.close();
    await server.drop(table);
    expect([...meter.total.keys()].filter((operation) => /scan|partiql|execute/i.test(operation))).toEqual([]);
  });
  await open().migrate();
  meter.reset();
  return { meter, open };
}

interface Costs {
  /** Write units per job: the table, the live index and failed conditions. */
  units: number;
  /** Write units to delete its unique key. */
  keys: number;
  listed: number;
  counts: number;
  seconds: number;
  lost: number;
  reads: number;
}

/** The cost of jobs from enqueue to completion, with eight workers that compete for them. */
async function contend(
  enqueue: (hf: Holdfast, type: JobType<{ to: string }, void>) => Promise<unknown>,
): Promise<Costs> {
  const { meter, open } = await metered();
  let completed = 0;
  let all: () => void = () => {};
  const done = new Promise<void>((resolve) => (all = resolve));
  const type = job({ type: "mail", input: anyInput, run: async () => {} });
  const clients = await Promise.all(
    Array.from({ length: WORKERS }, async () => {
      const hf = await holdfast({ store: open(), jobs: [type], logger: false });
      onTestFinished(() => hf.close());
      hf.on("completed", () => {
        if (++completed === JOBS) all();
      });
      return hf;
    }),
  );
  meter.reset();
  const begun = performance.now();
  await enqueue(clients[0] as Holdfast, type);
  for (const hf of clients) hf.work({ concurrency: 16 });
  await done;
  const { jobUnits, lost, reads } = meter;
  for (const hf of clients) await hf.close();
  const each = (units: number): number => units / JOBS;
  return {
    units: each(jobUnits),
    lost: each(lost),
    reads: each(reads),
    keys: each(meter.writes.get("keys") ?? 0),
    listed: each(meter.writes.get("listed") ?? 0),
    counts: each(meter.writes.get("counts") ?? 0),
    seconds: (performance.now() - begun) / 1_000,
  };
}

const KEPT = { keepMs: 7 * 86_400_000 };
const inputs = Array.from({ length: JOBS }, (_, n) => ({ to: `user-${n}@example.com` }));

describe("write units of a job with eight competing workers", () => {
  it("at most 7 for a job of up to 1 KB", { timeout: 180_000 }, async () => {
    const costs = await contend((hf, type) => hf.enqueueMany(type, inputs));
    expect(costs.units).toBeGreaterThanOrEqual(6);
    expect(costs.units).toBeLessThanOrEqual(7);
    expect(costs.listed).toBe(1);
    // A cost per second and process, not per job.
    expect(costs.counts * JOBS).toBeLessThanOrEqual(3 * WORKERS * (costs.seconds + 1));
    expect(costs.reads).toBeLessThan(3);
  });

  it("at most 11 with a unique key, and 1 to delete it", { timeout: 180_000 }, async () => {
    const costs = await contend((hf, type) =>
      Promise.all(inputs.map((input) => hf.enqueue(type, input, { unique: input.to }))),
    );
    expect(costs.units).toBeGreaterThanOrEqual(10);
    expect(costs.units).toBeLessThanOrEqual(11);
    expect(costs.keys).toBe(1);
  });
});

/** Write units of the table, of each index, and of failed conditions. */
async function writesOf(meter: Meter, work: () => Promise<unknown>): Promise<Record<string, number>> {
  meter.reset();
  await work();
  return { ...Object.fromEntries(meter.writes), ...(meter.lost > 0 && { lost: meter.lost }) };
}

describe("write units of each step", () => {
  it("of a plain job: table 1, live index 1, list 1", async () => {
    const { meter, open } = await metered();
    const store = open();
    await add(store);
    await claimOne(store);
    expect(await writesOf(meter, () => add(store))).toEqual({ table: 1, live: 1, listed: 1 });
    const leased = await claimOne(store);
    expect(await writesOf(meter, () => add(store, { user: "ada" }))).toEqual({
      table: 1,
      live: 1,
      listed: 1,
      owned: 1,
    });
    expect(await writesOf(meter, () => claimOne(store))).toEqual({ table: 1, live: 1 });
    const started = (): Promise<unknown> => store.start([{ ...leased, startedAt: 0 }]);
    expect(await writesOf(meter, started)).toEqual({ table: 1 });
    expect(await writesOf(meter, () => finish(store, leased, "completed", KEPT))).toEqual({ table: 1, live: 1 });
    const expires = { expiresAt: Date.now() + 3_600 * SECOND };
    expect(await writesOf(meter, () => add(store, expires))).toEqual({ table: 1, live: 1, listed: 1, expiring: 1 });
    const last = await claimOne(store);
    expect(await writesOf(meter, () => finish(store, last, "completed", KEPT))).toEqual({
      table: 1,
      live: 1,
      expiring: 1,
    });
  });

  it("of a unique key: 4 more, and 1 to delete it", async () => {
    const { meter, open } = await metered({ clock: fakeClock() });
    const store = open();
    await add(store);
    await claimOne(store);
    const enqueue = await writesOf(meter, () => add(store, { unique: key("k") }));
    const leased = await claimOne(store);
    const complete = await writesOf(meter, () => finish(store, leased, "completed", KEPT));
    const purge = await writesOf(meter, () => store.purge({ state: "completed", before: null, keep: null, limit: 10 }));
    expect({ enqueue, complete, purge }).toEqual({
      enqueue: { table: 4, live: 2, listed: 2 },
      complete: { table: 1, live: 1, keys: 1, counts: 2 },
      purge: {},
    });
  });

  it("of a failed attempt: 6 more, 2 to claim, and the purge", async () => {
    const { meter, open } = await metered({ clock: fakeClock() });
    const store = open();
    await add(store);
    const leased = await claimOne(store);
    const failure = failureOf(leased, "no", { error: { message: "no", code: "E_TEST" } });
    const fail = await writesOf(meter, () => settleOne(store, failure));
    const again = await claimOne(store);
    const complete = await writesOf(meter, () => finish(store, again, "completed", KEPT));
    const purge = await writesOf(meter, () => store.purge({ state: "completed", before: null, keep: null, limit: 10 }));
    expect({ fail, complete, purge }).toEqual({
      fail: { table: 4, live: 2 },
      complete: { table: 1, live: 2, counts: 2 },
      purge: { table: 2, live: 1, listed: 1, counts: 1 },
    });
  });

  it("of an error's fingerprint: 2 for the first, none while it stays", async () => {
    const { meter, open } = await metered({ clock: fakeClock() });
    const store = open();
    await add(store);
    const fail = async (fingerprint: string): Promise<Record<string, number>> => {
      const leased = await claimOne(store);
      const error = { message: "no", code: null, fingerprint };
      return writesOf(meter, () => settleOne(store, failureOf(leased, "no", { error })));
    };
    const first = await fail("00112233aabbccdd");
    const same = await fail("00112233aabbccdd");
    const other = await fail("ffeeddcc00112233");
    const leased = await claimOne(store);
    const complete = await writesOf(meter, () => finish(store, leased, "completed", KEPT));
    const purge = await writesOf(meter, () => store.purge({ state: "completed", before: null, keep: null, limit: 10 }));
    expect({ first, same, other, complete, purge }).toEqual({
      // In a transaction, the emulator charges index entries like the table: twice.
      first: { table: 4, live: 2, errors: 2 },
      same: { table: 4, live: 2 },
      other: { table: 4, live: 2, errors: 4 },
      complete: { table: 1, live: 2, counts: 2 },
      purge: { table: 4, live: 1, listed: 1, errors: 1, counts: 1 },
    });
  });

  it("of an error group: 1, and 1 more for one that is not the latest", async () => {
    const { meter, open } = await metered({ clock: fakeClock() });
    const store = open();
    const group = newErrorGroup();
    const created = await writesOf(meter, () => store.recordErrors([group]));
    const added = await writesOf(meter, () => store.recordErrors([{ ...group, firstAt: 3_000, lastAt: 3_000 }]));
    const late = await writesOf(meter, () => store.recordErrors([group]));
    expect({ created, added, late }).toEqual({
      created: { table: 1 },
      added: { table: 1 },
      late: { table: 1, lost: 1 },
    });
  });

  it("of a minute of history: 1 for each process, and the merge", async () => {
    const { meter, open } = await metered({ clock: fakeClock() });
    const store = open();
    const record = { resolution: "minute", at: 60_000, writer: "a", data: JSON.stringify("x".repeat(500)) } as const;
    const replaced = ["a", "b", "c"].map((writer) => ({ ...record, writer }));
    const put = await writesOf(meter, () => store.putHistory(replaced));
    const merged = await writesOf(meter, () => store.mergeHistory({ record, replaced }));
    // The emulator does not charge the deletions of a transaction. DynamoDB charges 2 for each.
    expect({ put, merged }).toEqual({ put: { table: 3 }, merged: { table: 2 } });
  });

  it("of transitions, while jobs are followed: 2 for each call or 200 ms", async () => {
    const { meter, open } = await metered({ clock: fakeClock() });
    const store = open();
    await addAll(store, newJobs(8));
    await store.recordTransitions(3_600 * SECOND);
    await claim(store, { limit: 3 });
    const leased = await claimOne(store);
    expect(await writesOf(meter, () => store.start([{ ...leased, startedAt: 0 }]))).toEqual({ table: 1 + 2 });
  });

  it("of a parent: 1 more", async () => {
    const { meter, open } = await metered();
    const store = open();
    await add(store);
    await claimOne(store);
    const enqueue = await writesOf(meter, () => add(store, { parent: "018f4d2e-7b3a-7c11-8a55-00000000000a" }));
    const claimed = await writesOf(meter, () => claimOne(store));
    expect({ enqueue, claimed }).toEqual({
      enqueue: { table: 1, live: 1, listed: 1, children: 1 },
      claimed: { table: 1, live: 1 },
    });
  });

  it("of an own purge time: none, or the purge", async () => {
    const clock = fakeClock();
    const { meter, open } = await metered({ clock });
    const store = open();
    const settings = { keepMs: { completed: 10 * SECOND, dead: 10 * SECOND } };
    await add(store, { settings });
    const completed = await claimOne(store);
    const complete = await writesOf(meter, () => finish(store, completed, "completed", KEPT));
    await addAll(store, [newJob({ settings }), newJob({ settings })]);
    const [first, second] = await claim(store);
    // The first one notes in the shared config that there are such jobs.
    await finish(store, first as ClaimedJob, "dead");
    const end = await writesOf(meter, () => finish(store, second as ClaimedJob, "dead"));
    await clock.advance(10 * SECOND);
    expect(await store.get(completed.id)).toBeNull();
    const purge = await writesOf(meter, () => store.purgeDue(1));
    expect({ complete, end, purge }).toEqual({
      complete: { table: 1, live: 1, counts: 2 },
      end: { table: 1, live: 2, listed: 2, counts: 1 },
      purge: { table: 1, live: 1, listed: 1 },
    });
  });

  it("of an update: those of what it changes", async () => {
    const { meter, open } = await metered({ clock: fakeClock() });
    const store = open();
    const id = await add(store);
    const update = (change: object): Promise<Record<string, number>> =>
      writesOf(meter, () => store.update([{ id, ...change }]));
    await update({ priority: 3 });
    expect(await update({ tags: ["red"] })).toEqual({ table: 1 });
    expect(await update({ due: { runAt: null, delayMs: SECOND } })).toEqual({ table: 1, live: 2 });
    expect(await update({ priority: 0 })).toEqual({ table: 1, live: 2 });
  });

  it("charges a large input once", async () => {
    const { meter, open } = await metered({ clock: fakeClock() });
    const store = open();
    const large = JSON.stringify({ text: "x".repeat(100_000) });
    await add(store);
    await claimOne(store);
    const enqueue = await writesOf(meter, () => add(store, { input: large }));
    meter.reset();
    const leased = await claimOne(store);
    const reads = meter.reads;
    const claimed = Object.fromEntries(meter.writes);
    const extended = await writesOf(meter, () => store.extend([leased], LEASE_MS));
    const complete = await writesOf(meter, () => finish(store, leased, "completed", KEPT));
    const purge = await writesOf(meter, () => store.purge({ state: "completed", before: null, keep: null, limit: 10 }));
    // The input is read consistently: one unit for every four kilobytes.
    expect(reads).toBeLessThanOrEqual(25 + 1 + 8 / 2);
    expect({ enqueue, claimed, extended, complete, purge }).toEqual({
      // One unit per kilobyte, to write it and to delete it.
      enqueue: { table: 1 + 98, live: 1, listed: 1 },
      claimed: { table: 1, live: 1 },
      extended: { table: 1, live: 2 },
      complete: { table: 1, live: 2, counts: 2 },
      purge: { table: 1 + 98, live: 1, listed: 1, counts: 1 },
    });
  });

  it("at most 1.5 per lease extension on average", async () => {
    const clock = fakeClock();
    const { meter, open } = await metered({ clock });
    const store = open();
    await add(store);
    const leased = await claimOne(store);
    meter.reset();
    const beats = 60;
    for (let heartbeat = 0; heartbeat < beats; heartbeat++) {
      await clock.advance(LEASE_MS / 3);
      expect(await store.extend([leased], LEASE_MS)).toEqual(["kept"]);
    }
    expect(meter.jobUnits / beats).toBeGreaterThanOrEqual(1);
    expect(meter.jobUnits / beats).toBeLessThanOrEqual(1.5);
  });
});

describe("read units", () => {
  it("of an empty claim: 1, and half a unit per shard", async () => {
    const { meter, open } = await metered();
    const store = open();
    await add(store);
    await finish(store, await claimOne(store), "completed", KEPT);
    meter.reset();
    expect(await claim(store)).toEqual([]);
    expect(meter.reads).toBeLessThanOrEqual(1 + 8 / 2);
    expect(Object.fromEntries(meter.requests)).toEqual({ GetItem: 1, Query: 8 });
    expect(meter.jobUnits).toBe(0);
  });

  it("of purgeDue: 1, until a job has its own purge time", async () => {
    const { meter, open } = await metered();
    const store = open();
    await add(store);
    await finish(store, await claimOne(store), "dead");
    meter.reset();
    expect(await store.purgeDue(10)).toBe(0);
    expect(Object.fromEntries(meter.requests)).toEqual({ GetItem: 1 });
  });

  it("of purges do not grow with jobs that have their own purge time", async () => {
    const clock = fakeClock();
    const { meter, open } = await metered({ clock, shards: 1 });
    const store = open();
    await addAll(store, newJobs(120, { settings: { keepMs: { dead: 3_600 * SECOND } } }));
    const claimed = await claim(store, { limit: 120 });
    await Promise.all(claimed.map((job) => finish(store, job, "dead")));
    await add(store);
    await finish(store, await claimOne(store), "dead");
    await clock.advance(SECOND);
    meter.reset();
    expect(await store.purge({ state: "dead", before: clock.now(), keep: null, limit: 1_000 })).toBe(1);
    expect(await store.purgeDue(1_000)).toBe(0);
    expect(meter.reads).toBeLessThan(6);
  });

  it("of a filtered list end after 500 jobs", async () => {
    const { meter, open } = await metered({ clock: fakeClock(), shards: 1 });
    const store = open();
    await addAll(store, newJobs(510));
    meter.reset();
    const page = await store.list({ tag: "none" }, { limit: 10, cursor: null });
    expect(page.jobs).toEqual([]);
    expect(page.cursor).not.toBeNull();
    expect(meter.requests.get("BatchGetItem")).toBeLessThanOrEqual(8);
    expect(await store.list({ tag: "none" }, { limit: 10, cursor: page.cursor })).toEqual({
      jobs: [],
      cursors: [],
      cursor: null,
    });
  });

  it("D-01 of claims do not grow with future or finished jobs", async () => {
    const { meter, open } = await metered();
    const store = open();
    const costs = async (): Promise<{ reads: number; requests: number }> => {
      let [reads, requests] = [0, 0];
      for (let round = 0; round < ROUNDS; round++) {
        await addAll(store, newJobs(20));
        meter.reset();
        const leased = await claim(store, { limit: 20 });
        reads += meter.reads;
        requests += (meter.requests.get("GetItem") ?? 0) + (meter.requests.get("Query") ?? 0);
        expect(leased).toHaveLength(20);
        await Promise.all(leased.map((each) => finish(store, each, "completed", KEPT)));
      }
      return { reads: reads / ROUNDS, requests: requests / ROUNDS };
    };
    await costs();
    const before = await costs();
    await addAll(store, newJobs(400, { delayMs: 3_600 * SECOND }));
    const after = await costs();
    expect(after.requests).toBeLessThan(before.requests + 1);
    // Each query reads and pays for a few entries that are not due. An empty query is free only on the emulator.
    expect(after.reads).toBeLessThan(1 + 9);
  });
});

describe("requests of countAhead", () => {
  const position = { id: "018f4d2e-7b3a-7c11-8a55-00000000000a", queue: "default", priority: 0 };

  it("one for each of six shards, and one for the shards", async () => {
    const clock = fakeClock();
    const { meter, open } = await metered({ clock });
    const store = open();
    await addAll(store, newJobs(30));
    meter.reset();
    const ahead = await store.countAhead({ ...position, dueAt: clock.now() + 1 }, 1_000);
    expect(Math.abs(ahead - 30)).toBeLessThan(20);
    expect(Object.fromEntries(meter.requests)).toEqual({ GetItem: 1, Query: 6 });
  });

  it("one for each shard, if there are few, for the exact number", async () => {
    const clock = fakeClock();
    const { meter, open } = await metered({ clock, shards: 2 });
    const store = open();
    await addAll(store, newJobs(30));
    await addAll(store, newJobs(7, { priority: 3 }));
    meter.reset();
    expect(await store.countAhead({ ...position, dueAt: clock.now() + 1 }, 1_000)).toBe(37);
    expect(Object.fromEntries(meter.requests)).toEqual({ GetItem: 1, Query: 4 });
  });

  it("another page while all counted jobs are leased, up to six", async () => {
    const clock = fakeClock();
    const { meter, open } = await metered({ clock, shards: 1 });
    const store = open();
    for (let n = 0; n < 3; n++) await addAll(store, newJobs(500));
    for (let n = 0; n < 3; n++) await claim(store, { limit: 500 });
    await clock.advance(1);
    await addAll(store, newJobs(3));
    meter.reset();
    const ahead = await store.countAhead({ ...position, dueAt: clock.now() + 1 }, 200);
    expect(ahead).toBe(3);
    expect(meter.requests.get("Query")).toBeLessThanOrEqual(6);
  });

  it("fewer than ten for hf.explain, whatever the number of priorities and shards", async () => {
    const { meter, open } = await metered();
    const store = open();
    for (const priority of [0, 1, 2, 3, 4, 5, 6]) await addAll(store, newJobs(40, { priority }));
    const hf = await openClient({ store });
    const [first] = await addAll(store, newJobs(1, { priority: -1 }));
    const sent: number[] = [];
    for (const priority of [-1, 0, 3, 6]) {
      const { jobs } = await store.list({ priority }, { limit: 1, cursor: null });
      meter.reset();
      const { reasons } = await hf.explain(jobs[0]?.id ?? first ?? "");
      expect(reasons.map(({ kind }) => kind)).toContain("no-worker");
      sent.push([...meter.requests.values()].reduce((sum, each) => sum + each, 0));
    }
    expect(Math.max(...sent)).toBeLessThan(10);
    expect(Math.min(...sent)).toBeGreaterThan(5);
  });

  it("half as many for a long queue, which is estimated", async () => {
    const clock = fakeClock();
    const { meter, open } = await metered({ clock });
    const store = open();
    await addAll(store, newJobs(800));
    await claim(store, { limit: 100 });
    meter.reset();
    const ahead = await store.countAhead({ ...position, dueAt: clock.now() + 1 }, 1_000);
    expect(Math.abs(ahead - 700)).toBeLessThan(200);
    expect(Object.fromEntries(meter.requests)).toEqual({ GetItem: 1, Query: 4 });
    expect(await store.countAhead({ ...position, dueAt: clock.now() + 1 }, 500)).toBe(500);
  });
});

describe("polling", () => {
  it("D-08 every 30 s, at most 25 jobs, oldest first", async () => {
    const clock = fakeClock();
    const { open } = await metered({ clock, shards: 1 });
    const ran: string[] = [];
    let enough: () => void = () => {};
    const type = job({
      type: "mail",
      input: z.object({ to: z.string() }),
      run: ({ input, signal }) => {
        ran.push(input.to);
        if (ran.length === 25) enough();
        return new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      },
    });
    const store = open();
    const asked: number[] = [];
    let claimed: () => void = () => {};
    const first = new Promise<void>((resolve) => (claimed = resolve));
    const claimIn = store.claim.bind(store);
    store.claim = async (request) => {
      asked.push(request.limit);
      return claimIn(request).finally(() => claimed());
    };
    const hf = await holdfast({ store, jobs: [type], clock, logger: false });
    onTestFinished(() => hf.close());
    const filled = new Promise<void>((resolve) => (enough = resolve));
    hf.work({ poll: "30s", concurrency: 25, grace: 0 });
    await first;
    await clock.settle();
    // By another process, which cannot wake this one.
    const order = Array.from({ length: 30 }, (_, n) => (n * 7) % 30);
    await addAll(
      open(),
      order.map((n) => newJob({ input: JSON.stringify({ to: String(n) }), runAt: clock.now() - 60_000 + n })),
    );
    await clock.advance("29s");
    expect(asked).toEqual([25]);
    await clock.advance("1s");
    await filled;
    expect(asked).toEqual([25, 25]);
    expect(ran).toEqual(Array.from({ length: 25 }, (_, n) => String(n)));
  });
});
