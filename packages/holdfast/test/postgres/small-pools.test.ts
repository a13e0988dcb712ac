import { job, type Holdfast, type JobType } from "holdfast";
import { postgres } from "holdfast/postgres";
import type pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import type { PgClient } from "#src/stores/postgres/connection/db.js";
import { ConnectionLender } from "#src/stores/postgres/connection/connection-lender.js";
import { until } from "#src/testing/exercise-store/until.js";
import { addressOf, openClient, openStore, ownSchema } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const echo = job({ type: "echo", input: z.object({ n: z.number() }), run: ({ input }) => input });
const tick = job({ type: "tick", run() {} });

/** The caller's pool. */
function callersPool(max: number): pg.Pool {
  const pool = server.pool({ max });
  // The server stops before its last connection is closed.
  onTestFinished(() => pool.end());
  return pool;
}

async function onPool(pool: pg.Pool, ...jobs: JobType[]): Promise<Holdfast> {
  return openClient(postgres({ pool, schema: ownSchema(server) }), ...jobs);
}

/** Enqueues in transactions on the pool, each time into a new queue. */
async function enqueueInside(hf: Holdfast, pool: pg.Pool, n: number): Promise<string> {
  const tx = await pool.connect();
  try {
    await tx.query("BEGIN");
    const { id } = await hf.enqueue(echo, { n }, { tx, queue: `queue ${n}` });
    await tx.query("COMMIT");
    return id;
  } finally {
    tx.release();
  }
}

/** Everything that needs connections, concurrently. */
async function useEverything(hf: Holdfast, pool: pg.Pool): Promise<void> {
  await hf.schedule("tick", { job: tick, every: "1s" });
  const worker = hf.work({ concurrency: 24 });
  const plain = Array.from({ length: 100 }, async (_, n) => (await hf.enqueue(echo, { n })).id);
  const inside = Array.from({ length: 20 }, (_, n) => enqueueInside(hf, pool, n));
  const ids = [...(await Promise.all(plain)), ...(await Promise.all(inside))];
  const results = await Promise.all(ids.map((id) => hf.result(echo, id, { timeout: "25s" })));
  expect(results.map(({ n }) => n)).toEqual([...Array(100).keys(), ...Array(20).keys()]);
  await until("the schedule to have made a job", async () => (await hf.list({ type: "tick" })).jobs.length > 0);
  await worker.stop();
}

describe("worker, scheduler, enqueues and transactions work", () => {
  it.each([1, 2])("with %i connections of the store", async (connections) => {
    const { store } = await openStore(server, { connections });
    await useEverything(await openClient(store, echo, tick), callersPool(2));
  });

  it.each([2, 3])("with %i connections shared with the caller", async (max) => {
    const pool = callersPool(max);
    await useEverything(await onPool(pool, echo, tick), pool);
  });

  it("with one shared connection, by polling", async () => {
    const pool = callersPool(1);
    const store = postgres({ pool, schema: ownSchema(server) });
    expect(store.capabilities.push).toBe(false);
    await useEverything(await openClient(store, echo, tick), pool);
  });
});

describe("a transaction on the last connection of the pool", () => {
  it("creates its queue itself", async () => {
    const pool = callersPool(1);
    const hf = await onPool(pool, echo);
    const tx = await pool.connect();
    await tx.query("BEGIN");
    await hf.enqueue(echo, { n: 1 }, { tx, queue: "undone" });
    await tx.query("ROLLBACK");
    await tx.query("BEGIN");
    await hf.enqueue(echo, { n: 2 }, { tx, queue: "done" });
    await tx.query("COMMIT");
    tx.release();
    expect((await hf.queues()).map(({ queue }) => queue)).toEqual(["done"]);
    const { id } = await hf.enqueue(echo, { n: 3 }, { queue: "undone" });
    hf.work({ poll: "50ms" });
    expect(await hf.result(id, { timeout: "10s" })).toEqual({ n: 3 });
  });

  it("does not lock an existing queue", async () => {
    const pool = callersPool(1);
    const schema = ownSchema(server);
    const hf = await openClient(postgres({ pool, schema }), echo);
    const others = await openClient(addressOf(server.url(), schema), echo);
    await others.enqueue(echo, { n: 1 });
    const tx = await pool.connect();
    await tx.query("BEGIN");
    await hf.enqueue(echo, { n: 2 }, { tx });
    // A new process uses the same queue.
    const newcomer = await openClient(addressOf(server.url(), schema), echo);
    await newcomer.enqueue(echo, { n: 3 });
    await tx.query("COMMIT");
    tx.release();
    expect((await others.stats()).states.pending).toBe(3);
  });
});

it("after a refused connection, calls wait for existing ones", async () => {
  const free: PgClient[] = [];
  const connection = (): PgClient => {
    const made: PgClient = { query: async () => ({ rows: [] }), release: () => void free.push(made) };
    return made;
  };
  free.push(connection(), connection());
  let refusals = 0;
  const connect = async (): Promise<PgClient> => {
    const found = free.pop();
    if (found !== undefined) return found;
    refusals++;
    throw Object.assign(new Error("sorry, too many clients already"), { code: "53300" });
  };
  const lending = new ConnectionLender({ connect, end: async () => {}, query: async () => ({ rows: [] }) });
  const work = (): Promise<void> => lending.using(() => new Promise((resolve) => void setImmediate(resolve)));
  await Promise.all(Array.from({ length: 10 }, work));
  expect(refusals).toBeLessThanOrEqual(8);
  const before = refusals;
  await Promise.all(Array.from({ length: 10 }, work));
  expect(refusals).toBe(before);
});
