import { postgres } from "holdfast/postgres";
import type pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { PARKED_AT } from "#src/job/stored-step.js";
import {
  add,
  claim,
  claimIds,
  claimOne,
  finish,
  insertOne,
  key,
  MINUTE,
  newJob,
  outcomeOf,
  recordOf,
  settleOne,
} from "#src/testing/exercise-store/builders.js";
import {
  childOf,
  DAY,
  eventOf,
  keepStep,
  newChild,
  onlyStep,
  park,
  parkedFor,
  saveStep,
  stepOf,
  stepsOf,
  waitFor,
} from "#src/testing/exercise-store/step-builders.js";
import { hurry } from "../hurry.js";
import { forgetRolesOf, memberOf, newRole, login } from "./roles.js";
import { openScene, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

/** A transaction that holds the row of a job. */
async function lock({ session }: Scene, id: string): Promise<() => Promise<void>> {
  const { sql } = await session();
  await sql("BEGIN");
  expect(await sql("SELECT 1 FROM $s.live WHERE id = $1 FOR UPDATE", [id])).toHaveLength(1);
  return async () => void (await sql("COMMIT"));
}

/** A parked job, and a child of it that waits in the queue `children`. */
async function parkedParent({ store }: Pick<Scene, "store">): Promise<{ parent: string; child: string }> {
  await add(store, { queue: "parents" });
  const lease = await claimOne(store, { queues: ["parents"] });
  const child = newChild({ parent: lease.id });
  await keepStep(store, childOf(lease, child));
  await park(store, lease);
  return { parent: lease.id, child: child.id };
}

describe("a step", () => {
  it("is busy while a transaction has locked its job; others are stored", async () => {
    const scene = await openScene(server);
    const { store } = scene;
    await add(store);
    await add(store);
    const [first, second] = [await claimOne(store), await claimOne(store)];
    const release = await lock(scene, first.id);
    const results = await store.saveSteps([stepOf(first, "a"), stepOf(second, "a"), childOf(first, newChild())]);
    expect(results.map(({ status }) => status)).toEqual(["busy", "kept", "busy"]);
    await release();
    expect(await saveStep(store, stepOf(first, "a"))).toMatchObject({ status: "kept" });
    expect(await claimIds(store, { queues: ["children"] })).toEqual([]);
  });

  it("is not stored without its child when the lock of its job ends meanwhile", async () => {
    const scene = await openScene(server);
    await add(scene.store);
    const lease = await claimOne(scene.store);
    const release = await lock(scene, lease.id);
    const pool = server.pool();
    onTestFinished(() => pool.end());
    let released = 0;
    pool.on("connect", (client) => {
      const query = client.query.bind(client) as (...given: unknown[]) => Promise<pg.QueryResult>;
      const releasing = (config: pg.QueryConfig, ...more: unknown[]): Promise<pg.QueryResult> => {
        const result = query(config, ...more);
        if (config.name?.includes("hold_leases") !== true || released++ > 0) return result;
        return result.then(async (rows) => {
          await release();
          return rows;
        });
      };
      client.query = releasing as typeof client.query;
    });
    const store = postgres({ pool, schema: scene.schema, notify: false });
    onTestFinished(() => store.close());
    const child = newChild();
    expect(await store.saveSteps([childOf(lease, child)])).toEqual([{ status: "busy" }]);
    expect(released).toBe(1);
    expect(await stepsOf(store, lease.id)).toEqual([]);
    expect(await saveStep(store, childOf(lease, child))).toMatchObject({ status: "kept" });
    expect(await claimIds(store, { queues: ["children"] })).toEqual([child.id]);
  });

  it("in an open transaction keeps claims of its job away", async () => {
    const { store, session } = await openScene(server);
    const id = await add(store);
    const old = await claimOne(store, { leaseMs: 1 });
    const { client, sql } = await session();
    await sql("BEGIN");
    expect(await store.saveStepIn(client, stepOf(old, "book"))).toMatchObject({ status: "kept" });
    // Other steps of the job are not kept waiting by it.
    expect(await saveStep(store, stepOf(old, "other"))).toMatchObject({ status: "kept" });
    await expect.poll(() => store.saveSteps([stepOf(old, "late")])).toMatchObject([{ status: "kept" }]);
    expect(await claim(store)).toEqual([]);
    await sql("COMMIT");
    const lease = await claimOne(store);
    expect(lease.id).toBe(id);
    expect((await stepsOf(store, id)).map(({ name }) => name).toSorted()).toEqual(["book", "late", "other"]);
    expect(await saveStep(store, stepOf(old, "too late"))).toEqual({ status: "lost" });
  });

  it("is rejected without an open transaction", async () => {
    const { store, session } = await openScene(server);
    await add(store);
    const lease = await claimOne(store);
    const { client } = await session();
    for (const call of [
      async () => store.saveStepIn(client, stepOf(lease, "book")),
      async () => store.emitIn(client, eventOf("paid")),
    ])
      await expect(call()).rejects.toMatchObject({ code: "INVALID_OPTION", message: expect.stringMatching(/BEGIN/) });
    expect(await stepsOf(store, lease.id)).toEqual([]);
  });

  it("that an open transaction is about to store holds up no others", async () => {
    const { store, session } = await openScene(server);
    await add(store);
    await add(store);
    const [first, second] = [await claimOne(store), await claimOne(store)];
    await keepStep(store, stepOf(first, "before"));
    const { client, sql } = await session();
    await sql("BEGIN");
    await store.saveStepIn(client, stepOf(first, "book"));
    const results = await store.saveSteps([stepOf(first, "book"), stepOf(second, "a")]);
    expect(results.map(({ status }) => status)).toEqual(["busy", "kept"]);
    await sql("ROLLBACK");
    expect(await saveStep(store, stepOf(first, "book"))).toMatchObject({ status: "kept" });
  });

  it("that PostgreSQL cannot store is refused alone", async () => {
    const { store } = await openScene(server);
    await add(store);
    const lease = await claimOne(store);
    const results = await store.saveSteps([
      stepOf(lease, "a\0b"),
      stepOf(lease, "invalid", { value: "{" }),
      stepOf(lease, "good", { value: '"a\\u0000b"' }),
    ]);
    expect(results.map(({ status }) => status)).toEqual(["refused", "refused", "kept"]);
    expect((await onlyStep(store, lease.id)).value).toBe('"a\\u0000b"');
    const dead = outcomeOf(lease, "dead", { reopen: ["a\0b"] });
    expect(await settleOne(store, dead)).toBe("applied");
  });
});

describe("what follows from a commit", () => {
  it("an open transaction with the row of a job that waits holds up no others", async () => {
    const scene = await openScene(server);
    const { store } = scene;
    const held = await parkedFor(store, "paid", { queue: "q" });
    const free = await parkedFor(store, "paid", { queue: "q" });
    const release = await lock(scene, held);
    const before = performance.now();
    expect(await store.emit([eventOf("paid", "1")])).toEqual([{ first: true }]);
    expect(performance.now() - before).toBeLessThan(2_000);
    expect((await onlyStep(store, held)).value).toBe("1");
    expect(await claimIds(store)).toEqual([free]);
    await release();
    expect(await store.repairWaits(10)).toBe(1);
    expect(await claimIds(store)).toEqual([held]);
  });

  it("an emit whose process crashed is finished by a repair", async () => {
    const { store, sql } = await openScene(server);
    const id = await parkedFor(store, "paid", { queue: "q" });
    await sql("INSERT INTO $s.wakes (topic, value) VALUES ('event:paid', '1')");
    expect(await store.repairWaits(10)).toBe(1);
    expect([(await onlyStep(store, id)).value, await claimIds(store)]).toEqual(["1", [id]]);
    expect(await sql("SELECT 1 FROM $s.wakes")).toEqual([]);
  });

  it("a crash between the end of a wait and the wake is repaired", async () => {
    const { store, sql } = await openScene(server);
    const id = await parkedFor(store, "paid", { queue: "q" });
    await sql("UPDATE $s.steps SET state = 'done', value = '1', ended_at = 1");
    await sql("INSERT INTO $s.wakes (job, name, failed) VALUES ($1, 'wait for paid', false)", [id]);
    expect(await store.repairWaits(10)).toBe(1);
    expect(await claimIds(store)).toEqual([id]);
  });

  it("events and jobs that ended without a note are found, some at a time", async () => {
    const { store, sql } = await openScene(server);
    const waiting = await Promise.all(["a", "b", "c"].map((name) => parkedFor(store, name)));
    const { parent, child } = await parkedParent({ store });
    // As a process of the previous version leaves it.
    await sql("DELETE FROM $s.live WHERE id = $1", [child]);
    await sql("INSERT INTO $s.events VALUES ('a', '1', 0, 9e15), ('b', '2', 0, 9e15)");
    let woken = 0;
    for (let call = 0; call < 4; call++) woken += await store.repairWaits(2);
    expect(woken).toBe(3);
    expect((await claimIds(store)).toSorted()).toEqual([...waiting.slice(0, 2), parent].toSorted());
    expect((await onlyStep(store, parent)).failure).toMatchObject({ state: "missing" });
  });

  it("a reopened step keeps waiting although its job has ended", async () => {
    const { store } = await openScene(server);
    const { parent, child } = await parkedParent({ store });
    await finish(store, await claimOne(store, { queues: ["children"] }), "dead");
    await finish(store, await claimOne(store, { queues: ["parents"] }), "dead", { reopen: ["child"] });
    await store.repairWaits(10);
    expect((await onlyStep(store, parent)).state).toBe("waiting");
    expect(await store.retry([child, parent])).toEqual(["retried", "retried"]);
    await finish(store, await claimOne(store, { queues: ["children"] }), "completed", { output: "1" });
    expect((await onlyStep(store, parent)).value).toBe("1");
  });

  it("an event with more waits than one statement ends reaches all", async () => {
    const { store, sql } = await openScene(server);
    const id = await parkedFor(store, "paid", { queue: "q" });
    await sql(`INSERT INTO $s.steps (job, name, member, place, kind, state, fence, tries, topic, wake, started_at)
      SELECT gen_random_uuid(), 'w', 0, 0, 'event', 'waiting', 1, 0, 'event:paid', 'last', 0 FROM generate_series(1, 5001)`);
    await store.emit([eventOf("paid")]);
    expect(await sql("SELECT 1 FROM $s.steps WHERE state = 'waiting'")).toEqual([]);
    expect(await sql("SELECT 1 FROM $s.wakes")).toEqual([]);
    expect(await claimIds(store)).toEqual([id]);
  });

  it("a commit of an event wakes a worker of another process", async () => {
    const { store, address, session } = await openScene(server);
    const other = postgres(address);
    onTestFinished(() => other.close());
    const woken = new Promise<void>((resolve) => {
      other.listen?.((hint) => void (hint.kind === "work" && hint.inMs === 0 && resolve()));
    });
    await woken;
    const id = await parkedFor(store, "paid", { queue: "q" });
    const { parent } = await parkedParent({ store });
    const child = await claimOne(store, { queues: ["children"] });
    const { client, sql } = await session();
    await sql("BEGIN");
    await store.emitIn(client, eventOf("paid"));
    await store.settleIn(client, outcomeOf(child, "completed", { output: "7" }), null);
    expect(await claimIds(store)).toEqual([]);
    await sql("COMMIT");
    const due: string[] = [];
    await expect.poll(async () => due.push(...(await claimIds(store)))).toBe(2);
    expect(due.toSorted()).toEqual([id, parent].toSorted());
    expect((await onlyStep(store, parent)).value).toBe("7");
  });

  it("an event that an open transaction emits is waited for, and not by others", async () => {
    const { store, session } = await openScene(server);
    const { client, sql } = await session();
    await sql("BEGIN");
    await store.emitIn(client, eventOf("held", "1"));
    await hurry(() =>
      expect(store.emit([eventOf("held", "2"), eventOf("free")])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" }),
    );
    expect(await store.emit([eventOf("free")])).toEqual([{ first: false }]);
    const again = store.emit([eventOf("held", "3")]);
    await sql("ROLLBACK");
    expect(await again).toEqual([{ first: true }]);
  });
});

describe("an event that PostgreSQL cannot store", () => {
  it("fails alone", async () => {
    const { store } = await openScene(server);
    const id = await parkedFor(store, "paid", { queue: "q" });
    await expect(store.emit([eventOf("paid"), eventOf("other", "{")])).rejects.toMatchObject({ code: "STORE_ERROR" });
    expect(await claimIds(store)).toEqual([id]);
  });
});

describe("SQL that ends jobs", () => {
  it("expire_stale_jobs fails the step of the parent", async () => {
    const { store, sql } = await openScene(server);
    await add(store, { queue: "parents" });
    const parent = await claimOne(store, { queues: ["parents"], leaseMs: DAY });
    await keepStep(store, childOf(parent, newChild({ maxAttempts: 1 })));
    await park(store, parent);
    const child = await claimOne(store, { queues: ["children"], leaseMs: 1 });
    await store.start([{ ...child, startedAt: 1 }]);
    await expect.poll(() => sql("SELECT $s.expire_stale_jobs() AS n")).toEqual([{ n: 1 }]);
    expect(await store.repairWaits(10)).toBe(1);
    expect((await onlyStep(store, parent.id)).failure).toMatchObject({ code: "STALE_CLAIM", state: "dead" });
  });

  it("deleting a user deletes steps, and fails waits for the user's jobs", async () => {
    const users = `users_${server.newSchema()}`;
    await server.query(`CREATE TABLE ${users} (id text PRIMARY KEY); INSERT INTO ${users} VALUES ('ada')`);
    onTestFinished(async () => void (await server.query(`DROP TABLE ${users} CASCADE`)));
    const scene = await openScene(server, { users: { table: `public.${users}` } });
    const { store, sql } = scene;
    await add(store, { queue: "parents" });
    const parent = await claimOne(store, { queues: ["parents"], leaseMs: DAY });
    const child = newChild({ user: "ada" });
    await keepStep(store, childOf(parent, child));
    await park(store, parent);
    await parkedFor(store, "paid", { user: "ada" });
    await finish(store, { ...(await claimOne(store, { queues: ["children"] })) }, "pending");
    await sql(`DELETE FROM ${users}`);
    expect(await store.repairWaits(10)).toBe(1);
    expect((await onlyStep(store, parent.id)).failure).toMatchObject({ state: "missing" });
    expect(await sql("SELECT DISTINCT job FROM $s.steps")).toEqual([{ job: parent.id }]);
  });
});

describe("roles", () => {
  it("work and admin have steps and events; enqueue and users have none", async () => {
    const reader = await newRole(server, "reader");
    const scene = await openScene(server, { access: { userRoles: [reader] } });
    forgetRolesOf(server, scene.schema);
    const { store } = scene;
    await parkedFor(store, "paid", { user: "ada" });
    const worker = await memberOf(server, scene, "work");
    const asWorker = postgres(worker.address, { access: { userRoles: [reader] } });
    onTestFinished(() => asWorker.close());
    expect(await asWorker.emit([eventOf("paid")])).toEqual([{ first: true }]);
    const { parent } = await parkedParent({ store: asWorker });
    await finish(asWorker, await claimOne(asWorker, { queues: ["children"] }));
    expect((await onlyStep(asWorker, parent)).state).toBe("done");
    await asWorker.repairWaits(10);
    expect(await asWorker.remove([parent])).toEqual(["removed"]);
    for (const login_ of [await memberOf(server, scene, "enqueue"), await login(server, scene, reader)])
      for (const table of ["steps", "events", "wakes"])
        await expect(login_.sql(`SELECT 1 FROM $s.${table}`)).rejects.toMatchObject({ code: "42501" });
  });

  it("enqueue emits by a function", async () => {
    const scene = await openScene(server, { access: {} });
    forgetRolesOf(server, scene.schema);
    const { store, session } = scene;
    const member = await memberOf(server, scene, "enqueue");
    const emitter = postgres(member.address, { access: {} });
    onTestFinished(() => emitter.close());
    const ids = [];
    for (const event of ["a", "b", "c"]) ids.push(await parkedFor(store, event, { queue: "q" }));
    expect(await emitter.emit([eventOf("a", "1"), eventOf("a", "2")])).toEqual([{ first: true }, { first: false }]);
    expect(await emitter.emit([eventOf("a", "1")])).toEqual([{ first: false }]);
    const { client, sql } = await session();
    await sql(`SET ROLE ${member.role}`);
    await sql("BEGIN");
    expect(await emitter.emitIn(client, eventOf("b"))).toEqual({ first: true });
    await sql("COMMIT");
    expect(await member.sql("SELECT $s.emit('c') AS first")).toEqual([{ first: true }]);
    for (const bad of ["''", "'x', NULL", "'x', '1', '91 days'", "E'\\x01'", `'x', '"\\u0000"'`])
      await expect(member.sql(`SELECT $s.emit(${bad})`)).rejects.toMatchObject({ code: "22023" });
    expect(await store.repairWaits(10)).toBe(3);
    expect((await claimIds(store)).toSorted()).toEqual(ids.toSorted());
    expect((await onlyStep(store, ids[0] ?? "")).value).toBe("1");
  });

  it("enqueue does not replace a job with steps", async () => {
    const scene = await openScene(server, { access: {} });
    forgetRolesOf(server, scene.schema);
    const holder = await parkedFor(scene.store, "paid", { unique: key("k"), queue: "q" });
    const { address } = await memberOf(server, scene, "enqueue");
    const enqueuer = postgres(address, { access: {} });
    onTestFinished(() => enqueuer.close());
    const other = newJob({ unique: key("k", { onConflict: "replace" }) });
    expect(await insertOne(enqueuer, other)).toEqual({ status: "duplicate", of: holder, replaced: false });
    expect((await recordOf(scene.store, holder)).dueAt).toBe(PARKED_AT);
  });
});

describe("counters and transitions", () => {
  it("a park is a transition to pending, and a wake is none", async () => {
    const { store } = await openScene(server);
    let cursor = await store.recordTransitions(MINUTE);
    const seen = async (): Promise<string[]> => {
      const page = await store.transitions(cursor, 100);
      cursor = page?.cursor ?? cursor;
      return page?.transitions.map(({ to }) => to) ?? [];
    };
    await add(store);
    const lease = await claimOne(store);
    await keepStep(store, waitFor(lease, "paid"));
    await park(store, lease);
    expect(await seen()).toEqual(["pending", "claimed", "pending"]);
    await store.emit([eventOf("paid")]);
    expect(await seen()).toEqual([]);
    await finish(store, await claimOne(store), "completed", { keep: false });
    expect(await seen()).toEqual(["claimed", "completed"]);
    const { counts, lastMinute } = await store.stats();
    expect([counts, lastMinute.completed]).toEqual([[], 1]);
  });
});
