import { job, type HoldfastError } from "holdfast";
import { expect, it } from "vitest";
import { pollInterval, until } from "#src/testing/exercise-store/until.js";
import { startChild } from "../sqlite/child.js";
import { addressOf, openClient, ownSchema } from "./scene.js";
import { NOT_OURS, postgresServer } from "./server.js";

const CRASHES = 5;
const BETWEEN = 40;

const server = postgresServer({ durable: true });

it(`every acknowledged job completes although the server crashes ${CRASHES} times`, async ({ skip }) => {
  if (NOT_OURS !== null) return skip(NOT_OURS);
  const address = addressOf(server.url(), ownSchema(server));
  const ranHere = new Set<string>();
  const effect = job({
    type: "effect",
    retry: { maxAttempts: 20 },
    run: ({ job: { id } }) => void ranHere.add(id),
  });
  const hf = await openClient(address, effect);
  hf.work({ concurrency: 10, lease: "2s" });
  const other = startChild("effects.mjs", [address]);
  await other.next("up");
  const ranThere = (): string[] => other.reports.filter(({ kind }) => kind === "ran").map(({ id }) => id);

  const acknowledged: string[] = [];
  const refusals = new Set<string>();
  let enough = false;
  const enqueueing = Array.from({ length: 4 }, async () => {
    while (!enough) {
      try {
        acknowledged.push((await hf.enqueue(effect)).id);
      } catch (error) {
        refusals.add((error as HoldfastError).code);
        await pollInterval();
      }
    }
  });
  const progress = (): number[] => [acknowledged.length, ranHere.size, ranThere().length];
  for (let crash = 1; crash <= CRASHES; crash++) {
    const before = progress();
    await until(`enqueues and both workers to get on after crash ${crash - 1}`, () =>
      progress().every((count, which) => count >= (before[which] ?? 0) + BETWEEN),
    );
    await server.crash();
  }
  const last = progress();
  await until("both workers to get on after the last crash", () =>
    progress().every((count, which) => count > (last[which] ?? 0)),
  );
  enough = true;
  await Promise.all(enqueueing);

  await until("every job to end", async () => {
    const { states } = await hf.stats();
    return states.pending + states.claimed + states.running + states.failed === 0;
  });
  const ran = new Set([...ranHere, ...ranThere()]);
  expect(acknowledged.filter((id) => !ran.has(id))).toEqual([]);
  const { rows } = await server.query(
    `SELECT id FROM ${address.split("=")[1]}.jobs WHERE id = ANY ($1) AND state = 'completed'`,
    [acknowledged],
  );
  expect(rows).toHaveLength(acknowledged.length);
  expect([...refusals]).toEqual(["STORE_UNAVAILABLE"]);
});
