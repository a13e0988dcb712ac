import { holdfast, job, type HoldfastError } from "holdfast";
import { postgres } from "holdfast/postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { Db } from "#src/stores/postgres/connection/db.js";
import { sqlFor } from "#src/stores/postgres/connection/sql.js";
import type { InsertRunner, Keyed } from "#src/stores/postgres/jobs/insert-direct.js";
import { functionInserts, insertSignatures } from "#src/stores/postgres/schema/insert-functions.js";
import { migrate, undoMigrations, type Patience } from "#src/stores/postgres/schema/migrate.js";
import { MIGRATIONS } from "#src/stores/postgres/schema/migrations.js";
import type { Migration, SchemaSettings } from "#src/stores/postgres/schema/schema.js";
import { newId } from "#src/job/uuid.js";
import { claimOne, finish, insertAll, key, newJob } from "#src/testing/exercise-store/builders.js";
import { newRole } from "./roles.js";
import { addSchedule } from "#src/testing/exercise-store/schedule-builders.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const LATEST = MIGRATIONS.length;

interface Scene {
  schema: string;
  address: string;
  settings: SchemaSettings;
  db: Db;
}

/** A new schema without tables. */
function scene(): Scene {
  const schema = server.newSchema();
  const pool = server.pool({ max: 2, application_name: "migrator" });
  onTestFinished(async () => {
    await pool.end();
    await server.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
  });
  const settings: SchemaSettings = {
    schema: `"${schema}"`,
    channel: `holdfast_${schema}`,
    userType: "text",
    users: null,
    access: null,
  };
  return { schema, address: `${server.url()}?schema=${schema}`, settings, db: new Db(pool, "the test") };
}

/** A migration as a next version may have it: a column with an index. */
const next: Migration = {
  version: LATEST + 1,
  name: "a region for each job",
  up: ({ schema: s }) => `ALTER TABLE ${s}.live ADD COLUMN region text NOT NULL DEFAULT 'eu';
    ALTER TABLE ${s}.archive ADD COLUMN region text NOT NULL DEFAULT 'eu';
    CREATE INDEX live_region ON ${s}.live (region);`,
  down: ({ schema: s }) => `ALTER TABLE ${s}.live DROP COLUMN region; ALTER TABLE ${s}.archive DROP COLUMN region;`,
};
const withNext = { migrations: [...MIGRATIONS, next] };

async function versionsIn(schema: string): Promise<number[]> {
  const { rows } = await server.query(`SELECT version FROM ${schema}.migrations ORDER BY version`);
  return rows.map(({ version }: { version: number }) => version);
}
const ALL = MIGRATIONS.map(({ version }) => version);

describe("migrations()", () => {
  it("C-05 prints SQL that can run twice, as a whole or by statements", async () => {
    const { schema, address } = scene();
    const store = postgres(address);
    await server.query(store.migrations());
    const statements = store.migrations().split(/(?<=END \$holdfast\$;)/);
    for (const statement of statements) await server.query(statement);
    expect(await versionsIn(schema)).toEqual(ALL);
    await store.migrate();
    expect(await insertAll(store, [newJob()])).toEqual([{ status: "inserted" }]);
    await store.close();
  });

  it("prints only migrations after a version", async () => {
    const store = postgres("postgres://localhost/x");
    expect(store.migrations({ from: 1 })).not.toContain('CREATE TABLE "holdfast".live');
    expect(store.migrations({ from: LATEST })).not.toContain("migration");
    expect(() => store.migrations({ from: LATEST + 1 })).toThrow(expect.objectContaining({ field: "from" }));
  });
});

