import { job, type HoldfastError } from "holdfast";
import { expect, it } from "vitest";
import { allRecords } from "#src/testing/exercise-store/history.js";
import { pollInterval, until } from "#src/testing/exercise-store/until.js";
import { startChild } from "../sqlite/child.js";
import { openClient, openScene } from "./scene.js";
import { dynamoServer, NOT_OURS } from "./server.js";

const CRASHES = 2;
const BETWEEN = 15;

const server = dynamoServer({ onDisk: true });

it(`completes every acknowledged job after ${CRASHES} crashes of DynamoDB`, { timeout: 120_000 }, async ({ skip }) => {
  if (NOT_OURS !== null) return skip(NOT_OURS);
  const { table, again, direct } = await openScene(server, { shards: 2, requests: 8 });
  const ranHere = new Set<string>();
  const effect = job({ type: "effect", retry: { maxAttempts: 20 }, run: ({ job: { id } }) => void ranHere.add(id) });
  const hf = await openClient({ store: again(), jobs: [effect] });
  hf.work({ concurrency: 5, lease: "2s", poll: "50ms" });
  const other = startChild("effects.mjs", [server.address(table)]);
  await other.next("up");
  const ranThere = (): string[] => other.reports.filter(({ kind }) => kind === "ran").map(({ id }) => id);

  const acknowledged: string[] = [];
  const refusals = new Set<string>();
  let isDone = false;
  const enqueueing = Array.from({ length: 3 }, async () => {
    while (!isDone) {
      try {
        acknowledged.push((await hf.enqueue(effect)).id);
      } catch (error) {
        refusals.add((error as HoldfastError).code);
      }
      // The workers need the disk of the emulator too.
      await pollInterval();
    }
  });
  const progress = (): number[] => [acknowledged.length, ranHere.size, ranThere().length];
  const progressesAfter = (after: string): Promise<unknown> => {
    const before = progress();
    return until(`enqueues and both workers to progress after ${after}`, () =>
      progress().every((count, which) => count >= (before[which] ?? 0) + BETWEEN),
    );
  };
  await progressesAfter("the start");
  for (let crash = 1; crash <= CRASHES; crash++) {
    await server.crash();
    await progressesAfter(`crash ${crash}`);
  }
  isDone = true;
  await Promise.all(enqueueing);

  await until("every job to end", async () => {
    const { states } = await hf.stats();
    return states.pending + states.claimed + states.running + states.failed === 0;
  });
  const ran = new Set([...ranHere, ...ranThere()]);
  expect(acknowledged.filter((id) => !ran.has(id))).toEqual([]);
  const records = await allRecords(direct());
  expect(acknowledged.filter((id) => records.get(id)?.state !== "completed")).toEqual([]);
  expect([...refusals].filter((code) => code !== "STORE_UNAVAILABLE")).toEqual([]);
});
