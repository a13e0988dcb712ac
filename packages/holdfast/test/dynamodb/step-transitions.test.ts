import { fakeClock } from "holdfast/testing";
import { expect, it } from "vitest";
import { add, claimOne, finish, MINUTE } from "#src/testing/exercise-store/builders.js";
import {
  childOf,
  eventOf,
  keepStep,
  newChild,
  park,
  stepOf,
  waitFor,
} from "#src/testing/exercise-store/step-builders.js";
import { FollowedPages } from "./followed.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

it.each([
  ["the table's stream", true],
  ["recorded transitions", false],
])("followers by %s see parks, and no transition of wakes, steps and notes", async (_how, stream) => {
  // Under a test clock, each call records its transitions before it returns.
  const { store } = await openScene(server, stream ? { stream } : { stream, clock: fakeClock() });
  const reader = new FollowedPages(store, await store.recordTransitions(MINUTE));
  const id = await add(store, { queue: "parents" });
  const parent = await claimOne(store, { queues: ["parents"] });
  await keepStep(store, stepOf(parent, "one"));
  await keepStep(store, waitFor(parent, "paid"));
  const child = newChild();
  await keepStep(store, childOf(parent, child));
  await park(store, parent);
  // Deleted: its tombstone has the end of the wait.
  await finish(store, await claimOne(store, { queues: ["children"] }), "completed", { keep: false, keepMs: 0 });
  const woken = await claimOne(store, { queues: ["parents"] });
  await park(store, woken);
  await store.emit([eventOf("paid")]);
  await finish(store, await claimOne(store, { queues: ["parents"] }));
  await reader.untilState(id, "completed");
  expect(reader.statesOf(id)).toEqual(["pending", "claimed", "pending", "claimed", "pending", "claimed", "completed"]);
  expect(reader.statesOf(child.id)).toEqual(["pending", "claimed", "completed"]);
});
