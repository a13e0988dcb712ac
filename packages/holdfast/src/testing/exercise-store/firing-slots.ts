import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import { OVERLAP } from "../../schedule/slots.js";
import type { FiredSlot, ScheduleRecord } from "../../store.js";
import { add, claimIds, claimOne, finish, insertOne, key, MINUTE, newJob, SECOND, stateOf } from "./builders.js";
import {
  addSchedule,
  addSchedules,
  fireAll,
  fireOne,
  firingFor,
  firingOf,
  jobIds,
  jobOf,
  jobSlot,
  scheduleOf,
  skippedSlot,
} from "./schedule-builders.js";
import type { DefineCase } from "./scene.js";

/** Slots whose previous run has not finished, and the slots that are stored. */
export function firedSlotCases(test: DefineCase): void {
  overlapCases(test);
  keptSlotCases(test);
}

/** An unfinished run holds the key of its schedule. */
function overlapCases(test: DefineCase): void {
  const skipping: Partial<ScheduleRecord> = { overlap: "skip" };
  const held = (id: string): object => ({ status: "fired", slots: [{ job: null, heldBy: id }] });

  test("a slot whose key is held returns the holder", async ({ store, clock }) => {
    const unique = key("schedule digest");
    const first = firingFor(await addSchedule(store, skipping), [1], { unique });
    let schedule = await fireAll(store, first);
    const holder = jobOf(first);
    const slotsBefore = schedule.slots;
    const skips = async (slot: number): Promise<void> => {
      const firing = firingOf(schedule, {
        lastSlot: slot,
        nextRunAt: slot + MINUTE,
        slots: [jobSlot("digest", slot, { unique }, "late")],
      });
      assert.deepEqual(await fireOne(store, firing), held(holder));
      assert.equal(await store.get(jobOf(firing)), null);
      schedule = await scheduleOf(store);
      assert.deepEqual([schedule.lastSlot, schedule.nextRunAt], [slot, slot + MINUTE]);
      const kept = { slot, through: null, job: null, reason: OVERLAP, at: clock.now() };
      assert.deepEqual(schedule.slots[0], kept);
    };
    await skips(2);
    const job = await claimOne(store);
    await skips(3);
    await finish(store, job, "failed");
    await clock.advance(SECOND);
    await skips(4);
    assert.deepEqual(schedule.slots.slice(3), slotsBefore);
    assert.deepEqual(await jobIds(store, {}), [holder]);
  });

  for (const end of ["completed", "dead", "cancelled", "removed"] as const) {
    test(`the next slot becomes a job when the previous run is ${end}`, async ({ store }) => {
      const unique = key("schedule digest");
      const before = await fireAll(store, firingFor(await addSchedule(store, skipping), [1], { unique }));
      const job = await claimOne(store);
      await finish(store, job, end === "removed" ? "pending" : end);
      if (end === "removed") assert.deepEqual(await store.remove([job.id]), ["removed"]);
      const next = firingFor(before, [2], { unique });
      await fireAll(store, next);
      assert.deepEqual(await claimIds(store), [jobOf(next)]);
    });
  }

  test("of two slots with one key, only the first fires", async ({ store }) => {
    const firing = firingFor(await addSchedule(store, skipping), [1, 2], { unique: key("schedule digest") });
    const first = jobOf(firing, 0);
    assert.deepEqual(await fireOne(store, firing), {
      status: "fired",
      slots: [
        { job: first, heldBy: null },
        { job: null, heldBy: first },
      ],
    });
    assert.deepEqual(
      (await scheduleOf(store)).slots.map(({ slot, job, reason }) => [slot, job, reason]),
      [
        [2, null, OVERLAP],
        [1, first, null],
      ],
    );
    assert.deepEqual(await claimIds(store), [first]);
  });

  test("schedules and enqueues share unique keys", async ({ store }) => {
    const enqueued = await add(store, { unique: key("k") });
    await addSchedule(store, skipping);
    for (const onConflict of ["keep", "reject"] as const) {
      const read = await scheduleOf(store);
      const firing = firingFor(read, [1], { unique: key("k", { onConflict }) });
      assert.deepEqual(await fireOne(store, firing), held(enqueued), onConflict);
    }
    await store.cancel([enqueued]);
    const firing = firingFor(await scheduleOf(store), [2], { unique: key("k") });
    await fireAll(store, firing);
    const newcomer = newJob({ unique: key("k") });
    assert.deepEqual(await insertOne(store, newcomer), { status: "duplicate", of: jobOf(firing), replaced: false });
    assert.equal(await stateOf(store, jobOf(firing)), "pending");
  });
}

