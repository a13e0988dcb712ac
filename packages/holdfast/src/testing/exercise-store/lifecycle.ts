import assert from "node:assert/strict";
import type { Store } from "../../store.js";
import {
  add,
  addAll,
  claimOne,
  claimRequest,
  finish,
  MINUTE,
  newEntry,
  newOperation,
  newJob,
  newJobs,
  newTokenRecord,
  outcomeOf,
  recordOf,
  SECOND,
  workerRecord,
} from "./builders.js";
import { hintsOf } from "./hints.js";
import {
  addSchedule,
  changeSchedule,
  fireAll,
  firingFor,
  firingOf,
  jobSlot,
  newSchedule,
} from "./schedule-builders.js";
import type { DefineCase } from "./scene.js";
import { until } from "./until.js";

export function lifecycleCases(test: DefineCase): void {
  test("C-05 migrate may be repeated", async ({ store }) => {
    await store.migrate();
    const id = await add(store);
    const before = await recordOf(store, id);
    await Promise.all([store.migrate(), store.migrate()]);
    assert.deepEqual(await recordOf(store, id), before);
  });

  test("pendingMigrations is empty after migrate", async ({ store }) => {
    await store.migrate();
    assert.deepEqual((await store.pendingMigrations?.()) ?? [], []);
  });

  test.needing(["a new database"], "pendingMigrations lists steps without applying them", async ({ store }) => {
    if (store.pendingMigrations === undefined) return;
    const pending = await store.pendingMigrations();
    assert.notEqual(pending.length, 0);
    assert.deepEqual(await store.pendingMigrations(), pending);
    await store.migrate();
    assert.deepEqual(await store.pendingMigrations(), []);
  });

  test.needing(["another handle"], "C-05 several handles may migrate concurrently", async ({ store, again }) => {
    const id = await add(store);
    const handles = await Promise.all([again(), again(), again()]);
    await Promise.all([store, ...handles].map((handle) => handle.migrate()));
    for (const handle of handles) assert.equal((await recordOf(handle, id)).state, "pending");
  });

  test.needing(
    ["a new database", "another handle"],
    "C-05 several handles may create a database concurrently",
    async ({ store, again }) => {
      const handles = [store, await again(), await again(), await again()];
      await Promise.all(handles.map((handle) => handle.migrate()));
      const ids = await Promise.all(handles.map((handle) => add(handle)));
      for (const id of ids) assert.equal((await recordOf(store, id)).state, "pending");
    },
  );

  test("calls after close fail with code CLOSED", async ({ store }) => {
    const id = await add(store);
    const job = await claimOne(store);
    await store.close();
    for (const [name, call] of Object.entries(callsOn(store, { ...job, id }))) {
      await assert.rejects(async () => call(), { code: "CLOSED" }, name);
    }
  });

  test("close may be repeated", async ({ store }) => {
    await Promise.all([store.close(), store.close()]);
    await store.close();
  });

  test("every call in progress at close settles", async ({ store }) => {
    const calls = [
      store.insert(newJobs(50)),
      store.claim(claimRequest()),
      store.stats(),
      store.list({}, { limit: 9, cursor: null }),
    ];
    const [settled] = await Promise.all([Promise.allSettled(calls), store.close()]);
    for (const call of settled)
      if (call.status === "rejected") assert.equal((call.reason as { code?: unknown }).code, "CLOSED");
  });

  test.live([], "a listener gets a work hint when due", async ({ store }) => {
    const hints = hintsOf(store);
    await add(store, { delayMs: 60_000 });
    await add(store);
    await until("a hint of work that is due", () => hints.all.some((hint) => hint.kind === "work" && hint.inMs === 0));
    for (const hint of hints.all) if (hint.kind === "work") assert.ok(hint.inMs >= 0 && hint.inMs <= 60_000);
  });

  test.live([], "a listener gets a cancel hint with job ids", async ({ store }) => {
    const [first, second] = await addAll(store, newJobs(2));
    await claimOne(store, { limit: 2 });
    const hints = hintsOf(store);
    await store.cancel([first ?? "", second ?? ""]);
    await hints.cancels([first ?? "", second ?? ""]);
  });

  test.live([], "a listener gets a finished hint", async ({ store }) => {
    await add(store);
    const job = await claimOne(store);
    const hints = hintsOf(store);
    await finish(store, job);
    await hints.hint("finished");
  });

  test.live([], "an unsubscribed listener gets no more hints", async ({ store }) => {
    const gone = hintsOf(store);
    const stays = hintsOf(store);
    gone.stop();
    gone.stop();
    await add(store);
    await stays.hint("work");
    assert.deepEqual(gone.all, []);
  });

  test.live(["another handle", "push"], "a listener on another handle gets job hints", async (scene) => {
    const { store } = scene;
    const hints = hintsOf(await scene.again());
    // Listening may take a moment to start, so the change is repeated until the hint arrives.
    await hints.hint("work", () => add(store));
    const job = await claimOne(store);
    await hints.cancels([job.id], () => store.cancel([job.id]));
    hints.forget();
    await hints.hint("finished", async () => {
      await add(store);
      await finish(store, await claimOne(store));
    });
  });

  test.live([], "a listener gets a hint for every schedule change", async ({ store }) => {
    const hints = hintsOf(store);
    const schedule = await addSchedule(store, { nextRunAt: Date.now() + MINUTE });
    await hints.hint("schedules");
    hints.forget();
    await changeSchedule(store, schedule, { enabled: false });
    await hints.hint("schedules");
    hints.forget();
    await store.removeSchedule(schedule.name);
    await hints.hint("schedules");
  });

  test.live([], "a listener gets a work hint for fired jobs", async ({ store }) => {
    const schedule = await addSchedule(store);
    const hints = hintsOf(store);
    const slots = [jobSlot("digest", 1, { runAt: Date.now() + MINUTE })];
    const after = await fireAll(store, firingOf(schedule, { slots }));
    await hints.hint("work");
    for (const hint of hints.all) if (hint.kind === "work") assert.ok(hint.inMs >= 0 && hint.inMs <= MINUTE);
    await fireAll(store, firingFor(after, [2]));
    await until("a hint of work that is due", () => hints.all.some((hint) => hint.kind === "work" && hint.inMs === 0));
  });

  test.live(["another handle", "push"], "a listener on another handle gets schedule hints", async (scene) => {
    const { store } = scene;
    const hints = hintsOf(await scene.again());
    const start = Date.now() + 100 * MINUTE;
    let count = 0;
    // Listening may take a moment to start, so schedules are added until the hint arrives. Each is due before the previous one.
    await hints.hint("schedules", () => addSchedule(store, { name: `s${++count}`, nextRunAt: start - count * SECOND }));
    // A removal may go unnoticed, so schedules are removed until the hint arrives; in the end all are gone.
    hints.forget();
    await hints.hint("schedules", () => store.removeSchedule(`s${count--}`));
    const schedule = await addSchedule(store, { nextRunAt: start });
    hints.forget();
    await fireAll(store, firingFor(schedule, [1]));
    await hints.hint("work");
  });
}

