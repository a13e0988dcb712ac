import { holdfast, job } from "holdfast";
import type { Store, StoredJob } from "holdfast/store";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { LIMITS } from "#src/defaults.js";
import { add, claim, key, newJob, outcomeOf } from "#src/testing/exercise-store/builders.js";
import { openScene, type RunSql } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

async function enqueue(sql: RunSql, args: string, values: unknown[] = []): Promise<string> {
  const [row] = await sql<{ id: string }>(`SELECT $s.enqueue(${args}) AS id`, values);
  return row?.id ?? "";
}
async function listed(store: Store): Promise<StoredJob[]> {
  return (await store.list({}, { limit: 100, cursor: null })).jobs.toReversed();
}
async function counted(store: Store): Promise<Record<string, number>> {
  const { counts } = await store.stats();
  return Object.fromEntries(counts.map(({ type, state, count }) => [`${type} ${state}`, count]));
}

const welcome = job({
  type: "welcome",
  input: z.object({ to: z.string() }),
  run: ({ input, job: { tags, user } }) => ({ sent: input.to, tags, user }),
});

describe("enqueue in SQL", () => {
  it("wakes a worker, which runs the job", async () => {
    const { address, sql } = await openScene(server);
    // Only a notification is fast enough.
    const hf = await holdfast({ store: address, jobs: [welcome], logger: false });
    const worker = hf.work({ poll: "1h" });
    await hf.result(welcome, (await hf.enqueue(welcome, { to: "first" })).id, { timeout: "10s" });
    const id = await enqueue(sql, `'welcome', '{"to": "ada"}', tags => '{b,a,b}', user_id => 'u1'`);
    expect(await hf.result(welcome, id, { timeout: "10s" })).toEqual({ sent: "ada", tags: ["b", "a"], user: "u1" });
    await worker.stop();
    await hf.close();
  });

  it("creates the same job as the client", async () => {
    const { store, address, sql } = await openScene(server);
    const hf = await holdfast({ store: address, jobs: [welcome], logger: false });
    const to = "x".repeat(LIMITS.inlineInputBytes);
    for (const input of [{ to: "é" }, { to }]) {
      const options = {
        queue: "mail",
        priority: 7,
        user: "u1",
        unique: `once ${input.to.length}`,
        maxAttempts: 2,
        tags: ["a", "b"],
        runAt: "2100-01-01T00:00:00Z",
        expiresAt: "2100-01-02T00:00:00.123Z",
      };
      await hf.enqueue(welcome, input, options);
      await enqueue(
        sql,
        `'welcome', $1, 'mail', 7, '2100-01-01T00:00:00Z', $2 || '!', 'u1', 2, '2100-01-02T00:00:00.123Z', '{a,b}'`,
        [JSON.stringify(input), options.unique],
      );
    }
    const jobs = await listed(store);
    const comparable = ({ id: _, createdAt: _c, updatedAt: _u, ...rest }: StoredJob): object => rest;
    for (const [byClient, bySql] of [jobs.slice(0, 2), jobs.slice(2)] as [StoredJob, StoredJob][]) {
      expect(comparable({ ...bySql, key: bySql.key?.slice(0, -1) ?? null })).toEqual(comparable(byClient));
    }
    const besides = await sql(`SELECT count(*)::int AS inputs, (SELECT count(*)::int FROM $s.tags) AS tags,
      (SELECT count(*)::int FROM $s.keys) AS keys FROM $s.inputs`);
    expect(besides).toEqual([{ inputs: 2, tags: 8, keys: 4 }]);
    await hf.close();
  });

  it("stores the trace, and drops one that is too long", async () => {
    const { store, sql } = await openScene(server);
    const trace = `{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`;
    const longest = "x".repeat(LIMITS.traceBytes);
    await enqueue(sql, "'a', trace => $1", [trace]);
    await enqueue(sql, "'a', trace => $1, unique_key => 'k'", [longest]);
    await enqueue(sql, "'a', trace => $1", [`${longest.slice(1)}é`]);
    await enqueue(sql, "'a'");
    expect((await claim(store)).map((claimed) => claimed.trace)).toEqual([trace, longest, null, null]);
    expect(await sql("SELECT trace FROM $s.jobs ORDER BY created_at LIMIT 1")).toEqual([{ trace }]);
  });

  it("returns sortable ids of version 7", async () => {
    const { sql } = await openScene(server);
    const before = Date.now();
    const id = await enqueue(sql, "'a'");
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const madeAt = Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
    expect(Math.abs(madeAt - before)).toBeLessThan(60_000);
  });

  it("creates the lane of the job", async () => {
    const { store, sql } = await openScene(server);
    await store.pause("slow");
    await enqueue(sql, "'a', queue => 'slow', priority => 3");
    await enqueue(sql, "'a', queue => 'quick', priority => -3");
    expect(await store.queues()).toMatchObject([
      { queue: "quick", paused: false, priorities: [-3] },
      { queue: "slow", paused: true, priorities: [3, 0] },
    ]);
    expect((await claim(store)).map(({ queue }) => queue)).toEqual(["quick"]);
  });

  it("does not block other enqueues to an existing lane", async () => {
    const { store, session, sql } = await openScene(server);
    await add(store);
    const open = await session();
    await open.sql("BEGIN");
    await enqueue(open.sql, "'a'");
    await sql(
      "SET lock_timeout = '2s'; INSERT INTO $s.lanes VALUES ('default', 0, false, 0) ON CONFLICT (queue, priority) DO UPDATE SET used_at = 1",
    );
    await open.sql("COMMIT");
  });

  it("updates counts and lists", async () => {
    const { store, sql } = await openScene(server);
    await sql("SELECT $s.enqueue('a') FROM generate_series(1, 3)");
    await enqueue(sql, "'b', run_at => now() + interval '1 day'");
    expect(await counted(store)).toEqual({ "a pending": 3, "b pending": 1 });
    expect((await listed(store)).map(({ type }) => type)).toEqual(["a", "a", "a", "b"]);
    expect(await claim(store)).toHaveLength(3);
  });

  it("leaves nothing after a rollback", async () => {
    const { store, session } = await openScene(server);
    const { sql } = await session();
    await sql("BEGIN");
    await enqueue(sql, "'a', queue => 'q', unique_key => 'k', tags => '{t}'");
    await sql("ROLLBACK");
    expect(await listed(store)).toEqual([]);
    expect(await counted(store)).toEqual({});
    expect(await store.queues()).toEqual([]);
    expect(await enqueue(sql, "'a', unique_key => 'k'")).toBe((await listed(store))[0]?.id);
  });

  it("works in a trigger", async () => {
    const { store, sql } = await openScene(server);
    await sql(`CREATE TABLE $s.people (name text);
      CREATE FUNCTION $s.welcome() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM $s.enqueue('welcome', json_build_object('to', NEW.name)); RETURN NULL; END $$;
      CREATE TRIGGER welcome AFTER INSERT ON $s.people FOR EACH ROW EXECUTE FUNCTION $s.welcome();
      INSERT INTO $s.people VALUES ('ada'), ('grace');`);
    const inputs = (await claim(store)).map(({ input }) => JSON.parse(input) as object);
    expect(inputs).toEqual([{ to: "ada" }, { to: "grace" }]);
  });
});

