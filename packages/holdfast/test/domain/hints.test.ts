import { describe, expect, it } from "vitest";
import type { Firing, InsertResult } from "#src/store.js";
import {
  cancelHints,
  fireHints,
  insertHints,
  mergeHints,
  reapHints,
  retryHints,
  scheduleHints,
  settleHints,
} from "#src/stores/hints.js";
import { newJob } from "#src/testing/exercise-store/builders.js";

const NOW = 1_000_000;
const INSERTED: InsertResult = { status: "inserted" };
const reaped = (to: "pending" | "dead"): Parameters<typeof reapHints>[0][number] => ({
  id: "id",
  type: "type",
  queue: "default",
  attempt: 1,
  to,
});

describe("wake-up hints", () => {
  it("of an insert name the time of the first job", () => {
    const jobs = [newJob({ delayMs: 500 }), newJob({ runAt: NOW + 200 }), newJob({ runAt: NOW - 200, delayMs: 300 })];
    expect(insertHints(jobs, [INSERTED, INSERTED, INSERTED], NOW)).toEqual([{ kind: "work", inMs: 100 }]);
    expect(insertHints([newJob({ runAt: NOW - 200 })], [INSERTED], NOW)).toEqual([{ kind: "work", inMs: 0 }]);
  });

  it("of an insert ignore jobs that were not stored", () => {
    const results = [{ status: "refused", reason: "key-held", of: "id" }, "busy"] as const;
    expect(insertHints([newJob(), newJob()], results, NOW)).toEqual([]);
  });

  it("of a firing count fired slots with a job", () => {
    const slot = { slot: NOW, through: null, reason: null };
    const firing = (delayMs: number): Firing => ({
      name: "s",
      version: "1",
      newVersion: "2",
      nextRunAt: null,
      lastSlot: NOW,
      slots: [
        { ...slot, job: null },
        { ...slot, job: newJob({ delayMs }) },
      ],
    });
    const fired = { status: "fired" as const, slots: [] };
    expect(fireHints([firing(5), firing(9)], [{ status: "changed" }, fired], NOW)).toEqual([{ kind: "work", inMs: 9 }]);
    expect(fireHints([firing(5)], [{ status: "busy" }], NOW)).toEqual([]);
  });

  it("of outcomes name retries and finished jobs", () => {
    const completed = { to: "completed", delayMs: 0 } as const;
    expect(settleHints([completed])).toEqual([{ kind: "finished" }]);
    expect(settleHints([completed, { to: "failed", delayMs: 70 }, { to: "pending", delayMs: 30 }])).toEqual([
      { kind: "work", inMs: 30 },
      { kind: "finished" },
    ]);
    expect(settleHints([])).toEqual([]);
  });

  it("of reaped leases name jobs to run again and finished ones", () => {
    expect(reapHints([reaped("pending")])).toEqual([{ kind: "work", inMs: 0 }]);
    expect(reapHints([reaped("dead"), reaped("pending")])).toEqual([{ kind: "work", inMs: 0 }, { kind: "finished" }]);
    expect(reapHints([])).toEqual([]);
  });

  it("of other changes follow their results", () => {
    expect(cancelHints(["a", "b", "c"], ["requested", "cancelled", "missing"])).toEqual([
      { kind: "cancel", ids: ["a"] },
      { kind: "finished" },
    ]);
    expect(cancelHints(["a"], ["finished"])).toEqual([]);
    expect([retryHints(["missing"]), retryHints(["retried"])]).toEqual([[], [{ kind: "work", inMs: 0 }]]);
    expect([scheduleHints("changed"), scheduleHints(false)]).toEqual([[], []]);
    expect([scheduleHints("put"), scheduleHints(true)]).toEqual([[{ kind: "schedules" }], [{ kind: "schedules" }]]);
  });

  it("of several calls are merged to one per kind", () => {
    const merged = mergeHints([
      { kind: "finished" },
      { kind: "work", inMs: 50 },
      { kind: "cancel", ids: ["a"] },
      { kind: "work", inMs: 20 },
      { kind: "schedules" },
      { kind: "finished" },
      { kind: "cancel", ids: ["b", "c"] },
    ]);
    expect(merged).toEqual([
      { kind: "work", inMs: 20 },
      { kind: "finished" },
      { kind: "schedules" },
      { kind: "cancel", ids: ["a", "b", "c"] },
    ]);
  });
});
