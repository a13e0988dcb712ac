import type { NewJob, Store } from "holdfast/store";
import type pg from "pg";
import { describe, expect, it } from "vitest";
import { add, claim, claimOne, key, newJob, outcomeOf } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { openScene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

/** Resolves when a call is done or waits for another transaction. */
async function doneOrWaiting(call: Promise<unknown>, by: pg.Client): Promise<void> {
  let isOver = false;
  const over = (): void => void (isOver = true);
  call.then(over, over);
  const [{ pid }] = (await by.query("SELECT pg_backend_pid() AS pid")).rows as [{ pid: number }];
  const waiting = "SELECT 1 FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))";
  await until("the call to end or to wait", async () => isOver || (await server.query(waiting, [pid])).rows.length > 0);
}

async function inserting(store: Store, jobs: NewJob[]): Promise<unknown> {
  return store.insert(jobs);
}

describe("a job that is enqueued again with its id", () => {
  it.each([
    ["without a key", null],
    ["with a key", key("k")],
  ])("%s while it finishes is a duplicate of the finished job", async (_, unique) => {
    const scene = await openScene(server);
    const { store, sql } = scene;
    const job = newJob({ unique });
    await store.insert([job]);
    const lease = await claimOne(store);
    const { client } = await scene.session();
    await client.query("BEGIN");
    expect(await store.settleIn(client, outcomeOf(lease, "completed"), null)).toBe("applied");
    const again = inserting(store, [job]);
    await doneOrWaiting(again, client);
    await client.query("COMMIT");
    expect(await again).toEqual([{ status: "duplicate", of: job.id, replaced: false }]);
    expect(await sql("SELECT 1 FROM $s.live")).toEqual([]);
    expect(await sql("SELECT id FROM $s.archive")).toEqual([{ id: job.id }]);
  });

  it("in SQL while it finishes is a duplicate", async () => {
    const scene = await openScene(server);
    const { store, sql } = scene;
    const id = await add(store);
    const lease = await claimOne(store);
    const { client } = await scene.session();
    await client.query("BEGIN");
    await store.settleIn(client, outcomeOf(lease, "completed"), null);
    const again = sql("SELECT $s.enqueue('mail', id => $1) AS id", [id]);
    await doneOrWaiting(again, client);
    await client.query("COMMIT");
    expect(await again).toEqual([{ id }]);
    expect(await sql("SELECT 1 FROM $s.live")).toEqual([]);
  });
});

describe("an id that an open transaction has enqueued", () => {
  it("returns busy and blocks no other job of its batch", async () => {
    const scene = await openScene(server);
    const { store } = scene;
    const { client } = await scene.session();
    const held = newJob();
    await client.query("BEGIN");
    await store.insertIn(client, [held]);
    const jobs = [newJob(), held, newJob({ unique: key("k") }), newJob()];
    const inserted = { status: "inserted" };
    expect(await store.insert(jobs)).toEqual([inserted, "busy", inserted, inserted]);
    await client.query("COMMIT");
    expect(await store.insert([held])).toEqual([{ status: "duplicate", of: held.id, replaced: false }]);
  });

  it("is waited for in a transaction, without enqueuing it twice", async () => {
    const scene = await openScene(server);
    const { store, sql } = scene;
    const [first, second] = [(await scene.session()).client, (await scene.session()).client];
    const [held, quick] = [newJob(), newJob()];
    await first.query("BEGIN");
    await store.insertIn(first, [held]);
    await second.query("BEGIN");
    const waiting = Promise.resolve(store.insertIn(second, [held, quick]));
    await doneOrWaiting(waiting, first);
    await store.insert([quick]);
    await store.settle([outcomeOf(await claimOne(store), "completed")]);
    await first.query("ROLLBACK");
    expect(await waiting).toEqual([{ status: "inserted" }, { status: "duplicate", of: quick.id, replaced: false }]);
    await second.query("COMMIT");
    expect(await sql("SELECT id FROM $s.live")).toEqual([{ id: held.id }]);
    expect(await sql("SELECT id FROM $s.archive")).toEqual([{ id: quick.id }]);
  });
});

it("an id that a REPEATABLE READ transaction enqueues again causes no errors", async () => {
  const scene = await openScene(server);
  const { store, sql } = scene;
  const { client } = await scene.session();
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  await client.query("SELECT 1");
  const job = newJob();
  await store.insert([job]);
  await store.settle([outcomeOf(await claimOne(store), "completed", { output: '"first"' })]);
  await store.insertIn(client, [job]);
  await client.query("COMMIT");
  const other = newJob();
  await store.insert([other]);
  const leases = await claim(store);
  expect(leases.map(({ id }) => id)).toEqual([job.id, other.id]);
  const outcomes = leases.map((lease) => outcomeOf(lease, "completed", { output: '"second"' }));
  expect((await store.settle(outcomes)).at(1)).toBe("applied");
  expect(await store.get(job.id)).toMatchObject({ state: "completed", output: '"first"' });
  expect(await sql("SELECT 1 FROM $s.live")).toEqual([]);
});

describe("a duplicate id in one batch", () => {
  it("is inserted for the first job", async () => {
    const { store } = await openScene(server);
    const job = newJob({ input: JSON.stringify("x".repeat(600)) });
    const other = newJob();
    const duplicate = { status: "duplicate", of: job.id, replaced: false };
    const inserted = { status: "inserted" };
    expect(await store.insert([job, job, other, job])).toEqual([inserted, duplicate, inserted, duplicate]);
  });

  it("takes the first key and leaves the second free", async () => {
    const { store, sql } = await openScene(server);
    const job = newJob({ unique: key("a") });
    expect(await store.insert([job, { ...job, unique: key("b") }])).toEqual([
      { status: "inserted" },
      { status: "duplicate", of: job.id, replaced: false },
    ]);
    expect(await sql("SELECT key FROM $s.keys")).toEqual([{ key: "a" }]);
  });
});

describe("an id that two transactions insert with different keys", () => {
  it("takes the first key; the other stays free", async () => {
    const scene = await openScene(server);
    const { store, sql } = scene;
    const [first, second] = [(await scene.session()).client, (await scene.session()).client];
    const job = newJob({ unique: key("a") });
    await first.query("BEGIN");
    await second.query("BEGIN");
    await store.insertIn(first, [job]);
    const again = Promise.resolve(store.insertIn(second, [newJob(), { ...job, unique: key("b") }]));
    await doneOrWaiting(again, first);
    await first.query("COMMIT");
    expect(await again).toEqual([{ status: "inserted" }, { status: "duplicate", of: job.id, replaced: false }]);
    await second.query("COMMIT");
    expect(await sql("SELECT key FROM $s.keys")).toEqual([{ key: "a" }]);
  });

  it("is rejected for the second in SQL", async () => {
    const scene = await openScene(server);
    const { store, sql } = scene;
    const { client } = await scene.session();
    const job = newJob({ unique: key("a") });
    await client.query("BEGIN");
    await store.insertIn(client, [job]);
    const again = sql("SELECT $s.enqueue('mail', id => $1, unique_key => 'b') AS id", [job.id]);
    await doneOrWaiting(again, client);
    await client.query("COMMIT");
    await expect(again).rejects.toMatchObject({ code: "40001", message: expect.stringMatching(/another key/) });
    expect(await sql("SELECT key FROM $s.keys")).toEqual([{ key: "a" }]);
  });
});