describe("enqueue in SQL, called twice", () => {
  it("with the same id returns the same job", async () => {
    const { store, sql } = await openScene(server);
    const { id } = newJob();
    for (const args of ["id => $1", "id => $1, unique_key => 'k'"]) {
      expect(await enqueue(sql, `'a', ${args}`, [id])).toBe(id);
    }
    const [leased] = await claim(store);
    await store.settle([outcomeOf(leased!, "completed")]);
    expect(await enqueue(sql, "'a', id => $1", [id])).toBe(id);
    expect(await counted(store)).toEqual({ "a completed": 1 });
  });

  it("with the same key returns the job that holds it", async () => {
    const { store, sql } = await openScene(server);
    const first = await enqueue(sql, "'a', unique_key => 'k'");
    expect(await enqueue(sql, "'b', unique_key => 'k'")).toBe(first);
    const [leased] = await claim(store);
    expect(await enqueue(sql, "'b', unique_key => 'k'")).toBe(first);
    await store.settle([outcomeOf(leased!, "completed")]);
    expect(await enqueue(sql, "'b', unique_key => 'k'")).not.toBe(first);
    expect(await counted(store)).toEqual({ "a completed": 1, "b pending": 1 });
  });

  it("shares keys with the client, per user", async () => {
    const { address, sql } = await openScene(server);
    const hf = await holdfast({ store: address, jobs: [welcome], logger: false });
    const { id: anyones } = await hf.enqueue(welcome, { to: "a" }, { unique: "k" });
    const { id: hers } = await hf.enqueue(welcome, { to: "a" }, { unique: "k", user: "ada" });
    expect(await enqueue(sql, "'welcome', unique_key => 'k'")).toBe(anyones);
    expect(await enqueue(sql, "'welcome', unique_key => 'k', user_id => 'ada'")).toBe(hers);
    const his = await enqueue(sql, "'welcome', unique_key => 'k', user_id => 'bob'");
    expect([anyones, hers]).not.toContain(his);
    expect(await hf.enqueue(welcome, { to: "a" }, { unique: "k", user: "bob" })).toMatchObject({
      id: his,
      duplicate: true,
    });
    await hf.close();
  });

  it("by two sessions with one key waits and returns the first job", async () => {
    const { store, sql, session } = await openScene(server);
    await enqueue(sql, "'lane'");
    for (const [end, same] of [
      ["COMMIT", true],
      ["ROLLBACK", false],
    ] as const) {
      const [a, b] = [await session(), await session()];
      await a.sql("BEGIN");
      const first = await enqueue(a.sql, "'a', unique_key => $1", [end]);
      const second = enqueue(b.sql, "'a', unique_key => $1", [end]);
      await expect
        .poll(() =>
          sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'SELECT $s.enqueue%'"),
        )
        .toHaveLength(1);
      await a.sql(end);
      expect((await second) === first).toBe(same);
    }
    expect(await counted(store)).toEqual({ "a pending": 2, "lane pending": 1 });
  });

  it("takes over a key whose period has ended", async () => {
    const { store, sql } = await openScene(server);
    const held = await add(store, { unique: key("k", { scope: "period", periodMs: 3_600_000 }) });
    expect(await enqueue(sql, "'a', unique_key => 'k'")).toBe(held);
    await sql("UPDATE $s.keys SET until = 1");
    expect(await enqueue(sql, "'a', unique_key => 'k'")).not.toBe(held);
  });
});

