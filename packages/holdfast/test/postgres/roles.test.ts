import { holdfast, job, type Holdfast } from "holdfast";
import { postgres, type PostgresStore } from "holdfast/postgres";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { LIMITS } from "#src/defaults.js";
import { recordAudit } from "#src/engine/client/audit.js";
import { engineOf } from "#src/engine/client/holdfast.js";
import type { InsertResult } from "#src/store.js";
import {
  add,
  claim,
  claimOne,
  finish,
  insertAll,
  insertOne,
  key,
  newEntry,
  newOperation,
  newJob,
  newTokenRecord,
  recordOf,
} from "#src/testing/exercise-store/builders.js";
import { forgetRolesOf, memberOf, newRole, login, type Login } from "./roles.js";
import { openScene, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

async function sceneWithRoles(): Promise<Scene> {
  const scene = await openScene(server, { access: {} });
  forgetRolesOf(server, scene.schema);
  return scene;
}

const copy = job({
  type: "copy",
  input: z.object({ text: z.string(), fail: z.boolean().optional() }),
  retry: { maxAttempts: 2, backoff: { base: 0 } },
  run({ input, log }) {
    log("copying");
    if (input.fail === true) throw new Error("asked to");
    return { text: input.text };
  },
});

async function clientOf({ address }: Login, schema: string): Promise<Holdfast> {
  // Like a program that uses the same options in all its processes.
  const store = postgres(address, { schema, access: {} });
  const hf = await holdfast({ store, jobs: [copy], logger: false });
  onTestFinished(() => hf.close());
  return hf;
}

const denied = { code: "STORE_UNREADABLE", message: expect.stringMatching(/permission denied/) as string };
const notAltered = [
  "ALTER TABLE $s.live ADD COLUMN n integer",
  "DROP TABLE $s.counts",
  "TRUNCATE $s.live",
  "CREATE TABLE $s.mine (n integer)",
  "CREATE OR REPLACE FUNCTION $s.expire_stale_jobs(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'",
  "UPDATE $s.migrations SET name = ''",
  "UPDATE $s.settings SET value = ''",
];

describe("a login with the role work", () => {
  it("A-01 runs jobs and schedules of every user", async () => {
    const scene = await sceneWithRoles();
    const worker = await memberOf(server, scene, "work");
    const hf = await clientOf(worker, scene.schema);
    hf.work({ poll: "100ms" });
    const text = "x".repeat(600);
    const { id } = await hf.enqueue(copy, { text }, { user: "ada", tags: ["t"], unique: "k" });
    expect(await hf.result(copy, id, { timeout: "10s" })).toEqual({ text });
    expect(await hf.get(id)).toMatchObject({ user: "ada", log: [{ line: expect.stringContaining("copying") }] });

    const failed = await hf.enqueue(copy, { text, fail: true }, { user: "bob" });
    await expect(hf.result(failed.id, { timeout: "10s" })).rejects.toMatchObject({ code: "JOB_NOT_COMPLETED" });
    expect(await hf.retry(failed.id)).toBe("retried");
    await expect(hf.result(failed.id, { timeout: "10s" })).rejects.toMatchObject({ code: "JOB_NOT_COMPLETED" });

    const later = await hf.enqueue(copy, { text }, { delay: "1h", unique: "later", priority: 5 });
    const options = { unique: { key: "later", onConflict: "replace" }, delay: "2h" } as const;
    expect(await hf.enqueue(copy, { text }, options)).toMatchObject({ id: later.id, replaced: true });
    expect(await hf.cancel(later.id)).toBe("cancelled");
    expect(await hf.remove(later.id)).toBe("removed");

    const fired = new Promise((resolve) => hf.on("completed", resolve));
    await hf.schedule("each", { job: copy, input: { text: "s" }, every: "1s" });
    await fired;
    expect(await hf.schedules.get("each")).toMatchObject({ name: "each" });
    expect(await hf.unschedule("each")).toBe(true);
    expect(await hf.maintain()).toMatchObject({ stale: 0 });
    expect(await hf.purge({ state: "dead", olderThan: 0 })).toBe(1);
    expect((await hf.stats()).states.completed).toBeGreaterThan(1);
    expect(await hf.workers()).toHaveLength(1);
    for (const view of ["jobs", "job_records"]) {
      expect(await worker.sql(`SELECT 1 FROM $s.${view} WHERE user_id = 'ada'`)).toHaveLength(1);
    }
    expect(await worker.sql("SELECT $s.expire_stale_jobs() AS n")).toEqual([{ n: 0 }]);
  });

  it("has privileges on all tables but three of admin", async () => {
    const scene = await sceneWithRoles();
    const forgotten = await scene.sql(`SELECT relname FROM pg_class WHERE relnamespace = '$s'::regnamespace
      AND relname NOT IN ('audit', 'tokens', 'operations') AND relkind IN ('r', 'v', 'S') AND NOT pg_has_role('$s_work', relowner, 'USAGE')
      AND NOT CASE relkind WHEN 'S' THEN has_sequence_privilege('$s_work', oid, 'USAGE') OR relname LIKE '%_n_seq'
        ELSE has_table_privilege('$s_work', oid, 'SELECT') END`);
    expect(forgotten).toEqual([]);
  });

  it("cannot pause queues or alter tables", async () => {
    const scene = await sceneWithRoles();
    const worker = await memberOf(server, scene, "work");
    const hf = await clientOf(worker, scene.schema);
    await scene.store.pause("*");
    await scene.store.pause("default");
    for (const call of [() => hf.pause("default"), () => hf.resume("default"), () => hf.pause(), () => hf.resume()]) {
      await expect(call()).rejects.toMatchObject(denied);
    }
    expect((await scene.store.queues()).filter(({ paused }) => paused)).toHaveLength(2);
    for (const text of notAltered) await expect(worker.sql(text)).rejects.toMatchObject({ code: "42501" });
  });
});

/** Statements on the audit log, the tokens and the operations that only admin may run. */
const notAdministered = [
  "SELECT actor FROM $s.audit",
  "SELECT detail FROM $s.audit",
  "INSERT INTO $s.audit (id, at, actor, action, count) VALUES (gen_random_uuid(), 0, 'me', 'nothing', 0)",
  "UPDATE $s.audit SET actor = 'you'",
  "SELECT id FROM $s.tokens",
  "INSERT INTO $s.tokens (id, name, hash, role, created_at) VALUES ('a', 'a', 'a', 'admin', 0)",
  "UPDATE $s.tokens SET role = 'admin'",
  "DELETE FROM $s.tokens",
  "SELECT plan FROM $s.operations",
  "INSERT INTO $s.operations (id, started_at, state, stop, owner, summary, plan) VALUES (gen_random_uuid(), 0, 'done', false, '', '', '')",
  "UPDATE $s.operations SET stop = true",
  "DELETE FROM $s.operations",
];

describe("the audit log and the tokens", () => {
  const entry = { actor: "token:deploy", action: "jobs.retry", keepMs: 60_000 };
  const over = { ...entry, keepMs: 0 };

  it("can be read but not updated by admin", async () => {
    const scene = await sceneWithRoles();
    const admin = await memberOf(server, scene, "admin");
    const hf = await clientOf(admin, scene.schema);
    await recordAudit(engineOf(hf), { actor: "cli:root@host", action: "queues.pause", target: "default" });
    expect((await hf.audit.list()).entries).toMatchObject([{ action: "queues.pause", target: "default" }]);
    const { id, token } = await hf.tokens.create({ name: "deploy", role: "viewer" });
    expect(await hf.tokens.check(token)).toMatchObject({ id, role: "viewer" });
    expect(await hf.tokens.list()).toHaveLength(1);
    for (const text of ["UPDATE $s.audit SET actor = 'you'", "UPDATE $s.tokens SET role = 'admin'"]) {
      await expect(admin.sql(text)).rejects.toMatchObject({ code: "42501" });
    }
    expect(await hf.tokens.revoke(id)).toBe(true);
    const { store } = engineOf(hf);
    const operation = newOperation();
    await store.putOperation(operation, { owner: "a", leaseMs: 0 });
    expect(await store.claimOperation({ owner: "b", leaseMs: 60_000 })).toMatchObject({ id: operation.id });
    expect(await store.endOperation({ id: operation.id, owner: "b", state: "done", summary: "{}" })).toBe(true);
    expect(await store.purgeOperations({ before: 0, keep: 0 })).toBe(1);
    await scene.store.audit([newEntry(over)]);
    await hf.maintain();
  });

  it("cannot be accessed by enqueue and work", async () => {
    const scene = await sceneWithRoles();
    await scene.store.audit([newEntry(entry)]);
    await scene.store.putToken(newTokenRecord());
    for (const kind of ["enqueue", "work"] as const) {
      const other = await memberOf(server, scene, kind);
      const hf = await clientOf(other, scene.schema);
      await expect(recordAudit(engineOf(hf), { actor: "me", action: "nothing" })).rejects.toMatchObject(denied);
      await expect(hf.audit.list()).rejects.toMatchObject(denied);
      await expect(hf.tokens.create({ name: "mine", role: "admin" })).rejects.toMatchObject(denied);
      await expect(hf.tokens.list()).rejects.toMatchObject(denied);
      for (const text of notAdministered) await expect(other.sql(text)).rejects.toMatchObject({ code: "42501" });
    }
    const web = await memberOf(server, scene, "enqueue");
    await expect(web.sql("DELETE FROM $s.audit")).rejects.toMatchObject({ code: "42501" });
  });

  it("a worker deletes only expired audit entries", async () => {
    const scene = await sceneWithRoles();
    const worker = await memberOf(server, scene, "work");
    const [kept, endless, gone] = [newEntry(entry), newEntry({ ...entry, keepMs: null }), newEntry(over)];
    await scene.store.audit([kept, endless, gone]);
    expect(await worker.sql("SELECT id FROM $s.audit")).toEqual([{ id: gone.id }]);
    const store = postgres(worker.address, { access: {} });
    onTestFinished(() => store.close());
    const before = Date.now() + 3_600_000;
    expect(await store.purgeAudit({ before, limit: 10 })).toBe(1);
    await worker.sql("DELETE FROM $s.audit");
    const { entries } = await scene.store.listAudit({}, { limit: 10, cursor: null });
    expect(new Set(entries.map(({ id }) => id))).toEqual(new Set([kept.id, endless.id]));
  });
});

describe("a login with the role work", () => {
  it("cannot make lists or maintenance scan invalid numbers", async () => {
    const scene = await sceneWithRoles();
    const worker = await memberOf(server, scene, "work");
    const id = await add(scene.store, { type: "here" });
    await worker.sql(
      `INSERT INTO $s.deltas (at, queue, type, state, n, ended, first_seq, last_seq)
       VALUES (0, 'q', 't', 'pending', 0, false, 0, 9000000000000000000)`,
    );
    const page = { limit: 10, cursor: null };
    expect((await scene.store.list({ types: ["here"] }, page)).jobs).toMatchObject([{ id }]);
    await scene.store.maintain();
    const { rows } = await server.query(`SELECT count(*)::integer AS n FROM ${scene.schema}.ages`);
    expect((rows[0] as { n: number }).n).toBeLessThanOrEqual(2);
    expect((await scene.store.list({ types: ["here"] }, page)).jobs).toMatchObject([{ id }]);
  });
});

describe("a login with the role enqueue", () => {
  it("enqueues jobs in every way, for any user", async () => {
    const scene = await sceneWithRoles();
    const web = await memberOf(server, scene, "enqueue");
    const hf = await clientOf(web, scene.schema);
    const large = "x".repeat(600);
    await hf.enqueue(copy, { text: "plain" });
    await hf.enqueueMany(copy, [{ text: "a" }, { text: large }], { user: "ada", tags: ["t", "u"], priority: 3 });
    const first = await hf.enqueue(copy, { text: large }, { unique: "k", tags: ["t"], delay: "1h" });
    expect(await hf.enqueue(copy, { text: "b" }, { unique: "k" })).toMatchObject({ id: first.id, duplicate: true });
    const reject = { unique: { key: "k", onConflict: "reject" } } as const;
    await expect(hf.enqueue(copy, { text: "b" }, reject)).rejects.toMatchObject({ code: "DUPLICATE_JOB" });
    for (const text of ["small", large]) {
      const replace = { unique: { key: "k", onConflict: "replace" }, tags: ["v"] } as const;
      expect(await hf.enqueue(copy, { text }, replace)).toMatchObject({ id: first.id, replaced: true });
    }
    expect(await web.sql("SELECT $s.enqueue('copy', unique_key => 'k') AS id")).toEqual([{ id: first.id }]);
    await web.sql("BEGIN");
    await hf.enqueue(copy, { text: "in" }, { tx: { query: txQuery(web) }, unique: "tx" });
    await web.sql("SELECT $s.enqueue('copy', tags => '{t}', queue => 'sql')");
    await web.sql("COMMIT");

    const inputs = (await claim(scene.store)).map(({ input }) => (JSON.parse(input) as { text?: string }).text);
    const expected = ["plain", "a", large, large, "in", undefined];
    expect(inputs).toHaveLength(expected.length);
    expect(new Set(inputs)).toEqual(new Set(expected));
    expect((await scene.store.stats()).counts.reduce((sum, { count }) => sum + count, 0)).toBe(6);
  });

  it("cannot claim, settle, delete or read jobs", async () => {
    const scene = await sceneWithRoles();
    const web = await memberOf(server, scene, "enqueue");
    const hf = await clientOf(web, scene.schema);
    const { id } = await hf.enqueue(copy, { text: "x".repeat(600) }, { unique: "k" });
    for (const call of [
      () => hf.claim(),
      () => hf.get(id),
      () => hf.list(),
      () => hf.cancel(id),
      () => hf.remove(id),
      () => hf.reapExpiredLeases(),
      () => hf.purge(),
      () => hf.pause("default"),
    ]) {
      await expect(call()).rejects.toMatchObject(denied);
    }
    const refused = [
      ...notAltered,
      "SELECT $s.expire_stale_jobs()",
      "SELECT input FROM $s.live",
      "SELECT input FROM $s.inputs",
      "SELECT * FROM $s.jobs",
      "SELECT * FROM $s.job_records",
      "DELETE FROM $s.live",
      "UPDATE $s.live SET fence = fence + 1, worker = 'me'",
      "UPDATE $s.live SET state = 'running'",
      "SELECT key FROM $s.keys",
      "UPDATE $s.keys SET job = gen_random_uuid()",
      "DELETE FROM $s.keys",
      "SELECT tags FROM $s.live",
      "INSERT INTO $s.deltas (at, queue, type, state, n, ended) VALUES (0, 'q', 't', 'pending', 9, false)",
    ];
    for (const text of refused) await expect(web.sql(text)).rejects.toMatchObject({ code: "42501" });
  });

  it("cannot change a leased job", async () => {
    const scene = await sceneWithRoles();
    const web = await memberOf(server, scene, "enqueue");
    const hf = await clientOf(web, scene.schema);
    const { id } = await hf.enqueue(copy, { text: "x".repeat(600) }, { unique: "k", tags: ["t"] });
    await claim(scene.store);
    const replace = { unique: { key: "k", onConflict: "replace" } } as const;
    expect(await hf.enqueue(copy, { text: "b" }, replace)).toMatchObject({ id, duplicate: true, replaced: false });
    for (const text of ["UPDATE $s.live SET state = 'pending'", "DELETE FROM $s.inputs", "DELETE FROM $s.tags"]) {
      await expect(web.sql(text)).rejects.toMatchObject({ code: "42501" });
    }
    expect(await scene.store.get(id)).toMatchObject({
      state: "claimed",
      input: expect.stringContaining("xxx") as string,
    });
    expect(await scene.sql("SELECT tag FROM $s.tags")).toEqual([{ tag: "t" }]);
  });
});

describe("the role enqueue", () => {
  it("has no privileges on jobs, keys and tags", async () => {
    const scene = await sceneWithRoles();
    const rights = "SELECT, INSERT, UPDATE, REFERENCES";
    const granted = await scene.sql(`SELECT relname FROM pg_class WHERE relnamespace = '$s'::regnamespace AND (
        relkind IN ('r', 'v') AND (has_any_column_privilege('$s_enqueue', oid, '${rights}') OR has_table_privilege('$s_enqueue', oid, 'DELETE, TRUNCATE'))
        OR relkind = 'S' AND has_sequence_privilege('$s_enqueue', oid, 'USAGE, SELECT, UPDATE')) ORDER BY 1`);
    expect(granted).toEqual(["lanes", "migrations", "pauses", "settings"].map((relname) => ({ relname })));
  });

  it("cannot write lanes except by a function", async () => {
    const scene = await sceneWithRoles();
    const web = await memberOf(server, scene, "enqueue");
    for (const text of [
      "INSERT INTO $s.lanes (queue, priority, paused, used_at) VALUES ('q', 0, false, 9000000000000000)",
      "UPDATE $s.lanes SET used_at = 9000000000000000",
    ]) {
      await expect(web.sql(text)).rejects.toMatchObject({ code: "42501" });
    }
    for (const lane of ["'', 0", "'*', 0", "chr(27), 0", "repeat('q', 101), 0", "'q', 101", "NULL, 0"]) {
      const [queue = "", priority = ""] = lane.split(/, (?=\S+$)/);
      const text = `SELECT $s.add_lanes(ARRAY[${queue}]::text[], ARRAY[${priority}]::smallint[], 0, 10)`;
      await expect(web.sql(text)).rejects.toMatchObject({ code: "22023" });
    }
    const hf = await clientOf(web, scene.schema);
    await hf.enqueue(copy, { text: "a" }, { queue: "new", priority: 7 });
    expect(await scene.store.queues()).toMatchObject([{ queue: "new", priorities: [7] }]);
    expect(await claim(scene.store)).toHaveLength(1);
  });

  it("can read settings, but not the cursor key", async () => {
    const scene = await sceneWithRoles();
    const names = async (kind: "enqueue" | "work"): Promise<unknown[]> => {
      const { sql } = await memberOf(server, scene, kind);
      return (await sql<{ name: string }>("SELECT name FROM $s.settings ORDER BY 1")).map(({ name }) => name);
    };
    expect(await names("enqueue")).toEqual(["access", "userType"]);
    expect(await names("work")).toEqual(["access", "cursorKey", "userType"]);
    const web = await memberOf(server, scene, "enqueue");
    const store = postgres(web.address, { access: {} });
    onTestFinished(() => store.close());
    await expect(store.cursorKey()).rejects.toMatchObject({ code: "STORE_UNREADABLE" });
  });

  it("loses privileges that an earlier version granted", async () => {
    const scene = await sceneWithRoles();
    const web = await memberOf(server, scene, "enqueue");
    await scene.sql(`GRANT SELECT, INSERT, UPDATE ON $s.keys TO $s_enqueue; GRANT SELECT (id, tags) ON $s.live TO $s_enqueue;
      CREATE POLICY holdfast_enqueue_reads ON $s.keys FOR SELECT TO $s_enqueue USING (true);
      UPDATE $s.settings SET value = 'earlier' WHERE name = 'access'`);
    await web.sql("SELECT key FROM $s.keys");
    await scene.store.migrate();
    for (const text of ["SELECT key FROM $s.keys", "SELECT tags FROM $s.live"]) {
      await expect(web.sql(text)).rejects.toMatchObject({ code: "42501" });
    }
    expect(
      await scene.sql("SELECT 1 FROM pg_policies WHERE schemaname = '$s' AND policyname LIKE '%enqueue%'"),
    ).toEqual([]);
  });

  it("is not needed for roles with manual grants", async () => {
    const scene = await openScene(server);
    const own = await login(server, scene, await newRole(server, "own"));
    // As an earlier version left it.
    await scene.sql(`GRANT USAGE ON SCHEMA $s TO ${own.role}; GRANT ALL ON ALL TABLES IN SCHEMA $s TO ${own.role};
      GRANT ALL ON ALL SEQUENCES IN SCHEMA $s TO ${own.role}; DELETE FROM $s.migrations WHERE version >= 3`);
    await scene.store.migrate();
    const store = postgres(own.address);
    onTestFinished(() => store.close());
    await add(store);
    const stranger = await login(server, scene, await newRole(server, "stranger"));
    await scene.sql(`GRANT USAGE ON SCHEMA $s TO ${stranger.role}`);
    await expect(stranger.sql("SELECT $s.refuse_finished('{}')")).rejects.toMatchObject({ code: "42501" });
  });

  it.each(["enqueue", "work"] as const)("cannot pause or resume queues: %s", async (kind) => {
    const scene = await sceneWithRoles();
    const other = await memberOf(server, scene, kind);
    await add(scene.store);
    await expect(
      other.sql("INSERT INTO $s.lanes (queue, priority, paused, used_at) VALUES ('default', 5, true, 0)"),
    ).rejects.toMatchObject({ code: "42501" });
    await expect(other.sql("UPDATE $s.lanes SET paused = true")).rejects.toMatchObject({ code: "42501" });
    await scene.store.pause("default");
    if (kind === "work") await other.sql("DELETE FROM $s.lanes");
    else await expect(other.sql("DELETE FROM $s.lanes")).rejects.toMatchObject({ code: "42501" });
    expect(await scene.store.queues()).toMatchObject([{ queue: "default", paused: true }]);
  });
});

describe("jobs of a login with the role enqueue", () => {
  /** Two stores on the same tables: of a login with the role enqueue, and of the owner. */
  async function stores(): Promise<{ web: PostgresStore; owner: PostgresStore; role: Login }> {
    const scene = await sceneWithRoles();
    const role = await memberOf(server, scene, "enqueue");
    const web = postgres(role.address, { access: {} });
    onTestFinished(() => web.close());
    return { web, owner: scene.store, role };
  }

  it("are deduplicated by id, also in a batch", async () => {
    const { web, owner } = await stores();
    const [first, second] = [newJob({ tags: ["t"] }), newJob()];
    expect(await insertAll(web, [first])).toEqual([{ status: "inserted" }]);
    const duplicate = { status: "duplicate", of: first.id, replaced: false };
    expect(await insertAll(web, [first, second, first])).toEqual([duplicate, { status: "inserted" }, duplicate]);
    await finish(owner, await claimOne(owner));
    expect(await insertAll(web, [first])).toEqual([duplicate]);
    expect(await insertAll(web, [newJob({ input: "no json" }), newJob()])).toMatchObject([
      { status: "refused", reason: "not-stored" },
      { status: "inserted" },
    ]);
  });

  it("hold keys, and respect held keys", async () => {
    const { web, owner } = await stores();
    const holder = await add(web, { unique: key("k"), delayMs: 60_000 });
    const asked = (onConflict: "keep" | "reject" | "replace"): Promise<InsertResult> =>
      insertOne(web, newJob({ unique: key("k", { onConflict }), tags: ["new"], input: `"${"x".repeat(5_000)}"` }));
    expect(await asked("keep")).toEqual({ status: "duplicate", of: holder, replaced: false });
    expect(await asked("reject")).toEqual({ status: "refused", reason: "key-held", of: holder });
    expect(await asked("replace")).toEqual({ status: "duplicate", of: holder, replaced: true });
    expect(await recordOf(owner, holder)).toMatchObject({ tags: ["new"], input: `"${"x".repeat(5_000)}"` });
    await claim(owner);
    expect(await asked("replace")).toEqual({ status: "duplicate", of: holder, replaced: false });
    const period = { unique: key("p", { scope: "period", periodMs: 60_000 }) };
    const first = await add(web, period);
    expect(await insertOne(web, newJob(period))).toMatchObject({ of: first });
  });

  it("with one key are one job under concurrency", async () => {
    const { web, owner } = await stores();
    const jobs = Array.from({ length: 20 }, () => newJob({ unique: key("k") }));
    const results = await Promise.all(jobs.map((each) => insertOne(web, each)));
    expect(results.filter(({ status }) => status === "inserted")).toHaveLength(1);
    expect(await claim(owner)).toHaveLength(1);
  });

  it("follow the caller's transaction", async () => {
    const { web, owner, role } = await stores();
    const tx = { query: txQuery(role) };
    for (const end of ["ROLLBACK", "COMMIT"]) {
      await role.sql("BEGIN");
      // By a store of the same login, and by one with privileges on the tables.
      for (const store of [web, owner]) {
        expect(await store.insertIn(tx, [newJob({ unique: key(`${end} of ${store === web}`) })])).toMatchObject([
          { status: "inserted" },
        ]);
        expect(await store.insertIn(tx, [newJob()])).toMatchObject([{ status: "inserted" }]);
      }
      await role.sql("SET LOCAL lock_timeout = '7s'");
      await web.insertIn(tx, [newJob({ unique: key("again", { onConflict: "replace" }) })]);
      expect(await role.sql("SHOW lock_timeout")).toEqual([{ lock_timeout: "7s" }]);
      await role.sql(end);
      expect(await claim(owner)).toHaveLength(end === "COMMIT" ? 5 : 0);
    }
  });

  it("create a lane in a transaction on the last connection", async () => {
    const scene = await sceneWithRoles();
    const { address } = await memberOf(server, scene, "enqueue");
    const pool = new pg.Pool({ connectionString: address.slice(0, address.indexOf("?")), max: 1 });
    const web = postgres({ pool, schema: scene.schema, access: {}, notify: false });
    onTestFinished(async () => {
      await web.close();
      await pool.end();
    });
    const client = await pool.connect();
    await client.query("BEGIN");
    expect(await web.insertIn(client, [newJob({ queue: "fresh" })])).toEqual([{ status: "inserted" }]);
    await client.query("COMMIT");
    client.release();
    expect(await claim(scene.store)).toMatchObject([{ queue: "fresh" }]);
  });

  it("have a computed input size", async () => {
    const { web, owner, role } = await stores();
    await add(web);
    await claim(owner);
    const large = `"${"x".repeat(5_000)}"`;
    const call = (input: string): Promise<unknown[]> =>
      role.sql(
        `SELECT $s.add_jobs(ARRAY[gen_random_uuid()], '{t}', '{default}', '{0}', NULL, ARRAY[$1], '{1}', '{1}', NULL, '{0}', NULL, NULL,
         NULL, NULL, NULL, NULL, '{0}', NULL, 10)`,
        [input],
      );
    await call(large);
    await expect(call(`"${"x".repeat(LIMITS.payloadBytes)}"`)).rejects.toMatchObject({ code: "22023" });
    expect(await claim(owner, { bytes: 1 })).toMatchObject([{ input: large }]);
    expect(await claim(owner)).toEqual([]);
  });
});

describe("a login with the role admin", () => {
  it("pauses, cancels, retries and removes, but cannot alter", async () => {
    const scene = await sceneWithRoles();
    const admin = await memberOf(server, scene, "admin");
    const hf = await clientOf(admin, scene.schema);
    const id = await add(scene.store, { user: "ada" });
    await hf.pause("default");
    expect(await hf.claim()).toEqual([]);
    await hf.resume("default");
    expect(await hf.cancel(id)).toBe("cancelled");
    expect(await hf.retry(id)).toBe("retried");
    expect(await hf.remove(id)).toBe("removed");
    for (const text of notAltered) await expect(admin.sql(text)).rejects.toMatchObject({ code: "42501" });
  });
});

describe("a login without any of the roles", () => {
  it("has no access, and planted functions do not run", async () => {
    const scene = await sceneWithRoles();
    const stranger = await login(server, scene, await newRole(server, "stranger"));
    await expect(stranger.sql("SELECT $s.enqueue('a')")).rejects.toMatchObject({ code: "42501" });
    await expect(stranger.sql("SELECT 1 FROM $s.jobs")).rejects.toMatchObject({ code: "42501" });

    // A schema at the front of the search path, with names that the functions call.
    await scene.sql(`CREATE SCHEMA trap_$s AUTHORIZATION ${stranger.role}`);
    const traps = [
      "pg_notify(text, text)",
      "gen_random_uuid()",
      "octet_length(bytea)",
      "clock_timestamp()",
      "chr(integer)",
      "greatest_(int)",
    ];
    for (const signature of traps) {
      await stranger.sql(
        `CREATE FUNCTION trap_$s.${signature} RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$`,
      );
    }
    await stranger.sql(`CREATE FUNCTION trap_$s.same(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
      CREATE OPERATOR trap_$s.= (LEFTARG = text, RIGHTARG = text, FUNCTION = trap_$s.same);
      CREATE TABLE trap_$s.live (id uuid); CREATE TABLE trap_$s.lanes (queue text, priority integer);
      GRANT ALL ON ALL TABLES IN SCHEMA trap_$s TO PUBLIC; GRANT USAGE ON SCHEMA trap_$s TO PUBLIC`);
    const { sql } = await scene.session();
    await sql("SET search_path = trap_$s, pg_catalog");
    await sql("CREATE TEMP TABLE keys (key text); CREATE TEMP TABLE t (now bigint)");
    await expect(sql("SELECT clock_timestamp()")).rejects.toThrow("trapped");
    const [row] = await sql<{ id: string }>(
      "SELECT $s.enqueue('a', unique_key => 'k', user_id => 'u', tags => '{t}') AS id",
    );
    await sql("SELECT $s.expire_stale_jobs()");
    expect(await scene.store.get(row?.id ?? "")).toMatchObject({ state: "pending" });
    await scene.sql("DROP SCHEMA trap_$s CASCADE");
  });
});

/** A session as the transaction of an enqueue. */
function txQuery(web: Login): (text: string, values: unknown[]) => Promise<{ rows: object[] }> {
  return async (text, values) => ({ rows: await web.sql(text, values) });
}
