import { job } from "holdfast";
import type { PostgresStore } from "holdfast/postgres";
import type { NewJob } from "holdfast/store";
import { describe, expect, it, onTestFinished } from "vitest";
import type pg from "pg";
import { z } from "zod";
import { claimOne, finish, key, newJob, recordOf, stateOf } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { hurry } from "../hurry.js";
import { openClient, openStore } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const mail = job({ type: "mail", run() {} });

/** The caller's transaction, open until the test ends it. */
async function begin(): Promise<pg.Client> {
  const tx = await server.client();
  await tx.query("BEGIN");
  onTestFinished(() => tx.end());
  return tx;
}

describe("a unique key that an open transaction is about to take", () => {
  it("does not block other jobs of its batch", async () => {
    const { store } = await openStore(server);
    const tx = await begin();
    await store.insertIn(tx, [newJob({ unique: key("a") })]);
    const jobs = [newJob(), newJob({ unique: key("a") }), newJob({ unique: key("b") }), newJob()];
    const inserted = { status: "inserted" };
    expect(await store.insert(jobs)).toEqual([inserted, "busy", inserted, inserted]);
    // The longer batch is split until the two are alone.
    const many = Array.from({ length: 200 }, (_, n) => newJob({ unique: key(`many ${n}`) }));
    await store.insertIn(tx, [newJob({ unique: key("many 7") }), newJob({ unique: key("many 150") })]);
    const results = await store.insert(many);
    expect(results.flatMap((result, at) => (result === "busy" ? [at] : []))).toEqual([7, 150]);
  });

  it("does not block a free key among many held ones", async () => {
    const { store } = await openStore(server);
    const tx = await begin();
    const taken = Array.from({ length: 60 }, (_, n) => ({ unique: key(`taken ${n}`) }));
    await store.insertIn(tx, taken.map(newJob));
    const results = await store.insert([...taken, { unique: key("zzz") }].map(newJob));
    expect(results.slice(0, 60).every((result) => result === "busy")).toBe(true);
    expect(results[60]).toEqual({ status: "inserted" });
  });

  it("is waited for without blocking other enqueues", async () => {
    const { address } = await openStore(server);
    const hf = await openClient(address, mail);
    const tx = await begin();
    const first = await hf.enqueue(mail, {}, { unique: "welcome", tx });
    const second = hf.enqueue(mail, {}, { unique: "welcome" });
    const third = hf.enqueueMany(mail, [{}, {}], { each: (_, n) => ({ unique: n === 0 ? "welcome" : "other" }) });
    await Promise.all(Array.from({ length: 10 }, () => hf.enqueue(mail)));
    await tx.query("COMMIT");
    expect(await second).toEqual({ id: first.id, duplicate: true, replaced: false });
    expect(await third).toMatchObject([{ id: first.id, duplicate: true }, { duplicate: false }]);
  });

  it("is taken by a waiting enqueue after a rollback", async () => {
    const { address } = await openStore(server);
    const hf = await openClient(address, mail);
    const tx = await begin();
    await hf.enqueue(mail, {}, { unique: "welcome", tx });
    const second = hf.enqueue(mail, {}, { unique: "welcome" });
    await hf.enqueue(mail);
    await tx.query("ROLLBACK");
    expect(await second).toMatchObject({ duplicate: false });
  });

  it("is waited for at most two seconds", async () => {
    const { address } = await openStore(server);
    const hf = await openClient(address, mail);
    const tx = await begin();
    await hf.enqueue(mail, {}, { unique: "welcome", tx });
    const refusal = { code: "STORE_UNAVAILABLE", message: expect.stringMatching(/unique key "welcome"; retry/) };
    await hurry(async () => {
      const alone = hf.enqueue(mail, {}, { unique: "welcome" });
      const among = hf.enqueueMany(mail, [{}, {}], { each: (_, n) => (n === 0 ? { unique: "welcome" } : {}) });
      await expect(alone).rejects.toMatchObject(refusal);
      expect(await among).toMatchObject([{ id: null, error: refusal }, { error: null }]);
    });
    await tx.query("ROLLBACK");
    expect(await hf.enqueue(mail, {}, { unique: "welcome" })).toMatchObject({ duplicate: false });
  });

  it("is waited for in a transaction, which can continue", async () => {
    const { address } = await openStore(server);
    const hf = await openClient(address, mail);
    const [tx, other] = [await begin(), await begin()];
    await other.query("SET LOCAL lock_timeout = '7s'");
    await hf.enqueue(mail, {}, { unique: "welcome", tx });
    const before = await hf.enqueue(mail, {}, { unique: "before", tx: other });
    await expect(hf.enqueue(mail, {}, { unique: "welcome", tx: other })).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(/unique key; retry/),
    });
    expect((await other.query("SHOW lock_timeout")).rows).toEqual([{ lock_timeout: "7s" }]);
    await other.query("COMMIT");
    expect(await hf.get(before.id)).toMatchObject({ state: "pending" });
  });
});

