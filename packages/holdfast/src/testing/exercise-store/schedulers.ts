/** What several schedulers do at once, and how it is judged. */
import assert from "node:assert/strict";
import { NEVER } from "../../schedule/slots.js";
import type { Firing, Store, StoredJob, StoredSchedule } from "../../store.js";
import { allRecords } from "./history.js";
import { firedAll, firingOf, jobOf, jobSlot, scheduleOf } from "./schedule-builders.js";

/** The most slots in one firing. */
export const MOST_SLOTS = 3;

/** Fires some of these in any order, a few slots each. Gives the jobs that were acknowledged. */
export async function fireSome(
  store: Store,
  schedules: readonly StoredSchedule[],
  random: (below: number) => number,
): Promise<string[]> {
  // Two that lock the same rows in different orders must not stop each other for good. Only some: whoever is slower
  // would else find all of them changed, time and again.
  const shuffled = schedules
    .filter(() => random(2) === 0)
    .map((schedule) => ({ schedule, place: random(1_000_000) }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ schedule }) => schedule);
  const firings = shuffled.map((schedule) => nextFiring(schedule, 1 + random(MOST_SLOTS)));
  const answers = await store.fire(firings);
  assert.equal(answers.length, firings.length);
  return firings.flatMap((firing, n) => {
    if (answers[n]?.status !== "fired") return [];
    assert.deepEqual(answers[n], firedAll(firing));
    return firing.slots.map((_, nth) => jobOf(firing, nth));
  });
}

/** Every slot of these schedules up to their end has one job, and all that was acknowledged is there. */
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
  for (const id of acknowledged) assert.ok(records.has(id), `job ${id} was acknowledged and is not there`);
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
      assert.equal(bySlot.get(`${name} ${slot}`)?.[0]?.id, job, `the slot ${slot} that ${name} keeps`);
    }
  }
  assert.equal(records.size, expected, "there are no other jobs");
}

/**
 * The firing of the next few slots of a schedule with an interval and an end; past its end it runs never more. The jobs
 * get new ids each time: nothing but the comparison of versions keeps a slot from becoming two jobs.
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
