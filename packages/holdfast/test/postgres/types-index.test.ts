import { expect, it, vi } from "vitest";
import { claim, claimIds, newJob } from "#src/testing/exercise-store/builders.js";
import { fill, openScene, type RunSql } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

// More than are indexed in a moment.
const MANY = 20_001;
const INDEX = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('$s.live_types')";

/** Whether the index is there and done, there and not done, or not there. */
async function indexState(sql: RunSql): Promise<boolean | null> {
  return (await sql<{ indisvalid: boolean }>(INDEX))[0]?.indisvalid ?? null;
}

it("workers that take everything never pay for the index of types", async () => {
  const { store, sql } = await openScene(server);
  await store.insert([newJob()]);
  await claim(store);
  expect(await indexState(sql)).toBeNull();
});

it("the first claim for types makes it", async () => {
  const { store, sql } = await openScene(server);
  const [mail, other] = [newJob({ type: "mail" }), newJob({ type: "other" })];
  await store.insert([mail, other]);
  expect(await claimIds(store, { types: ["other"] })).toEqual([other.id]);
  expect(await indexState(sql)).toBe(true);
});

it("what a process that died left half made is made anew", async () => {
  const { store, sql } = await openScene(server);
  const other = newJob({ type: "other" });
  await store.insert([other]);
  await sql("CREATE INDEX live_types ON $s.live (type)");
  await sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass('$s.live_types')");
  expect(await claimIds(store, { types: ["other"] })).toEqual([other.id]);
  expect(await indexState(sql)).toBe(true);
});

it("in a full table claims go on while it is made, and closing does not wait for it", async () => {
  const { store, sql, schema, session } = await openScene(server);
  const other = newJob({ type: "other" });
  await store.insert([other]);
  await fill(server, schema, MANY);
  // It is made when everybody who is writing now has ended.
  const backup = await session();
  await backup.sql("BEGIN");
  await backup.sql("LOCK TABLE $s.live IN ROW EXCLUSIVE MODE");
  expect(await claimIds(store, { types: ["other"] })).toEqual([other.id]);
  await vi.waitFor(async () => expect(await indexState(sql)).toBe(false), { timeout: 10_000 });
  await store.close();
  expect(await indexState(sql)).toBe(false);
  await backup.sql("COMMIT");
  await vi.waitFor(async () => expect(await indexState(sql)).toBe(true), { timeout: 10_000, interval: 100 });
});