describe("migrate", () => {
  it("C-05 applies each version once from ten processes", async () => {
    const { schema, address } = scene();
    const stores = Array.from({ length: 10 }, () => postgres(address));
    await Promise.all(stores.map((store) => store.migrate()));
    expect(await versionsIn(schema)).toEqual(ALL);
    await Promise.all(stores.map((store) => store.close()));
  });

  it("applies a next version while a worker drains", async () => {
    const { address, settings, db } = scene();
    const migrations: Promise<void>[] = [];
    const ran: number[] = [];
    const type = job({
      type: "counted",
      input: z.object({ n: z.number() }),
      async run({ input }) {
        ran.push(input.n);
        // Some jobs are finished, some run and some wait when the tables change.
        if (ran.length === 100) migrations.push(migrate(db, settings, withNext));
      },
    });
    const logged: unknown[] = [];
    const log = (...line: unknown[]): void => void logged.push(line);
    const hf = await holdfast({ store: address, jobs: [type], logger: { info() {}, warn: log, error: log } });
    await hf.enqueueMany(
      type,
      Array.from({ length: 2_000 }, (_, n) => ({ n })),
    );
    const worker = hf.work({ concurrency: 20 });
    const { id } = await hf.enqueue(type, { n: 2_000 }, { priority: -100 });
    await hf.result(id, { timeout: "20s" });
    expect(await Promise.all(migrations)).toHaveLength(1);
    // Statements that were prepared before the change still work.
    const after = await hf.enqueue(type, { n: 2_001 });
    await hf.result(after.id, { timeout: "10s" });
    await worker.stop();
    expect(ran.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 2_002 }, (_, n) => n));
    expect((await hf.stats()).states).toMatchObject({ completed: 2_002, pending: 0, claimed: 0, running: 0, dead: 0 });
    await hf.close();
    expect(logged).toEqual([]);
  });

  it("rejects a newer schema with advice", async () => {
    const { address, settings, db } = scene();
    await migrate(db, settings, withNext);
    const failed = await holdfast({ store: address }).catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: "SCHEMA_TOO_NEW", message: expect.stringMatching(/upgrade/) });
  });

  it("rejects another userType than the tables have", async () => {
    const { address } = scene();
    await using(address, {});
    await expect(using(address, { userType: "uuid" })).rejects.toMatchObject({
      field: "userType",
      message: expect.stringMatching(/created with "text"/),
    });
  });

  it("rolls back only the version that fails", async () => {
    const { schema, settings, db } = scene();
    const broken = { ...next, up: () => `CREATE TABLE "${schema}".half (n integer); PERFORM 1 / 0;` };
    await expect(migrate(db, settings, { migrations: [...MIGRATIONS, broken] })).rejects.toThrow(/division/);
    expect(await versionsIn(schema)).toEqual(ALL);
    await migrate(db, settings, withNext);
    expect(await versionsIn(schema)).toEqual([...ALL, next.version]);
  });
});

async function using(address: string, options: { userType?: "uuid" }): Promise<void> {
  const store = postgres(address, options);
  try {
    await store.migrate();
  } finally {
    await store.close();
  }
}

describe("a forgotten open transaction", () => {
  /** A session that has read the table of live jobs in an open transaction. */
  async function readerOf(schema: string): Promise<{ pid: number; end(): Promise<void> }> {
    const client = await server.client();
    await client.query("SET application_name = 'left open'");
    await client.query("BEGIN");
    await client.query(`SELECT 1 FROM ${schema}.live LIMIT 1`);
    const { rows } = await client.query("SELECT pg_backend_pid() AS pid");
    return { pid: (rows[0] as { pid: number }).pid, end: () => client.end() };
  }
  const waits = { table: 100, migration: 10_000 };

  it("does not block workers; the migration fails and names it", async () => {
    const { schema, settings, address, db } = scene();
    await migrate(db, settings);
    const reader = await readerOf(schema);
    const store = postgres(address);
    const inserted: string[] = [];
    const patience: Patience = {
      waits,
      tries: 3,
      pause: async () => void inserted.push(...(await insertAll(store, [newJob()])).map(({ status }) => status)),
    };
    const failed = await migrate(db, settings, { ...withNext, patience }).catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect((failed as HoldfastError).message).toMatch(new RegExp(`migration ${next.version}.*3 tries.*${reader.pid}`));
    expect((failed as HoldfastError).message).toContain("left open, idle in transaction");
    expect(inserted).toEqual(["inserted", "inserted"]);
    expect(await versionsIn(schema)).toEqual(ALL);
    await reader.end();
    await store.close();
  });

  it("is waited for in several tries", async () => {
    const { schema, settings, db } = scene();
    await migrate(db, settings);
    const reader = await readerOf(schema);
    const patience: Patience = { waits, tries: 2, pause: () => reader.end() };
    await migrate(db, settings, { ...withNext, patience });
    expect(await versionsIn(schema)).toEqual([...ALL, next.version]);
  });
});

