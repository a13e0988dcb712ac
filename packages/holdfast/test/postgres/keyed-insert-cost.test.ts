import { expect, it } from "vitest";
import { key, newJob } from "#src/testing/exercise-store/builders.js";
import { explained, nodesOf } from "./explained.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const BATCH = 100;

it("a batch with new keys reads no other keys", async () => {
  const { store, schema, plansOf } = await explained(server);
  let made = 0;
  const insert = async (): Promise<void> => {
    const jobs = Array.from({ length: BATCH }, () => newJob({ unique: key(`key-${made++}`, { scope: "forever" }) }));
    await store.insert(jobs);
  };
  await store.insert([newJob({ unique: key("first", { scope: "forever" }) })]);
  await server.query(`ANALYZE ${schema}.keys`);
  // From the sixth execution on, the connection keeps a plan that was made while there were few keys.
  for (let batch = 0; batch < 20; batch++) await insert();
  const plans = await plansOf(insert);
  const scans = plans
    .flatMap(nodesOf)
    .filter((node) => node["Relation Name"] === "keys" && node.Operation === undefined);
  expect(scans.length).toBeGreaterThan(0);
  expect(Math.max(...scans.map((node) => node["Actual Rows"] ?? 0))).toBeLessThanOrEqual(BATCH);
});
