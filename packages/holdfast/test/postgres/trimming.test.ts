import { describe, expect, it } from "vitest";
import { LIMITS } from "#src/defaults.js";
import { add, claimOne, newJob, outcomeOf } from "#src/testing/exercise-store/builders.js";
import { explained, nodesOf, pagesOf, type Explained, type PlanNode } from "./explained.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

const MANY = 3_000;

/** The executed plan of the DELETE on a table. */
async function deleting({ plansOf }: Explained, work: () => Promise<unknown>): Promise<PlanNode | undefined> {
  const plans = await plansOf(work);
  return plans.find((plan) => plan["Node Type"] === "ModifyTable" && plan.Operation === "Delete");
}

describe("the cost of trimming grows with the deleted rows only", () => {
  it("for log lines", async () => {
    const seen = await explained(server);
    const { store, schema } = seen;
    await add(store);
    const job = await claimOne(store);
    const fill = `INSERT INTO ${schema}.log (job, at, line) SELECT $1, n, 'line ' || n FROM generate_series(1, $2::integer) AS n`;
    await server.query(fill, [job.id, MANY]);
    const beside = newJob().id;
    await server.query(fill, [beside, LIMITS.logLines]);
    const { id, fence } = job;
    const plan = await deleting(seen, () =>
      store.note([{ id, fence, progress: null, log: [{ at: MANY + 1, line: "the last" }] }]),
    );
    expect(pagesOf(plan)).toBeGreaterThan(0);
    expect(pagesOf(plan)).toBeLessThan(3 * MANY);
    expect(nodesOf(plan as PlanNode).map((node) => node["Node Type"])).not.toContain("Seq Scan");
    const { rows } = await server.query(
      `SELECT job, count(*)::integer AS n, max(at)::integer AS last FROM ${schema}.log GROUP BY job ORDER BY last`,
    );
    expect(rows).toEqual([
      { job: beside, n: LIMITS.logLines, last: LIMITS.logLines },
      { job: job.id, n: LIMITS.logLines, last: MANY + 1 },
    ]);
  });

  it("for attempts", async () => {
    const seen = await explained(server);
    const { store, schema } = seen;
    await add(store);
    const job = await claimOne(store);
    const record = { attempt: 1, worker: null, claimedAt: 1, startedAt: 1, endedAt: 1, error: null };
    await server.query(
      `INSERT INTO ${schema}.attempts (job, record) SELECT $1, $2::json FROM generate_series(1, $3::integer)`,
      [job.id, JSON.stringify(record), MANY],
    );
    const attempt = LIMITS.attempts + 1;
    const outcome = outcomeOf(job, "failed", { attempt, attemptRecord: { ...record, attempt } });
    const plan = await deleting(seen, () => store.settle([outcome]));
    expect(pagesOf(plan)).toBeGreaterThan(0);
    expect(pagesOf(plan)).toBeLessThan(3 * MANY);
    const kept = (await store.get(job.id))?.attempts ?? [];
    expect(kept).toHaveLength(LIMITS.attempts);
    expect(kept.at(-1)?.attempt).toBe(attempt);
    const { rows } = await server.query(`SELECT count(*)::integer AS n FROM ${schema}.attempts`);
    expect(rows).toEqual([{ n: LIMITS.attempts }]);
  });
});
