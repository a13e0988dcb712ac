import { fakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { add, claim, claimOne, claimRequest, MINUTE, recordOf, SECOND } from "#src/testing/exercise-store/builders.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

/** DynamoDB tells its time to the second. */
const CLOSE_MS = 1_500;
const realNow = Date.now;

/** From now on this machine's clock is off by so much. */
function setClock(offMs: number): void {
  vi.spyOn(Date, "now").mockImplementation(() => realNow() + offMs);
}
function offBy(at: number | null): number {
  return Math.abs((at ?? 0) - realNow());
}

describe.each([
  ["5 min ahead", 5 * MINUTE],
  ["5 min behind", -5 * MINUTE],
])("a machine whose clock is %s", (_what, offMs) => {
  it("goes by DynamoDB's time, from its very first call on", async () => {
    onTestFinished(() => void vi.restoreAllMocks());
    const { store, again } = await openScene(server);
    const id = await add(store);
    const lease = await claimOne(store, { leaseMs: 60 * SECOND });
    setClock(offMs);
    const other = again();
    const { at, jobs } = await other.claim(claimRequest());
    expect(jobs).toEqual([]);
    expect(offBy(at)).toBeLessThan(CLOSE_MS);
    const mine = await add(other);
    expect(offBy((await recordOf(other, mine)).createdAt)).toBeLessThan(CLOSE_MS);
    expect((await claim(other)).map((job) => job.id)).toEqual([mine]);
    expect(await recordOf(other, id)).toMatchObject({ fence: lease.fence });
  });

  it("after it was set while the store was open, goes by DynamoDB's time at once", async () => {
    onTestFinished(() => void vi.restoreAllMocks());
    const { store, again } = await openScene(server);
    const other = again();
    expect(await claim(other)).toEqual([]);
    const id = await add(store);
    const lease = await claimOne(store, { leaseMs: 60 * SECOND });
    setClock(offMs);
    expect(await claim(other)).toEqual([]);
    // The holder's clock was set as well: what it extends ends when DynamoDB's does.
    expect(await store.extend([lease], 60 * SECOND)).toEqual(["kept"]);
    const { dueAt } = await recordOf(store, id);
    expect(offBy((dueAt ?? 0) - 60 * SECOND)).toBeLessThan(CLOSE_MS);
  });
});

it("where DynamoDB's time is another than this machine's, jobs are due by DynamoDB's", async () => {
  const { proxy, again } = await openScene(server);
  proxy.shiftTime(7 * MINUTE);
  const store = again();
  const { at } = await store.claim(claimRequest());
  expect(offBy(at - 7 * MINUTE)).toBeLessThan(CLOSE_MS);
  const due = await add(store, { runAt: realNow() + 6 * MINUTE });
  await add(store, { runAt: realNow() + 8 * MINUTE });
  expect((await claim(store)).map((job) => job.id)).toEqual([due]);
});

describe("a turn that was taken by a machine whose clock is ahead", () => {
  const EVERY_MS = MINUTE;
  it.each([300, SECOND, 50 * SECOND])("by %i ms is taken by nobody else", async (aheadMs) => {
    const [clock, ahead] = [fakeClock(), fakeClock()];
    await ahead.advance(aheadMs);
    const { store, again } = await openScene(server, { clock });
    expect(await again({ clock: ahead }).tryAcquireDuty("purge", EVERY_MS)).toBe(true);
    expect(await store.tryAcquireDuty("purge", EVERY_MS)).toBe(false);
    await clock.advance(EVERY_MS + aheadMs);
    expect(await store.tryAcquireDuty("purge", EVERY_MS)).toBe(true);
  });

  it("by more than a turn lasts holds nobody up", async () => {
    const [clock, ahead] = [fakeClock(), fakeClock()];
    await ahead.advance(10 * EVERY_MS);
    const { store, again } = await openScene(server, { clock });
    expect(await again({ clock: ahead }).tryAcquireDuty("purge", EVERY_MS)).toBe(true);
    expect(await store.tryAcquireDuty("purge", EVERY_MS)).toBe(true);
  });
});
