import type { JobPage } from "holdfast/store";
import { expect, it } from "vitest";
import { addAll, newJobs } from "#src/testing/exercise-store/builders.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();
/** Thousands of jobs, one after another through the proxy. */
const TIMED = { timeout: 90_000 };

it("lists old live jobs behind many newer ones", TIMED, async () => {
  const { store } = await openScene(server, { shards: 2 });
  const old = await addAll(store, newJobs(3, { tags: ["old"] }));
  for (let n = 0; n < 9; n++) await addAll(store, newJobs(250));
  const found: string[] = [];
  let cursor: string | null = null;
  do {
    const page: JobPage = await store.list({ states: ["pending"], tag: "old" }, { limit: 2, cursor });
    found.push(...page.jobs.map(({ id }) => id));
    ({ cursor } = page);
  } while (cursor !== null);
  expect(found).toEqual(old.toReversed());
  const seen = new Set<string>();
  do {
    const page: JobPage = await store.list({ states: ["pending"] }, { limit: 1_000, cursor });
    for (const { id } of page.jobs) seen.add(id);
    ({ cursor } = page);
  } while (cursor !== null);
  expect(seen.size).toBe(3 + 9 * 250);
});
