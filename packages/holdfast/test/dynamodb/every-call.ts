import { expect } from "vitest";
import type { ErrorGroupRecord, Store } from "#src/store.js";
import {
  add,
  claim,
  claimOne,
  failureOf,
  finish,
  jobIn,
  key,
  newEntry,
  newJob,
  newOperation,
  newTokenRecord,
  outcomeOf,
  recordOf,
  workerRecord,
} from "#src/testing/exercise-store/builders.js";
import {
  childOf,
  eventOf,
  keepStep,
  newChild,
  park,
  stepOf,
  stepsOf,
  waitFor,
} from "#src/testing/exercise-store/step-builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { addSchedule, fireAll, firingFor } from "#src/testing/exercise-store/schedule-builders.js";

/** Methods outside of the store contract. They send no request, or read what every call reads. */
const NOT_IN_CONTRACT = ["cloudFormation", "terraform", "iamPolicy", "shards", "stream"];
/** Methods that open and close. The tests call them. */
const ENDS = ["migrate", "close"];

/** Calls every method of the contract at least once, and every variant that writes differently. */
export async function exerciseAll(given: Store): Promise<void> {
  const called = new Set<string>();
  const store = new Proxy(given, {
    get(target, name: keyof Store) {
      called.add(name);
      return target[name];
    },
  });
  await jobs(store);
  await keys(store);
  await changes(store);
  await steps(store);
  await maintenance(store);
  await schedules(store);
  await administration(store);
  await operations(store);
  await observation(store);
  const all = Object.entries(given).flatMap(([name, member]) => (typeof member === "function" ? [name] : []));
  const expected = all.filter((name) => !NOT_IN_CONTRACT.includes(name) && !ENDS.includes(name));
  expect([...called].filter((name) => all.includes(name)).toSorted()).toEqual(expected.toSorted());
}

const LARGE = JSON.stringify("x".repeat(2_000));
const FINGERPRINT = "00112233aabbccdd";

async function jobs(store: Store): Promise<void> {
  const stop = store.listen(() => {});
  stop();
  await add(store, { input: LARGE, tags: ["tag"], user: "ada" });
  await expect(store.insertIn({}, [newJob()])).rejects.toThrow("tx");
  const job = await claimOne(store);
  await store.start([{ ...job, startedAt: 1 }]);
  await store.extend([job], 30_000);
  await store.note([
    { id: job.id, fence: job.fence, progress: { fraction: 0.5, note: null, data: null }, log: [{ at: 1, line: "a" }] },
  ]);
  await expect(store.settleIn({}, outcomeOf(job, "completed"), null)).rejects.toThrow("tx");
  await store.settle([failureOf(job, "no", { error: { message: "no", code: null, fingerprint: FINGERPRINT } })]);
  await finish(store, await claimOne(store), "completed", { keepMs: 60_000 });
  await add(store);
  await finish(store, await claimOne(store), "completed", { keepMs: 60_000 });
  await add(store, { input: LARGE });
  await finish(store, await claimOne(store), "completed", { keep: false });
  await store.get(job.id);
  await store.list({}, { limit: 10, cursor: null });
  await store.list({ user: "ada" }, { limit: 10, cursor: null });
  await store.list({ states: ["pending"] }, { limit: 10, cursor: null });
  await store.list({ parent: job.id }, { limit: 10, cursor: null, order: "oldest" });
  await store.list({ fingerprint: FINGERPRINT }, { limit: 10, cursor: null });
  await store.list({ ids: [job.id] }, { limit: 10, cursor: null });
  await store.heartbeat(workerRecord());
  await store.workers();
  await store.deregister("w1");
  await store.stats();
}

