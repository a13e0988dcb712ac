import { holdfast, job, LeaseLostError } from "holdfast";
import { postgres } from "holdfast/postgres";
import type { StoredJob } from "holdfast/store";
import { describe, expect, it, onTestFinished } from "vitest";
import { newId } from "#src/job/uuid.js";
import {
  insertAll,
  add,
  addAll,
  claim,
  claimOne,
  failureOf,
  key,
  newJob,
  newJobs,
  outcomeOf,
  settleOne,
} from "#src/testing/exercise-store/builders.js";
import { addSchedule } from "#src/testing/exercise-store/schedule-builders.js";
import { hurry } from "../hurry.js";
import { openClient, openScene, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

/** A store whose jobs refer to a users' table with `ada` and `bob`. */
async function sceneWithUsers(): Promise<Scene & { users: string }> {
  const users = `users_${server.newSchema()}`;
  await server.query(`CREATE TABLE ${users} (id text PRIMARY KEY); INSERT INTO ${users} VALUES ('ada'), ('bob')`);
  onTestFinished(async () => void (await server.query(`DROP TABLE ${users} CASCADE`)));
  const scene = await openScene(server, { users: { table: `public.${users}` } });
  return { ...scene, users };
}

const TABLES = ["live", "archive", "inputs", "tags", "keys", "attempts", "log", "schedules", "slots"];
async function rowsIn(scene: Scene): Promise<Record<string, number>> {
  const counts = TABLES.map((name) => `(SELECT count(*)::int FROM $s.${name}) AS ${name}`);
  const [row] = await scene.sql<Record<string, number>>(`SELECT ${counts.join(", ")}`);
  return Object.fromEntries(Object.entries(row ?? {}).filter(([, n]) => n > 0));
}
async function countsOf({ store }: Scene): Promise<unknown[]> {
  return (await store.stats()).counts.map(({ state, count }) => [state, count]);
}

/** Writes rows to every table: a dead job with a log, and a waiting one. */
async function livedThrough({ store }: Scene, user: string): Promise<void> {
  const rich = { user, tags: ["t"], input: JSON.stringify("x".repeat(600)) };
  await add(store, { ...rich, unique: key(`${user} done`, { scope: "forever" }) });
  const leased = await claimOne(store);
  await store.note([{ id: leased.id, fence: leased.fence, progress: null, log: [{ at: 1, line: "went" }] }]);
  await settleOne(store, failureOf(leased, "broke", { to: "dead" }));
  await add(store, { ...rich, unique: key(`${user} waits`), delayMs: 3_600_000 });
}

describe("A-01 the user as a foreign key", () => {
  it("A-01 deletes a user's jobs and schedules with the user", async () => {
    const scene = await sceneWithUsers();
    const { store, sql, users } = scene;
    await livedThrough(scene, "bob");
    const bobs = await rowsIn(scene);
    await livedThrough(scene, "ada");
    await addSchedule(store, { name: "hers", user: "ada" });
    await sql("INSERT INTO $s.slots (schedule, fired, slot, at) VALUES ('hers', true, 1, 1)");
    expect(bobs).toMatchObject({ live: 1, archive: 1, inputs: 2, tags: 2, keys: 2, attempts: 1, log: 1 });
    expect(await countsOf(scene)).toEqual([
      ["dead", 2],
      ["pending", 2],
    ]);

    await sql(`DELETE FROM ${users} WHERE id = 'ada'`);

    expect(await rowsIn(scene)).toEqual(bobs);
    expect(await countsOf(scene)).toEqual([
      ["dead", 1],
      ["pending", 1],
    ]);
    expect(await store.getSchedule("hers")).toBeNull();
    // Counts stay correct after the rollup.
    await sql("UPDATE $s.deltas SET at = 1");
    await store.maintain();
    expect(await countsOf(scene)).toEqual([
      ["dead", 1],
      ["pending", 1],
    ]);
  });

  it("A-01 rejects a job for an unknown user, not its batch", async () => {
    const { store } = await sceneWithUsers();
    const results = await insertAll(store, [newJob({ user: "ada" }), newJob({ user: "eve" }), newJob()]);
    expect(results.map(({ status }) => status)).toEqual(["inserted", "refused", "inserted"]);
    expect(results[1]).toMatchObject({
      reason: "not-stored",
      error: expect.stringMatching(/^no such user: .*foreign key/),
    });
    const schedule = addSchedule(store, { name: "hers", user: "eve" });
    await expect(schedule).rejects.toMatchObject({
      code: "STORE_ERROR",
      message: expect.stringMatching(/no such user/),
    });
  });

  it("a locked user blocks only that user's jobs", async () => {
    const scene = await sceneWithUsers();
    const { store, users } = scene;
    const { client } = await scene.session();
    await client.query("BEGIN");
    await client.query(`SELECT 1 FROM ${users} WHERE id = 'ada' FOR UPDATE`);
    const jobs = [newJob({ user: "bob" }), newJob({ user: "ada" }), newJob()];
    const inserted = { status: "inserted" };
    expect(await store.insert(jobs)).toEqual([inserted, "busy", inserted]);
    const type = job({ type: "hers", run() {} });
    const hf = await openClient(store, type);
    await hurry(() =>
      expect(hf.enqueue(type, undefined, { user: "ada" })).rejects.toMatchObject({
        code: "STORE_UNAVAILABLE",
        message: expect.stringMatching(/user "ada".*; retry/),
      }),
    );
    await client.query("ROLLBACK");
    expect(await hf.enqueue(type, undefined, { user: "ada" })).toMatchObject({ duplicate: false });
  });

  it("a running job of a deleted user loses its lease", async () => {
    const { address, sql, users } = await sceneWithUsers();
    const reasons: unknown[] = [];
    const type = job({
      type: "long",
      async run({ signal, job: { user } }) {
        if (user !== "ada") return;
        await sql(`DELETE FROM ${users} WHERE id = 'ada'`);
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        reasons.push(signal.reason);
      },
    });
    const hf = await holdfast({ store: address, jobs: [type], logger: false });
    const lost = new Promise((resolve) => hf.on("lost", resolve));
    const worker = hf.work({ lease: "1s" });
    const { id } = await hf.enqueue(type, undefined, { user: "ada" });
    await lost;
    const next = await hf.enqueue(type, undefined, { user: "bob" });
    await hf.result(next.id, { timeout: "10s" });
    await worker.stop();
    expect(reasons).toEqual([expect.any(LeaseLostError)]);
    expect(await hf.get(id)).toBeNull();
    expect((await hf.stats()).states).toMatchObject({ completed: 1, running: 0, claimed: 0, pending: 0 });
    await hf.close();
  });

  it("does not affect rows that the store moves or deletes", async () => {
    const scene = await sceneWithUsers();
    const { store, sql } = scene;
    await livedThrough(scene, "ada");
    await livedThrough(scene, "bob");
    const before = await rowsIn(scene);
    const [id = ""] = (await jobsOf(scene)).flatMap((each) =>
      each.state === "dead" && each.user === "ada" ? [each.id] : [],
    );
    await store.retry([id]);
    expect(await rowsIn(scene)).toEqual({ ...before, live: 3, archive: 1 });
    const leased = await claimOne(store);
    await store.start([{ id, fence: leased.fence, startedAt: 1 }]);
    await sql("UPDATE $s.live SET due_at = 1, attempt = max_attempts WHERE id = $1", [id]);
    await sql(`CREATE TABLE $s.ticks (n integer);
      CREATE FUNCTION $s.tick() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM $s.expire_stale_jobs(); RETURN NULL; END $$;
      CREATE TRIGGER tick AFTER INSERT ON $s.ticks FOR EACH ROW EXECUTE FUNCTION $s.tick();
      INSERT INTO $s.ticks VALUES (1);`);
    expect(await store.get(id)).toMatchObject({ state: "dead", tags: ["t"], attempts: [{}, {}] });
    expect(await rowsIn(scene)).toEqual({ ...before, attempts: 3 });
    expect(await countsOf(scene)).toEqual([
      ["dead", 2],
      ["pending", 2],
    ]);
    await store.remove([id]);
    expect(await countsOf(scene)).toEqual([
      ["dead", 1],
      ["pending", 2],
    ]);
  });

  it("users can be deleted without privileges on jobs", async () => {
    const scene = await sceneWithUsers();
    await livedThrough(scene, "ada");
    const role = `clerk_${scene.schema}`;
    await scene.sql(`CREATE ROLE ${role}; GRANT SELECT, DELETE ON ${scene.users} TO ${role}`);
    const { sql } = await scene.session();
    await sql(`SET ROLE ${role}`);
    await sql(`DELETE FROM ${scene.users} WHERE id = 'ada'`);
    expect(await rowsIn(scene)).toEqual({});
    await scene.sql(`REVOKE ALL ON ${scene.users} FROM ${role}; DROP ROLE ${role}`);
  });

  it("A-01 deletes users while their jobs run", async () => {
    const scene = await sceneWithUsers();
    const { store, sql, users } = scene;
    const names = Array.from({ length: 30 }, (_, n) => `u${n}`);
    await sql(`INSERT INTO ${users} SELECT unnest($1::text[])`, [names]);
    for (const user of names) await addAll(store, newJobs(5, { user }));
    const deleting = (async () => {
      for (const user of names) await sql(`DELETE FROM ${users} WHERE id = $1`, [user]);
    })();
    let ended = false;
    const ending = deleting.finally(() => (ended = true));
    while (!ended) {
      const leases = await claim(store, { limit: 7 });
      await store.settle(leases.map((lease) => outcomeOf(lease, "completed")));
    }
    await ending;
    expect(await rowsIn(scene)).toEqual({});
    expect(await countsOf(scene)).toEqual([]);
  });
});

async function jobsOf({ store }: Scene): Promise<readonly StoredJob[]> {
  return (await store.list({}, { limit: 100, cursor: null })).jobs;
}

describe("the option users", () => {
  async function migrating(options: object, schema = server.newSchema()): Promise<unknown> {
    const store = postgres(server.url(), { ...options, schema });
    onTestFinished(async () => void (await server.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)));
    try {
      return await store.migrate();
    } catch (error) {
      return error;
    } finally {
      await store.close();
    }
  }

  it("is rejected if table, column or type is wrong", async () => {
    const users = `users_${server.newSchema()}`;
    await server.query(`CREATE TABLE ${users} (id uuid PRIMARY KEY, n integer UNIQUE)`);
    const table = `public.${users}`;
    const refused: [options: object, field: string, message: RegExp][] = [
      [{ users: { table: "public.missing" } }, "users.table", /table "public"."missing" does not exist/],
      [{ users: { table, column: "key" } }, "users.column", /no column "key"/],
      [{ users: { table } }, "userType", /is "text", but .* is of type uuid/],
      [{ users: { table, column: "n" }, userType: "uuid" }, "userType", /is of type/],
    ];
    for (const [options, field, message] of refused) {
      expect(await migrating(options)).toMatchObject({ field, message: expect.stringMatching(message) });
    }
    expect(await migrating({ users: { table }, userType: "uuid" })).toBeUndefined();
    expect(await migrating({ users: { table, column: "n" }, userType: "bigint" })).toBeUndefined();
    for (const bad of [
      {},
      { table: "users" },
      { table: "a.b; DROP TABLE c" },
      { table, column: "a b" },
      { tabel: table },
    ]) {
      expect(() => postgres("postgres://x/y", { users: bad as { table: string } })).toThrow(/users|table/);
    }
    await server.query(`DROP TABLE ${users} CASCADE`);
  });

  it("can be added later, and is applied once", async () => {
    const users = `users_${server.newSchema()}`;
    await server.query(
      `CREATE TABLE ${users} (id uuid PRIMARY KEY); CREATE TABLE other_${users} (id uuid PRIMARY KEY)`,
    );
    const id = newId(Date.now());
    await server.query(`INSERT INTO ${users} VALUES ($1)`, [id]);
    const { schema, store, sql } = await openScene(server, { userType: "uuid" });
    await addAll(store, newJobs(3, { user: id }));
    const refer = (table: string): object => ({ userType: "uuid", users: { table: `public.${table}` } });
    const keys = (): Promise<object[]> =>
      sql(`SELECT confrelid::regclass::text AS to, count(*)::int AS n, bool_and(convalidated) AS valid
        FROM pg_constraint WHERE contype = 'f' AND connamespace = '$s'::regnamespace GROUP BY 1`);

    expect(await migrating(refer(users), schema)).toBeUndefined();
    expect(await keys()).toEqual([{ to: users, n: 2, valid: true }]);
    const [{ xmin: before } = {}] = await sql<{ xmin?: string }>("SELECT xmin FROM $s.settings WHERE name = 'users'");
    await migrating(refer(users), schema);
    await sql(postgres(server.url(), { ...refer(users), schema }).migrations());
    const [{ xmin: after } = {}] = await sql<{ xmin?: string }>("SELECT xmin FROM $s.settings WHERE name = 'users'");
    expect(after).toBe(before);

    // Another table can replace the first, if it has the users of all jobs.
    expect(await migrating(refer(`other_${users}`), schema)).toMatchObject({
      message: expect.stringMatching(/foreign key/),
    });
    await sql(`INSERT INTO other_${users} TABLE ${users}`);
    expect(await migrating(refer(`other_${users}`), schema)).toBeUndefined();
    expect(await keys()).toEqual([{ to: `other_${users}`, n: 2, valid: true }]);
    const triggers = "SELECT tgrelid::regclass::text AS on FROM pg_trigger WHERE tgname = 'holdfast_$s'";
    expect(await sql(triggers)).toEqual([{ on: `other_${users}` }]);
    // Without the option nothing changes.
    expect(await migrating({ userType: "uuid" }, schema)).toBeUndefined();
    expect(await keys()).toHaveLength(1);
    await server.query(`DROP TABLE ${users} CASCADE; DROP TABLE other_${users} CASCADE`);
  });
});
