import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { job, type EnqueueOptions, type Holdfast, type JobType } from "holdfast";
import { dynamodb } from "holdfast/dynamodb";
import type { Store } from "holdfast/store";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import {
  add,
  addAll,
  claim,
  claimIds,
  finish,
  newJobs,
  recordOf,
  SECOND,
} from "#src/testing/exercise-store/builders.js";
import { allRecords, assertNothingVanished, History } from "#src/testing/exercise-store/history.js";
import { until } from "#src/testing/exercise-store/until.js";
import { Meter } from "./meter.js";
import type { Proxy } from "./proxy.js";
import { openClient, openScene } from "./scene.js";
import { dynamoServer, REGION } from "./server.js";

const server = dynamoServer();

const LARGE = JSON.stringify("x".repeat(2_000));
/** Many jobs, one after another through the proxy. */
const TIMED = { timeout: 60_000 };
const WORKERS = 3;
const PLAIN = 60;
const KEYED = 36;
const FAILING = 24;

/** Faults that AWS has and the emulator has not. Returns the number of affected requests if it can be counted. */
const FAULTS: [what: string, begin: (proxy: Proxy) => { count: number } | null][] = [
  ["30 % of the writes throttled", (proxy) => proxy.refuse("throttled", 0.3)],
  [
    "indexes that lag up to 3 s",
    (proxy) => {
      proxy.lag(3_000);
      return null;
    },
  ],
  ["30 % of the writes in conflict with a transaction", (proxy) => proxy.refuse("conflict", 0.3)],
  ["10 % of the write responses lost", (proxy) => proxy.loseResponses(0.1)],
  ["10 % of the writes failing inside DynamoDB", (proxy) => proxy.refuse("InternalServerError", 0.1)],
];

describe.each(FAULTS)("%s", (_what, begin) => {
  it("loses no job and runs none twice", { timeout: 60_000 }, async () => {
    const { proxy, again, direct } = await openScene(server, { shards: 4, requests: 16 });
    const fault = begin(proxy);
    const history = new History();
    const running = new Set<string>();
    const together: string[] = [];
    const finished = new Map<string, number>();

    const typeOf = (type: string): JobType =>
      job({
        type,
        retry: { maxAttempts: 6, backoff: { base: "10ms", factor: 1, max: "10ms" } },
        async run({ job: { id, attempt } }) {
          if (running.has(id)) together.push(id);
          running.add(id);
          // Gives another worker the chance to start the same job.
          await new Promise((resolve) => void setImmediate(resolve));
          running.delete(id);
          if (type === "failing" && attempt === 1) throw new Error("not yet");
        },
      });
    const [plain, keyed, failing, ticking] = [typeOf("plain"), typeOf("keyed"), typeOf("failing"), typeOf("ticking")];
    const jobs = [plain, keyed, failing, ticking];
    const clients = await Promise.all(
      Array.from({ length: WORKERS }, (_, nth) =>
        openClient({ store: watched(`worker ${nth}`, again(), history), jobs }),
      ),
    );
    for (const client of clients) {
      client.on("completed", ({ id }) => void finished.set(id, (finished.get(id) ?? 0) + 1));
      client.work({ concurrency: 5, lease: "5s", poll: "200ms" });
    }
    const [hf] = clients as [Holdfast];
    await hf.schedule("tick", { job: ticking, every: "1s" });
    const enqueue = (
      type: JobType,
      count: number,
      options: (nth: number) => EnqueueOptions = () => ({}),
    ): Promise<string[]> =>
      Promise.all(
        Array.from({ length: count }, async (_, nth) => {
          const client = clients[nth % WORKERS] as Holdfast;
          return (await client.enqueue(type, {}, options(nth))).id;
        }),
      );
    const asked = await Promise.all([
      enqueue(plain, PLAIN),
      enqueue(failing, FAILING),
      // Two jobs for each key.
      enqueue(keyed, KEYED, (nth) => ({ unique: { key: `key ${nth % (KEYED / 2)}`, scope: "forever" } })),
    ]);
    const ids = new Set(asked.flat());
    const store = direct();
    // Not through the proxy: a lagging list could miss the last job.
    const ticks = async (): Promise<string[]> =>
      (await store.list({ schedule: "tick" }, { limit: 100, cursor: null })).jobs.map(({ id }) => id);

    await until("all jobs to be completed", () => [...ids].every((id) => finished.has(id)), 40_000);
    await until("the schedule to have run twice", async () => {
      const created = await ticks();
      return created.filter((id) => finished.has(id)).length >= 2;
    });
    await hf.schedules.remove("tick");
    await until("its jobs to be completed", async () => (await ticks()).every((id) => finished.has(id)));
    await Promise.all(clients.map((client) => client.close()));

    // The number is random; enough requests must have failed for the test to mean anything.
    if (fault !== null) expect(fault.count).toBeGreaterThan(10);
    expect(together).toEqual([]);
    history.assertOneLeaseAtATime();
    history.assertOneEnding();
    const records = await allRecords(store);
    for (const record of records.values()) history.assertSeen(record);
    await assertNothingVanished(store, records.size, 0);
    const stored = [...records.values()];
    expect(stored.filter(({ state }) => state !== "completed")).toEqual([]);
    const count = (type: string): number => stored.filter((record) => record.type === type).length;
    expect([count("plain"), count("failing"), count("keyed")]).toEqual([PLAIN, FAILING, KEYED / 2]);
    expect([...ids].filter((id) => !records.has(id))).toEqual([]);
    expect([...finished].filter(([, times]) => times !== 1)).toEqual([]);
    const slots = stored.flatMap(({ schedule }) => (schedule === null ? [] : [schedule.slot]));
    expect(new Set(slots).size).toBe(slots.length);
  });
});

