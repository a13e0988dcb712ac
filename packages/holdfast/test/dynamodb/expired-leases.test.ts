import { expect, it } from "vitest";
import { job } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { add, claim, claimOne, recordOf, SECOND } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { startChild } from "../sqlite/child.js";
import { openClient, openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

const LEASE_MS = 30 * SECOND;
const MARGIN_MS = SECOND;

it("D-04 a claimed job is exclusive until its lease and the margin end", async () => {
  const clock = fakeClock();
  const { store, again } = await openScene(server, { clock });
  const id = await add(store);
  await claimOne(store, { worker: "first", leaseMs: LEASE_MS });
  expect(await recordOf(store, id)).toMatchObject({ worker: "first", dueAt: clock.now() + LEASE_MS });
  const other = again();
  await clock.advance(LEASE_MS + MARGIN_MS - 1);
  expect(await claim(other, { worker: "second" })).toEqual([]);
  await clock.advance(1);
  expect(await claim(other, { worker: "second", leaseMs: LEASE_MS })).toMatchObject([{ id, fence: 2, losses: 1 }]);
  expect(await recordOf(store, id)).toMatchObject({ worker: "second", dueAt: clock.now() + LEASE_MS });
});

it.each([1, 2, 3, 4, 5, 6, 7])("D-05 a crash after extension %i is recovered within two leases", async (times) => {
  const clock = fakeClock();
  const { store, again } = await openScene(server, { clock });
  const id = await add(store);
  const lease = await claimOne(store, { leaseMs: LEASE_MS });
  const other = again();
  for (let extension = 0; extension < times; extension++) {
    await clock.advance(LEASE_MS / 3);
    expect(await store.extend([lease], LEASE_MS)).toEqual(["kept"]);
    expect(await claim(other)).toEqual([]);
  }
  // The worker crashes here.
  await clock.advance(LEASE_MS + MARGIN_MS - 1);
  expect(await claim(other)).toEqual([]);
  await clock.advance(LEASE_MS - MARGIN_MS + 1);
  expect(await claim(other)).toMatchObject([{ id, fence: 2 }]);
});

it("D-05 another worker runs a long job after a crash", async () => {
  const { store, table, again } = await openScene(server);
  const ran: number[] = [];
  const endless = job({ type: "endless", run: ({ job: { attempt } }) => void ran.push(attempt) });
  const crashing = startChild("endless-at.mjs", [server.address(table), "2s"]);
  await crashing.next("up");
  const id = await add(store, { type: "endless" });
  await crashing.next("started");
  const other = async (marginMs: number): Promise<void> => {
    const hf = await openClient({ store: again({ marginMs }), jobs: [endless] });
    hf.work({ poll: "50ms" });
  };
  // Longer than a busy machine may delay a live worker.
  await other(5_000);
  const { claimedAt } = await recordOf(store, id);
  await until("its lease to be extended again and again", async () => {
    const { dueAt } = await recordOf(store, id);
    return (dueAt ?? 0) > (claimedAt ?? 0) + 2 * 2_000;
  });
  expect(await recordOf(store, id)).toMatchObject({ state: "running", fence: 1 });
  expect(ran).toEqual([]);
  crashing.kill();
  await other(0);
  await until("another worker to complete it", async () => (await recordOf(store, id)).state === "completed");
  expect(ran).toEqual([2]);
  expect(await recordOf(store, id)).toMatchObject({ fence: 2, losses: 1, attempts: [{ attempt: 1 }] });
});
