import assert from "node:assert/strict";
import { OVERLAP } from "../../schedule/slots.js";
import type { FireResult, Firing, Store } from "../../store.js";
import { insertAll, key, MINUTE, newJob } from "./builders.js";
import { allRecords } from "./history.js";
import {
  addSchedule,
  addSchedules,
  changed,
  firedAll,
  fireOne,
  firingFor,
  jobOf,
  newSchedule,
  scheduleOf,
} from "./schedule-builders.js";
import { assertEachSlotOnce, fireSome } from "./schedulers.js";
import { handlesOf, type DefineCase, type LiveScene } from "./scene.js";
import { randomFrom } from "./until.js";

const HANDLES = 4;
const CALLERS = 24;
const ROUNDS = 10;
const MAX_SCHEDULES = 200;
const SLOTS = 12;

export function firingRaceCases(test: DefineCase): void {
  test.live([], "C-12 concurrent firings of a slot create one job", async (scene) => {
    const { store } = scene;
    const handles = await handlesOf(scene, HANDLES);
    let schedule = await addSchedule(store);
    const created: string[] = [];
    for (let slot = 1; slot <= ROUNDS; slot++) {
      // Each with a different job id: only the version prevents several jobs.
      const firings = Array.from({ length: CALLERS }, () => firingFor(schedule, [slot]));
      const results = await Promise.all(firings.map((firing, n) => fireOne(handleOf(handles, n), firing)));
      const winner = theOne(firings, results);
      created.push(jobOf(winner));
      schedule = await scheduleOf(store);
      assert.equal(schedule.version, winner.newVersion);
      assert.deepEqual(schedule.slots[0]?.job, jobOf(winner));
    }
    assert.deepEqual([...(await allRecords(store)).keys()].toSorted(), created.toSorted());
    assert.equal(schedule.slots.length, ROUNDS);
  });

  test.live([], "C-11 C-15 one of many concurrent puts succeeds", async (scene) => {
    const { store } = scene;
    const handles = await handlesOf(scene, HANDLES);
    for (let round = 0; round < ROUNDS; round++) {
      const name = `s${round}`;
      const created = Array.from({ length: CALLERS }, (_, n) => newSchedule({ name, user: `maker ${n}` }));
      const first = await onePut(handles, created, null);
      const stored = await scheduleOf(store, name);
      assert.deepEqual({ ...stored, ...first }, stored);
      const changes = Array.from({ length: CALLERS }, (_, n) => changed(stored, { user: `changer ${n}` }));
      const second = await onePut(handles, changes, stored.version);
      assert.equal((await scheduleOf(store, name)).user, second.user);
    }
  });

  test.live([], "C-12 fire races disable and remove consistently", async (scene) => {
    const { store } = scene;
    const handles = await handlesOf(scene, HANDLES);
    const names = Array.from({ length: 60 }, (_, n) => `s${n}`);
    const schedules = await addSchedules(store, names, { nextRunAt: 1 });
    const firings = schedules.map((schedule) => firingFor(schedule, [1]));
    const [results, others] = await Promise.all([
      Promise.all(firings.map((firing, n) => fireOne(handleOf(handles, n), firing))),
      Promise.all(
        schedules.map((schedule, n) =>
          n % 2 === 0
            ? handleOf(handles, n + 1).putSchedule(changed(schedule, { enabled: false }), schedule.version)
            : handleOf(handles, n + 1).removeSchedule(schedule.name),
        ),
      ),
    ]);
    const records = await allRecords(store);
    for (const [n, firing] of firings.entries()) {
      const [result, other, after] = [results[n], others[n], await store.getSchedule(firing.name)];
      assert.equal(records.has(jobOf(firing)), result?.status === "fired", `${firing.name}: the job and the result`);
      if (n % 2 === 1) {
        assert.deepEqual([other, after], [true, null]);
        continue;
      }
      const fired = result?.status === "fired";
      assert.equal(other, fired ? "changed" : "put", `${firing.name}: exactly one succeeds`);
      assert.deepEqual([after?.enabled, after?.lastSlot], fired ? [true, 1] : [false, null]);
    }
  });

  test.live([], "one of many concurrent firings and enqueues gets a key", keyRace);

  test.live([], `C-12 ${HANDLES} concurrent schedulers fire each slot once`, stampede);
}