describe("a held unique key", () => {
  it("can be requested without blocking the end of its job", async () => {
    const { store } = await openStore(server);
    await store.insert([newJob({ unique: key("a") })]);
    const holder = await claimOne(store);
    const tx = await begin();
    expect(await store.insertIn(tx, [newJob({ unique: key("a") })])).toEqual([
      { status: "duplicate", of: holder.id, replaced: false },
    ]);
    await finish(store, holder);
    expect(await stateOf(store, holder.id)).toBe("completed");
  });

  it("of a locked job returns busy and blocks no other job", async () => {
    const { store, schema } = await openStore(server);
    const holder = newJob({ unique: key("a") });
    await store.insert([holder]);
    const operator = await begin();
    await operator.query(`SELECT 1 FROM ${schema}.live FOR UPDATE`);
    const replacement = newJob({ unique: key("a", { onConflict: "replace" }) });
    expect(await store.insert([replacement, newJob()])).toEqual(["busy", { status: "inserted" }]);
    await operator.query("ROLLBACK");
    expect(await store.insert([replacement])).toEqual([{ status: "duplicate", of: holder.id, replaced: true }]);
  });

  it("of a locked job does not make other jobs duplicates", async () => {
    const { store, schema } = await openStore(server);
    await store.insert([newJob({ unique: key("a") })]);
    const operator = await begin();
    await operator.query(`SELECT 1 FROM ${schema}.live FOR UPDATE`);
    const replacement = newJob({ unique: key("a", { onConflict: "replace" }) });
    expect(await store.insert([newJob({ unique: key("new") }), replacement])).toEqual([{ status: "inserted" }, "busy"]);
  });

  it("rejects only the replacement with invalid JSON", async () => {
    const { store } = await openStore(server);
    await store.insert([newJob({ unique: key("a") })]);
    const replacement = newJob({ input: "{oops", unique: key("a", { onConflict: "replace" }) });
    expect(await store.insert([newJob({ unique: key("new") }), replacement])).toMatchObject([
      { status: "inserted" },
      { status: "refused", reason: "not-stored" },
    ]);
  });

  it("of a finished job leaves the lock timeout unchanged", async () => {
    const { store } = await openStore(server);
    const unique = key("a", { scope: "forever", onConflict: "replace" });
    await store.insert([newJob({ unique })]);
    const holder = await claimOne(store);
    await finish(store, holder);
    const tx = await begin();
    expect(await store.insertIn(tx, [newJob({ unique })])).toEqual([
      { status: "duplicate", of: holder.id, replaced: false },
    ]);
    expect((await tx.query("SHOW lock_timeout")).rows).toEqual([{ lock_timeout: "0" }]);
  });

  it("is not taken from a job that just got it", async () => {
    const { store, schema } = await openStore(server);
    const unique = key("a", { scope: "waiting", onConflict: "replace" });
    const [first, second] = [newJob({ unique }), newJob({ input: `"second"` })];
    await store.insert([first, second]);
    const [operator, tx] = [await begin(), await begin()];
    await operator.query(`SELECT 1 FROM ${schema}.live WHERE id = $1 FOR UPDATE`, [first.id]);
    const replaced = store.insertIn(tx, [newJob({ unique, input: `"third"` })]);
    await until("the replacement to wait", async () => {
      const waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'";
      return (await server.query(waiting, [schema])).rows.length > 0;
    });
    // As if the first had been claimed, which frees its key, and released.
    await operator.query(`UPDATE ${schema}.keys SET job = $1`, [second.id]);
    await operator.query("COMMIT");
    expect(await replaced).toEqual([{ status: "duplicate", of: second.id, replaced: true }]);
    await tx.query("COMMIT");
    expect((await server.query(`SELECT job FROM ${schema}.keys`)).rows).toEqual([{ job: second.id }]);
    expect(await recordOf(store, first.id)).toMatchObject({ input: "{}" });
    expect(await recordOf(store, second.id)).toMatchObject({ input: `"third"` });
  });
});

