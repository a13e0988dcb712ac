import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import { NEVER } from "../../schedule/slots.js";
import type { FiredSlot, NewJob, StoredSchedule } from "../../store.js";
import {
  add,
  assertNothingToClaim,
  claim,
  claimIds,
  claimOne,
  failureOf,
  finish,
  insertOne,
  key,
  LEASE_MS,
  MINUTE,
  newJob,
  recordOf,
  SECOND,
  settleOne,
} from "./builders.js";
import {
  addSchedule,
  addSchedules,
  changeSchedule,
  firedAll,
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
import type { DefineCase, Scene } from "./scene.js";

const CHANGED = { status: "changed" } as const;
const BATCH = 500;
/** The maximum that the engine puts into one firing. */
const MAX_SLOTS = LIMITS.firedSlots;

export function firingCases(test: DefineCase): void {
  togetherCases(test);
  jobCases(test);
}

/** A firing is atomic, and needs the current version. */
function togetherCases(test: DefineCase): void {
  test("C-12 a firing inserts jobs and updates the schedule", async (scene) => {
    const { store, clock } = scene;
    const before = await addSchedule(store, { nextRunAt: clock.now() - 2 * MINUTE });
    await clock.advance(SECOND);
    const now = clock.now();
    const firing = firingOf(before, {
      nextRunAt: now + MINUTE,
      lastSlot: now,
      slots: [
        skippedSlot(now - 5 * MINUTE, "missed", now - 3 * MINUTE),
        jobSlot("digest", now - MINUTE, {}, "late"),
        jobSlot("digest", now),
      ],
    });
    const [late, onTime] = [jobOf(firing, 1), jobOf(firing, 2)];
    assert.deepEqual(await store.fire([firing]), [
      {
        status: "fired",
        slots: [
          { job: null, heldBy: null },
          { job: late, heldBy: null },
          { job: onTime, heldBy: null },
        ],
      },
    ]);
    const after = await scheduleOf(store);
    assert.deepEqual(after, {
      ...before,
      version: firing.newVersion,
      nextRunAt: now + MINUTE,
      lastSlot: now,
      updatedAt: after.updatedAt,
      slots: [
        { slot: now, through: null, job: onTime, reason: null, at: now },
        { slot: now - MINUTE, through: null, job: late, reason: "late", at: now },
        {
          slot: now - 5 * MINUTE,
          through: now - 3 * MINUTE,
          job: null,
          reason: "missed",
          at: now,
        },
      ],
    });
    assert.deepEqual(new Set(await claimIds(store)), new Set([late, onTime]));
  });

  test("C-12 a firing with an old version changes nothing", async (scene) => {
    const { store, clock } = scene;
    const before = await fireAll(store, firingOf(await addSchedule(store), { lastSlot: 1, nextRunAt: NEVER }));
    for (const version of ["never was", "", `${before.version}+`]) {
      const job: Partial<NewJob> = { unique: key("k"), queue: "new", tags: ["t"], input: `"${"x".repeat(2_000)}"` };
      const slots = [jobSlot("digest", clock.now(), job), skippedSlot(clock.now() + 1, "missed")];
      const firing = firingOf(before, { version, lastSlot: clock.now(), nextRunAt: clock.now(), slots });
      assert.deepEqual(await fireOne(store, firing), CHANGED);
      assert.equal(await store.get(jobOf(firing)), null);
    }
    assert.deepEqual(await scheduleOf(store), before);
    await assertNothingToClaim(store);
    assert.deepEqual((await store.stats()).counts, []);
    assert.deepEqual((await store.list({ schedule: "digest" }, { limit: 10, cursor: null })).jobs, []);
    await add(store, { unique: key("k") });
  });

  const inBetween: Readonly<Record<string, (scene: Scene, read: StoredSchedule) => Promise<unknown>>> = {
    disabled: ({ store }, read) => changeSchedule(store, read, { enabled: false, nextRunAt: null }),
    changed: ({ store }, read) => changeSchedule(store, read, { input: `"new"` }),
    "written again unchanged": ({ store }, read) => changeSchedule(store, read, {}),
    fired: ({ store }, read) => fireAll(store, firingFor(read, [Number(read.nextRunAt)])),
    "fired without a slot": ({ store }, read) => fireAll(store, firingOf(read)),
    removed: ({ store }, read) => store.removeSchedule(read.name),
    async "removed and created again unchanged"({ store }, read) {
      await store.removeSchedule(read.name);
      await addSchedule(store, { nextRunAt: read.nextRunAt });
    },
  };
  for (const [how, change] of Object.entries(inBetween)) {
    test(`C-12 does not fire a schedule that was ${how}`, async (scene) => {
      const { store, clock } = scene;
      await addSchedule(store, { nextRunAt: clock.now() });
      const [read] = (await store.dueSchedules(1)).schedules;
      assert.ok(read !== undefined);
      await change(scene, read);
      const [before, jobs] = [await store.getSchedule("digest"), await jobIds(store, {})];
      const firing = firingFor(read, [clock.now()]);
      assert.deepEqual(await fireOne(store, firing), CHANGED);
      assert.equal(await store.get(jobOf(firing)), null);
      assert.deepEqual([await store.getSchedule("digest"), await jobIds(store, {})], [before, jobs]);
    });
  }

  test("C-12 repeating a firing creates no more jobs", async ({ store, clock }) => {
    const firing = firingFor(await addSchedule(store), [clock.now()]);
    const after = await fireAll(store, firing);
    assert.deepEqual(await fireOne(store, firing), CHANGED);
    assert.deepEqual(await scheduleOf(store), after);
    assert.equal((await claim(store)).length, 1);
  });

  test("the last slot never moves back", async ({ store, clock }) => {
    const slot = clock.now();
    const before = await fireAll(store, firingFor(await addSchedule(store), [slot]));
    assert.equal(before.lastSlot, slot);
    for (const lastSlot of [slot - 1, 0, -1, null]) {
      const firing = firingOf(before, { lastSlot, nextRunAt: slot, slots: [jobSlot("digest", slot - 1)] });
      assert.deepEqual(await fireOne(store, firing), CHANGED, String(lastSlot));
      assert.equal(await store.get(jobOf(firing)), null);
      assert.deepEqual(await scheduleOf(store), before);
    }
    // A manual run is not a regular slot: it changes neither the last slot nor the next run.
    const stayed = await fireAll(store, firingOf(before, { slots: [jobSlot("digest", slot + 5, {}, "manual")] }));
    assert.deepEqual([stayed.lastSlot, stayed.nextRunAt], [slot, before.nextRunAt]);
    assert.deepEqual([stayed.slots[0]?.slot, stayed.slots[0]?.reason], [slot + 5, "manual"]);
    const after = await fireAll(store, firingFor(stayed, [slot + 1]));
    assert.equal(after.lastSlot, slot + 1);
    const kept = after.slots.map((each) => each.slot);
    assert.deepEqual(kept, [slot + 1, slot + 5, slot], "newest first, by the time of processing");
  });

  test("a slot may be before 1970", async ({ store }) => {
    const before = await fireAll(store, firingFor(await addSchedule(store), [-2 * MINUTE]));
    assert.deepEqual([before.lastSlot, before.slots[0]?.slot], [-2 * MINUTE, -2 * MINUTE]);
    assert.deepEqual(await fireOne(store, firingFor(before, [-3 * MINUTE])), CHANGED);
    assert.equal((await fireAll(store, firingFor(before, [0]))).lastSlot, 0);
  });

  test("a firing without slots only updates the next run", async ({ store, clock }) => {
    const before = await addSchedule(store, { nextRunAt: null });
    const after = await fireAll(store, firingOf(before, { nextRunAt: clock.now() + MINUTE }));
    const { version, updatedAt } = after;
    assert.deepEqual(after, { ...before, nextRunAt: clock.now() + MINUTE, version, updatedAt });
    assert.notEqual(version, before.version);
    await assertNothingToClaim(store);
    const unknown = await fireAll(store, firingOf(after, { nextRunAt: null }));
    assert.equal(unknown.nextRunAt, null);
  });

  test("a manual firing does not enable a disabled schedule", async ({ store, clock }) => {
    const resting = await addSchedule(store, { enabled: false });
    const after = await fireAll(store, firingOf(resting, { slots: [jobSlot("digest", clock.now())] }));
    assert.deepEqual([after.enabled, after.nextRunAt, after.slots.length], [false, null, 1]);
    assert.deepEqual((await store.dueSchedules(10)).schedules, []);
    assert.equal((await claim(store)).length, 1);
  });

  test("a changed schedule does not affect other firings", async ({ store, clock }) => {
    const [a, b, c, d] = await addSchedules(store, ["a", "b", "c", "d"], { nextRunAt: clock.now() });
    assert.ok(a !== undefined && b !== undefined && c !== undefined && d !== undefined);
    await changeSchedule(store, b, { enabled: false });
    await fireAll(store, firingFor(d, [clock.now()]));
    const gone = firingFor({ ...a, name: "never was" }, [clock.now()]);
    const back = firingOf(await scheduleOf(store, "d"), { lastSlot: 0, slots: [jobSlot("d", 0)] });
    const [first, second] = [firingFor(a, [1, 2]), firingFor(c, [1])];
    const results = await store.fire([gone, first, firingFor(b, [1]), back, second]);
    assert.deepEqual(results, [CHANGED, firedAll(first), CHANGED, CHANGED, firedAll(second)]);
    const created = (await jobIds(store, {})).length;
    assert.equal(created, 4);
    assert.deepEqual((await scheduleOf(store, "b")).slots, []);
    assert.equal(await store.getSchedule("never was"), null);
  });

  test("C-12 fires a schedule once per batch", async ({ store, clock }) => {
    const read = await addSchedule(store);
    const firings = [firingFor(read, [clock.now()]), firingFor(read, [clock.now()])];
    const results = await store.fire(firings);
    assert.deepEqual(results.map((result) => result.status).toSorted(), ["changed", "fired"]);
    const winner = firings[results.findIndex((result) => result.status === "fired")];
    assert.ok(winner !== undefined);
    assert.deepEqual(await claimIds(store), [jobOf(winner)]);
    assert.equal((await scheduleOf(store)).version, winner.newVersion);
  });

  test(`fires ${MAX_SLOTS} slots in one firing`, async ({ store, clock }) => {
    const read = await addSchedule(store);
    const slots = [
      skippedSlot(0, "missed", 9),
      ...Array.from({ length: MAX_SLOTS }, (_, n) => jobSlot("digest", 10 + n)),
    ];
    const firing = firingOf(read, { slots, lastSlot: 9 + MAX_SLOTS, nextRunAt: clock.now() });
    assert.deepEqual(await fireOne(store, { ...firing, version: "old" }), CHANGED);
    assert.deepEqual(await jobIds(store, {}), []);
    const after = await fireAll(store, firing);
    assert.deepEqual([after.lastSlot, after.nextRunAt], [9 + MAX_SLOTS, clock.now()]);
    const created = slots.flatMap(({ job }) => job?.id ?? []);
    assert.deepEqual((await jobIds(store, {})).toSorted(), created.toSorted());
  });

  test(`returns one result per firing for ${BATCH} firings`, async ({ store, clock }) => {
    const names = Array.from({ length: BATCH }, (_, n) => `s${n}`);
    await addSchedules(store, names, { nextRunAt: clock.now() });
    const { schedules } = await store.dueSchedules(BATCH);
    assert.equal(schedules.length, BATCH);
    const firings = schedules.map((schedule, n) =>
      firingFor(n % 10 === 3 ? { ...schedule, version: "old" } : schedule, [clock.now()], { queue: `q${n % 7}` }),
    );
    assert.deepEqual(
      await store.fire(firings),
      firings.map((firing) => (firing.version === "old" ? CHANGED : firedAll(firing))),
    );
    const created = firings.filter((firing) => firing.version !== "old").map((firing) => jobOf(firing));
    assert.deepEqual((await jobIds(store, {})).toSorted(), created.toSorted());
    const left = (await store.dueSchedules(BATCH)).schedules.map((schedule) => schedule.name);
    assert.deepEqual(
      left.toSorted(),
      firings
        .filter((firing) => firing.version === "old")
        .map((firing) => firing.name)
        .toSorted(),
    );
    assert.deepEqual(await store.fire([]), []);
  });
}

/** The jobs of a firing are like any others. */
function jobCases(test: DefineCase): void {
  test("stores all fields of a fired job", async ({ store, clock }) => {
    const now = clock.now();
    const firing = firingFor(await addSchedule(store), [now], {
      type: "report",
      queue: "reports",
      priority: 7,
      user: "u",
      input: `{"n":1}`,
      maxAttempts: 2,
      tags: ["t"],
      runAt: now + MINUTE,
      expiresAt: now + 2 * MINUTE,
      unique: key("k"),
    });
    await fireAll(store, firing);
    const given = firing.slots[0]?.job;
    assert.ok(given != null);
    const plain = { ...given, schedule: null, unique: null };
    const twin = await recordOf(store, await add(store, { ...plain, id: newJob().id }));
    const created = await recordOf(store, given.id);
    assert.deepEqual(created, { ...twin, id: given.id, key: "k", schedule: { name: "digest", slot: now } });
    const listed = (await store.list({ schedule: "digest" }, { limit: 10, cursor: null })).jobs;
    assert.deepEqual(listed, [created]);
    assert.deepEqual((await store.queues()).find((queue) => queue.queue === "reports")?.priorities, [7]);
    const counts = [{ queue: "reports", type: "report", state: "pending", count: 2 }];
    assert.deepEqual((await store.stats()).counts, counts);
  });

  test("C-12 a claim returns the slot of a fired job", async (scene) => {
    const { store, clock } = scene;
    const [soon, later] = [clock.now() + SECOND, clock.now() + MINUTE];
    const slots = [jobSlot("digest", 1, { runAt: later }), jobSlot("digest", 2, { runAt: soon, delayMs: SECOND })];
    const firing = firingOf(await addSchedule(store), { slots: [...slots, jobSlot("digest", 3)] });
    await fireAll(store, firing);
    const atOnce = await claimOne(store);
    assert.deepEqual([atOnce.id, atOnce.schedule], [jobOf(firing, 2), { name: "digest", slot: 3 }]);
    await clock.advance(2 * SECOND - 1);
    await assertNothingToClaim(store);
    await clock.advance(1);
    const second = await claimOne(store);
    assert.deepEqual([second.id, second.schedule], [jobOf(firing, 1), { name: "digest", slot: 2 }]);
    await clock.advance(later - clock.now());
    assert.ok((await claimIds(store)).includes(jobOf(firing, 0)));
  });

  test("a job keeps its slot through every transition", async ({ store, clock }) => {
    const schedule = { name: "digest", slot: clock.now() };
    const firing = firingFor(await addSchedule(store), [schedule.slot]);
    await fireAll(store, firing);
    const id = jobOf(firing);
    const claimed = async (): Promise<Awaited<ReturnType<typeof claimOne>>> => {
      const job = await claimOne(store);
      assert.deepEqual([job.id, job.schedule], [id, schedule]);
      return job;
    };
    await settleOne(store, failureOf(await claimed(), "missed"));
    await claimed();
    await clock.advance(LEASE_MS);
    await finish(store, await claimed(), "dead");
    assert.deepEqual((await recordOf(store, id)).schedule, schedule);
    assert.deepEqual(await store.retry([id]), ["retried"]);
    await finish(store, await claimed());
    assert.deepEqual((await recordOf(store, id)).schedule, schedule);
    assert.deepEqual(await jobIds(store, { schedule: "digest" }), [id]);
    assert.deepEqual(await store.remove([id]), ["removed"]);
    assert.equal((await scheduleOf(store)).slots[0]?.job, id, "the slot outlives its job");
  });

  test("list filters jobs by schedule", async (scene) => {
    const { store, clock } = scene;
    const created: Record<string, string[]> = {};
    for (const name of ["a", "ab"]) {
      let schedule = await addSchedule(store, { name });
      created[name] = [];
      for (let slot = 1; slot <= 5; slot++) {
        const firing = firingFor(schedule, [slot], { type: slot % 2 === 0 ? "even" : "odd", queue: `${name} ${slot}` });
        schedule = await fireAll(store, firing);
        created[name].unshift(jobOf(firing));
        await clock.advance(1);
      }
    }
    await add(store, { type: "odd" });
    await finish(store, await claimOne(store, { queues: ["a 2"] }));
    for (const name of ["a", "ab"]) assert.deepEqual(await jobIds(store, { schedule: name }), created[name]);
    const a = created["a"] ?? [];
    assert.deepEqual(await jobIds(store, { schedule: "a", types: ["even"] }), [a[1], a[3]]);
    assert.deepEqual(await jobIds(store, { schedule: "a", states: ["completed"] }), [a[3]]);
    assert.deepEqual(await jobIds(store, { schedule: "A" }), []);
    assert.equal((await jobIds(store, { schedule: undefined })).length, 11);
    assert.deepEqual(await jobIds(store, { schedule: "a" }, 2), a);
  });

  test("C-12 an existing job counts as inserted, unchanged", async ({ store, clock }) => {
    const slot = clock.now();
    for (const state of ["pending", "claimed", "completed"] as const) {
      const name = `one ${state}`;
      const read = await addSchedule(store, { name });
      const job = newJob({ queue: name, schedule: { name, slot }, unique: key(name) });
      await insertOne(store, job);
      if (state !== "pending") {
        const claimed = await claimOne(store, { queues: [name] });
        if (state === "completed") await finish(store, claimed);
      }
      const before = await recordOf(store, job.id);
      await clock.advance(SECOND);
      const again = jobSlot(name, slot, { ...job, input: `"another"`, priority: 9 }, "late");
      const after = await fireAll(store, firingOf(read, { lastSlot: slot, slots: [again] }));
      assert.deepEqual(await recordOf(store, job.id), before);
      assert.deepEqual(after.slots, [{ slot, through: null, job: job.id, reason: "late", at: clock.now() }]);
      assert.deepEqual(await jobIds(store, { schedule: name }), [job.id]);
    }
  });

  test("a slot whose job cannot be stored has none", async ({ store, clock }) => {
    const [read, other] = await addSchedules(store, ["digest", "other"]);
    assert.ok(read !== undefined && other !== undefined);
    const bad = jobSlot("digest", 2, { maxAttempts: 0, unique: key("k") }, "late");
    const slots: FiredSlot[] = [jobSlot("digest", 1), bad, jobSlot("digest", 3)];
    const firing = firingOf(read, { lastSlot: 3, nextRunAt: clock.now() + MINUTE, slots });
    const second = firingFor(other, [1]);
    const [result, next] = await store.fire([firing, second]);
    assert.deepEqual(next, firedAll(second));
    assert.deepEqual(result, {
      status: "fired",
      slots: [
        { job: jobOf(firing, 0), heldBy: null },
        { job: null, heldBy: null },
        { job: jobOf(firing, 2), heldBy: null },
      ],
    });
    const after = await scheduleOf(store);
    assert.deepEqual([after.lastSlot, after.nextRunAt], [3, clock.now() + MINUTE]);
    assert.deepEqual(
      after.slots.map(({ slot, job }) => [slot, job]),
      [
        [3, jobOf(firing, 2)],
        [2, null],
        [1, jobOf(firing, 0)],
      ],
    );
    const reason = after.slots[1]?.reason;
    assert.ok(typeof reason === "string" && reason.length > 0 && reason !== "late", "the reason has the error");
    assert.equal(await store.get(jobOf(firing, 1)), null);
    await add(store, { unique: key("k") });
  });

  test("fires into a paused queue, where the job waits", async ({ store, clock }) => {
    await store.pause("q");
    const firing = firingFor(await addSchedule(store), [clock.now()], { queue: "q", priority: 3 });
    await fireAll(store, firing);
    await assertNothingToClaim(store);
    await store.resume("q");
    assert.deepEqual(await claimIds(store), [jobOf(firing)]);
  });
}