/** Two jobs, as versions before 8 stored them. */
async function addOldJobs(schema: string, { dead, live }: { dead: string; live: string }): Promise<void> {
  const columns = `id, seq, type, queue, priority, state, input, input_bytes, attempt, max_attempts, losses, releases, fence,
    run_at, created_at, updated_at`;
  const values = "'mail', 'default', 0, $2, '{}', 2, 1, 4, 0, 0, 1, 1, 1, 1";
  await server.query(`INSERT INTO ${schema}.archive (${columns}, finished_at) VALUES ($1, 1, ${values}, 2)`, [
    dead,
    "dead",
  ]);
  await server.query(`INSERT INTO ${schema}.live (${columns}, due_at) VALUES ($1, 2, ${values}, 1)`, [live, "pending"]);
  await server.query(
    `INSERT INTO ${schema}.counts SELECT queue, type, state, 1 FROM ${schema}.live UNION ALL SELECT queue, type, state, 1 FROM ${schema}.archive`,
  );
  await server.query(`INSERT INTO ${schema}.lanes VALUES ('default', 0, false, 9e15)`);
}

describe("migrations 8 and 9", () => {
  it("keep jobs, dependents of the view and grants on functions", async () => {
    const { schema, address, settings, db } = scene();
    const role = await newRole(server, "writer");
    await migrate(db, settings, { migrations: MIGRATIONS.slice(0, 7) });
    const [narrow, wide] = (["narrow", "wide"] as const).map((width) => insertSignatures(settings, [width]));
    // Earlier versions had no functions for parents and settings.
    await server.query(`DROP FUNCTION ${wide?.join(", ")}; GRANT EXECUTE ON FUNCTION ${narrow?.join(", ")} TO ${role};
      CREATE VIEW ${schema}.mine AS SELECT * FROM ${schema}.jobs`);
    const [dead, live] = [newId(1), newId(2)];
    await addOldJobs(schema, { dead, live });
    await migrate(db, settings);

    for (const name of wide ?? []) {
      const { rows } = await server.query("SELECT has_function_privilege($1, $2, 'EXECUTE') AS may", [role, name]);
      expect(rows).toEqual([{ may: true }]);
    }
    expect((await server.query(`SELECT id, parent FROM ${schema}.jobs ORDER BY id`)).rows).toEqual([
      { id: dead, parent: null },
      { id: live, parent: null },
    ]);
    const store = postgres(address);
    onTestFinished(() => store.close());
    expect((await store.doctor()).filter(({ check, level }) => check === "schema shape" && level !== "ok")).toEqual([]);
    expect(await claimOne(store)).toMatchObject({ id: live, parent: null, settings: null });
    expect(await store.purgeDue(10)).toBe(0);
    expect(await store.purge({ state: "dead", before: 3, keep: null, limit: 10 })).toBe(1);

    await server.query(`DROP VIEW ${schema}.mine`);
    await undoMigrations(db, settings, { to: 7, loseData: true });
    expect((await server.query(`SELECT state FROM ${schema}.jobs`)).rows).toEqual([{ state: "claimed" }]);
    await migrate(db, settings);
    expect((await store.get(live))?.state).toBe("claimed");
  });

  it("can be undone, and the functions for SQL still work", async () => {
    const { schema, address, settings, db } = scene();
    const store = postgres(address);
    onTestFinished(() => store.close());
    await store.migrate();
    const lost = newJob({ parent: newId(1), maxAttempts: 1 });
    await insertAll(store, [lost]);
    await store.start([{ ...(await claimOne(store, { leaseMs: 1 })), startedAt: 0 }]);
    await undoMigrations(db, settings, { to: 7, loseData: true });

    await expect
      .poll(async () => (await server.query(`SELECT ${schema}.expire_stale_jobs() AS n`)).rows)
      .toEqual([{ n: 1 }]);
    const { rows } = await server.query(`SELECT id, status, worker FROM ${schema}.job_records`);
    expect(rows).toEqual([{ id: lost.id, status: "dead", worker: null }]);
    await server.query(`SELECT ${schema}.enqueue('mail', tags => '{t}'), ${schema}.enqueue('mail', unique_key => 'k')`);
    const first = newJob({ tags: ["t"], unique: key("r", { onConflict: "replace" }) });
    const second = newJob({ tags: ["u"], unique: first.unique });
    const inserts = functionInserts(sqlFor(settings.schema, "text"));
    const terms = { now: null, waitMs: 1_000 };
    const done = await db.transaction(async (transaction) => {
      const runner: InsertRunner = {
        run: (statement, values) => transaction.run(statement, values),
        inside: false,
        isolated: (work) => work(runner),
        atomic: (work) => work(runner),
      };
      return [
        await inserts.plain(runner, [newJob()], terms),
        await inserts.keyed(runner, [first as Keyed], terms),
        await inserts.replace(runner, second as Keyed, first.id, terms),
      ];
    });
    expect(done).toEqual([null, ["new"], "replaced"]);
    const names =
      "SELECT proname FROM pg_proc WHERE pronamespace = $1::regnamespace AND (pronargs = 21 OR proname = 'check_settings')";
    expect((await server.query(names, [schema])).rows).toEqual([]);
    expect((await server.query(`SELECT tag FROM ${schema}.tags ORDER BY tag`)).rows).toEqual([
      { tag: "t" },
      { tag: "u" },
    ]);
    await store.migrate();
    expect((await store.list({}, { limit: 10, cursor: null })).jobs).toHaveLength(5);
  });

  it("allow statements of the previous version", async () => {
    const { schema, address, settings, db } = scene();
    await migrate(db, settings);
    const [dead, live] = [newId(1), newId(2)];
    await addOldJobs(schema, { dead, live });
    const store = postgres(address);
    onTestFinished(() => store.close());
    expect(await store.get(dead)).toMatchObject({ state: "dead", parent: null, settings: null });
    await finish(store, await claimOne(store), "completed");
    expect((await store.get(live))?.state).toBe("completed");
  });
});