it("returns the other jobs when one claim fails", async () => {
  const { store, proxy } = await openScene(server);
  const ids = await addAll(store, newJobs(6));
  const [unlucky = ""] = ids;
  const fault = proxy.refuse("AccessDeniedException", 1, ({ operation, text }) => {
    return operation === "UpdateItem" && text.includes(unlucky);
  });
  const claimed: string[] = [];
  await until("the others to be claimed", async () => {
    // Without another job to return, the claim throws.
    const some = await claimIds(store).catch((error: unknown) => error);
    if (Array.isArray(some)) claimed.push(...(some as string[]));
    else expect(some).toMatchObject({ code: "STORE_UNREADABLE" });
    return claimed.length === ids.length - 1;
  });
  fault.end();
  await until("the last one", async () => (await claimIds(store)).includes(unlucky));
  expect(claimed.toSorted()).toEqual(ids.filter((id) => id !== unlucky).toSorted());
});

it("does not try own jobs again on lagging indexes", TIMED, async () => {
  const { store, proxy, table } = await openScene(server, { shards: 4 });
  proxy.lag(0);
  await addAll(store, newJobs(60));
  // From now on the indexes never change.
  proxy.lag(3_600 * SECOND);
  const meter = new Meter();
  const client = meter.watch(new DynamoDBClient({ region: REGION, endpoint: proxy.endpoint }));
  const worker = dynamodb({ client, table });
  onTestFinished(async () => {
    await worker.close();
    client.destroy();
  });
  let done = 0;
  await until("all to be done", async () => {
    const jobs = await claim(worker, { limit: 10 });
    for (const each of jobs) await finish(worker, each, "completed", { keepMs: 60 * SECOND });
    done += jobs.length;
    return done === 60;
  });
  expect(await claim(worker)).toEqual([]);
  expect(meter.lost).toBe(0);
});

it("does not claim a moved job from its old queue on lagging indexes", TIMED, async () => {
  const { store, proxy } = await openScene(server, { shards: 1 });
  proxy.lag(0);
  const id = await add(store, { queue: "old" });
  proxy.lag(3_600 * SECOND);
  expect(await store.update([{ id, queue: "new" }])).toEqual([{ status: "updated" }]);
  expect(await claim(store, { queues: ["old"] })).toEqual([]);
  expect(await recordOf(store, id)).toMatchObject({ state: "pending", fence: 0 });
});

it("releases jobs whose inputs cannot be read", async () => {
  const clock = fakeClock();
  const { store, proxy } = await openScene(server, { clock, shards: 1 });
  const small = await add(store);
  const large = await add(store, { input: LARGE, maxAttempts: 1 });
  const fault = proxy.refuse("AccessDeniedException", 1, ({ operation }) => operation === "BatchGetItem");
  expect(await claimIds(store)).toEqual([small]);
  for (let time = 0; time < 5; time++) {
    expect(await claimIds(store)).toEqual([]);
    await clock.advance("5s");
    await expect(claim(store)).rejects.toMatchObject({ code: "STORE_UNREADABLE" });
  }
  expect(await recordOf(store, large)).toMatchObject({ state: "pending", attempt: 0, losses: 0, worker: null });
  fault.end();
  await clock.advance("5s");
  expect(await claim(store)).toMatchObject([
    { id: large, input: LARGE, attempt: 1, previous: { state: "pending", attempt: 0, exhausted: false } },
  ]);
});

it("cancels a job whose claim fails", async () => {
  const clock = fakeClock();
  const { store, proxy, direct } = await openScene(server, { clock, shards: 1 });
  const id = await add(store, { input: LARGE });
  const reading = proxy.refuse("throttled", 1, ({ operation }) => operation === "BatchGetItem");
  const claiming = claim(store, { leaseMs: 3 * SECOND });
  claiming.catch(() => {});
  await until("the claim to read inputs", () => reading.count > 0);
  expect(await direct().cancel([id])).toEqual(["requested"]);
  await expect(claiming).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  reading.end();
  expect(await recordOf(store, id)).toMatchObject({ state: "claimed" });
  await clock.advance("1m");
  expect(await claim(store)).toMatchObject([{ id, cancelRequested: true }]);
});

it("gives up a throttled claim without using an attempt", async () => {
  const { store, proxy } = await openScene(server, { shards: 1 });
  const id = await add(store, { maxAttempts: 1 });
  for (let time = 0; time < 3; time++) {
    const fault = proxy.refuse("throttled", 1, ({ operation }) => operation === "UpdateItem");
    const from = performance.now();
    await expect(claim(store, { leaseMs: 2 * SECOND })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(performance.now() - from).toBeLessThan(2 * SECOND);
    fault.end();
  }
  expect(await recordOf(store, id)).toMatchObject({ state: "pending", attempt: 0, losses: 0 });
  expect(await claim(store)).toMatchObject([{ id, attempt: 1, previous: { exhausted: false } }]);
});

/** Records claims and outcomes of the store in the history. */
function watched(worker: string, store: Store, history: History): Store {
  return {
    ...store,
    async claim(request) {
      const claim = await store.claim(request);
      history.claimed(worker, claim, request.leaseMs);
      return claim;
    },
    async settle(outcomes) {
      const results = await store.settle(outcomes);
      for (const [at, outcome] of outcomes.entries()) {
        const result = results[at];
        if (result !== undefined && result !== "busy") history.settled(worker, outcome, result);
      }
      return results;
    },
  };
}
