import assert from "node:assert/strict";
import { newId } from "../../job/uuid.js";
import type {
  FireResult,
  FiredSlot,
  Firing,
  JobFilter,
  NewJob,
  ScheduleFilter,
  ScheduleRecord,
  SlotReason,
  Store,
  StoredSchedule,
} from "../../store.js";
import { MINUTE, newJob } from "./builders.js";

/** A schedule whose next run is not computed yet. */
export function newSchedule(overrides: Partial<ScheduleRecord> = {}): ScheduleRecord {
  return {
    name: "digest",
    version: newId(Date.now()),
    origin: "runtime",
    type: "mail",
    queue: "default",
    priority: 0,
    user: null,
    input: "{}",
    maxAttempts: 4,
    expiresAfterMs: null,
    tags: [],
    cron: null,
    timezone: null,
    everyMs: MINUTE,
    startAt: null,
    endAt: null,
    jitterMs: 0,
    catchUp: "latest",
    overlap: "allow",
    enabled: true,
    defined: null,
    changes: null,
    nextRunAt: null,
    ...overrides,
  };
}

/** Creates a schedule, which must be new. Returns the stored record. */
export async function addSchedule(store: Store, overrides: Partial<ScheduleRecord> = {}): Promise<StoredSchedule> {
  const schedule = newSchedule(overrides);
  assert.equal(await store.putSchedule(schedule, null), "put");
  return scheduleOf(store, schedule.name);
}

/** Creates several schedules, which must be new. */
export async function addSchedules(
  store: Store,
  names: readonly string[],
  overrides: Partial<ScheduleRecord> = {},
): Promise<StoredSchedule[]> {
  return Promise.all(names.map((name) => addSchedule(store, { ...overrides, name })));
}

/** Changes a schedule that must still have its version. Returns the stored record. */
export async function changeSchedule(
  store: Store,
  schedule: StoredSchedule,
  changes: Partial<ScheduleRecord>,
): Promise<StoredSchedule> {
  assert.equal(await store.putSchedule(changed(schedule, changes), schedule.version), "put");
  return scheduleOf(store, schedule.name);
}

/** The record with these changes and a new version. */
export function changed(schedule: StoredSchedule, changes: Partial<ScheduleRecord>): ScheduleRecord {
  const { lastSlot: _l, createdAt: _c, updatedAt: _u, slots: _s, ...record } = schedule;
  return { ...record, version: newId(Date.now()), ...changes };
}

/** A schedule that must exist, with its slots. */
export async function scheduleOf(store: Store, name = "digest"): Promise<StoredSchedule> {
  const schedule = await store.getSchedule(name);
  assert.ok(schedule !== null, `schedule ${name} should exist`);
  return schedule;
}

/** The names of all matching schedules. */
export async function namesOf(store: Store, filter: ScheduleFilter = {}): Promise<string[]> {
  const { schedules } = await store.listSchedules(filter, { limit: 1_000, cursor: null });
  return schedules.map((schedule) => schedule.name);
}

/** A firing with the current version that does not change next run and last slot. */
export function firingOf(
  schedule: ScheduleRecord & Partial<Pick<StoredSchedule, "lastSlot">>,
  overrides: Partial<Firing> = {},
): Firing {
  const { name, version, nextRunAt, lastSlot = null } = schedule;
  return { name, version, newVersion: newId(Date.now()), nextRunAt, lastSlot, slots: [], ...overrides };
}

/** A firing with a job for each of these slots. The next run is a minute after the last. */
export function firingFor(schedule: StoredSchedule, slots: readonly number[], job: Partial<NewJob> = {}): Firing {
  const lastSlot = slots.at(-1) ?? schedule.lastSlot;
  return firingOf(schedule, {
    lastSlot,
    nextRunAt: lastSlot === null ? null : lastSlot + MINUTE,
    slots: slots.map((slot) => jobSlot(schedule.name, slot, job)),
  });
}

/** A slot that becomes a job, due now. */
export function jobSlot(
  name: string,
  slot: number,
  job: Partial<NewJob> = {},
  reason: SlotReason | null = null,
): FiredSlot {
  return { slot, through: null, job: newJob({ schedule: { name, slot }, ...job }), reason };
}

/** A slot, or a range of slots, without a job. */
export function skippedSlot(slot: number, reason: SlotReason, through: number | null = null): FiredSlot {
  return { slot, through, job: null, reason };
}

/** The id of the job for the firing's `nth` slot. */
export function jobOf(firing: Firing, nth = 0): string {
  const job = firing.slots[nth]?.job;
  assert.ok(job != null, `slot ${nth} of the firing should have a job`);
  return job.id;
}

export async function fireOne(store: Store, firing: Firing): Promise<FireResult> {
  const [result, ...rest] = await store.fire([firing]);
  assert.deepEqual(rest, []);
  assert.ok(result !== undefined, "fire returns a result per firing");
  return result;
}

/** The result if every job was inserted. */
export function firedAll({ slots }: Firing): FireResult {
  return { status: "fired", slots: slots.map(({ job }) => ({ job: job?.id ?? null, heldBy: null })) };
}

/** Fires, asserts that every job was inserted, and returns the stored schedule. */
export async function fireAll(store: Store, firing: Firing): Promise<StoredSchedule> {
  assert.deepEqual(await fireOne(store, firing), firedAll(firing));
  return scheduleOf(store, firing.name);
}

/** Newest first. */
export async function jobIds(store: Store, filter: JobFilter, limit = 1_000): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | null = null;
  do {
    const page = await store.list(filter, { limit, cursor });
    ids.push(...page.jobs.map((job) => job.id));
    cursor = page.cursor;
  } while (cursor !== null);
  return ids;
}