it("finds a child that an earlier version has finished", async () => {
  const { schema, address } = scene();
  const store = postgres(address);
  onTestFinished(() => store.close());
  await store.migrate();
  const parent = newId(1);
  const child = newJob({ parent });
  await insertAll(store, [child]);
  await finish(store, await claimOne(store), "completed");
  // Earlier versions do not copy this column to the archive.
  await server.query(`UPDATE ${schema}.archive SET parent = NULL`);
  for (const states of [undefined, ["completed" as const]]) {
    const { jobs } = await store.list({ parent, states }, { limit: 10, cursor: null });
    expect(jobs).toMatchObject([{ id: child.id, parent: null }]);
  }
});

describe("migration 7", () => {
  it("keeps the old view, its dependents and its readers", async () => {
    const { schema, address, settings, db } = scene();
    const role = await newRole(server, "reader");
    await migrate(db, settings, { migrations: MIGRATIONS.slice(0, 6) });
    await server.query(`GRANT USAGE ON SCHEMA ${schema} TO ${role}; GRANT SELECT ON ${schema}.jobs TO ${role} WITH GRANT OPTION;
      CREATE VIEW ${schema}.dead AS SELECT id FROM ${schema}.jobs WHERE status = 'dead'`);
    const [dead, live] = [newId(1), newId(2)];
    await addOldJobs(schema, { dead, live });
    await migrate(db, settings);

    const store = postgres(address);
    onTestFinished(() => store.close());
    expect((await server.query(`SELECT id FROM ${schema}.dead`)).rows).toEqual([{ id: dead }]);
    for (const view of ["jobs", "job_records"]) {
      const { rows } = await server.query("SELECT has_table_privilege($1, $2, 'SELECT WITH GRANT OPTION') AS may", [
        role,
        `${schema}.${view}`,
      ]);
      expect(rows).toEqual([{ may: true }]);
    }
    expect((await store.doctor()).filter(({ check, level }) => check === "schema shape" && level !== "ok")).toEqual([]);

    await server.query(`DROP VIEW ${schema}.dead`);
    await undoMigrations(db, settings, { to: 6, loseData: true });
    expect((await server.query(`SELECT status FROM ${schema}.jobs`)).rows).toHaveLength(2);
  });

  it("keeps a key that an earlier version held forever", async () => {
    const { schema, address, settings, db } = scene();
    await migrate(db, settings, { migrations: MIGRATIONS.slice(0, 6) });
    await server.query(`INSERT INTO ${schema}.keys (key, job, scope) VALUES ('once', gen_random_uuid(), 'ever')`);
    await migrate(db, settings);
    const store = postgres(address);
    onTestFinished(() => store.close());
    expect(await insertAll(store, [newJob({ unique: key("once") })])).toMatchObject([{ status: "duplicate" }]);
  });
});

