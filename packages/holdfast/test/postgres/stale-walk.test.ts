import { describe, expect, it } from "vitest";
import { add, addAll, claim, claimOne, newJobs } from "#src/testing/exercise-store/builders.js";
import { explained, nodesOf, pagesOf } from "./explained.js";
import { openScene, type RunSql } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

const BACKLOG = 30_000;

/** Waiting jobs that are due before any expired lease. */
function fill(schema: string, queue = "default"): Promise<unknown> {
  return server.query(
    `INSERT INTO ${schema}.live (id, type, queue, priority, state, input, input_bytes, attempt, max_attempts, losses, releases,
       fence, run_at, created_at, updated_at, due_at)
     SELECT gen_random_uuid(), 'mail', $2, 0, 'pending', '{}', 2, 0, 4, 0, 0, 0, 1, 1, 1, 1 FROM generate_series(1, $1::integer)`,
    [BACKLOG, queue],
  );
}

/** Expired leases: before, between and after the due jobs, and in another lane. */
async function lease(store: Parameters<typeof add>[0], sql: RunSql, schema: string): Promise<string[]> {
  const ids = [...(await addAll(store, newJobs(3))), await add(store, { queue: "other", maxAttempts: 1 })];
  expect(await claim(store)).toHaveLength(4);
  await sql("UPDATE $s.live SET due_at = 2");
  await sql("UPDATE $s.live SET due_at = 0 WHERE id = $1", [ids[0]]);
  await fill(schema);
  await fill(schema, "other");
  await sql("UPDATE $s.live SET due_at = 1, seq = (SELECT avg(seq) FROM $s.live) WHERE id = $1", [ids[1]]);
  return ids;
}

describe("expired leases behind many due jobs", () => {
  it("are found in steps of a few thousand jobs", async () => {
    const seen = await explained(server);
    const { store, schema } = seen;
    const sql = async (text: string, values?: unknown[]): Promise<never[]> =>
      (await server.query(text.replaceAll("$s", schema), values)).rows as never[];
    const ids = await lease(store, sql, schema);
    await server.query(`VACUUM ANALYZE ${schema}.live`);
    let found: string[] = [];
    const plans = await seen.plansOf(async () => (found = (await store.reapExpiredLeases(500)).map(({ id }) => id)));
    expect(found).toEqual([ids[0], ids[1], ids[2], ids[3]]);
    expect(plans.length).toBeGreaterThanOrEqual((2 * BACKLOG) / 5_000);
    const rows = plans.flatMap(nodesOf).map((node) => node["Actual Rows"] ?? 0);
    expect(Math.max(...rows)).toBeLessThanOrEqual(5_000);
    expect(Math.max(...plans.map(pagesOf))).toBeLessThan(6_000);
  });

  it("are reaped up to the limit, the others by the next call", async () => {
    const { store, sql, schema } = await openScene(server, { isNew: true });
    const ids = await lease(store, sql, schema);
    expect((await store.reapExpiredLeases(3)).map(({ id, to }) => [id, to])).toEqual(
      ids.slice(0, 3).map((id) => [id, "pending"]),
    );
    expect(await store.reapExpiredLeases(3)).toMatchObject([{ id: ids[3], queue: "other", attempt: 0, to: "pending" }]);
    expect(await store.reapExpiredLeases(3)).toEqual([]);
  });

  it("are all reaped by one call in SQL", async () => {
    const { store, sql, schema } = await openScene(server, { isNew: true });
    const ids = await lease(store, sql, schema);
    expect(await sql("SELECT $s.expire_stale_jobs(3) AS n")).toEqual([{ n: 3 }]);
    await sql("UPDATE $s.live SET state = 'running' WHERE id = ANY ($1)", [ids]);
    expect(await sql("SELECT $s.expire_stale_jobs() AS n")).toEqual([{ n: 4 }]);
    expect(await sql("SELECT $s.expire_stale_jobs() AS n")).toEqual([{ n: 0 }]);
  });
});

describe("a job with the maximum number of lost leases", () => {
  it.each([4, 1])("is reaped, with at most %i attempts", async (maxAttempts) => {
    const { store, sql } = await openScene(server, { isNew: true });
    const id = await add(store, { maxAttempts });
    await claimOne(store);
    await sql("UPDATE $s.live SET due_at = 1, losses = 32767, state = 'running'");
    expect(await store.reapExpiredLeases(10)).toMatchObject([{ id, to: maxAttempts === 1 ? "dead" : "pending" }]);
    expect((await store.get(id))?.losses).toBe(32_767);
  });
});