async function keyRace(scene: LiveScene): Promise<void> {
  const { store } = scene;
  const handles = await handlesOf(scene, HANDLES);
  for (let round = 0; round < 4; round++) {
    const keys = Array.from({ length: 5 }, (_, n) => `r${round} k${n}`);
    const askers = Array.from({ length: 8 }, (_, n) => n);
    // Each requests all keys in one batch, half of them in reverse order: there must be no deadlock.
    const inOrder = <T>(items: readonly T[], n: number): T[] => (n % 2 === 0 ? [...items] : items.toReversed());
    const firings: Firing[][] = [];
    for (const n of askers) {
      const schedules = await addSchedules(
        store,
        inOrder(keys, n).map((name) => `${name} s${n}`),
      );
      firings.push(schedules.map((each) => firingFor(each, [1], { unique: key(each.name.replace(/ s\d+$/, "")) })));
    }
    const jobs = askers.map((n) => inOrder(keys, n).map((name) => newJob({ unique: key(name) })));
    const [fired, inserted] = await Promise.all([
      Promise.all(firings.map((batch, n) => fireUntilFree(handleOf(handles, n), batch))),
      Promise.all(jobs.map((batch, n) => insertAll(handleOf(handles, n), batch))),
    ]);
    const holders = new Set<string>();
    for (const [at, firing] of firings.flat().entries()) {
      const result = fired.flat()[at];
      assert.ok(result?.status === "fired", "each schedule has the version that was read");
      const { job = null, heldBy = null } = result.slots[0] ?? {};
      holders.add(`${firing.slots[0]?.job?.unique?.key}: ${job ?? heldBy}`);
      const [kept] = (await scheduleOf(store, firing.name)).slots;
      assert.deepEqual([kept?.job, kept?.reason], job === null ? [null, OVERLAP] : [jobOf(firing), null]);
    }
    for (const [at, job] of jobs.flat().entries()) {
      const result = inserted.flat()[at];
      holders.add(`${job.unique?.key}: ${result?.status === "duplicate" ? result.of : job.id}`);
    }
    assert.equal(holders.size, keys.length, `they name ${[...holders].toSorted().join(", ")}`);
    assert.equal((await allRecords(store)).size, (round + 1) * keys.length);
  }
}

/** Fires like the engine: tries again while the result is `busy`. */
async function fireUntilFree(store: Store, firings: readonly Firing[]): Promise<FireResult[]> {
  const results = await store.fire(firings);
  const busy = firings.filter((_, n) => results[n]?.status === "busy");
  if (busy.length === 0) return results;
  const again = await fireUntilFree(store, busy);
  return results.map((result) => (result.status === "busy" ? (again.shift() as FireResult) : result));
}

async function stampede(scene: LiveScene): Promise<void> {
  const { store, many } = scene;
  const seed = Date.now() % 1_000_000;
  const handles = await handlesOf(scene, HANDLES);
  const start = Date.now() - SLOTS * MINUTE;
  const count = Math.min(MAX_SCHEDULES, many / 5);
  const names = Array.from({ length: count }, (_, n) => `s${n}`);
  await addSchedules(store, names, { nextRunAt: start, startAt: start, endAt: start + SLOTS * MINUTE });
  const acknowledged = await Promise.all(handles.map((handle, n) => scheduler(handle, randomFrom(seed + n))));
  await assertEachSlotOnce(store, names, acknowledged.flat());
}

/** Fires until no schedule is due. Returns the ids of the acknowledged jobs. */
async function scheduler(store: Store, random: (below: number) => number): Promise<string[]> {
  const created: string[] = [];
  // A store that does not update the next run would keep the schedulers busy forever.
  const deadline = performance.now() + 60_000;
  for (;;) {
    const { schedules } = await store.dueSchedules(1 + random(MAX_SCHEDULES));
    if (schedules.length === 0) return created;
    assert.ok(performance.now() < deadline, `${schedules.length} or more schedules are still due`);
    created.push(...(await fireSome(store, schedules, random)));
  }
}

/** The one firing that succeeded; all others must be `changed` or `busy`. */
function theOne(firings: readonly Firing[], results: readonly FireResult[]): Firing {
  const [winner, ...rest] = firings.filter((_, n) => results[n]?.status === "fired");
  assert.ok(winner !== undefined && rest.length === 0, `${rest.length + 1} or none fired`);
  for (const [n, result] of results.entries()) {
    if (firings[n] === winner) assert.deepEqual(result, firedAll(winner));
    else assert.ok(result.status === "changed" || result.status === "busy", `${n}: ${result.status}`);
  }
  return winner;
}

/** Puts all concurrently; exactly one must succeed. */
async function onePut(
  handles: readonly Store[],
  records: readonly ReturnType<typeof newSchedule>[],
  version: string | null,
): Promise<ReturnType<typeof newSchedule>> {
  const results = await Promise.all(records.map((record, n) => handleOf(handles, n).putSchedule(record, version)));
  const [winner, ...rest] = records.filter((_, n) => results[n] === "put");
  assert.ok(winner !== undefined && rest.length === 0, `${rest.length + 1} or none put`);
  return winner;
}

function handleOf(handles: readonly Store[], n: number): Store {
  const handle = handles[n % handles.length];
  assert.ok(handle !== undefined);
  return handle;
}
