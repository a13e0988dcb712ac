import { describe, expect, it, onTestFinished } from "vitest";
import { claim, claimIds, claimRequest, newJob, newJobs } from "#src/testing/exercise-store/builders.js";
import { explained, nodesOf, pagesOf, type PlanNode } from "./explained.js";
import { fill, openStore, type Opened } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

/** A store whose next claim uses the fast path, because the last one found no jobs. */
async function idleStore(): Promise<Opened> {
  const opened = await openStore(server, { isNew: true });
  expect(await claimIds(opened.store)).toEqual([]);
  return opened;
}

const isFast = (plan: PlanNode): boolean => nodesOf(plan).some((node) => node["Subplan Name"] === "CTE full_claim");

describe("a claim after one that returned few jobs", () => {
  it("uses the fast path until a claim is full", async () => {
    const { store, plansOf } = await explained(server);
    const kinds = async (work: () => Promise<unknown>): Promise<string[]> =>
      (await plansOf(work)).map((plan) => (isFast(plan) ? "fast" : "full"));
    expect(await kinds(() => claim(store))).toEqual(["full"]);
    await store.insert(newJobs(8));
    expect(await kinds(() => claim(store, { limit: 2 }))).toEqual(["fast"]);
    expect(await kinds(() => claim(store, { limit: 2 }))).toEqual(["full"]);
    expect(await kinds(() => claim(store, { limit: 8 }))).toEqual(["full"]);
    expect(await kinds(() => claim(store, { limit: 8 }))).toEqual(["fast"]);
    expect(await kinds(() => claim(store, { queues: ["other"] }))).toEqual(["full"]);
  });

  it("uses the full statement for an expired lease", async () => {
    const { store, schema, plansOf } = await explained(server);
    await claim(store);
    await store.insert(newJobs(2));
    const [lost] = await claim(store, { limit: 1 });
    await claim(store);
    await server.query(`UPDATE ${schema}.live SET due_at = 1 WHERE id = $1`, [lost?.id]);
    const plans = await plansOf(async () => expect(await claimIds(store)).toEqual([lost?.id]));
    expect(plans.map(isFast)).toEqual([true, false]);
    expect((await plansOf(() => claim(store))).map(isFast)).toEqual([false]);
    expect((await store.get(lost?.id ?? ""))?.attempts).toMatchObject([{ attempt: 1, worker: "w1" }]);
  });

  it("takes the highest priority first, then the oldest", async () => {
    const { store } = await idleStore();
    const jobs = Array.from({ length: 24 }, (_, n) =>
      newJob({ queue: `q${(n * 5) % 4}`, priority: n < 8 ? 5 : 0, runAt: 1_000 + n }),
    );
    await store.insert(jobs.toReversed());
    expect(await claimIds(store, { limit: 10 })).toEqual(jobs.slice(0, 10).map(({ id }) => id));
  });

  it("skips locked jobs and polls again soon", async () => {
    const { store, schema } = await idleStore();
    const [locked, open] = newJobs(2);
    await store.insert([locked, open].filter((job) => job !== undefined));
    const operator = await server.client();
    onTestFinished(() => operator.end());
    await operator.query("BEGIN");
    await operator.query(`SELECT 1 FROM ${schema}.live WHERE id = $1 FOR UPDATE`, [locked?.id]);
    const { jobs, at, nextDueAt } = await store.claim(claimRequest());
    expect(jobs.map(({ id }) => id)).toEqual([open?.id]);
    expect((nextDueAt ?? Infinity) - at).toBeLessThanOrEqual(50);
    await operator.query("COMMIT");
    expect(await claimIds(store)).toEqual([locked?.id]);
  });

  it("returns when the next job is due or a lease ends", async () => {
    const { store } = await idleStore();
    const soon = Date.now() + 3_600_000;
    await store.insert([newJob({ runAt: soon + 5, priority: 3 }), newJob({ runAt: soon, queue: "other" })]);
    expect(await store.claim(claimRequest())).toMatchObject({ jobs: [], nextDueAt: soon });
    expect((await store.claim(claimRequest({ queues: ["default"] }))).nextDueAt).toBe(soon + 5);
    await store.insert([newJob()]);
    const { jobs, at, nextDueAt } = await store.claim(claimRequest({ leaseMs: 7_000 }));
    expect(jobs).toHaveLength(1);
    expect(nextDueAt).toBe(at + 7_000);
  });

  it("reads at most 3 pages per job to find, 12 to claim", async () => {
    const { store, schema, plansOf } = await explained(server);
    await store.insert([newJob()]);
    // From the sixth execution on, prepared statements may keep a generic plan.
    for (let warmUp = 0; warmUp < 10; warmUp++) await claim(store);
    await fill(server, schema, 20_000);
    const [plan] = await plansOf(() => claim(store, { limit: 50 }));
    if (plan === undefined) throw new Error("no claim was made");
    expect(isFast(plan)).toBe(true);
    const nodes = nodesOf(plan);
    expect(pagesOf(nodes.find((node) => node["Subplan Name"] === "CTE candidates"))).toBeLessThanOrEqual(3 * 50 + 100);
    expect(pagesOf(plan)).toBeLessThanOrEqual(12 * 50 + 100);
  });
});
