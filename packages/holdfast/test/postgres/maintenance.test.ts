import { describe, expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { openScene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

describe("maintenance", () => {
  it("rolls up many counter changes and deletes expired keys", async () => {
    const { store, sql } = await openScene(server);
    await sql(`INSERT INTO $s.deltas (at, queue, type, state, n, ended)
      SELECT 1, 'default', 'mail', 'completed', 1, true FROM generate_series(1, 120000)`);
    await sql(`INSERT INTO $s.keys (key, job, scope, until)
      SELECT 'k' || n, gen_random_uuid(), 'period', 1 FROM generate_series(1, 12000) AS n`);
    await sql("INSERT INTO $s.keys (key, job, scope) VALUES ('held', gen_random_uuid(), 'forever')");
    await store.maintain();
    expect(await sql("SELECT count(*)::integer AS n FROM $s.deltas")).toEqual([{ n: 0 }]);
    expect(await sql("SELECT key FROM $s.keys")).toEqual([{ key: "held" }]);
    expect((await store.stats()).counts).toEqual([
      { queue: "default", type: "mail", state: "completed", count: 120_000 },
    ]);
  });

  it("resets a lane that was used in the future", async () => {
    const { store, sql } = await openScene(server);
    await sql("INSERT INTO $s.lanes (queue, priority, used_at) VALUES ('ahead', 0, 9000000000000000)");
    await store.maintain();
    const aging = "SELECT queue FROM $s.lanes WHERE used_at <= extract(epoch FROM clock_timestamp()) * 1000";
    expect(await sql(aging)).toEqual([{ queue: "ahead" }]);
  });

  it("readers roll up changes in the background", async () => {
    const { store, sql } = await openScene(server);
    const left = async (): Promise<number> =>
      (await sql<{ n: number }>("SELECT count(*)::integer AS n FROM $s.deltas"))[0]?.n ?? 0;
    const add = `INSERT INTO $s.deltas (at, queue, type, state, n, ended)
      SELECT 1, 'default', 'mail', 'completed', 1, true FROM generate_series(1, 120000)`;
    await sql(add);
    // More than one statement can roll up: each reader continues.
    await until("all to be rolled up", async () => {
      expect((await store.stats()).counts[0]?.count).toBe(120_000);
      return (await left()) === 0;
    });
  });

  it.each([
    ["is not acquired twice when clocks differ a little", 5_000, false],
    ["is acquired after the clock was set back", 70_000, true],
  ])("a duty %s", async (_case, aheadMs, isAcquired) => {
    const { store, sql } = await openScene(server);
    await sql("INSERT INTO $s.turns SELECT 'duty', extract(epoch FROM clock_timestamp()) * 1000 + $1", [aheadMs]);
    expect(await store.tryAcquireDuty("duty", 60_000)).toBe(isAcquired);
  });
});
