import { postgres } from "holdfast/postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import type { PgPool } from "#src/stores/postgres/connection/db.js";
import {
  addAll,
  claim,
  claimIds,
  claimRequest,
  newJob,
  newJobs,
  outcomeOf,
  settleAll,
} from "#src/testing/exercise-store/builders.js";
import { explained, nodesOf, pagesOf } from "./explained.js";
import { fill, openStore } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

describe("the cost of a claim", () => {
  it.each([50, 500])("is at most 3 pages per job to find %i, 12 to claim", async (limit) => {
    const seen = await explained(server);
    const { store, schema } = seen;
    await store.insert([newJob()]);
    await fill(server, schema, 20_000);
    // From the sixth execution on, prepared statements may keep a generic plan.
    for (let warmUp = 0; warmUp < 8; warmUp++) await claim(store, { limit });
    const [plan] = await seen.plansOf(() => claim(store, { limit }));
    const nodes = plan === undefined ? [] : nodesOf(plan);
    const found = nodes.find((node) => node["Subplan Name"] === "CTE candidates");
    expect(pagesOf(found)).toBeGreaterThan(0);
    expect(pagesOf(found)).toBeLessThanOrEqual(3 * limit + 100);
    expect(pagesOf(plan)).toBeLessThanOrEqual(12 * limit + 250);
  });

  it("does not depend on the queue length at the start", async () => {
    const seen = await explained(server);
    const { store, schema } = seen;
    const live = async (): Promise<void> => {
      await store.insert(newJobs(2));
      const jobs = await claim(store, { limit: 2 });
      await store.start(jobs.map(({ id, fence }) => ({ id, fence, startedAt: 1 })));
      await store.extend(jobs, 30_000);
      await settleAll(
        store,
        jobs.map((job) => outcomeOf(job, "completed")),
      );
      await store.get(jobs[0]?.id ?? "");
    };
    for (let warmUp = 0; warmUp < 10; warmUp++) await live();
    await fill(server, schema, 20_000);
    await server.query(
      `INSERT INTO ${schema}.keys SELECT 'k' || n, gen_random_uuid(), 'forever' FROM generate_series(1, 20000) AS n`,
    );
    const plans = await seen.plansOf(live);
    expect(plans.length).toBeGreaterThanOrEqual(6);
    const read = plans.flatMap(nodesOf).filter((node) => node["Node Type"] === "Seq Scan");
    expect([...new Set(read.map((node) => node["Relation Name"]))].filter((name) => name !== "lanes")).toEqual([]);
  });
});

describe("full claims resume where the last one ended", () => {
  const FULL = 1_000;
  const ROUNDS = 15;

  it.each([
    ["the limit", (count: number) => ({ limit: count })],
    ["the byte limit", (count: number) => ({ limit: 2 * count, bytes: 2 * count })],
  ])("filled by %s, and skip entries that vacuum cannot remove", async (_what, want) => {
    const seen = await explained(server);
    const { store, schema } = seen;
    await store.insert([newJob()]);
    await fill(server, schema, (ROUNDS + 5) * FULL);
    const reader = await server.client();
    await reader.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await reader.query(`SELECT count(*) FROM ${schema}.live`);
    for (let round = 0; round < ROUNDS; round++) expect(await claim(store, want(FULL))).toHaveLength(FULL);
    const pages: number[] = [];
    for (let round = 0; round < 3; round++) {
      const plans = await seen.plansOf(() => claim(store, want(20)));
      pages.push(pagesOf(plans.flatMap(nodesOf).find((node) => node["Subplan Name"] === "CTE candidates")));
    }
    await reader.end();
    // Any one of them may be a full scan.
    expect(pages.toSorted((one, other) => one - other)[1]).toBeLessThanOrEqual(3 * want(20).limit + 100);
  });

  it("find jobs that were committed late", async () => {
    const { store, schema } = await openStore(server, { isNew: true });
    await store.insert([newJob()]);
    await fill(server, schema, 60_000);
    for (let round = 0; round < ROUNDS; round++) await claim(store, { limit: FULL });
    const late = newJob({ runAt: 0 });
    await store.insert([late]);
    let claims = 0;
    while (!(await claimIds(store, { limit: 10 })).includes(late.id)) expect(++claims).toBeLessThan(4_000);
  });

  it("take all late jobs before later ones", async () => {
    const { store, schema } = await openStore(server, { isNew: true });
    await store.insert([newJob()]);
    await fill(server, schema, 60_000);
    for (let round = 0; round < ROUNDS; round++) await claim(store, { limit: FULL });
    const late = new Set(await addAll(store, newJobs(300, { runAt: 0 })));
    const isLate = async (): Promise<boolean> => late.has((await claimIds(store, { limit: 10 }))[0] ?? "");
    let claims = 0;
    while (!(await isLate())) expect(++claims).toBeLessThan(4_000);
    for (let more = 1; more < 30; more++) expect(await isLate()).toBe(true);
    expect(await isLate()).toBe(false);
  });

  it("take jobs before the cursor when no others are left", async () => {
    const { store, schema } = await openStore(server, { isNew: true });
    await store.insert([newJob()]);
    await fill(server, schema, ROUNDS * FULL - 1);
    for (let round = 0; round < ROUNDS; round++) expect(await claim(store, { limit: FULL })).toHaveLength(FULL);
    const late = newJob({ runAt: 0 });
    await store.insert([late]);
    expect(await claimIds(store, { limit: FULL })).toEqual([late.id]);
  });
});

