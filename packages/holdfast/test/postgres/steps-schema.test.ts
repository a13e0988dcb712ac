import { postgres, type PostgresStore } from "holdfast/postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { newId } from "#src/job/uuid.js";
import { Db } from "#src/stores/postgres/connection/db.js";
import { migrate, undoMigrations } from "#src/stores/postgres/schema/migrate.js";
import { MIGRATIONS } from "#src/stores/postgres/schema/migrations.js";
import type { SchemaSettings } from "#src/stores/postgres/schema/schema.js";
import { add, claim, claimOne, finish } from "#src/testing/exercise-store/builders.js";
import { keepStep, park, stepOf, stepsOf, waitFor } from "#src/testing/exercise-store/step-builders.js";
import { newRole } from "./roles.js";
import { addressOf, ownSchema } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

interface Scene {
  schema: string;
  settings: SchemaSettings;
  db: Db;
  store: PostgresStore;
}

/** A schema of the version before. */
async function sceneBefore(): Promise<Scene> {
  const schema = ownSchema(server);
  const pool = server.pool({ max: 2 });
  const store = postgres(addressOf(server.url(), schema));
  onTestFinished(async () => {
    await store.close();
    await pool.end();
  });
  const settings: SchemaSettings = {
    schema: `"${schema}"`,
    channel: `holdfast_${schema}`,
    userType: "text",
    users: null,
    access: null,
  };
  const db = new Db(pool, "the test");
  await migrate(db, settings, { migrations: MIGRATIONS.slice(0, 14) });
  return { schema, settings, db, store };
}

describe("migration 15", () => {
  it("rewrites no table, keeps grants, and can be undone", async () => {
    const { schema, settings, db, store } = await sceneBefore();
    const role = await newRole(server, "writer");
    const columns = `id, type, queue, priority, state, input, input_bytes, attempt, max_attempts, losses, releases, fence, run_at,
      created_at, updated_at, due_at`;
    const values = "'mail', 'default', 0, 'pending', '{}', 2, 0, 4, 0, 0, 0, 1, 1, 1, 1";
    await server.query(`INSERT INTO ${schema}.live (${columns}) VALUES ($1, ${values})`, [newId(1)]);
    await server.query(`INSERT INTO ${schema}.lanes VALUES ('default', 0, false, 9e15)`);
    await server.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${schema}.deltas TO ${role}`);
    const files = async (): Promise<unknown[]> =>
      (await server.query(`SELECT pg_relation_filenode('${schema}.live'), pg_relation_filenode('${schema}.archive')`))
        .rows;
    const before = await files();
    await migrate(db, settings);
    expect(await files()).toEqual(before);
    for (const table of ["steps", "events", "wakes"]) {
      const { rows } = await server.query(
        "SELECT has_table_privilege($1, $2, 'SELECT, INSERT, UPDATE, DELETE') AS may",
        [role, `${schema}.${table}`],
      );
      expect(rows).toEqual([{ may: true }]);
    }
    expect((await store.doctor()).filter(({ check, level }) => check === "schema shape" && level !== "ok")).toEqual([]);
    const lease = await claimOne(store);
    await keepStep(store, waitFor(lease, "paid"));
    await park(store, lease);
    await undoMigrations(db, settings, { to: 14, loseData: true });
    await server.query(`SELECT ${schema}.enqueue('mail', unique_key => 'k'), ${schema}.expire_stale_jobs()`);
    await migrate(db, settings);
    // Nothing would wake a parked job any more.
    expect((await claim(store)).map(({ id }) => id)).toContain(lease.id);
    expect(await stepsOf(store, lease.id)).toEqual([]);
  });

  it("lets processes of the previous version finish and delete jobs with steps", async () => {
    const { schema, settings, db, store } = await sceneBefore();
    await migrate(db, settings);
    await add(store);
    await add(store);
    const [first, second] = [await claimOne(store), await claimOne(store)];
    for (const lease of [first, second]) await keepStep(store, stepOf(lease, "a"));
    // They do not copy the column, and do not know the table.
    await finish(store, first);
    await server.query(`UPDATE ${schema}.archive SET ties = NULL`);
    expect(await stepsOf(store, first.id)).toHaveLength(1);
    await server.query(`DELETE FROM ${schema}.live`);
    expect(await store.purge({ state: "completed", before: Date.now() + 1_000, keep: null, limit: 10 })).toBe(1);
    await store.maintain();
    expect((await server.query(`SELECT 1 FROM ${schema}.steps`)).rows).toEqual([]);
  });
});
