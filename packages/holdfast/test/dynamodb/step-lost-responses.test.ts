import { describe, expect, it } from "vitest";
import { add, claim, claimOne, outcomeOf, recordOf, settleOne } from "#src/testing/exercise-store/builders.js";
import {
  childOf,
  eventOf,
  keepStep,
  newChild,
  onlyStep,
  park,
  parkedFor,
  parkOutcome,
  stepOf,
  waitFor,
} from "#src/testing/exercise-store/step-builders.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";
import { parkedParent } from "./step-crash-scene.js";
import type { SentRequest } from "./proxy.js";

/** Each time, DynamoDB does the write and its response is lost. The store sends the request again and returns the same result. */
const server = dynamoServer();

const to =
  (operation: string, part: string) =>
  (sent: SentRequest): boolean =>
    sent.operation === operation && sent.text.includes(part);

describe("a call about steps whose response is lost", () => {
  it("stores a step and a child once", async () => {
    const { store, proxy } = await openScene(server);
    await add(store, { queue: "parents" });
    const lease = await claimOne(store);
    const stored = proxy.loseNextResponse(to("TransactWriteItems", "step#"));
    const step = await keepStep(store, stepOf(lease, "pay", { value: "1" }));
    await stored;
    // The caller repeats the call.
    expect(await keepStep(store, stepOf(lease, "pay", { value: "2" }))).toEqual(step);
    const spawned = proxy.loseNextResponse(to("TransactWriteItems", "step#"));
    const child = newChild();
    expect(await keepStep(store, childOf(lease, child))).toMatchObject({ state: "waiting" });
    await spawned;
    expect(await claim(store)).toMatchObject([{ id: child.id, fence: 1 }]);
  });

  it("emits once and wakes once", async () => {
    const { store, proxy } = await openScene(server);
    const id = await parkedFor(store, "paid", { queue: "q" });
    const losses = [
      proxy.loseNextResponse(to("PutItem", "event#paid")),
      proxy.loseNextResponse(to("UpdateItem", "step#")),
      proxy.loseNextResponse(to("UpdateItem", "#run_at")),
      proxy.loseNextResponse(to("DeleteItem", "event#paid")),
    ];
    expect(await store.emit([eventOf("paid", "1")])).toEqual([{ first: true }]);
    await Promise.all(losses);
    expect((await onlyStep(store, id)).value).toBe("1");
    const lease = await claimOne(store);
    expect(lease).toMatchObject({ id, fence: 2 });
    // There is no wake while it is leased.
    await keepStep(store, waitFor(lease, "shipped"));
    await park(store, lease);
  });

  it("parks once, and is woken while it is leased", async () => {
    const { store, proxy } = await openScene(server);
    await add(store);
    const lease = await claimOne(store);
    await keepStep(store, waitFor(lease, "paid"));
    const parked = proxy.loseNextResponse(to("UpdateItem", "#wakes"));
    expect(await settleOne(store, parkOutcome(lease))).toBe("applied");
    await parked;
    expect(await recordOf(store, lease.id)).toMatchObject({ state: "pending", attempt: 0 });
    await store.emit([eventOf("paid")]);
    const again = await claimOne(store);
    await keepStep(store, waitFor(again, "shipped"));
    const woken = proxy.loseNextResponse(to("UpdateItem", "SET #wakes"));
    await store.emit([eventOf("shipped")]);
    await woken;
    expect(await settleOne(store, parkOutcome(again))).toBe("awake");
  });

  it.each([
    ["completed", { keepMs: 86_400_000 }],
    ["completed", { keep: false, keepMs: 0 }],
    ["cancelled", {}],
  ] as const)("ends a child as %s %o and wakes its parent", async (state, more) => {
    const { store, proxy } = await openScene(server);
    const { parent, child } = await parkedParent(store, "parents");
    const lost = proxy.loseNextResponse(({ operation, text }) => operation !== "GetItem" && text.includes(child.id));
    expect(await settleOne(store, outcomeOf(child, state, { output: "7", ...more }))).toBe("applied");
    await lost;
    const step = await onlyStep(store, parent);
    expect(step.failure?.state ?? "completed").toBe(state);
    expect(await claim(store, { queues: ["parents"] })).toMatchObject([{ id: parent }]);
  });
});