function keptSlotCases(test: DefineCase): void {
  test("stores slots newest first, with result and time", async ({ store, clock }) => {
    let schedule = await addSchedule(store);
    const expected: object[] = [];
    for (let slot = 1; slot <= 6; slot++) {
      const through = slot === 4 ? 40 : null;
      const reason = slot % 3 === 0 ? null : (`refused: ${slot}` as const);
      const fired: FiredSlot =
        slot % 2 === 0 ? { slot, through, job: null, reason } : jobSlot("digest", slot, {}, reason);
      schedule = await fireAll(store, firingOf(schedule, { slots: [fired] }));
      expected.unshift({ slot, through, job: fired.job?.id ?? null, reason, at: clock.now() });
      assert.deepEqual(schedule.slots, expected);
      // Some in the same millisecond, so time alone does not order them.
      if (slot % 2 === 0) await clock.advance(1);
    }
  });

  test(`stores the newest ${LIMITS.slots} slots with and without a job`, async (scene) => {
    const { store } = scene;
    let schedule = await addSchedule(store);
    const kinds = [jobSlot, (_name: string, slot: number) => skippedSlot(slot, "missed")] as const;
    let slot = 0;
    const expected: [jobs: number[], skipped: number[]] = [[], []];
    // Many of one kind must not displace the few of the other, in either direction.
    for (const [kind, count] of [
      [1, 3],
      [0, LIMITS.slots + 7],
      [1, LIMITS.slots + 2],
      [0, 1],
    ] as const) {
      for (let n = 0; n < count; n++) {
        schedule = await fireAll(store, firingOf(schedule, { slots: [kinds[kind]("digest", ++slot)] }));
        expected[kind].unshift(slot);
        const kept = expected.flatMap((slots) => slots.slice(0, LIMITS.slots)).toSorted((a, b) => b - a);
        assert.deepEqual(
          schedule.slots.map((each) => each.slot),
          kept,
        );
      }
    }
    for (const each of schedule.slots) assert.equal(each.job === null, expected[1].includes(each.slot));
  });

  test("a large firing stores only its newest slots", async ({ store }) => {
    const many = LIMITS.slots + 5;
    const slots = Array.from({ length: 2 * many }, (_, n) =>
      n % 2 === 0 ? jobSlot("digest", n) : skippedSlot(n, "missed"),
    );
    const after = await fireAll(store, firingOf(await addSchedule(store), { slots }));
    const kept = slots.slice(-2 * LIMITS.slots).map((each) => each.slot);
    assert.deepEqual(
      after.slots.map((each) => each.slot),
      kept.toReversed(),
    );
    assert.equal((await jobIds(store, { schedule: "digest" })).length, many);
  });

  test("each schedule has separate slots", async ({ store }) => {
    const [a, b] = await addSchedules(store, ["a", "b"]);
    assert.ok(a !== undefined && b !== undefined);
    await fireAll(store, firingFor(a, [7]));
    for (let n = 0, read = b; n <= LIMITS.slots; n++) read = await fireAll(store, firingFor(read, [n]));
    assert.deepEqual(
      (await scheduleOf(store, "a")).slots.map((each) => each.slot),
      [7],
    );
    assert.equal((await scheduleOf(store, "b")).slots.length, LIMITS.slots);
  });
}
