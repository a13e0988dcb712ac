import { job } from "holdfast";
import { postgres, type PostgresOptions, type PostgresStore } from "holdfast/postgres";
import pg from "pg";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import {
  add,
  addAll,
  claim,
  claimOne,
  failureOf,
  finish,
  insertAll,
  jobIn,
  key,
  leaseOf,
  newEntry,
  newJob,
  newJobs,
  newTokenRecord,
  outcomeOf,
  settleOne,
} from "#src/testing/exercise-store/builders.js";
import { addSchedule } from "#src/testing/exercise-store/schedule-builders.js";
import {
  childOf,
  eventOf,
  keepStep,
  newChild,
  park,
  stepOf,
  stepsOf,
  waitFor,
} from "#src/testing/exercise-store/step-builders.js";
import type { NewJob } from "#src/store.js";
import { newId } from "#src/job/uuid.js";
import { plantedDatabase } from "./planted.js";
import { openClient } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const planted = plantedDatabase(server);
// The first is PostgreSQL's default: its own functions are found first, unless a planted one fits better.
const PATHS = ["public", "public, pg_catalog"];

afterEach(async () => expect(await planted.runs(), "planted functions that ran").toBe(0));

interface Opened {
  store: PostgresStore;
  schema: string;
}
async function open(path: string, options: Omit<PostgresOptions, "pool"> = {}): Promise<Opened> {
  const schema = server.newSchema();
  const store = postgres(`${planted.address(path)}&schema=${schema}`, options);
  onTestFinished(async () => {
    await store.close();
    await planted.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
  });
  await store.migrate();
  return { store, schema };
}

async function transaction(path: string): Promise<pg.Client> {
  const client = await planted.client(path);
  onTestFinished(() => client.end());
  await client.query("BEGIN");
  return client;
}

