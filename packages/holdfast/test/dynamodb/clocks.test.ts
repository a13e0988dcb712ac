import { fakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { add, claim, claimOne, claimRequest, MINUTE, recordOf, SECOND } from "#src/testing/exercise-store/builders.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

/** Responses have the time to the second. */
const CLOSE_MS = 1_500;
const realNow = Date.now;

/** Shifts the local clock. */
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
  it("uses DynamoDB's time from the first call", async () => {
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

  it("uses DynamoDB's time after the clock was set", async () => {
    onTestFinished(() => void vi.restoreAllMocks());
    const { store, again } = await openScene(server);
    const other = again();
    expect(await claim(other)).toEqual([]);
    const id = await add(store);
    const lease = await claimOne(store, { leaseMs: 60 * SECOND });
    setClock(offMs);
    expect(await claim(other)).toEqual([]);
    // The clock of the lease holder was set too. The extension uses DynamoDB's time.
    expect(await store.extend([lease], 60 * SECOND)).toEqual(["kept"]);
    const { dueAt } = await recordOf(store, id);
    expect(offBy((dueAt ?? 0) - 60 * SECOND)).toBeLessThan(CLOSE_MS);
  });
});

it("makes jobs due by DynamoDB's time", async () => {
  const { proxy, again } = await openScene(server);
  proxy.shiftTime(7 * MINUTE);
  const store = again();
  const { at } = await store.claim(claimRequest());
  expect(offBy(at - 7 * MINUTE)).toBeLessThan(CLOSE_MS);
  const due = await add(store, { runAt: realNow() + 6 * MINUTE });
  await add(store, { runAt: realNow() + 8 * MINUTE });
  expect((await claim(store)).map((job) => job.id)).toEqual([due]);
});

describe("a duty acquired by a machine whose clock is ahead", () => {
  const EVERY_MS = MINUTE;
  it.each([300, SECOND, 50 * SECOND])("by %i ms is not acquired twice", async (aheadMs) => {
    const [clock, ahead] = [fakeClock(), fakeClock()];
    await ahead.advance(aheadMs);
    const { store, again } = await openScene(server, { clock });
    expect(await again({ clock: ahead }).tryAcquireDuty("purge", EVERY_MS)).toBe(true);
    expect(await store.tryAcquireDuty("purge", EVERY_MS)).toBe(false);
    await clock.advance(EVERY_MS + aheadMs);
    expect(await store.tryAcquireDuty("purge", EVERY_MS)).toBe(true);
  });

  it("by more than the interval can be acquired again", async () => {
    const [clock, ahead] = [fakeClock(), fakeClock()];
    await ahead.advance(10 * EVERY_MS);
    const { store, again } = await openScene(server, { clock });
    expect(await again({ clock: ahead }).tryAcquireDuty("purge", EVERY_MS)).toBe(true);
    expect(await store.tryAcquireDuty("purge", EVERY_MS)).toBe(true);
  });
});