describe("concurrent enqueues in one transaction", () => {
  const refusing = { unique: { key: "held", onConflict: "reject" } } as const;

  it("leave nothing when one is rejected and the caller rolls back", async () => {
    const { address, schema } = await openStore(server);
    const hf = await openClient(address, mail);
    await hf.enqueue(mail, {}, { unique: "held" });
    const tx = await begin();
    const all = [{}, refusing, {}, { unique: "other" }, {}].map((options) => hf.enqueue(mail, {}, { ...options, tx }));
    await Promise.all(all).catch(() => tx.query("ROLLBACK"));
    await Promise.allSettled(all);
    expect((await server.query(`SELECT key FROM ${schema}.live`)).rows).toEqual([{ key: "held" }]);
    expect((await server.query(`SELECT key FROM ${schema}.keys`)).rows).toEqual([{ key: "held" }]);
  });

  it("as an array have one result each", async () => {
    const { address } = await openStore(server);
    const strict = job({ type: "strict", input: z.object({ n: z.number() }), run() {} });
    const hf = await openClient(address, strict);
    const { id } = await hf.enqueue(strict, { n: 0 }, { unique: "held" });
    const inputs = [{ n: 0 }, { n: 1 }, { n: "two" as unknown as number }, { n: 3 }];
    const tx = await begin();
    const results = await hf.enqueueMany(strict, inputs, { tx, each: ({ n }) => (n === 1 ? refusing : {}) });
    await tx.query("COMMIT");
    expect(results).toMatchObject([
      { error: null },
      { id: null, error: { code: "DUPLICATE_JOB", holder: id } },
      { id: null, error: { code: "INVALID_INPUT" } },
      { error: null },
    ]);
    expect((await hf.list()).jobs.map(({ input }) => input)).toEqual([{ n: 3 }, { n: 0 }, { n: 0 }]);
  });

  it("as an array use one statement per part", async () => {
    const { address } = await openStore(server, { notify: false });
    const hf = await openClient(address, mail);
    const tx = await begin();
    let statements = 0;
    const counting = { query: (text: string, values: unknown[]) => (statements++, tx.query(text, values)) };
    const results = await hf.enqueueMany(
      mail,
      Array.from({ length: 1_200 }, () => ({})),
      { tx: counting },
    );
    await tx.query("COMMIT");
    expect(results.filter(({ error }) => error === null)).toHaveLength(1_200);
    expect(statements).toBeLessThan(20);
    expect((await hf.stats()).states.pending).toBe(1_200);
  });
});

