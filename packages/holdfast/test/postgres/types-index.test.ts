import { describe, expect, it, onTestFinished, vi } from "vitest";
import { Db } from "#src/stores/postgres/connection/db.js";
import { sqlFor } from "#src/stores/postgres/connection/sql.js";
import { TypesIndex } from "#src/stores/postgres/schema/types-index.js";
import { maintenanceOperations } from "#src/stores/postgres/jobs/maintenance.js";
import { claim, claimIds, newJob } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { startProxy } from "./proxy.js";
import { login, newRole } from "./roles.js";
import { fill, openScene, type RunSql, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

// More rows than are indexed synchronously.
const MANY = 20_001;
const INDEX = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('$s.live_types')";

/** Whether the index is valid, invalid or missing. */
async function indexState(sql: RunSql): Promise<boolean | null> {
  return (await sql<{ indisvalid: boolean }>(INDEX))[0]?.indisvalid ?? null;
}

it("workers for all types do not create the index", async () => {
  const { store, sql } = await openScene(server);
  await store.insert([newJob()]);
  await claim(store);
  expect(await indexState(sql)).toBeNull();
});

it("the first claim for types creates it", async () => {
  const { store, sql } = await openScene(server);
  const [mail, other] = [newJob({ type: "mail" }), newJob({ type: "other" })];
  await store.insert([mail, other]);
  expect(await claimIds(store, { types: ["other"] })).toEqual([other.id]);
  expect(await indexState(sql)).toBe(true);
});

it.each([
  ["small", 1],
  ["full", MANY],
])("an invalid index is created again, in a %s table", async (_size, count) => {
  const { store, sql, schema } = await openScene(server);
  const other = newJob({ type: "other" });
  await store.insert([other]);
  await fill(server, schema, count);
  await sql("CREATE INDEX live_types ON $s.live (type)");
  await sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass('$s.live_types')");
  expect(await claimIds(store, { types: ["other"] })).toEqual([other.id]);
  await until("the index", async () => (await indexState(sql)) === true);
});

it("claims and close do not wait for a large index", async () => {
  const { store, sql, schema, session } = await openScene(server);
  const other = newJob({ type: "other" });
  await store.insert([other]);
  await fill(server, schema, MANY);
  // The build waits until all current writers have ended.
  const backup = await session();
  await backup.sql("BEGIN");
  await backup.sql("LOCK TABLE $s.live IN ROW EXCLUSIVE MODE");
  expect(await claimIds(store, { types: ["other"] })).toEqual([other.id]);
  await vi.waitFor(async () => expect(await indexState(sql)).toBe(false), { timeout: 10_000 });
  await store.close();
  expect(await indexState(sql)).toBe(false);
  await backup.sql("COMMIT");
  await vi.waitFor(async () => expect(await indexState(sql)).toBe(true), { timeout: 10_000, interval: 100 });
});

/** The TypesIndex of a process, on its own connections with a short deadlock timeout. */
function processOf(
  { schema }: Scene,
  pool = server.pool({ max: 2, options: "-c deadlock_timeout=10ms" }),
  timeoutMs = 30_000,
): TypesIndex {
  const sql = sqlFor(`"${schema}"`, "text");
  const index = new TypesIndex(sql, new Db(pool, "the test", { owned: false, timeoutMs }), maintenanceOperations(sql));
  onTestFinished(async () => {
    await index.stop();
    await pool.end();
  });
  return index;
}

/** A large table without the index. */
async function fullTable(): Promise<Scene> {
  const scene = await openScene(server);
  await scene.store.insert([newJob()]);
  await fill(server, scene.schema, MANY);
  return scene;
}

/** How many sessions build the index or wait to. */
async function making({ sql, schema }: Scene): Promise<number> {
  const found = await sql(
    "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND starts_with(query, 'CREATE INDEX') AND strpos(query, $1) > 0",
    [schema],
  );
  return found.length;
}

describe("when several processes need it", () => {
  it("one of them creates it, and it is valid", async () => {
    const scene = await fullTable();
    const { session, sql } = scene;
    const processes = [processOf(scene), processOf(scene), processOf(scene)];
    // With this lock no process can start the build, or see that another one waits.
    const holder = await session();
    await holder.sql("BEGIN");
    await holder.sql("LOCK TABLE $s.live IN SHARE UPDATE EXCLUSIVE MODE");
    await Promise.all(processes.map((each) => each.ensure()));
    // A session checks for a deadlock once; later ones are found by the next session that waits.
    await until("all who would make it to wait", async () => {
      const [row] = await sql<{ all: boolean | null }>(
        "SELECT bool_and(waitstart < clock_timestamp() - interval '100 ms') AS all FROM pg_locks WHERE relation = '$s.live'::regclass AND NOT granted",
      );
      return row?.all === true;
    });
    await holder.sql("COMMIT");
    await until("the index", async () => (await making(scene)) === 0);
    expect(await indexState(sql)).toBe(true);
    await until("its maker to use it", () => processes.some(({ exists }) => exists));
    const later = processOf(scene);
    await later.ensure();
    expect(later.exists).toBe(true);
  });

  it("none uses it after a deadlock", async () => {
    const scene = await fullTable();
    const { session, sql } = scene;
    const index = processOf(scene);
    const writer = await session();
    await writer.sql("BEGIN");
    await writer.sql("LOCK TABLE $s.live IN ROW EXCLUSIVE MODE");
    await index.ensure();
    await until("the index to be half made", async () => (await indexState(sql)) === false);
    // It waits for an older transaction, which waits for the table, and it detects the deadlock first.
    const reader = await session();
    await reader.sql("SET deadlock_timeout = '1h'");
    await reader.sql("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await reader.sql("SELECT 1 FROM $s.lanes");
    const locking = reader.sql("LOCK TABLE $s.live IN SHARE UPDATE EXCLUSIVE MODE");
    await until("the reader to wait", async () => {
      const waits = await sql("SELECT 1 FROM pg_locks WHERE relation = '$s.live'::regclass AND NOT granted");
      return waits.length > 0;
    });
    await writer.sql("COMMIT");
    await locking;
    await reader.sql("COMMIT");
    await until("no session to build it", async () => (await making(scene)) === 0);
    await index.ensure();
    expect(await indexState(sql)).toBe(false);
    expect(index.exists).toBe(false);
  });
});

it("a process without privileges leaves it to others", async () => {
  const scene = await fullTable();
  const { role, address } = await login(server, scene, await newRole(server, "worker"));
  await scene.sql(`GRANT USAGE ON SCHEMA $s TO ${role}; GRANT ALL ON $s.live, $s.turns TO ${role}`);
  await processOf(scene, server.pool({ connectionString: address.replace(/\?.*/, "") })).ensure();
  const owner = processOf(scene);
  await owner.ensure();
  await until("the index", () => owner.exists);
});

it("a claim does not wait for it on a silent connection", async () => {
  const scene = await openScene(server);
  const proxy = await startProxy(server.url());
  const pool = server.pool({ connectionString: proxy.url, max: 1 });
  const index = processOf(scene, pool, 200);
  await pool.query("SELECT 1");
  proxy.swallow();
  await expect(index.ensure()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
});
