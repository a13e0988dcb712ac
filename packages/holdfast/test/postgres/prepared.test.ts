import { expect, it } from "vitest";
import { addAll, newJobs } from "#src/testing/exercise-store/builders.js";
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