it("a batch with many locked keys waits only a few times", async () => {
  const { store } = await openStore(server);
  const keyed = (): NewJob[] => Array.from({ length: 500 }, (_, n) => newJob({ unique: key(`k${n}`) }));
  await store.insertIn(await begin(), keyed());
  const startedAt = performance.now();
  expect(new Set(await store.insert(keyed()))).toEqual(new Set(["busy"]));
  // If each job waited, it would take 15 s.
  expect(performance.now() - startedAt).toBeLessThan(12_000);
});

it("a batch with many locked jobs to replace waits only a few times", async () => {
  const { store, schema } = await openStore(server);
  const keyed = (): NewJob[] =>
    Array.from({ length: 500 }, (_, n) => newJob({ unique: key(`k${n}`, { onConflict: "replace" }) }));
  await store.insert(keyed());
  await (await begin()).query(`SELECT 1 FROM ${schema}.live FOR UPDATE`);
  const startedAt = performance.now();
  expect(new Set(await store.insert(keyed()))).toEqual(new Set(["busy"]));
  expect(performance.now() - startedAt).toBeLessThan(12_000);
});

it("concurrent enqueues in one transaction do not affect each other", async () => {
  const { store } = await openStore(server);
  const tx = await begin();
  const [good, bad, other] = [newJob(), newJob({ maxAttempts: 0 }), newJob()];
  const results = await Promise.all([good, bad, other].map(async (each) => store.insertIn(tx, [each])));
  expect(results.flat()).toMatchObject([{ status: "inserted" }, { status: "refused" }, { status: "inserted" }]);
  await tx.query("COMMIT");
  expect((await store.list({}, { limit: 10, cursor: null })).jobs.map(({ id }) => id)).toEqual([other.id, good.id]);
});

describe("a unique key whose job was deleted", () => {
  /** A key for an hour whose job was deleted by SQL. */
  async function gone(): Promise<{ store: PostgresStore; schema: string }> {
    const { store, schema } = await openStore(server);
    await store.insert([newJob({ unique: HOUR })]);
    await server.query(`DELETE FROM ${schema}.live`);
    return { store, schema };
  }
  const HOUR = key("a", { scope: "period", periodMs: 3_600_000 });

  it("D-02 is taken by one of two transactions", async () => {
    const { store } = await gone();
    const [first, second] = [await begin(), await begin()];
    const { rows } = await second.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
    const winner = newJob({ unique: HOUR });
    expect(await store.insertIn(first, [winner])).toEqual([{ status: "inserted" }]);
    // Its snapshot is older than the winner's job, which must not count as deleted.
    const waiting = store.insertIn(second, [newJob({ unique: HOUR })]);
    await until("the second to wait for the key", async () => {
      const blocked = await server.query("SELECT cardinality(pg_blocking_pids($1)) AS n", [rows[0]?.pid]);
      return (blocked.rows as { n: number }[])[0]?.n === 1;
    });
    await first.query("COMMIT");
    expect(await waiting).toEqual([{ status: "duplicate", of: winner.id, replaced: false }]);
    await second.query("COMMIT");
    expect(await store.insert([newJob({ unique: HOUR })])).toEqual([
      { status: "duplicate", of: winner.id, replaced: false },
    ]);
  });

  it("D-02 is free in every scope but forever", async () => {
    const { store, schema } = await gone();
    const { rows } = await server.query(`SELECT ${schema}.enqueue('mail', unique_key => 'a') AS id`);
    const id = (rows as { id: string }[])[0]?.id ?? "";
    expect(await stateOf(store, id)).toBe("pending");
    for (const scope of ["live", "waiting", "forever"] as const) {
      const unique = key(scope, { scope });
      const lost = newJob({ unique });
      await store.insert([lost]);
      await server.query(`DELETE FROM ${schema}.live WHERE id = $1`, [lost.id]);
      const held = { status: "duplicate", of: lost.id, replaced: false };
      expect(await store.insert([newJob({ unique })])).toEqual([scope === "forever" ? held : { status: "inserted" }]);
    }
  });
});
