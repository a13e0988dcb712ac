import type { Store } from "holdfast/store";
import { describe, expect, it } from "vitest";
import { addAll, claim, key, newJob, newJobs, outcomeOf, settleAll } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { hurry } from "../hurry.js";
import { openScene, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

/** A transaction that has locked the row of one job. */
async function lock(
  { session }: Scene,
  table: "live" | "archive",
  id: string | undefined,
): Promise<() => Promise<void>> {
  const { sql } = await session();
  await sql("BEGIN");
  expect(await sql(`SELECT 1 FROM $s.${table} WHERE id = $1 FOR UPDATE`, [id])).toHaveLength(1);
  return async () => void (await sql("ROLLBACK"));
}

async function cancelled(store: Store, count: number): Promise<string[]> {
  const ids = await addAll(store, newJobs(count));
  expect(await store.cancel(ids)).toEqual(ids.map(() => "cancelled"));
  return ids;
}

const lockedOut = (id: string | undefined): object => ({
  code: "STORE_UNAVAILABLE",
  message: expect.stringMatching(
    new RegExp(`job ${id} is locked by an open transaction of another session; the other 2`),
  ),
});

describe("a locked job is waited for briefly and blocks no others", () => {
  it("when jobs are cancelled", async () => {
    const scene = await openScene(server);
    const { store } = scene;
    const ids = await addAll(store, newJobs(3));
    const release = await lock(scene, "live", ids[1]);
    await hurry(() => expect(store.cancel(ids)).rejects.toMatchObject(lockedOut(ids[1])));
    expect((await store.get(ids[0] ?? ""))?.state).toBe("cancelled");
    expect((await store.get(ids[2] ?? ""))?.state).toBe("cancelled");
    await release();
    expect(await store.cancel(ids)).toEqual(["finished", "cancelled", "finished"]);
  });

  it("when jobs are retried", async () => {
    const scene = await openScene(server);
    const { store } = scene;
    const ids = await cancelled(store, 3);
    const release = await lock(scene, "archive", ids[1]);
    await hurry(() => expect(store.retry(ids)).rejects.toMatchObject(lockedOut(ids[1])));
    expect(await claim(store)).toHaveLength(2);
    await release();
    expect(await store.retry(ids)).toEqual(["not-retryable", "retried", "not-retryable"]);
  });

  it("when jobs are updated", async () => {
    const scene = await openScene(server);
    const { store } = scene;
    const ids = await addAll(store, newJobs(3));
    const updates = ids.map((id) => ({ id, priority: 9, tags: ["t"] }));
    const release = await lock(scene, "live", ids[1]);
    await hurry(() => expect(store.update(updates)).rejects.toMatchObject(lockedOut(ids[1])));
    expect((await store.list({ tag: "t", priority: 9 }, { limit: 9, cursor: null })).jobs).toHaveLength(2);
    await release();
    expect(await store.update(updates)).toEqual(ids.map(() => ({ status: "updated" })));
  });

  it("when a job is updated in a lane that a transaction creates", async () => {
    const { store, session } = await openScene(server);
    const ids = await addAll(store, newJobs(3));
    const { sql } = await session();
    await sql("BEGIN");
    await sql("SELECT $s.enqueue('mail', queue => 'new')");
    const updates = ids.map((id, n) => ({ id, queue: n === 1 ? "new" : "other" }));
    await expect(store.update(updates)).rejects.toMatchObject(lockedOut(ids[1]));
    await sql("COMMIT");
    expect(await store.update(updates)).toEqual(ids.map(() => ({ status: "updated" })));
    expect(await claim(store, { queues: ["new"] })).toHaveLength(2);
  });

  it.each(["live", "archive"] as const)("when jobs are removed from the table %s", async (table) => {
    const scene = await openScene(server);
    const { store } = scene;
    const ids = table === "live" ? await addAll(store, newJobs(3)) : await cancelled(store, 3);
    const release = await lock(scene, table, ids[1]);
    await hurry(() => expect(store.remove(ids)).rejects.toMatchObject(lockedOut(ids[1])));
    await release();
    expect(await store.remove(ids)).toEqual(["missing", "removed", "missing"]);
  });

  it("and returns the new state if the lock ends in time", async () => {
    const scene = await openScene(server);
    const { store, sql } = scene;
    const ids = await addAll(store, newJobs(2));
    const release = await lock(scene, "live", ids[0]);
    const results = store.cancel(ids);
    await until("the other to be cancelled", async () => (await sql("SELECT 1 FROM $s.archive")).length > 0);
    await release();
    expect(await results).toEqual(["cancelled", "cancelled"]);
  });

  it("as is a key in an open transaction", async () => {
    const { store, session } = await openScene(server);
    const ids = await addAll(store, [newJob({ unique: key("a") }), newJob(), newJob()]);
    await store.cancel(ids);
    const { client } = await session();
    await client.query("BEGIN");
    await store.insertIn(client, [newJob({ unique: key("a") })]);
    await expect(store.retry(ids)).rejects.toMatchObject(lockedOut(ids[0]));
    await client.query("COMMIT");
    expect(await store.retry(ids)).toEqual(["key-held", "not-retryable", "not-retryable"]);
  });
});

describe("a job that is changing is not reported as missing", () => {
  it("by a concurrent retry", async () => {
    const { store, session, schema } = await openScene(server);
    const [id = ""] = await cancelled(store, 1);
    const { sql } = await session();
    // A retry moves the row between the tables.
    await sql("BEGIN");
    await sql("CREATE TEMP TABLE moving ON COMMIT DROP AS SELECT * FROM $s.archive");
    await sql("DELETE FROM $s.archive");
    await sql(`INSERT INTO $s.live (id, seq, type, queue, priority, state, input, input_bytes, attempt, max_attempts, losses, releases,
        fence, run_at, created_at, updated_at, due_at)
      SELECT id, seq, type, queue, priority, 'pending', input, input_bytes, 0, max_attempts, 0, 0, fence, 1, 1, 1, 1 FROM moving`);
    const result = store.retry([id]);
    await until("the retry to meet it", async () => {
      const { rows } = await server.query(
        `SELECT 1 FROM pg_stat_activity WHERE query LIKE '%"${schema}"%'
           AND (wait_event_type = 'Lock' OR query LIKE 'SELECT id::%text FROM%UNION ALL%')`,
      );
      return rows.length > 0;
    });
    await sql("COMMIT");
    expect(await result).toEqual(["not-retryable"]);
  });

  it("by concurrent retries, claims and cancellations", async () => {
    const { store } = await openScene(server);
    const ids = await cancelled(store, 20);
    for (let round = 0; round < 5; round++) {
      const retried = await Promise.all([store.retry(ids), store.retry(ids.toReversed())]);
      expect(retried.flat()).not.toContain("missing");
      expect(retried.flat().filter((result) => result === "retried")).toHaveLength(ids.length);
      const [jobs, ...asked] = await Promise.all([claim(store, { limit: 10 }), store.cancel(ids), store.cancel(ids)]);
      expect(asked.flat()).not.toContain("missing");
      await settleAll(
        store,
        jobs.map((job) => outcomeOf(job, "cancelled")),
      );
    }
  });
});

describe("a job that the database rejects", () => {
  it("is reported after the others are retried", async () => {
    const { store, sql } = await openScene(server);
    const ids = await cancelled(store, 3);
    await sql(`ALTER TABLE $s.live ADD CHECK (id <> '${ids[0]}')`);
    await expect(store.retry(ids)).rejects.toMatchObject({ code: "STORE_ERROR" });
    expect(await claim(store)).toHaveLength(2);
  });
});
