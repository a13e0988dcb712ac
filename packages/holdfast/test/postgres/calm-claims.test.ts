import { describe, expect, it, onTestFinished } from "vitest";
import { claim, claimIds, claimRequest, newJob, newJobs } from "#src/testing/exercise-store/builders.js";
import { explained, nodesOf, pagesOf, type PlanNode } from "./explained.js";
import { fill, openStore, type Opened } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

/** A store whose next claim expects few jobs, since the last one found none. */
async function calmStore(): Promise<Opened> {
  const opened = await openStore(server, { isNew: true });
  expect(await claimIds(opened.store)).toEqual([]);
  return opened;
}

const isQuick = (plan: PlanNode): boolean => nodesOf(plan).some((node) => node["Subplan Name"] === "CTE unfit");

describe("a claim after one that found less than it wanted", () => {
  it("is a statement with half as much to it, until one comes back full", async () => {
    const { store, plansOf } = await explained(server);
    const kinds = async (work: () => Promise<unknown>): Promise<string[]> =>
      (await plansOf(work)).map((plan) => (isQuick(plan) ? "quick" : "whole"));
    expect(await kinds(() => claim(store))).toEqual(["whole"]);
    await store.insert(newJobs(8));
    expect(await kinds(() => claim(store, { limit: 2 }))).toEqual(["quick"]);
    expect(await kinds(() => claim(store, { limit: 2 }))).toEqual(["whole"]);
    expect(await kinds(() => claim(store, { limit: 8 }))).toEqual(["whole"]);
    expect(await kinds(() => claim(store, { limit: 8 }))).toEqual(["quick"]);
    expect(await kinds(() => claim(store, { queues: ["other"] }))).toEqual(["whole"]);
  });

  it("leaves a lost lease to the whole statement, and goes without the quick one for a while", async () => {
    const { store, schema, plansOf } = await explained(server);
    await claim(store);
    await store.insert(newJobs(2));
    const [lost] = await claim(store, { limit: 1 });
    await claim(store);
    await server.query(`UPDATE ${schema}.live SET due_at = 1 WHERE id = $1`, [lost?.id]);
    const plans = await plansOf(async () => expect(await claimIds(store)).toEqual([lost?.id]));
    expect(plans.map(isQuick)).toEqual([true, false]);
    expect((await plansOf(() => claim(store))).map(isQuick)).toEqual([false]);
    expect((await store.get(lost?.id ?? ""))?.attempts).toMatchObject([{ attempt: 1, worker: "w1" }]);
  });

  it("takes the highest priority first, and then the oldest, whichever queue they are in", async () => {
    const { store } = await calmStore();
    const jobs = Array.from({ length: 24 }, (_, n) =>
      newJob({ queue: `q${(n * 5) % 4}`, priority: n < 8 ? 5 : 0, runAt: 1_000 + n }),
    );
    await store.insert(jobs.toReversed());
    expect(await claimIds(store, { limit: 10 })).toEqual(jobs.slice(0, 10).map(({ id }) => id));
  });

  it("passes over what others have locked, and looks again soon", async () => {
    const { store, schema } = await calmStore();
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

  it("says when the next job is due, or the first of its own leases ends", async () => {
    const { store } = await calmStore();
    const soon = Date.now() + 3_600_000;
    await store.insert([newJob({ runAt: soon + 5, priority: 3 }), newJob({ runAt: soon, queue: "other" })]);
    expect(await store.claim(claimRequest())).toMatchObject({ jobs: [], nextDueAt: soon });
    expect((await store.claim(claimRequest({ queues: ["default"] }))).nextDueAt).toBe(soon + 5);
    await store.insert([newJob()]);
    const { jobs, at, nextDueAt } = await store.claim(claimRequest({ leaseMs: 7_000 }));
    expect(jobs).toHaveLength(1);
    expect(nextDueAt).toBe(at + 7_000);
  });

  it("stays within 3 pages a job to find them, and 12 to claim them, however many come at once", async () => {
    const { store, schema, plansOf } = await explained(server);
    await store.insert([newJob()]);
    // Prepared statements keep a plan of their own from the sixth time on.
    for (let warmUp = 0; warmUp < 10; warmUp++) await claim(store);
    await fill(server, schema, 20_000);
    const [plan] = await plansOf(() => claim(store, { limit: 50 }));
    if (plan === undefined) throw new Error("no claim was made");
    expect(isQuick(plan)).toBe(true);
    const nodes = nodesOf(plan);
    expect(pagesOf(nodes.find((node) => node["Subplan Name"] === "CTE picked"))).toBeLessThanOrEqual(3 * 50 + 100);
    expect(pagesOf(plan)).toBeLessThanOrEqual(12 * 50 + 100);
  });
});