function callsOn(store: Store, job: Parameters<typeof outcomeOf>[0]): Record<string, () => Promise<unknown>> {
  return {
    migrate: () => store.migrate(),
    insert: () => store.insert([newJob()]),
    claim: () => store.claim(claimRequest()),
    start: () => store.start([{ ...job, startedAt: 0 }]),
    extend: () => store.extend([job], 1_000),
    settle: () => store.settle([outcomeOf(job, "completed")]),
    note: () => store.note([{ ...job, progress: { fraction: 1, note: null, data: null }, log: [] }]),
    get: () => store.get(job.id),
    list: () => store.list({}, { limit: 1, cursor: null }),
    cancel: () => store.cancel([job.id]),
    retry: () => store.retry([job.id]),
    remove: () => store.remove([job.id]),
    reapExpiredLeases: () => store.reapExpiredLeases(1),
    expireOverdue: () => store.expireOverdue(1),
    purge: () => store.purge({ state: "completed", before: 0, keep: null, limit: 1 }),
    maintain: () => store.maintain(),
    tryAcquireDuty: () => store.tryAcquireDuty("t", 1_000),
    stats: () => store.stats(),
    pause: () => store.pause("q"),
    resume: () => store.resume("q"),
    queues: () => store.queues(),
    putSchedule: () => store.putSchedule(newSchedule(), null),
    getSchedule: () => store.getSchedule("digest"),
    listSchedules: () => store.listSchedules({}, { limit: 1, cursor: null }),
    removeSchedule: () => store.removeSchedule("digest"),
    dueSchedules: () => store.dueSchedules(1),
    fire: () => store.fire([firingOf(newSchedule())]),
    heartbeat: () => store.heartbeat(workerRecord()),
    deregister: () => store.deregister("w1"),
    drainWorker: () => store.drainWorker("w1", true),
    workers: () => store.workers(),
    putOperation: () => store.putOperation(newOperation(), { owner: "a", leaseMs: 1_000 }),
    claimOperation: () => store.claimOperation({ owner: "a", leaseMs: 1_000 }),
    saveOperation: () => store.saveOperation({ id: newOperation().id, owner: "a", leaseMs: 1_000, summary: "{}" }),
    endOperation: () => store.endOperation({ id: newOperation().id, owner: "a", state: "done", summary: "{}" }),
    stopOperation: () => store.stopOperation(newOperation().id),
    getOperation: () => store.getOperation(newOperation().id),
    operations: () => store.operations(),
    purgeOperations: () => store.purgeOperations({ before: 0, keep: 1 }),
    audit: () => store.audit([newEntry()]),
    listAudit: () => store.listAudit({}, { limit: 1, cursor: null }),
    purgeAudit: () => store.purgeAudit({ before: 0, limit: 1 }),
    putToken: () => store.putToken(newTokenRecord()),
    getToken: () => store.getToken("0123456789abcdef"),
    listTokens: () => store.listTokens(),
    removeToken: () => store.removeToken("0123456789abcdef"),
    cursorKey: () => store.cursorKey(),
  };
}
