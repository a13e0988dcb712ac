/** Concurrent schedulers, and assertions about their result. */
import assert from "node:assert/strict";
import { NEVER } from "../../schedule/slots.js";
import type { Firing, Store, StoredJob, StoredSchedule } from "../../store.js";
import { allRecords } from "./history.js";
import { firedAll, firingOf, jobOf, jobSlot, scheduleOf } from "./schedule-builders.js";

/** The maximum number of slots in one firing. */
export const MAX_SLOTS = 3;

/** Fires some of these in random order, a few slots each. Returns the ids of the acknowledged jobs. */
export async function fireSome(
  store: Store,
  schedules: readonly StoredSchedule[],
  random: (below: number) => number,
): Promise<string[]> {
  // Two calls that lock the same rows in different orders must not deadlock. Only some schedules: otherwise the slower call
  // would always find all of them changed.
  const shuffled = schedules
    .filter(() => random(2) === 0)
    .map((schedule) => ({ schedule, place: random(1_000_000) }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ schedule }) => schedule);
  const firings = shuffled.map((schedule) => nextFiring(schedule, 1 + random(MAX_SLOTS)));
  const results = await store.fire(firings);
  assert.equal(results.length, firings.length);
  return firings.flatMap((firing, n) => {
    if (results[n]?.status !== "fired") return [];
    assert.deepEqual(results[n], firedAll(firing));
    return firing.slots.map((_, nth) => jobOf(firing, nth));
  });
}

/** Every slot of these schedules has one job, and every acknowledged job exists. */
export async function assertEachSlotOnce(
  store: Store,
  names: readonly string[],
  acknowledged: readonly string[],
): Promise<void> {
  const bySlot = new Map<string, StoredJob[]>();
  const records = await allRecords(store);
  for (const job of records.values()) {
    const slot = `${job.schedule?.name} ${job.schedule?.slot}`;
    bySlot.set(slot, [...(bySlot.get(slot) ?? []), job]);
  }
  for (const id of acknowledged) assert.ok(records.has(id), `job ${id} was acknowledged but does not exist`);
  assert.equal(new Set(acknowledged).size, acknowledged.length, "no job is acknowledged twice");
  let expected = 0;
  for (const name of names) {
    const { startAt, endAt, everyMs, lastSlot, nextRunAt, slots } = await scheduleOf(store, name);
    assert.ok(startAt !== null && endAt !== null && everyMs !== null);
    for (let slot = startAt; slot < endAt; slot += everyMs) {
      expected++;
      assert.equal(bySlot.get(`${name} ${slot}`)?.length ?? 0, 1, `jobs of slot ${slot} of ${name}`);
    }
    assert.deepEqual([lastSlot, nextRunAt], [endAt - everyMs, NEVER], name);
    for (const { slot, job } of slots) {
      assert.equal(bySlot.get(`${name} ${slot}`)?.[0]?.id, job, `the stored slot ${slot} of ${name}`);
    }
  }
  assert.equal(records.size, expected, "there are no other jobs");
}

/**
 * The firing of the next slots of a schedule with an interval and an end. The jobs get new ids each time, so only the
 * comparison of versions prevents that a slot becomes two jobs.
 */
function nextFiring(schedule: StoredSchedule, count: number): Firing {
  const { name, nextRunAt, everyMs, endAt } = schedule;
  assert.ok(nextRunAt !== null && everyMs !== null && endAt !== null);
  const slots: number[] = [];
  for (let slot = nextRunAt; slot < endAt && slots.length < count; slot += everyMs) slots.push(slot);
  const lastSlot = slots.at(-1) ?? schedule.lastSlot;
  const next = nextRunAt + slots.length * everyMs;
  return firingOf(schedule, {
    lastSlot,
    nextRunAt: next < endAt ? next : NEVER,
    slots: slots.map((slot) => jobSlot(name, slot)),
  });
}