async function keys(store: Store): Promise<void> {
  await add(store, { unique: key("once") });
  expect(await store.insert([newJob({ unique: key("once") })])).toMatchObject([{ status: "duplicate" }]);
  expect(await store.insert([newJob({ unique: key("once", { onConflict: "replace" }), input: LARGE })])).toMatchObject([
    { status: "duplicate", replaced: true },
  ]);
  await finish(store, await claimOne(store));
  // Its holder has finished, so the key is taken over.
  const taken = await add(store, { unique: key("once") });
  expect(await store.keyHolder("once")).toEqual({ job: taken, exists: true });
  expect(await store.remove([taken])).toEqual(["removed"]);
  await add(store, { unique: key("ever", { scope: "forever" }) });
  await finish(store, await claimOne(store), "completed", { keep: false });
  expect(await store.freeKey("ever")).toBe("freed");
}

async function changes(store: Store): Promise<void> {
  const waiting = await add(store, { delayMs: 60_000, unique: key("kept") });
  expect(await store.cancel([waiting])).toEqual(["cancelled"]);
  expect(await store.retry([waiting])).toEqual(["retried"]);
  expect(await store.update([{ id: waiting, input: LARGE, priority: 5 }])).toEqual([{ status: "updated" }]);
  expect(await store.update([{ id: waiting, input: "1" }])).toEqual([{ status: "updated" }]);
  await claim(store);
  expect(await store.cancel([waiting])).toEqual(["requested"]);
  await store.pause("later", "ada");
  await store.queues();
  await store.resume("later");
}

async function steps(store: Store): Promise<void> {
  await add(store, { queue: "steps" });
  const job = await claimOne(store, { queues: ["steps"] });
  await expect(store.saveStepIn({}, stepOf(job, "one"))).rejects.toThrow("tx");
  await expect(store.emitIn({}, eventOf("paid"))).rejects.toThrow("tx");
  await keepStep(store, stepOf(job, "one"));
  await keepStep(store, waitFor(job, "paid"));
  await keepStep(store, childOf(job, newChild({ input: LARGE })));
  expect(await store.openChildren([job.id], 10)).toHaveLength(1);
  await park(store, job);
  expect(await store.emit([eventOf("paid"), eventOf("other")])).toEqual([{ first: true }, { first: true }]);
  await finish(store, await claimOne(store, { queues: ["children"] }), "completed", { keep: false });
  expect(await stepsOf(store, job.id)).toHaveLength(3);
  await store.purgeEvents(10);
  await store.repairWaits(10);
  const again = await claimOne(store, { queues: ["steps"] });
  await finish(store, again, "dead", { reopen: ["one"] });
}

async function maintenance(store: Store): Promise<void> {
  await add(store, { queue: "stale" });
  // A lease that has expired when it starts.
  await claim(store, { queues: ["stale"], leaseMs: -60_000 });
  expect(await store.reapExpiredLeases(10)).toHaveLength(1);
  await add(store, { delayMs: 60_000, expiresAt: 1 });
  expect(await store.expireOverdue(10)).toHaveLength(1);
  await jobIn(store, "dead", { unique: key("dead"), input: LARGE });
  expect(await store.purge({ state: "dead", before: null, keep: 0, limit: 10 })).toBeGreaterThan(0);
  await jobIn(store, "dead", { settings: { keepMs: { dead: 0 } } });
  expect(await store.purgeDue(10)).toBe(1);
  await store.tryAcquireDuty("tryAcquireDuty", 1_000);
  await store.maintain();
}

async function schedules(store: Store): Promise<void> {
  const schedule = await addSchedule(store, { input: LARGE, nextRunAt: 1 });
  await store.listSchedules({}, { limit: 10, cursor: null });
  expect((await store.dueSchedules(10)).schedules).toHaveLength(1);
  await fireAll(store, firingFor(schedule, [60_000], { unique: key("slot"), input: LARGE }));
  expect(await store.removeSchedule(schedule.name)).toBe(true);
}

