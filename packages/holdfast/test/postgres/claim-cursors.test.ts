import { describe, expect, it } from "vitest";
import { ClaimCursors, type Position, type Scan } from "#src/stores/postgres/jobs/claim-cursors.js";

// Cursors are used after this many claimed jobs.
const ENOUGH = 10_000;
// After this time a full scan is due.
const LATER = 1_001;
const ALL = { queues: null, types: null };

const at = (seq: number, lane: Partial<Position> = {}): Position => ({
  queue: "default",
  priority: 0,
  type: null,
  dueAt: 1,
  seq,
  ...lane,
});

/** Cursors at these positions, with enough claimed jobs to be used, at the time 0. */
function cursorsAt(...positions: Position[]): ClaimCursors {
  const cursors = new ClaimCursors();
  for (const position of positions) {
    const claimed = Array.from({ length: ENOUGH }, (_, n) => ({ ...position, seq: position.seq - ENOUGH + 1 + n }));
    const types = position.type === null ? null : [position.type];
    cursors.advance(cursors.startScan({ queues: [position.queue], types }, 0), claimed, 0);
  }
  return cursors;
}

/** Where a scan starts in each lane; other lanes are scanned from the start. */
function startsOf({ columns }: Scan): Record<string, number> {
  const [queues, priorities, , , seqs] = columns as [string[], number[], unknown, unknown, number[]];
  return Object.fromEntries(queues.map((queue, index) => [`${queue} ${priorities[index]}`, seqs[index] ?? 0]));
}

describe("the cursor of a lane", () => {
  it("is used after enough claims, until a full scan is due", () => {
    const cursors = cursorsAt(at(20_000));
    expect(startsOf(cursors.startScan(ALL, 1))).toEqual({ "default 0": 20_000 });
    expect(cursors.startScan(ALL, 1).isFull).toBe(false);
    expect(cursors.startScan(ALL, LATER).isFull).toBe(true);
  });

  it("moves back to late jobs that a full scan finds", () => {
    const cursors = cursorsAt(at(20_000));
    cursors.advance(cursors.startScan(ALL, LATER), [at(5), at(6)], LATER);
    expect(startsOf(cursors.startScan(ALL, LATER + 1))).toEqual({ "default 0": 6 });
    cursors.advance(cursors.startScan(ALL, LATER + 1), [at(7), at(20_001)], LATER + 1);
    expect(startsOf(cursors.startScan(ALL, LATER + 2))).toEqual({ "default 0": 20_001 });
  });

  it("moves back in every lane that was scanned no further", () => {
    const cursors = cursorsAt(at(20_000, { queue: "a" }), at(20_000, { queue: "b" }));
    cursors.advance(cursors.startScan(ALL, LATER), [at(6, { queue: "a" })], LATER);
    expect(startsOf(cursors.startScan(ALL, LATER + 1))).toEqual({ "a 0": 6, "b 0": 6 });
  });

  it("moves forward in all lanes of the priority", () => {
    const cursors = cursorsAt(at(20_000, { queue: "a" }), at(20_000, { queue: "b" }));
    cursors.advance(cursors.startScan(ALL, LATER), [at(6, { queue: "a" })], LATER);
    cursors.advance(cursors.startScan(ALL, LATER + 1), [at(20_001, { queue: "a" })], LATER + 1);
    expect(startsOf(cursors.startScan(ALL, LATER + 2))).toEqual({ "a 0": 20_001, "b 0": 20_001 });
  });

  it("returns to the furthest job when a priority is exhausted", () => {
    const cursors = cursorsAt(at(30_000, { priority: 5 }), at(20_000));
    cursors.advance(cursors.startScan(ALL, LATER), [at(6, { priority: 5 })], LATER);
    expect(startsOf(cursors.startScan(ALL, LATER + 1))).toEqual({ "default 5": 6 });
    cursors.advance(cursors.startScan(ALL, LATER + 1), [at(7, { priority: 5 }), at(20_001)], LATER + 1);
    expect(startsOf(cursors.startScan(ALL, LATER + 2))).toEqual({ "default 5": 30_000, "default 0": 20_001 });
  });

  it("is not advanced by a claim that started before it moved back", () => {
    const cursors = cursorsAt(at(20_000));
    const [resumed, full] = [cursors.startScan(ALL, 1), cursors.startScan(ALL, LATER)];
    cursors.advance(cursors.startScan(ALL, LATER), [at(6)], LATER);
    cursors.advance(resumed, [at(20_001)], LATER);
    cursors.advance(full, [at(20_002)], LATER);
    expect(startsOf(cursors.startScan(ALL, LATER + 1))).toEqual({ "default 0": 6 });
  });

  it("stays at the later of two concurrent claims", () => {
    const cursors = cursorsAt(at(20_000));
    const [one, other] = [cursors.startScan(ALL, 1), cursors.startScan(ALL, 1)];
    cursors.advance(other, [at(20_002)], 1);
    cursors.advance(one, [at(20_001)], 1);
    expect(startsOf(cursors.startScan(ALL, 2))).toEqual({ "default 0": 20_002 });
  });

  it.each([
    ["queues and types with the same concatenation", { queue: "a b", type: "c" }],
    ["types of one queue", { queue: "a", type: "c" }],
  ])("is separate for %s", (_case, lane) => {
    const cursors = cursorsAt(at(20_000, { queue: "a", type: "b c" }), at(30_000, lane));
    expect(cursors.startScan(ALL, 1).columns[4]).toEqual([20_000, 30_000]);
  });
});

