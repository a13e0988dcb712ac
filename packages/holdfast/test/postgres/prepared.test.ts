import { expect, it } from "vitest";
import {
  add,
  addAll,
  claimRequest,
  failureOf,
  LEASE_MS,
  newJobs,
  outcomeOf,
} from "#src/testing/exercise-store/builders.js";
import { openOnOne } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

it("pages of every size use the same prepared statements", async () => {
  const { store, pool } = await openOnOne(server);
  await addAll(store, newJobs(12));
  const prepared = async (): Promise<unknown> =>
    (await pool.query("SELECT name FROM pg_prepared_statements ORDER BY name")).rows;
  const read = async (limit: number): Promise<void> => {
    const page = { limit, cursor: null };
    expect((await store.list({}, page)).jobs).toHaveLength(Math.min(limit, 12));
    await store.list({ types: ["mail"], states: ["dead"] }, page);
    await store.listSchedules({}, page);
  };
  await read(1);
  const before = await prepared();
  for (let limit = 2; limit < 20; limit++) await read(limit);
  expect(await prepared()).toEqual(before);
});

// PostgreSQL plans a prepared statement anew for its first five calls. After that it uses one plan for all, unless plans for the
// values at hand look cheaper; then it would plan each call, which takes longer than to execute it.
it("plans no statement for a single job anew", async () => {
  const { store, pool } = await openOnOne(server);
  for (let at = 0; at < 12; at++) {
    await add(store);
    const { jobs } = await store.claim(claimRequest({ limit: 1 }));
    const [job] = jobs;
    if (job === undefined) throw new Error("there is a job to claim");
    const { id, fence } = job;
    await store.start([{ id, fence, startedAt: 1 }]);
    await store.extend([{ id, fence }], LEASE_MS);
    await store.note([{ id, fence, progress: { fraction: 0.5, note: null, data: null }, log: [] }]);
    await store.settle([at % 2 === 0 ? outcomeOf(job, "completed") : failureOf(job, "no mail server", { to: "dead" })]);
  }
  const { rows } = await pool.query<{ name: string; custom: string; generic: string }>(
    `SELECT name, custom_plans AS custom, generic_plans AS generic FROM pg_prepared_statements
     WHERE custom_plans + generic_plans >= 12`,
  );
  expect(rows.length).toBeGreaterThanOrEqual(6);
  expect(rows.filter(({ custom }) => Number(custom) > 5)).toEqual([]);
});
