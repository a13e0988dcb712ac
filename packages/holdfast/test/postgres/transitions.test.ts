import type { Store, TransitionRecord } from "holdfast/store";
import { InvalidOptionError } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import {
  add,
  addAll,
  claimOne,
  claimRequest,
  newJob,
  newJobs,
  outcomeOf,
} from "#src/testing/exercise-store/builders.js";
import { openScene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const FOR_MS = 60_000;

/** Reads to the end, page by page. */
async function readAll(
  store: Store,
  from: string,
  limit = 1_000,
): Promise<{ found: TransitionRecord[]; cursor: string }> {
  const found: TransitionRecord[] = [];
  let cursor = from;
  for (;;) {
    const page = await store.transitions(cursor, limit);
    if (page === null) throw new Error("the cursor has expired");
    expect(page.transitions.length).toBeLessThanOrEqual(limit);
    expect(page.cursor).toMatch(/^[ -~]{1,1000}$/);
    found.push(...page.transitions);
    cursor = page.cursor;
    if (page.transitions.length < limit) return { found, cursor };
  }
}

const idsOf = (found: readonly TransitionRecord[]): string[] => found.map(({ id }) => id);

describe("transitions", () => {
  it("are recorded only with a follower, for every change of state", async () => {
    const { store, sql } = await openScene(server);
    await add(store);
    expect(await sql("SELECT 1 FROM $s.transitions")).toEqual([]);
    const cursor = await store.recordTransitions(FOR_MS);
    const job = await claimOne(store);
    const [{ id, fence }] = [job];
    await store.start([{ id, fence, startedAt: 1 }]);
    await store.settle([outcomeOf(job, "failed", { delayMs: 60_000 })]);
    await store.cancel([id]);
    await store.retry([id]);
    const again = await claimOne(store);
    await store.settle([outcomeOf(again, "completed", { keep: false })]);
    const { found } = await readAll(store, cursor);
    expect(found.map(({ to }) => to)).toEqual([
      "claimed",
      "running",
      "failed",
      "cancelled",
      "pending",
      "claimed",
      "completed",
    ]);
    expect(new Set(idsOf(found))).toEqual(new Set([id]));
    expect(found[0]).toMatchObject({ type: "mail", queue: "default", at: expect.any(Number) });
  });

  it("of inserts of every kind, of SQL functions, of expired jobs and of lost leases are recorded", async () => {
    const { store, sql } = await openScene(server);
    const cursor = await store.recordTransitions(FOR_MS);
    const single = await add(store);
    const batch = await addAll(store, newJobs(3, { queue: "batch" }));
    const unique = { key: "k", scope: "live", periodMs: 0, onConflict: "replace" } as const;
    const keyed = await add(store, { unique });
    const tagged = await add(store, { tags: ["a"], settings: { timeoutMs: 5 } });
    await store.insert([newJob({ unique, type: "other" })]);
    const [row] = await sql<{ id: string }>("SELECT $s.enqueue('mail')::text AS id");
    const overdue = await add(store, { runAt: Date.now() + 60_000, expiresAt: Date.now() - 1 });
    await store.expireOverdue(10);
    await store.claim(claimRequest({ limit: 1, leaseMs: 1, queues: ["batch"] }));
    await new Promise((resolve) => setTimeout(resolve, 5));
    await store.reapExpiredLeases(10);
    const { found } = await readAll(store, cursor);
    const pending = [single, ...batch, keyed, tagged, keyed, row?.id, overdue].map((id) => [id, "pending"]);
    expect(found.map(({ id, to }) => [id, to])).toEqual([
      ...pending,
      [overdue, "dead"],
      [expect.any(String), "claimed"],
      [expect.any(String), "pending"],
    ]);
    expect(found[6]).toMatchObject({ id: keyed, type: "other" });
  });

  it("of a transaction that commits late are found later, and once", async () => {
    const { store, session } = await openScene(server);
    await add(store);
    const { sql, client } = await session();
    let { cursor } = await readAll(store, await store.recordTransitions(FOR_MS));
    const late = newJob();
    await sql("BEGIN");
    await store.insertIn?.(client, [late]);
    const seen: string[] = [];
    const others: string[] = [];
    for (let round = 0; round < 3; round++) {
      others.push(await add(store));
      const read = await readAll(store, cursor);
      seen.push(...idsOf(read.found));
      cursor = read.cursor;
    }
    expect(seen).toEqual(others);
    await sql("COMMIT");
    const last = await readAll(store, cursor);
    expect(idsOf(last.found)).toEqual([late.id]);
    expect((await readAll(store, last.cursor)).found).toEqual([]);
  });

  it("of a transaction that is rolled back are not found, and of a savepoint only if it is kept", async () => {
    const { store, session } = await openScene(server);
    await add(store);
    const cursor = await store.recordTransitions(FOR_MS);
    const { sql, client } = await session();
    await sql("BEGIN");
    await store.insertIn?.(client, newJobs(2));
    await sql("ROLLBACK");
    const [kept, dropped, after] = newJobs(3) as [
      ReturnType<typeof newJob>,
      ReturnType<typeof newJob>,
      ReturnType<typeof newJob>,
    ];
    await sql("BEGIN");
    await store.insertIn?.(client, [kept]);
    await sql("SAVEPOINT a");
    await store.insertIn?.(client, [dropped]);
    await sql("ROLLBACK TO a");
    await sql("SAVEPOINT b");
    await store.insertIn?.(client, [after]);
    const during = await readAll(store, cursor);
    expect(during.found).toEqual([]);
    await sql("COMMIT");
    expect(idsOf((await readAll(store, during.cursor)).found)).toEqual([kept.id, after.id]);
  });

  it("of a REPEATABLE READ transaction that began before they were recorded are found", async () => {
    const { store, session } = await openScene(server);
    await add(store);
    const { sql, client } = await session();
    await sql("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await sql("SELECT count(*) FROM $s.live");
    const cursor = await store.recordTransitions(FOR_MS);
    const job = newJob();
    await store.insertIn?.(client, [job]);
    await add(store);
    const first = await readAll(store, cursor);
    expect(first.found).toHaveLength(1);
    await sql("COMMIT");
    expect(idsOf((await readAll(store, first.cursor)).found)).toEqual([job.id]);
  });

  it("begin when every transaction has ended that may not record them", async () => {
    const { store, session } = await openScene(server);
    await add(store);
    const { sql, client } = await session();
    await sql("BEGIN");
    await store.insertIn?.(client, [newJob()]);
    const began = performance.now();
    const recording = Promise.all([store.recordTransitions(FOR_MS), store.recordTransitions(FOR_MS)]);
    const hasEnded = await Promise.race([recording.then(() => true), pause(300).then(() => false)]);
    expect(hasEnded).toBe(false);
    await sql("COMMIT");
    const cursors = await recording;
    expect(performance.now() - began).toBeLessThan(4_000);
    // Now they are recorded, and a longer transaction delays no one.
    await sql("BEGIN");
    await store.insertIn?.(client, [newJob()]);
    const again = performance.now();
    await store.recordTransitions(FOR_MS);
    expect(performance.now() - again).toBeLessThan(1_000);
    await sql("COMMIT");
    for (const cursor of cursors) expect((await readAll(store, cursor)).found).toHaveLength(1);
  });

  it("are returned in pages of any size, each once, while others are written", async () => {
    const { store } = await openScene(server);
    const first = await store.recordTransitions(FOR_MS);
    const ids = await addAll(store, newJobs(25));
    for (const limit of [1, 2, 7, 25, 100]) expect(idsOf((await readAll(store, first, limit)).found)).toEqual(ids);
    const page = await store.transitions(first, 10);
    const more = await addAll(store, newJobs(5));
    const rest = await readAll(store, page?.cursor ?? "", 10);
    const seen = [...idsOf(page?.transitions ?? []), ...idsOf(rest.found)];
    const { found } = await readAll(store, rest.cursor);
    expect([...seen, ...idsOf(found)].toSorted()).toEqual([...ids, ...more].toSorted());
  });

  it("end with the time that was requested, and older cursors expire", async () => {
    const clock = fakeClock();
    const { store, sql } = await openScene(server, { clock });
    const cursor = await store.recordTransitions(1_000);
    await add(store);
    await clock.advance(1_001);
    await add(store);
    expect(await store.transitions(cursor, 10)).toBeNull();
    expect(await sql("SELECT 1 FROM $s.transitions")).toHaveLength(1);
    const next = await store.recordTransitions(FOR_MS);
    expect(await store.transitions(cursor, 10)).toBeNull();
    const id = await add(store);
    expect(idsOf((await readAll(store, next)).found)).toEqual([id]);
    expect(await store.transitions(next.replace(/^\w+/, "zz"), 10)).toBeNull();
  });

  it("are not recorded any more after a purge without followers", async () => {
    const clock = fakeClock();
    const { store, sql } = await openScene(server, { clock });
    await store.recordTransitions(1_000);
    await clock.advance(1_001);
    await store.purgeTransitions({ before: 0, limit: 10 });
    expect(await sql("SELECT last_value::int FROM $s.followed_until")).toEqual([{ last_value: 0 }]);
    const cursor = await store.recordTransitions(FOR_MS);
    await store.purgeTransitions({ before: 0, limit: 10 });
    const id = await add(store);
    expect(idsOf((await readAll(store, cursor)).found)).toEqual([id]);
  });

  it("expire a cursor when a purge deletes what it has not returned, and no other", async () => {
    const { store, sql } = await openScene(server);
    const old = await store.recordTransitions(FOR_MS);
    await addAll(store, newJobs(3, { queue: "a" }));
    const { cursor } = await readAll(store, old);
    // Between the two, a purge that deletes nothing stores a snapshot.
    expect(await store.purgeTransitions({ before: 0, limit: 10 })).toBe(0);
    const middle = (await readAll(store, cursor)).cursor;
    await sql("UPDATE $s.transitions SET at = 1");
    const id = await add(store);
    expect(await store.purgeTransitions({ before: 2, limit: 10 })).toBe(3);
    expect(await store.transitions(old, 10)).toBeNull();
    expect(idsOf((await readAll(store, middle)).found)).toEqual([id]);
    // Without a snapshot in between, all cursors before the purge have expired.
    await sql("UPDATE $s.transitions SET at = 1");
    expect(await store.purgeTransitions({ before: 2, limit: 10 })).toBe(1);
    expect(await store.transitions(middle, 10)).toBeNull();
    const fresh = await store.recordTransitions(FOR_MS);
    expect((await readAll(store, fresh)).found).toEqual([]);
  });

  it("that committed late and were purged expire the cursors that have not returned them", async () => {
    const { store, sql, session } = await openScene(server);
    await add(store);
    const first = await store.recordTransitions(FOR_MS);
    const { sql: inside, client } = await session();
    await inside("BEGIN");
    await store.insertIn?.(client, [newJob()]);
    const { cursor } = await readAll(store, first);
    await store.purgeTransitions({ before: 0, limit: 10 });
    await inside("COMMIT");
    await sql("UPDATE $s.transitions SET at = 1");
    expect(await store.purgeTransitions({ before: 2, limit: 10 })).toBe(1);
    expect(await store.transitions(cursor, 10)).toBeNull();
  });

  it.each([
    "",
    "1",
    "1-",
    "1-0-",
    "-1-1",
    "1-1.0",
    "1-1.2",
    "a b",
    "1-1-1-1",
    "x".repeat(1_001),
    "1-zzzzzzzzzzzzz",
    "é",
  ])("have no cursor %j", async (cursor) => {
    const { store } = await openScene(server);
    await expect(store.transitions(cursor, 10)).rejects.toThrow(InvalidOptionError);
  });

  it("of a large batch are stored without compression", async () => {
    const { store, sql } = await openScene(server);
    await store.recordTransitions(FOR_MS);
    // Ids as the engine makes them: they begin with the time, and could be compressed.
    const jobs = newJobs(500).map((job) => ({ ...job, id: `01900000-0000-7000${job.id.slice(18)}` }));
    await addAll(store, jobs);
    const rows = await sql(
      "SELECT cardinality(jobs) AS jobs, pg_column_compression(jobs) AS method FROM $s.transitions",
    );
    expect(rows).toEqual([{ jobs: 500, method: null }]);
  });

  it("of eight concurrent writers are all read, each once and in order", async () => {
    const { store, address } = await openScene(server);
    const { postgres } = await import("holdfast/postgres");
    await add(store, { queue: "warm" });
    let cursor = await store.recordTransitions(FOR_MS);
    const found: TransitionRecord[] = [];
    let isDone = false;
    const reading = (async () => {
      for (;;) {
        const last = isDone;
        const read = await readAll(store, cursor, 7);
        found.push(...read.found);
        cursor = read.cursor;
        if (last) return;
      }
    })();
    const expected: [string, string][] = [];
    const write = async (writer: number): Promise<void> => {
      const own = postgres(address, { connections: 2, notify: false });
      const queue = `q${writer}`;
      for (let round = 0; round < 12; round++) {
        const jobs = newJobs(1 + (round % 3), { queue });
        const client = await server.client();
        await client.query("BEGIN");
        await own.insertIn?.(client, jobs);
        if (round % 2 === 0) await pause(5 + 3 * writer);
        const isKept = round % 4 !== 3;
        await client.query(isKept ? "COMMIT" : "ROLLBACK");
        await client.end();
        if (!isKept) continue;
        const { jobs: claimed } = await own.claim(claimRequest({ queues: [queue], limit: 10 }));
        await own.settle(claimed.map((job) => outcomeOf(job, "completed")));
        for (const { id } of jobs) for (const to of ["pending", "claimed", "completed"]) expected.push([id, to]);
        expect(claimed).toHaveLength(jobs.length);
      }
      await own.close();
    };
    await Promise.all(Array.from({ length: 8 }, (_, writer) => write(writer)));
    isDone = true;
    await reading;
    expect(found).toHaveLength(expected.length);
    const byJob = new Map<string, string[]>();
    for (const { id, to } of found) byJob.set(id, [...(byJob.get(id) ?? []), to]);
    expect(byJob).toEqual(new Map(expected.map(([id]) => [id, ["pending", "claimed", "completed"]])));
  });

  it("have a cursor of at most 1,000 characters however many transactions are open", async () => {
    const { store } = await openScene(server);
    await add(store);
    const clients = await Promise.all(Array.from({ length: 60 }, () => server.client()));
    try {
      const first = await store.recordTransitions(FOR_MS);
      const jobs = newJobs(clients.length);
      for (const [at, client] of clients.entries()) {
        await client.query("BEGIN");
        await store.insertIn?.(client, [jobs[at] as (typeof jobs)[number]]);
        await add(store);
      }
      const { found, cursor } = await readAll(store, first, 10);
      expect(found).toHaveLength(clients.length);
      for (const client of clients) await client.query("COMMIT");
      expect(idsOf((await readAll(store, cursor)).found).toSorted()).toEqual(jobs.map(({ id }) => id).toSorted());
    } finally {
      for (const client of clients) await client.end();
    }
  });
});

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}
