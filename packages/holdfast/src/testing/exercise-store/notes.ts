import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import { add, claimOne, finish, jobIn, leaseOf, LEASE_MS, recordOf } from "./builders.js";
import type { DefineCase } from "./scene.js";

export function noteCases(test: DefineCase): void {
  test("stores progress and log of a held lease", async ({ store }) => {
    const id = await add(store);
    const job = await claimOne(store);
    await store.note([
      { ...job, progress: { fraction: 0.25, note: "a quarter", data: null }, log: [{ at: 1, line: "one" }] },
    ]);
    await store.note([{ ...job, progress: { fraction: 0.5, note: null, data: null }, log: [] }]);
    await store.note([
      {
        ...job,
        progress: null,
        log: [
          { at: 2, line: 'it\'s "two" 🧵' },
          { at: 2, line: "three" },
        ],
      },
    ]);
    const expected = {
      progress: { fraction: 0.5, note: null, data: null },
      log: [
        { at: 1, line: "one" },
        { at: 2, line: 'it\'s "two" 🧵' },
        { at: 2, line: "three" },
      ],
    };
    const running = await recordOf(store, id);
    assert.deepEqual({ progress: running.progress, log: running.log }, expected);
    await finish(store, job);
    const finished = await recordOf(store, id);
    assert.deepEqual({ progress: finished.progress, log: finished.log }, expected);
  });

  test("keeps only the last log lines", async ({ store }) => {
    const id = await jobIn(store, "running");
    const lease = await leaseOf(store, id);
    const line = (n: number): { at: number; line: string } => ({ at: n, line: `line ${n}` });
    const linesUpTo = (from: number, to: number): ReturnType<typeof line>[] =>
      Array.from({ length: to - from }, (_, index) => line(from + index));
    await store.note([{ ...lease, progress: null, log: linesUpTo(0, 70) }]);
    await store.note([{ ...lease, progress: null, log: linesUpTo(70, 140) }]);
    assert.deepEqual((await recordOf(store, id)).log, linesUpTo(140 - LIMITS.logLines, 140));
    await store.note([{ ...lease, progress: null, log: linesUpTo(140, 400) }]);
    assert.deepEqual((await recordOf(store, id)).log, linesUpTo(400 - LIMITS.logLines, 400));
  });

  test("ignores notes of a lost lease, stores others", async ({ store, clock }) => {
    const lostId = await add(store);
    const old = await claimOne(store);
    await clock.advance(LEASE_MS);
    await claimOne(store, { worker: "w2" });
    const heldId = await jobIn(store, "running");
    const held = await leaseOf(store, heldId);
    const note = { progress: { fraction: 1, note: "x", data: null }, log: [{ at: 1, line: "x" }] };
    await store.note([
      { id: old.id, fence: old.fence, ...note },
      { id: "00000000-0000-7000-8000-000000000000", fence: 1, ...note },
      { ...held, ...note },
    ]);
    const lost = await recordOf(store, lostId);
    assert.deepEqual([lost.progress, lost.log], [null, []]);
    const kept = await recordOf(store, heldId);
    assert.deepEqual([kept.progress, kept.log], [note.progress, note.log]);
  });

  test("ignores notes after the outcome", async ({ store }) => {
    const id = await add(store);
    const job = await claimOne(store);
    await finish(store, job, "failed");
    await store.note([{ ...job, progress: { fraction: 1, note: null, data: null }, log: [{ at: 1, line: "late" }] }]);
    const record = await recordOf(store, id);
    assert.deepEqual([record.progress, record.log], [null, []]);
    await store.note([]);
  });
}
