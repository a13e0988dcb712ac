import { ScanCommand } from "@aws-sdk/client-dynamodb";
import { expect, it, onTestFinished } from "vitest";
import { add, claimOne, finish, key, newJob, outcomeOf, settleOne } from "#src/testing/exercise-store/builders.js";
import {
  childOf,
  eventOf,
  keepStep,
  newChild,
  onlyStep,
  park,
  parkedFor,
  saveStep,
  stepOf,
  stepsOf,
  waitFor,
} from "#src/testing/exercise-store/step-builders.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";
import { openCrashScene, parkedParent } from "./step-crash-scene.js";

/** How this store keeps steps. The conformance suite covers what they do. */
const server = dynamoServer();

/** The keys of all items but the shared config, as `<pk> <sk>`. */
async function keysIn(table: string): Promise<string[]> {
  const client = server.client();
  onTestFinished(() => client.destroy());
  const { Items = [] } = await client.send(new ScanCommand({ TableName: table, ConsistentRead: true }));
  return Items.map(({ pk, sk }) => `${pk?.S} ${sk?.S}`)
    .filter((each) => each.startsWith("job#") || each.startsWith("event#"))
    .toSorted();
}

it("a deleted job leaves no step, no mark and no wait", async () => {
  const { store, table } = await openScene(server);
  const id = await add(store, { queue: "parents" });
  const lease = await claimOne(store);
  await keepStep(store, stepOf(lease, "one"));
  await keepStep(store, waitFor(lease, "paid"));
  const child = newChild();
  await keepStep(store, childOf(lease, child));
  await park(store, lease);
  expect(await store.remove([id])).toEqual(["removed"]);
  // Its tombstone, its child, and the item of the event, which has a time to live.
  expect(await keysIn(table)).toEqual([`event#paid event`, `job#${id} job`, `job#${child.id} job`].toSorted());
  await finish(store, await claimOne(store));
  expect(await store.get(child.id)).toMatchObject({ state: "completed" });
});

it("a wait that has ended leaves no item but its step", async () => {
  const { store, table } = await openScene(server);
  const { parent, child } = await parkedParent(store, "parents");
  await finish(store, child, "completed", { keepMs: 60_000 });
  const waiting = await parkedFor(store, "paid");
  await store.emit([eventOf("paid")]);
  const step = "step#13#wait for paid#0";
  expect(await keysIn(table)).toEqual(
    [
      "event#paid event",
      `job#${child.id} job`,
      `job#${parent} job`,
      `job#${parent} step#5#child#0`,
      `job#${waiting} job`,
      `job#${waiting} ${step}`,
    ].toSorted(),
  );
});

it("a job does not get the steps of an earlier one with its id", async () => {
  const scene = await openCrashScene(server);
  const { store, survivor } = scene;
  const id = await add(store);
  const lease = await claimOne(store);
  await keepStep(store, stepOf(lease, "one", { value: '"old"' }));
  // Killed after the job was deleted, and before its steps are.
  scene.crashAfter(2);
  await settleOne(store, outcomeOf(lease, "completed", { keep: false, keepMs: 0 })).catch(() => {});
  scene.crashAfter(Number.POSITIVE_INFINITY);
  expect(await survivor.get(id)).toBeNull();
  await survivor.insert([newJob({ id })]);
  const next = await claimOne(survivor);
  expect(next.fence).toBe(lease.fence);
  expect(await stepsOf(survivor, id)).toEqual([]);
  // The old lease has the same id and fence.
  expect(await keepStep(survivor, stepOf(next, "one", { value: '"new"' }))).toMatchObject({ value: '"new"' });
  expect((await onlyStep(survivor, id)).value).toBe('"new"');
});

it("a step that is too large for an item is refused alone", async () => {
  const { store } = await openScene(server);
  await add(store);
  const lease = await claimOne(store);
  const large = JSON.stringify("x".repeat(500_000));
  const results = await store.saveSteps([stepOf(lease, "large", { value: large }), stepOf(lease, "small")]);
  expect(results).toMatchObject([
    { status: "refused", error: expect.stringContaining("409600") as string },
    { status: "kept" },
  ]);
  expect((await onlyStep(store, lease.id)).name).toBe("small");
});

it("names of steps do not match the beginnings of others", async () => {
  const { store } = await openScene(server);
  await add(store, { queue: "parents" });
  const lease = await claimOne(store, { queues: ["parents"] });
  for (const name of ["a", "a#0", "a#0#1"]) await keepStep(store, childOf(lease, newChild({ queue: name }), { name }));
  await park(store, lease);
  await finish(store, await claimOne(store, { queues: ["a"] }));
  // The set `a` has only this member, so the job goes on.
  expect((await claimOne(store, { queues: ["parents"] })).id).toBe(lease.id);
});

it("two steps of a call may wait for one event", async () => {
  const { store } = await openScene(server);
  await add(store);
  const lease = await claimOne(store);
  const writes = ["first", "second"].map((name, order) => waitFor(lease, "paid", { name, order }));
  expect(await store.saveSteps([...writes, ...writes])).toMatchObject([1, 2, 3, 4].map(() => ({ status: "kept" })));
  await store.emit([eventOf("paid")]);
  expect((await stepsOf(store, lease.id)).map(({ state }) => state)).toEqual(["done", "done"]);
});

it("a step of a deleted job is lost", async () => {
  const { store, direct } = await openScene(server);
  await add(store, { unique: key("k") });
  const lease = await claimOne(store);
  await finish(direct(), lease, "completed", { keep: false, keepMs: 0 });
  expect(await saveStep(store, stepOf(lease, "late"))).toEqual({ status: "lost" });
});