async function administration(store: Store): Promise<void> {
  expect(await store.pendingMigrations?.()).toEqual([]);
  const entry = newEntry();
  await store.audit([entry]);
  await store.audit([entry, newEntry()]);
  expect((await store.listAudit({ actor: entry.actor }, { limit: 10, cursor: null })).entries).toHaveLength(2);
  expect(await store.purgeAudit({ before: Date.now() + 100_000_000_000, limit: 10 })).toBe(2);
  expect(await store.cursorKey()).toBe(await store.cursorKey());
  const token = newTokenRecord();
  expect(await store.putToken(token)).toBe("put");
  expect(await store.getToken(token.id)).toEqual(token);
  expect(await store.listTokens()).toEqual([token]);
  expect(await store.removeToken(token.id)).toBe(true);
}

async function operations(store: Store): Promise<void> {
  const operation = newOperation();
  const { id } = operation;
  await store.putOperation(operation, { owner: "a", leaseMs: 0 });
  expect(await store.claimOperation({ owner: "b", leaseMs: 60_000 })).toMatchObject({ id });
  expect(await store.saveOperation({ id, owner: "a", leaseMs: 0, summary: "{}" })).toBe("lost");
  expect(await store.stopOperation(id)).toBe(true);
  expect(await store.saveOperation({ id, owner: "b", leaseMs: 60_000, summary: "{}" })).toBe("stop");
  expect(await store.endOperation({ id, owner: "b", state: "stopped", summary: "{}" })).toBe(true);
  expect(await store.getOperation(id)).toMatchObject({ state: "stopped" });
  expect(await store.operations()).toHaveLength(1);
  expect(await store.purgeOperations({ before: 0, keep: 0 })).toBe(1);
  await store.heartbeat(workerRecord({ id: "drained" }));
  expect(await store.drainWorker("drained", true)).toBe(true);
}

async function observation(store: Store): Promise<void> {
  const id = await add(store, { queue: "observed" });
  const { dueAt } = await recordOf(store, id);
  expect(await store.countAhead({ id, queue: "observed", priority: 0, dueAt: dueAt ?? 0 }, 10)).toBe(0);
  const group = newErrorGroup();
  await store.recordErrors([group]);
  // An earlier one: the first write is refused.
  await store.recordErrors([{ ...group, firstAt: 1, lastAt: 1 }]);
  expect(await store.errorGroups(10)).toMatchObject([{ firstAt: 1, lastAt: group.lastAt, count: 2 * group.count }]);
  expect(await store.purgeErrorGroups(group.lastAt + 1)).toBe(1);
  const record = { resolution: "minute", at: 60_000, writer: "a", data: "{}" } as const;
  await store.putHistory([record, { ...record, writer: "b" }]);
  const read = await store.history({ resolution: "minute", from: 0, to: 120_000, limit: 10, after: null });
  expect(read.records).toHaveLength(2);
  const replaced = [record, { ...record, writer: "b" }];
  expect(await store.mergeHistory({ record: { ...record, data: "[]" }, replaced })).toBe(true);
  expect(await store.purgeHistory({ resolution: "minute", before: 120_000, limit: 10 })).toBe(1);
  const cursor = await store.recordTransitions(60_000);
  await add(store, { queue: "observed" });
  await until("the transition to be recorded", async () => {
    const page = await store.transitions(cursor, 10);
    return page !== null && page.transitions.some(({ queue }) => queue === "observed");
  });
  await store.purgeTransitions({ before: Date.now() + 100_000_000_000, limit: 10 });
  expect(await store.transitions(cursor, 10)).toBeNull();
}

export function newErrorGroup(given: Partial<ErrorGroupRecord> = {}): ErrorGroupRecord {
  return {
    fingerprint: FINGERPRINT,
    type: "mail",
    name: "Error",
    code: null,
    message: "no",
    frame: null,
    count: 2,
    firstAt: 1_000,
    lastAt: 2_000,
    job: "018f4d2e-7b3a-7c11-8a55-00000000000a",
    example: "no",
    ...given,
  };
}