describe("the next full scan of a lane", () => {
  it("is not delayed by claims on other queues", () => {
    const cursors = cursorsAt(at(20_000, { queue: "a" }), at(20_000, { queue: "b" }));
    const onlyA = { queues: ["a"], types: null };
    cursors.advance(cursors.startScan(onlyA, LATER), [at(20_001, { queue: "a" })], LATER);
    expect(startsOf(cursors.startScan(onlyA, LATER + 1))).toEqual({ "a 0": 20_001 });
    expect(cursors.startScan({ queues: ["b"], types: null }, LATER + 1).isFull).toBe(true);
  });

  it("is not delayed by claims for other types", () => {
    const cursors = cursorsAt(at(20_000, { type: "a" }), at(20_000, { type: "b" }));
    const onlyA = { queues: null, types: ["a"] };
    cursors.advance(cursors.startScan(onlyA, LATER), [at(20_001, { type: "a" })], LATER);
    expect(cursors.startScan({ queues: null, types: ["b"] }, LATER + 1).isFull).toBe(true);
  });

  it("is not delayed by claims that higher priorities filled", () => {
    const cursors = cursorsAt(at(20_000, { priority: 5 }), at(20_000));
    cursors.advance(cursors.startScan(ALL, LATER), [at(20_001, { priority: 5 })], LATER);
    expect(startsOf(cursors.startScan(ALL, LATER + 1))).toEqual({ "default 5": 20_001 });
  });

  it("is at the same time for all lanes of a priority", () => {
    const cursors = cursorsAt(at(20_000, { queue: "a" }), at(20_000, { queue: "b" }));
    const onlyA = { queues: ["a"], types: null };
    cursors.advance(cursors.startScan(onlyA, LATER), [at(20_001, { queue: "a" })], LATER);
    expect(cursors.startScan(ALL, LATER + 1).isFull).toBe(true);
  });

  it.each([
    ["250 ms", 1, 250],
    ["twenty times its duration", 20, 400],
    ["1 s at most", 200, 1_000],
  ])("is after %s", (_case, tookMs, pauseMs) => {
    const cursors = cursorsAt(at(20_000));
    const doneAt = LATER + tookMs;
    cursors.advance(cursors.startScan(ALL, LATER), [at(20_001)], doneAt);
    expect(cursors.startScan(ALL, doneAt + pauseMs - 1).isFull).toBe(false);
    expect(cursors.startScan(ALL, doneAt + pauseMs).isFull).toBe(true);
  });
});

it("a short claim resets the cursors of its own lanes only", () => {
  const cursors = cursorsAt(at(20_000, { queue: "a" }), at(20_000, { queue: "b" }));
  cursors.reset({ queues: ["a"], types: null });
  expect(startsOf(cursors.startScan(ALL, 1))).toEqual({ "b 0": 20_000 });
});
