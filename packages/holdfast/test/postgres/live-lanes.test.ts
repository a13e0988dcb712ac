import { postgres } from "holdfast/postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Store } from "#src/store.js";
import {
  claim,
  claimIds,
  failureOf,
  finish,
  newJob,
  newJobs,
  settleOne,
} from "#src/testing/exercise-store/builders.js";
import { explained, pagesOf } from "./explained.js";
import { openScene, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

async function addEmptyLanes(schema: string, count: number, paused = false): Promise<void> {
  await server.query(
    `INSERT INTO ${schema}.lanes SELECT 'empty ' || n, 0, $2, 9e15 FROM generate_series(1, $1::integer) AS n`,
    [count, paused],
  );
}

/** A store with many lanes, which scans only those with jobs. */
async function manyLanes(): Promise<Scene & { other: () => Store }> {
  const scene = await openScene(server, { isNew: true });
  await addEmptyLanes(scene.schema, 500);
  expect(await claimIds(scene.store)).toEqual([]);
  return {
    ...scene,
    other() {
      const store = postgres(scene.address);
      onTestFinished(() => store.close());
      return store;
    },
  };
}

describe("claims among many empty queues", () => {
  it.each([false, true])("read no more pages for 5,000 of them, paused: %s", async (paused) => {
    const pages = async (empty: number): Promise<number> => {
      const { store, schema, plansOf } = await explained(server);
      await addEmptyLanes(schema, empty, paused);
      // From the sixth execution on, prepared statements may keep a generic plan.
      for (let warmUp = 0; warmUp < 10; warmUp++) await claim(store);
      await store.insert(newJobs(5));
      const plans = await plansOf(() => claim(store));
      return Math.max(...plans.map(pagesOf));
    };
    const [few, many] = [await pages(0), await pages(5_000)];
    expect(many).toBeLessThanOrEqual(few + 20);
  });

  it("find a job of another process", async () => {
    const { store, other } = await manyLanes();
    const job = newJob({ queue: "empty 7" });
    await other().insert([job]);
    expect(await claimIds(store)).toEqual([job.id]);
    expect(await claimIds(store)).toEqual([]);
  });

  it("find a job whose transaction commits after later ones", async () => {
    const { store, session } = await manyLanes();
    const { client } = await session();
    await client.query("BEGIN");
    const [late, later] = [newJob({ queue: "empty 7" }), newJob({ queue: "empty 8" })];
    await store.insertIn(client, [late]);
    await store.insert([later]);
    expect(await claimIds(store)).toEqual([later.id]);
    expect(await claimIds(store)).toEqual([]);
    await client.query("COMMIT");
    expect(await claimIds(store)).toEqual([late.id]);
  });

  it("find a retried job in an empty queue", async () => {
    const { store } = await manyLanes();
    const job = newJob({ queue: "empty 7" });
    await store.insert([job]);
    for (const claimed of await claim(store)) await finish(store, claimed, "dead");
    expect(await claimIds(store)).toEqual([]);
    await store.retry([job.id]);
    expect(await claimIds(store)).toEqual([job.id]);
  });

  it("find a job that an update moved to an empty lane", async () => {
    const { store, other } = await manyLanes();
    const [moved, raised] = [newJob({ queue: "empty 7" }), newJob({ queue: "empty 8" })];
    await store.insert([moved, raised]);
    const claimer = other();
    for (const job of await claim(claimer)) await settleOne(store, failureOf(job, "no", { delayMs: 60_000 }));
    for (let n = 0; n < 3; n++) expect(await claimIds(claimer)).toEqual([]);
    const due = { runAt: null, delayMs: 0 };
    await store.update([{ id: moved.id, queue: "empty 9", due }]);
    expect(await claimIds(claimer)).toEqual([moved.id]);
    await store.update([{ id: raised.id, priority: 9, due }]);
    expect(await claimIds(claimer)).toEqual([raised.id]);
    expect((await store.stats()).counts).toMatchObject([
      { queue: "empty 8", state: "claimed", count: 1 },
      { queue: "empty 9", state: "claimed", count: 1 },
    ]);
  });

  it("find nothing while all queues are paused", async () => {
    const { store, other } = await manyLanes();
    const job = newJob({ queue: "empty 7" });
    await store.insert([job]);
    await store.pause("*");
    const later = other();
    for (let n = 0; n < 3; n++) for (const each of [store, later]) expect(await claimIds(each)).toEqual([]);
    const added = newJob({ queue: "new" });
    await store.insert([added]);
    for (const each of [store, later]) expect(await claimIds(each)).toEqual([]);
    await store.resume("*");
    expect(await claimIds(later)).toEqual([job.id, added.id]);
  });

  it("find the jobs of a resumed queue", async () => {
    const { store } = await manyLanes();
    const job = newJob({ queue: "empty 7" });
    await store.insert([job]);
    await store.pause("empty 7");
    for (let n = 0; n < 3; n++) expect(await claimIds(store)).toEqual([]);
    await store.resume("empty 7");
    expect(await claimIds(store)).toEqual([job.id]);
  });

  it("find jobs of a queue that was paused at the start", async () => {
    const { store, other } = await manyLanes();
    const [low, high] = [newJob({ queue: "empty 7" }), newJob({ queue: "empty 7", priority: 9 })];
    await store.insert([low, high]);
    await store.pause("empty 7");
    const later = other();
    for (let n = 0; n < 3; n++) expect(await claimIds(later)).toEqual([]);
    await store.resume("empty 7");
    expect(await claimIds(later)).toEqual([high.id, low.id]);
    await store.pause("empty 7");
    await store.insert([newJob({ queue: "empty 7" })]);
    for (let n = 0; n < 3; n++) expect(await claimIds(later)).toEqual([]);
  });

  it("find jobs of queues that earlier claims did not request", async () => {
    const { store } = await manyLanes();
    const job = newJob({ queue: "empty 7" });
    await store.insert([job]);
    for (let n = 0; n < 3; n++) expect(await claimIds(store, { queues: ["empty 8"] })).toEqual([]);
    for (let n = 0; n < 3; n++) expect(await claimIds(store, { types: ["other"] })).toEqual([]);
    expect(await claimIds(store)).toEqual([job.id]);
  });

  it("find every job under concurrent load", async () => {
    const { store, other, session } = await manyLanes();
    const handles = [store, other(), other()];
    const [added, claimed] = [new Set<string>(), new Set<string>()];
    const jobsFor = (round: number): ReturnType<typeof newJob>[] =>
      newJobs(3).map((job, n) => newJob({ id: job.id, queue: `empty ${1 + ((round * 7 + n * 13) % 40)}` }));
    const enqueuing = handles.map(async (handle, who) => {
      const { client } = await session();
      for (let round = 0; round < 40; round++) {
        const jobs = jobsFor(round * 3 + who);
        for (const { id } of jobs) added.add(id);
        if (round % 3 === 0) {
          await client.query("BEGIN");
          await handle.insertIn(client, jobs);
          await claim(handles[(who + 1) % 3] as Store, { limit: 2 }).then(settleAll);
          await client.query("COMMIT");
        } else await handle.insert(jobs);
      }
    });
    async function settleAll(jobs: Awaited<ReturnType<typeof claim>>): Promise<number> {
      for (const job of jobs) {
        claimed.add(job.id);
        await finish(store, job, "completed");
      }
      return jobs.length;
    }
    let enqueued = false;
    const claiming = handles.map(async (handle) => {
      for (let wasEnqueued = false; ; wasEnqueued = enqueued) {
        const count = await claim(handle, { limit: 5 }).then(settleAll);
        if (count === 0 && wasEnqueued) return;
      }
    });
    await Promise.all(enqueuing);
    enqueued = true;
    await Promise.all(claiming);
    expect(claimed).toEqual(added);
  });
});
