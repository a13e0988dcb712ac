import { holdfast, job } from "holdfast";
import { postgres } from "holdfast/postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { claimOne, failureOf, finish, newJob, settleOne } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { startChild } from "../sqlite/child.js";
import { addressOf, openClient, openStore, ownSchema } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

describe("A-07 a store on PostgreSQL", () => {
  const where = job({ type: "where", run: () => ({ done: true }) });

  it("A-07 uses the application's pool, or opens its own", async () => {
    const pool = server.pool();
    onTestFinished(() => pool.end());
    const schema = ownSchema(server);
    const theirs = await openClient(postgres({ pool, schema }), where);
    const own = await openClient(addressOf(server.url(), schema), where);
    own.work();
    const { id } = await theirs.enqueue(where);
    expect(await theirs.result(where, id, { timeout: "10s" })).toEqual({ done: true });
    expect(pool.totalCount).toBeGreaterThan(0);
  });

  it("A-07 leaves the application's pool and transactions open", async () => {
    const pool = server.pool({ max: 3 });
    onTestFinished(() => pool.end());
    const schema = ownSchema(server);
    const hf = await holdfast({ store: postgres({ pool, schema }), jobs: [where], logger: false });
    const tx = await pool.connect();
    await tx.query("BEGIN");
    const { id } = await hf.enqueue(where, {}, { tx });
    await hf.close();
    await tx.query("COMMIT");
    tx.release();
    expect((await pool.query(`SELECT id FROM ${schema}.jobs`)).rows).toEqual([{ id }]);
  });
});

describe("A-35 C-02 a worker process that is killed during a job", () => {
  it("A-35 C-02 loses its lease; the job is logged and run again", async () => {
    const { store, address } = await openStore(server);
    const warnings: string[] = [];
    const logger = {
      debug() {},
      info() {},
      warn: (_fields: object, message: string) => void warnings.push(message),
      error() {},
    };
    const endless = job({ type: "endless", run: ({ job: { attempt } }) => ({ attempt }) });
    const hf = await holdfast({ store: address, jobs: [endless], logger });
    onTestFinished(() => hf.close());
    const recovered: string[] = [];
    hf.on("recovered", ({ id }) => recovered.push(id));
    const victim = startChild("endless-at.mjs", [address]);
    await victim.next("up");
    const { id } = await hf.enqueue(endless);
    await victim.next("started");
    await until("its start to be written", async () => (await hf.get(id))?.state === "running");
    hf.work();
    const leaseEnd = async (): Promise<number> => (await store.get(id))?.dueAt ?? 0;
    const first = await leaseEnd();
    await until("the lease to be renewed again and again", async () => (await leaseEnd()) > first + 500);

    victim.kill();
    expect(await victim.ended()).toBe("SIGKILL");
    expect(await hf.result(endless, id, { timeout: "10s" })).toEqual({ attempt: 2 });
    expect(recovered).toEqual([id]);
    expect(warnings).toEqual([
      "Job timed out (stale claim): its lease expired, because its worker crashed or could not reach the store",
    ]);
    expect(await hf.get(id)).toMatchObject({
      state: "completed",
      attempt: 2,
      worker: expect.any(String) as string,
      attempts: [
        { attempt: 1, end: "expired", error: { code: "STALE_CLAIM", message: "Job timed out (stale claim)" } },
        { attempt: 2, end: "completed" },
      ],
    });
  });
});

describe("C-01 the tables reject", () => {
  it.each([
    ["a state that does not exist", "live", "state = 'queued'", "23514"],
    ["no state", "live", "state = NULL", "23502"],
    ["a finished state in live", "live", "state = 'completed'", "23514"],
    ["a live state in archive", "archive", "state = 'running'", "23514"],
    ["no attempts", "live", "max_attempts = 0", "23514"],
    ["a negative attempt", "live", "attempt = -1", "23514"],
    ["a priority out of range", "live", "priority = 101", "23514"],
  ])("C-01 %s", async (_what, table, change, code) => {
    const { store, schema } = await openStore(server);
    await store.insert([newJob(), newJob()]);
    await finish(store, await claimOne(store));
    await expect(server.query(`UPDATE ${schema}.${table} SET ${change}`)).rejects.toMatchObject({ code });
  });
});

it("C-03 the row has attempts, last error and last run", async () => {
  const { store, schema } = await openStore(server);
  await store.insert([newJob()]);
  const row = async (): Promise<object> =>
    (await server.query(`SELECT attempt, retry_count, error, claimed_at IS NOT NULL AS ran FROM ${schema}.job_records`))
      .rows[0];
  expect(await row()).toEqual({ attempt: 0, retry_count: 0, error: null, ran: false });
  await settleOne(store, failureOf(await claimOne(store), "first"));
  expect(await row()).toEqual({ attempt: 1, retry_count: 0, error: "first", ran: true });
  await settleOne(store, failureOf(await claimOne(store), "second"));
  expect(await row()).toEqual({ attempt: 2, retry_count: 1, error: "second", ran: true });
});