describe.each(PATHS)("planted functions in %s do not run", (path) => {
  it("in operations on jobs", { timeout: 60_000 }, async () => {
    const { store } = await open(path);
    await add(store);
    await addAll(store, newJobs(3, { tags: ["a", "b"], user: "ada", input: JSON.stringify("x".repeat(20_000)) }));
    const again = newJob();
    expect(await insertAll(store, [again, newJob()])).toHaveLength(2);
    expect(await insertAll(store, [again, newJob()])).toMatchObject([{ status: "duplicate" }, { status: "inserted" }]);
    for (const onConflict of ["keep", "reject", "replace"] as const) {
      await insertAll(store, [newJob({ unique: key("k", { onConflict }), delayMs: 60_000, tags: ["t"] })]);
    }
    const own = { parent: newId(1), settings: { timeoutMs: 0, keepMs: { completed: 0 } }, delayMs: 60_000 };
    await insertAll(store, [newJob(own)]);
    await insertAll(store, [newJob(own), newJob(own)]);
    for (const _ of [1, 2]) await insertAll(store, [newJob({ ...own, unique: key("o", { onConflict: "replace" }) })]);
    await insertAll(store, [newJob({ unique: key("p", { scope: "period", periodMs: 60_000 }), queue: "other" })]);

    // Fast, full and typed claims, before and after the types index exists.
    await claim(store, { queues: ["nothing"] });
    await claim(store, { queues: ["nothing"] });
    const [first, second, third, ...more] = await claim(store, { limit: 6 });
    if (first === undefined || second === undefined || third === undefined) throw new Error("nothing was claimed");
    await add(store, { type: "rare" });
    await finish(store, await claimOne(store, { types: ["rare"] }));
    const refs = [first, second].map(({ id, fence }) => ({ id, fence }));
    expect(await store.start(refs.map((ref) => ({ ...ref, startedAt: 1 })))).toEqual(["kept", "kept"]);
    expect(await store.extend(refs, 60_000)).toEqual(["kept", "kept"]);
    await store.note([
      { ...first, progress: { fraction: 0.5, note: "half", data: null }, log: [{ at: 1, line: "line" }] },
    ]);
    await finish(store, first);
    expect(await settleOne(store, failureOf(second, "no"))).toBe("applied");
    expect(await settleOne(store, outcomeOf(third, "dead", { keep: false }))).toBe("applied");
    expect(await store.cancel([second.id, ...more.map(({ id }) => id)])).toContain("requested");
    await finish(store, more[0] as (typeof more)[0], "cancelled");
    const waiting = await jobIn(store, "failed", { tags: ["a"], settings: own.settings, queue: "u" });
    const due = { runAt: null, delayMs: 0 };
    const change = { queue: "v", priority: 3, input: "2", tags: ["b"], maxAttempts: 9, expiresAt: null, due };
    expect(await store.update([{ id: waiting, ...change }, { id: first.id }])).toMatchObject([
      { status: "updated" },
      { status: "not-waiting" },
    ]);
    await finish(store, await claimOne(store, { queues: ["v"] }));
    await expect.poll(() => store.purgeDue(10)).toBe(1);
    const dead = await jobIn(store, "dead", { unique: key("d") });
    expect(await store.retry([dead, await jobIn(store, "failed")])).toEqual(["retried", "retried"]);
    expect(await store.remove([dead, await jobIn(store, "completed")])).toEqual(["removed", "removed"]);
  });

  it("in steps and events", { timeout: 60_000 }, async () => {
    const { store, schema } = await open(path);
    await add(store, { queue: "parents" });
    const parent = await claimOne(store, { queues: ["parents"] });
    await keepStep(store, stepOf(parent, "done"));
    await keepStep(store, stepOf(parent, "done"));
    const failure = { message: "no", code: null };
    await keepStep(store, stepOf(parent, "failed", { to: "failed", value: null, failure }));
    await keepStep(store, waitFor(parent, "paid"));
    const children = Array.from({ length: 5 }, () => newChild({ parent: parent.id, maxAttempts: 1 }));
    for (const [member, child] of children.entries())
      await keepStep(store, childOf(parent, child, { name: "all", member }));
    await keepStep(store, childOf(parent, children[0] as NewJob, { name: "again" }));
    await park(store, parent);
    expect(await store.openChildren([parent.id], 10)).toHaveLength(6);
    expect(await store.emit([eventOf("paid"), eventOf("paid")])).toEqual([{ first: true }, { first: false }]);
    const again = await claimOne(store, { queues: ["parents"] });
    const [first, second, third] = await claim(store, { queues: ["children"], limit: 3, leaseMs: 1 });
    if (first === undefined || second === undefined || third === undefined) throw new Error("nothing was claimed");
    await finish(store, first);
    await finish(store, second, "completed", { keep: false });
    expect(await store.cancel([children[3]?.id ?? ""])).toEqual(["cancelled"]);
    expect(await store.remove([children[4]?.id ?? ""])).toEqual(["removed"]);
    await store.start([{ ...third, startedAt: 1 }]);
    await expect.poll(() => store.reapExpiredLeases(10)).toHaveLength(1);
    await keepStep(store, waitFor(again, "late"));
    const tx = await transaction(path);
    expect(await store.emitIn(tx, eventOf("late"))).toEqual({ first: true });
    expect(await store.saveStepIn(tx, stepOf(again, "book"))).toMatchObject({ status: "kept" });
    await tx.query(`SELECT ${schema}.emit('other')`);
    await tx.query("COMMIT");
    await store.repairWaits(10);
    await finish(store, again, "dead", { reopen: ["failed", "all"] });
    expect((await stepsOf(store, parent.id)).filter(({ state }) => state === "done")).toHaveLength(7);
    expect(await store.retry([parent.id])).toEqual(["retried"]);
    expect(await store.purgeEvents(10)).toBe(0);
    await store.purge({ state: "completed", before: null, keep: 0, limit: 10 });
    await store.maintain();
  });

  it("in lists, counts and operator calls", { timeout: 60_000 }, async () => {
    const { store } = await open(path);
    await addAll(store, newJobs(30, { tags: ["t"], user: "ada" }));
    for (const state of ["completed", "dead", "failed", "running"] as const) await jobIn(store, state, { user: "ada" });
    const page = { limit: 5, cursor: null };
    const created = { createdAfter: 1, createdBefore: Date.now() + 60_000 };
    const filters = [
      {},
      { states: ["completed"] as const, types: ["mail"], queues: ["default"] },
      { states: ["pending"] as const, types: ["mail"], queues: ["default"], ...created },
      { states: ["failed"] as const },
      { user: "ada", ...created },
      { tag: "t", states: ["pending"] as const },
      { schedule: "s" },
      { parent: newId(1), priority: 1 },
      { ids: [newId(1)] },
      { types: ["none"], ...created },
    ];
    for (const filter of filters) {
      await store.list(filter, page);
      await store.list(filter, { ...page, payloads: false });
      await store.skip?.(filter, page);
      await store.list(filter, { ...page, order: "oldest" });
    }
    expect(await store.keyHolder("k")).toBeNull();
    expect(await store.freeKey("k")).toBe("missing");
    expect(await store.stats()).toMatchObject({ counts: expect.any(Array) as unknown });
    for (const queue of ["default", "*"]) {
      await store.pause(queue);
      await store.resume(queue);
    }
    await store.queues();
    await store.heartbeat({ id: "w", host: "h", pid: 1 } as never);
    await store.workers();
    await store.deregister("w");
    await store.audit([newEntry(), newEntry()]);
    for (const filter of [{}, { actor: "a" }, { action: "b" }, { actor: "a", action: "b" }]) {
      await store.listAudit(filter, page);
    }
    await store.purgeAudit({ before: Date.now() + 60_000, limit: 10 });
    const token = newTokenRecord();
    await store.putToken(token);
    await store.getToken(token.id);
    await store.listTokens();
    await store.removeToken(token.id);
    expect((await store.doctor()).filter(({ found }) => /the check failed|planted/.test(found))).toEqual([]);
  });

  it("in schedules and maintenance", { timeout: 60_000 }, async () => {
    const { store } = await open(path);
    const schedule = await addSchedule(store, { nextRunAt: 1, user: "ada", tags: ["t"] });
    await store.putSchedule({ ...schedule, version: newId(2), queue: "q" }, schedule.version);
    await store.listSchedules(
      { origin: "runtime", enabled: true, user: "ada", type: "mail" },
      { limit: 1, cursor: "" },
    );
    const [due] = (await store.dueSchedules(10)).schedules;
    if (due === undefined) throw new Error("no schedule is due");
    const slot = { slot: 1, through: null, job: newJob({ schedule: { name: due.name, slot: 1 } }), reason: null };
    const firing = { name: due.name, version: due.version, newVersion: newId(3), nextRunAt: 2, lastSlot: 1 };
    expect(await store.fire([{ ...firing, slots: [slot] }])).toMatchObject([{ status: "fired" }]);
    expect(await store.removeSchedule(due.name)).toBe(true);

    await addAll(store, newJobs(2, { expiresAt: 1, runAt: 1 }));
    expect(await store.expireOverdue(10)).toHaveLength(2);
    await claim(store, { leaseMs: 1 });
    await expect.poll(() => store.reapExpiredLeases(10)).toHaveLength(1);
    expect(await store.purge({ state: "dead", before: Date.now() + 60_000, keep: null, limit: 10 })).toBe(2);
    await store.maintain();
    expect(await store.tryAcquireDuty("t", 1_000)).toBe(true);
  });

  it("in the caller's transactions", async () => {
    const { store } = await open(path);
    const tx = await transaction(path);
    await store.insertIn(tx, [newJob({ queue: "a" }), newJob({ unique: key("k") })]);
    await store.insertIn(tx, [newJob({ unique: key("k", { onConflict: "replace" }) })]);
    const id = await jobIn(store, "running");
    const ended = outcomeOf({ ...(await leaseOf(store, id)), attempt: 1, releases: 0 } as never, "completed");
    const note = {
      id,
      fence: ended.fence,
      progress: { fraction: 1, note: null, data: null },
      log: [{ at: 1, line: "l" }],
    };
    expect(await store.settleIn(tx, ended, note)).toBe("applied");
    await tx.query("COMMIT");
    expect((await tx.query("SHOW search_path")).rows).toEqual([{ search_path: path.replaceAll(" ", "") }]);
  });

  it("on the caller's pool", async () => {
    const schema = server.newSchema();
    const pool = new pg.Pool({ connectionString: planted.address(path), max: 3 });
    const store = postgres({ pool, schema });
    onTestFinished(async () => {
      await store.close();
      await pool.end();
      await planted.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
    });
    await store.migrate();
    await add(store);
    await finish(store, await claimOne(store));
    expect((await pool.query("SHOW search_path")).rows).toEqual([{ search_path: path.replaceAll(" ", "") }]);
  });

  it("in hints and workers", async () => {
    const { store } = await open(path);
    const copy = job({ type: "copy", input: z.object({ n: z.number() }), run: ({ input }) => input.n });
    const hf = await openClient(store, copy);
    const { id } = await hf.enqueue(copy, { n: 1 });
    hf.work({ poll: "1s" });
    expect(await hf.result(copy, id, { timeout: "20s" })).toBe(1);
  });

  it("in functions, triggers and policies", async () => {
    const users = server.newSchema();
    await planted.query(`CREATE SCHEMA ${users}; CREATE TABLE ${users}.users (id pg_catalog.text PRIMARY KEY);
      INSERT INTO ${users}.users VALUES ('ada'); GRANT ALL ON SCHEMA ${users} TO PUBLIC; GRANT ALL ON ${users}.users TO PUBLIC`);
    onTestFinished(async () => void (await planted.query(`DROP SCHEMA ${users} CASCADE`)));
    const { store, schema } = await open(path, { users: { table: `${users}.users` } });
    await jobIn(store, "completed", { user: "ada", tags: ["t"], unique: key("k") });
    await add(store, { user: "ada", tags: ["t"], unique: key("l") });
    await addSchedule(store, { user: "ada" });
    const tx = await transaction(path);
    await tx.query(
      `SELECT ${schema}.enqueue('mail', '{"n": 1}', unique_key => 'k', tags => ARRAY['a'], user_id => 'ada')`,
    );
    await tx.query(`SELECT ${schema}.enqueue('mail')`);
    await tx.query(`SELECT ${schema}.expire_stale_jobs()`);
    await tx.query("COMMIT");
    expect((await planted.query(`SELECT id FROM ${schema}.jobs`)).rows).toHaveLength(4);
    const { rows } = await tx.query(`DELETE FROM ${users}.users RETURNING 1`);
    expect(rows).toHaveLength(1);
    expect((await planted.query(`SELECT user_id FROM ${schema}.jobs`)).rows).toEqual([{ user_id: null }]);
    await store.undoMigrations({ to: 0, loseData: true });
  });

  it("in an import", async () => {
    const { store } = await open(path);
    const old = server.newSchema();
    const client = await planted.client("pg_catalog");
    onTestFinished(() => client.end());
    await client.query(`CREATE SCHEMA ${old}; CREATE TABLE ${old}.jobs (id text, status text, n int, at timestamptz, input json);
      INSERT INTO ${old}.jobs VALUES ('1', 'pending', 1, now(), '{}'), ('2', 'complete', 2, now(), '{}'), ('3', 'running', 3, now(), '[]')`);
    onTestFinished(async () => void (await planted.query(`DROP SCHEMA ${old} CASCADE`)));
    const map = { id: "id", status: "status", priority: "n", createdAt: "at", input: ["input"] } as const;
    const result = await store.importLegacy({ table: `${old}.jobs`, type: "t", map, drop: true });
    expect(result).toMatchObject({ imported: 3, dropped: [`${old}.jobs`] });
  });
});