describe("claims over several queues", () => {
  const QUEUES = 8;

  it("lock few more jobs than they take", async () => {
    const { store, schema } = await openStore(server, { isNew: true });
    const jobs = Array.from({ length: QUEUES * 20 }, (_, n) => newJob({ queue: `q${n % QUEUES}` }));
    await store.insert(jobs);
    const worker = await server.client();
    onTestFinished(() => worker.end());
    // The locks of a claim in progress.
    await worker.query("BEGIN");
    const statement = await claimStatement(schema);
    const { rows: taken } = await worker.query({ ...statement, rowMode: "array" });
    expect(taken.filter(([id]) => id !== null)).toHaveLength(10);
    const others = await claimIds(store, { limit: 1_000 });
    await worker.query("COMMIT");
    expect(others.length).toBeGreaterThanOrEqual(jobs.length - 20);
    expect(await claimIds(store, { limit: 1_000 })).toHaveLength(jobs.length - 10 - others.length);
  });

  it("skip locked jobs, even more than the limit", async () => {
    const { store, schema } = await openStore(server, { isNew: true });
    await store.insert(newJobs(8, { queue: "mail" }));
    const others = newJobs(50, { queue: "other" });
    await store.insert(others);
    await lockQueue(schema, "mail");
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) ids.push(...(await claimIds(store, { limit: 4 })));
    expect(ids).toEqual(others.slice(0, 12).map(({ id }) => id));
  });

  it("take no lower priority before jobs behind locked ones", async () => {
    const { store, schema } = await openStore(server, { isNew: true });
    await store.insert(newJobs(8, { queue: "mail", priority: 5 }));
    const others = newJobs(10, { queue: "other", priority: 5 });
    await store.insert([...newJobs(10, { queue: "other" }), ...others]);
    await lockQueue(schema, "mail");
    expect(await claimIds(store, { limit: 4 })).toEqual(others.slice(0, 4).map(({ id }) => id));
  });

  it("poll again soon for locked jobs", async () => {
    const { store, schema } = await openStore(server, { isNew: true });
    await store.insert([newJob()]);
    const operator = await server.client();
    onTestFinished(() => operator.end());
    await operator.query("BEGIN");
    await operator.query(`SELECT 1 FROM ${schema}.live FOR UPDATE`);
    const { jobs, at, nextDueAt } = await store.claim(claimRequest());
    expect(jobs).toEqual([]);
    expect((nextDueAt ?? Infinity) - at).toBeLessThanOrEqual(50);
    await operator.query("COMMIT");
    expect(await claimIds(store)).toHaveLength(1);
  });

  it("take the oldest first across queues", async () => {
    const { store } = await openStore(server, { isNew: true });
    const jobs = Array.from({ length: 60 }, (_, n) => newJob({ queue: `q${(n * 7) % QUEUES}`, runAt: 1_000 + n }));
    await store.insert(jobs.toReversed());
    const order: string[] = [];
    for (let n = 0; n < 6; n++) order.push(...(await claimIds(store, { limit: 10 })));
    expect(order).toEqual(jobs.map(({ id }) => id));
  });
});

/** Locks the jobs of a queue until the test ends. */
async function lockQueue(schema: string, queue: string): Promise<void> {
  const operator = await server.client();
  onTestFinished(() => operator.end());
  await operator.query("BEGIN");
  await operator.query(`SELECT 1 FROM ${schema}.live WHERE queue = $1 FOR UPDATE`, [queue]);
}

/** The statement that a claim with limit 10 sends. */
async function claimStatement(schema: string): Promise<{ text: string; values: unknown[] }> {
  const sent: { text: string; values: unknown[] }[] = [];
  const pool: PgPool = {
    query: () => Promise.reject(new Error("not used")),
    end: () => Promise.resolve(),
    connect: () =>
      Promise.resolve({
        query: (config: { text: string; values?: readonly unknown[] }) => {
          sent.push({ text: config.text, values: [...(config.values ?? [])] });
          return Promise.resolve({ rows: [] });
        },
        release() {},
      }),
  };
  const store = postgres({ pool, schema, notify: false });
  await store.claim(claimRequest({ limit: 10 }));
  await store.close();
  const found = sent.find(({ text }) => text.includes("candidates"));
  if (found === undefined) throw new Error("no claim was sent");
  return found;
}

it("a query for due schedules scans the index", async () => {
  const { store, schema, plansOf } = await explained(server);
  await server.query(
    `INSERT INTO ${schema}.schedules (name, version, origin, type, queue, priority, input, max_attempts, every_ms, jitter_ms,
       catch_up, overlap, enabled, next_run_at, created_at, updated_at)
     SELECT 's' || n, 'v', 'runtime', 'x', 'default', 0, '{}', 4, 1000, 0, 'latest', 'allow', true, 4e12::bigint + n, 1, 1
     FROM generate_series(1, 20000) AS n`,
  );
  await server.query(`ANALYZE ${schema}.schedules`);
  for (let warmUp = 0; warmUp < 8; warmUp++) await store.dueSchedules(100);
  const nodes = (await plansOf(() => store.dueSchedules(100))).flatMap(nodesOf).map((node) => node["Node Type"]);
  expect(nodes.filter((type) => /Seq Scan|Sort/.test(type))).toEqual([]);
  expect(nodes).toContain("Index Scan");
});