describe("enqueue in SQL rejects", () => {
  const refused: [what: string, args: string, message: RegExp][] = [
    ["no type", "NULL", /type must not be empty/],
    ["an empty type", "''", /type must not be empty/],
    ["a long type", "repeat('x', 201)", /type is 201 characters long; the limit is 200/],
    ["a control character", "E'a\\nb'", /type contains control/],
    ["a long queue", "'a', queue => repeat('x', 101)", /queue is 101/],
    ["an empty key", "'a', unique_key => ''", /unique_key must/],
    ["an empty user", "'a', user_id => ''", /user_id must/],
    ["an empty tag", "'a', tags => '{x,\"\"}'", /tags must/],
    ["too many tags", "'a', tags => array_fill('x'::text, '{21}')", /21 tags; the limit is 20/],
    ["a priority out of range", "'a', priority => 101", /priority 101 is not between -100 and 100/],
    ["no attempt", "'a', max_attempts => 0", /max_attempts 0 is not between 1/],
    ["no input", "'a', NULL", /input must not be NULL/],
    ["a large input", "'a', to_json(repeat('x', 262143))", /262145 bytes of JSON; the limit is 262144/],
    ["a NUL", `'a', '{"a": "\\u0000"}'`, /contains \\u0000/],
    ["an infinite time", "'a', run_at => 'infinity'", /must be finite/],
    ["an expiry in the past", "'a', expires_at => now()", /expires_at must be after run_at/],
    [
      "an expiry before run_at",
      "'a', run_at => now() + '2h', expires_at => now() + '1h'",
      /expires_at must be after run_at/,
    ],
  ];
  it("invalid arguments, and names them", async () => {
    const { store, sql } = await openScene(server);
    for (const [what, args, message] of refused) {
      const failed = await enqueue(sql, args).catch((error: unknown) => error);
      const expected = { code: "22023", message: expect.stringMatching(message) };
      expect({ what, failed }).toMatchObject({ what, failed: expected });
    }
    expect(await store.queues()).toEqual([]);
  });

  it("but not an escaped backslash before u0000", async () => {
    const { store, sql } = await openScene(server);
    await enqueue(sql, `'a', '{"path": "C:\\\\u0000"}'`);
    expect((await listed(store)).map(({ input }) => input)).toEqual([`{"path": "C:\\\\u0000"}`]);
  });
});