it("fails if the schema has a table job_records", async () => {
  const { schema, settings, db } = scene();
  await migrate(db, settings, { migrations: MIGRATIONS.slice(0, 6) });
  await server.query(`CREATE TABLE ${schema}.job_records (id integer)`);
  await expect(migrate(db, settings)).rejects.toThrow(/job_records.*already exists/);
  expect(await versionsIn(schema)).toEqual(ALL.slice(0, 6));
});

it("reads the slot reason of manual runs of earlier versions", async () => {
  const { schema, address } = scene();
  const store = postgres(address);
  onTestFinished(() => store.close());
  await store.migrate();
  const { name } = await addSchedule(store, { nextRunAt: 1_000 });
  await server.query(
    `INSERT INTO ${schema}.slots (schedule, fired, slot, reason, at) VALUES ($1, true, 1, 'by hand', 1), ($1, true, 2, 'late', 2)`,
    [name],
  );
  expect((await store.getSchedule(name))?.slots.map(({ reason }) => reason)).toEqual(["late", "manual"]);
});

describe("undoMigrations", () => {
  it("C-05 undoes the newest versions, and migrate applies them again", async () => {
    const { schema, settings, db } = scene();
    await migrate(db, settings, withNext);
    await undoMigrations(db, settings, { to: LATEST, loseData: true }, withNext);
    expect(await versionsIn(schema)).toEqual(ALL);
    await migrate(db, settings, withNext);
    expect(await versionsIn(schema)).toEqual([...ALL, next.version]);
  });

  it("C-05 to 0 drops all tables of Holdfast and no others", async () => {
    const { schema, address } = scene();
    const store = postgres(address);
    await store.migrate();
    await store.insert([newJob()]);
    await server.query(`CREATE TABLE ${schema}.theirs (n integer)`);
    await store.undoMigrations({ to: 0, loseData: true });
    const { rows } = await server.query(
      "SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'v', 'S') ORDER BY 1",
      [schema],
    );
    expect(rows.map(({ relname }: { relname: string }) => relname)).toEqual(["migrations", "theirs"]);
    await store.migrate();
    expect(await store.insert([newJob()])).toEqual([{ status: "inserted" }]);
    await store.close();
  });

  it("is rejected without loseData", async () => {
    const { address } = scene();
    const store = postgres(address);
    await store.migrate();
    await store.insert([newJob()]);
    const unsure = { to: 0 } as unknown as { to: number; loseData: true };
    await expect(store.undoMigrations(unsure)).rejects.toMatchObject({ field: "loseData" });
    expect((await store.list({}, { limit: 10, cursor: null })).jobs).toHaveLength(1);
    await store.close();
  });
});
