import type { NewJob, Store } from "holdfast/store";
import type pg from "pg";
import { describe, expect, it } from "vitest";
import { add, claimOne, key, newJob, outcomeOf } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { openScene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

/** A call that may wait for somebody's transaction: over, or waiting, when this is. */
async function underWay(call: Promise<unknown>, by: pg.Client): Promise<void> {
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

describe("a job that is enqueued again by its id", () => {
  it.each([
    ["without a key", null],
    ["with a key", key("k")],
  ])("%s while it ends is the job that ended, in one table only", async (_, unique) => {
    const scene = await openScene(server);
    const { store, sql } = scene;
    const job = newJob({ unique });
    await store.insert([job]);
    const lease = await claimOne(store);
    const { client } = await scene.session();
    await client.query("BEGIN");
    expect(await store.settleIn(client, outcomeOf(lease, "completed"), null)).toBe("applied");
    const again = inserting(store, [job]);
    await underWay(again, client);
    await client.query("COMMIT");
    expect(await again).toEqual([{ status: "duplicate", of: job.id, replaced: false }]);
    expect(await sql("SELECT 1 FROM $s.live")).toEqual([]);
    expect(await sql("SELECT id FROM $s.archive")).toEqual([{ id: job.id }]);
  });

  it("in SQL while it ends is the job that ended", async () => {
    const scene = await openScene(server);
    const { store, sql } = scene;
    const id = await add(store);
    const lease = await claimOne(store);
    const { client } = await scene.session();
    await client.query("BEGIN");
    await store.settleIn(client, outcomeOf(lease, "completed"), null);
    const again = sql("SELECT $s.enqueue('mail', id => $1) AS id", [id]);
    await underWay(again, client);
    await client.query("COMMIT");
    expect(await again).toEqual([{ id }]);
    expect(await sql("SELECT 1 FROM $s.live")).toEqual([]);
  });
});