describe("A-03 expire_stale_jobs in SQL", () => {
  it("A-03 reaps expired leases, retries, and returns how many", async () => {
    const { store, sql } = await openScene(server);
    const again = await add(store, { type: "again" });
    const last = await add(store, { type: "last", maxAttempts: 1 });
    const asked = await add(store, { type: "asked" });
    const held = await add(store, { type: "held", queue: "other" });
    const leases = [...(await claim(store, { queues: ["default"] })), ...(await claim(store, { queues: ["other"] }))];
    await store.start(leases.map(({ id, fence }) => ({ id, fence, startedAt: Date.now() })));
    await store.cancel([asked]);
    await sql("UPDATE $s.live SET due_at = 1 WHERE queue = 'default'");
    expect(await sql("SELECT $s.expire_stale_jobs() AS n")).toEqual([{ n: 3 }]);
    expect(await sql("SELECT $s.expire_stale_jobs() AS n")).toEqual([{ n: 0 }]);

    const error = { message: "Job timed out (stale claim)", code: "STALE_CLAIM" };
    expect(await store.get(again)).toMatchObject({ state: "pending", error, attempt: 1, attempts: [{ error }] });
    expect(await store.get(last)).toMatchObject({ state: "dead", error, attempt: 1, attempts: [{ error }] });
    expect(await store.get(asked)).toMatchObject({ state: "cancelled", error });
    expect(await store.get(held)).toMatchObject({ state: "running", error: null });
    expect(await counted(store)).toEqual({
      "again pending": 1,
      "last dead": 1,
      "asked cancelled": 1,
      "held running": 1,
    });
    expect(await store.settle(leases.slice(0, 2).map((lease) => outcomeOf(lease, "completed")))).toEqual([
      "lost",
      "lost",
    ]);
  });

  it("reaps at most the given number", async () => {
    const { store, sql } = await openScene(server);
    for (const type of ["a", "b", "c"]) await add(store, { type });
    await claim(store);
    await sql("UPDATE $s.live SET due_at = 1");
    expect(await sql("SELECT $s.expire_stale_jobs(2) AS n")).toEqual([{ n: 2 }]);
    expect(await sql("SELECT $s.expire_stale_jobs(2) AS n")).toEqual([{ n: 1 }]);
  });

  it("wakes a worker for retried jobs", async () => {
    const { store, address, sql } = await openScene(server);
    const id = await add(store, { type: "welcome", input: '{"to":"ada"}' });
    await claim(store, { leaseMs: 3_600_000 });
    const hf = await holdfast({ store: address, jobs: [welcome], logger: false });
    hf.work({ poll: "1h" });
    await hf.result(welcome, (await hf.enqueue(welcome, { to: "first" })).id, { timeout: "10s" });
    await sql("UPDATE $s.live SET due_at = 1");
    await sql("SELECT $s.expire_stale_jobs()");
    await hf.result(id, { timeout: "10s" });
    await hf.close();
  });
});

describe("functions for SQL", () => {
  it("need a grant, and do not use the search path", async () => {
    const { sql } = await openScene(server);
    const rows = await sql(`SELECT proname AS name, prosecdef AS definer, proconfig AS config,
        has_function_privilege('pg_monitor', oid, 'EXECUTE') AS open
      FROM pg_proc WHERE pronamespace = '$s'::regnamespace ORDER BY 1`);
    const safe = { definer: false, config: ["search_path=pg_catalog, pg_temp"], open: false };
    expect(rows).toEqual([
      // Each of those that insert twice: without parents and settings, and with them.
      { name: "add_jobs", ...safe, definer: true },
      { name: "add_jobs", ...safe, definer: true },
      { name: "add_keyed_jobs", ...safe, definer: true },
      { name: "add_keyed_jobs", ...safe, definer: true },
      { name: "add_lanes", ...safe, definer: true },
      { name: "check_jobs", ...safe },
      { name: "check_settings", ...safe },
      { name: "emit", ...safe, definer: true },
      { name: "enqueue", ...safe, definer: true },
      { name: "expire_stale_jobs", ...safe },
      { name: "is_too_deep", ...safe },
      { name: "refuse_finished", ...safe },
      { name: "replace_job", ...safe, definer: true },
      { name: "replace_job", ...safe, definer: true },
    ]);
  });
});
