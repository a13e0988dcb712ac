import { fakeClock, type FakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { Emitter } from "#src/engine/events/events.js";
import { HistoryRecorder } from "#src/engine/history/recorder.js";
import { StoreUnreadableError } from "#src/errors.js";
import { Counts } from "#src/history/counted.js";
import type { HistoryRecord } from "#src/store.js";

const MINUTE = 60_000;
/** Minutes that are kept while the store fails. */
const KEPT = 10;
const START = Date.UTC(2026, 0, 1, 12, 0, 30);

interface Scene {
  recorder: HistoryRecorder;
  clock: FakeClock;
  /** Each call, with the records that it wrote. */
  calls: HistoryRecord[][];
  /** What is stored, by time and writer. */
  stored: Map<string, HistoryRecord>;
  /** Beginnings and ends of outages. */
  outages: string[];
  /** Runs during the next write; throws for a store that is not available. */
  during: (() => void | Promise<void>)[];
  completed: () => number;
}

function scene(): Scene {
  const clock = fakeClock(START);
  const calls: HistoryRecord[][] = [];
  const stored = new Map<string, HistoryRecord>();
  const outages: string[] = [];
  const during: (() => void | Promise<void>)[] = [];
  const events = new Emitter(() => {});
  events.on("outage", ({ doing }) => void outages.push(`${doing} fails`));
  events.on("outageEnded", ({ doing }) => void outages.push(`${doing} works`));
  const store = {
    async putHistory(records: readonly HistoryRecord[]): Promise<void> {
      calls.push([...records]);
      await during.shift()?.();
      for (const record of records) stored.set(`${record.at} ${record.writer}`, record);
    },
  };
  const recorder = new HistoryRecorder({ store, clock, events });
  const completed = (): number =>
    [...stored.values()]
      .flatMap(({ data }) => [...Counts.parse(data).values()])
      .reduce((sum, counted) => sum + counted.completed, 0);
  return { recorder, clock, calls, stored, outages, during, completed };
}

function complete({ recorder, clock }: Pick<Scene, "recorder" | "clock">, count = 1, now = clock.now()): void {
  for (let nth = 0; nth < count; nth++) {
    recorder.ended({ queue: "q", type: "t" }, "completed", { waitMs: 5, runMs: 7 }, now);
  }
}

function refuse(): never {
  throw new StoreUnreadableError("permission denied for table history");
}

function fail(): never {
  throw new Error("no store");
}

describe("the recorder of history", () => {
  it("counts every kind of end, with times", async () => {
    const { recorder, clock, calls } = scene();
    const job = { queue: "q", type: "t" };
    recorder.enqueued(job);
    recorder.ended(job, "completed", { waitMs: 5, runMs: 100 }, clock.now());
    recorder.ended(job, "failed", { waitMs: 5, runMs: 100 }, clock.now());
    recorder.ended(job, "dead", { waitMs: 5, runMs: 100 }, clock.now());
    // Expired: no attempt failed.
    recorder.ended(job, "dead", null, clock.now());
    recorder.cancelled(job);
    recorder.enqueued({ queue: "q", type: "other" });
    await recorder.stop();
    const [first, second] = [...Counts.parse(calls[0]?.[0]?.data ?? "").values()].toSorted((a, b) =>
      a.type < b.type ? 1 : -1,
    );
    const { wait, run, ...counters } = first ?? {};
    expect(counters).toEqual({ ...job, enqueued: 1, completed: 1, failed: 2, dead: 2, cancelled: 1 });
    expect([wait?.total, run?.total]).toEqual([3, 3]);
    expect(second).toMatchObject({ type: "other", enqueued: 1 });
  });

  it("writes each minute once, after its end", async () => {
    const { recorder, clock, calls } = scene();
    complete({ recorder, clock });
    await clock.advance(29_000);
    complete({ recorder, clock }, 2);
    expect(calls).toEqual([]);
    await clock.advance(MINUTE);
    complete({ recorder, clock }, 4);
    await clock.advance(MINUTE);
    const written = calls.flat().map(({ resolution, at, data }) => {
      return [resolution, at, [...Counts.parse(data).values()].map(({ completed }) => completed)];
    });
    const start = Date.UTC(2026, 0, 1, 12, 0);
    expect(written).toEqual([
      ["minute", start, [3]],
      ["minute", start + MINUTE, [4]],
    ]);
    expect(new Set(calls.flat().map(({ writer }) => writer)).size).toBe(1);
    expect(calls[0]?.[0]?.writer).toMatch(/^[\w-]{1,100}$/);
  });

  it("writes nothing without counts", async () => {
    const { recorder, clock, calls } = scene();
    await clock.advance(10 * MINUTE);
    complete({ recorder, clock });
    await clock.advance(10 * MINUTE);
    await recorder.stop();
    expect(calls).toHaveLength(1);
  });

  it("writes in the first seconds after the minute", async () => {
    const { recorder, clock, calls } = scene();
    complete({ recorder, clock });
    await clock.advance(29_999);
    expect(calls).toHaveLength(0);
    await clock.advance(5_001);
    expect(calls).toHaveLength(1);
  });

  it("keeps counts while the store fails", async () => {
    const { recorder, clock, calls, during, outages, completed } = scene();
    during.push(fail, fail, fail);
    for (let minute = 0; minute < 5; minute++) {
      complete({ recorder, clock });
      await clock.advance(MINUTE);
    }
    await clock.advance(MINUTE);
    expect(completed()).toBe(5);
    expect(calls.map((records) => records.length)).toEqual([1, 2, 3, 4, 1]);
    expect(outages).toEqual(["history fails", "history works"]);
  });

  it("keeps the newest minutes of a long outage", async () => {
    const { recorder, clock, calls, during, completed } = scene();
    during.push(...Array(30).fill(fail));
    for (let minute = 0; minute < 30; minute++) {
      complete({ recorder, clock });
      await clock.advance(MINUTE);
    }
    expect(Math.max(...calls.map((records) => records.length))).toBe(KEPT);
    await clock.advance(MINUTE);
    expect(completed()).toBe(KEPT);
  });

  it("stop writes the current minute and ends the timer", async () => {
    const { recorder, clock, calls, completed } = scene();
    complete({ recorder, clock });
    await recorder.stop();
    expect(completed()).toBe(1);
    complete({ recorder, clock });
    await clock.advance(10 * MINUTE);
    expect(calls).toHaveLength(1);
  });

  it("stop resolves when the store fails", async () => {
    const { recorder, clock, during, outages } = scene();
    complete({ recorder, clock });
    during.push(fail);
    await recorder.stop();
    expect(outages).toEqual(["history fails"]);
  });

  it("counts what ends during a write", async () => {
    const { recorder, clock, during, completed } = scene();
    complete({ recorder, clock });
    during.push(() => complete({ recorder, clock }, 2));
    await recorder.flush({ all: true });
    complete({ recorder, clock }, 4);
    await recorder.flush({ all: true });
    expect(completed()).toBe(7);
  });

  it("keeps earlier counts when the clock is set back", async () => {
    const { recorder, clock, completed, stored } = scene();
    complete({ recorder, clock });
    await clock.advance(MINUTE);
    complete({ recorder, clock }, 2);
    await clock.advance(MINUTE);
    clock.setWall(START);
    complete({ recorder, clock }, 4);
    await recorder.stop();
    expect(completed()).toBe(7);
    expect([...stored.values()].map(({ at }) => at - START + 30_000).toSorted((a, b) => a - b)).toEqual([0, 0, MINUTE]);
  });

  it("counts ends of a minute that is written already", async () => {
    const { recorder, clock, completed } = scene();
    complete({ recorder, clock });
    const now = clock.now();
    await clock.advance(MINUTE);
    complete({ recorder, clock }, 2, now);
    complete({ recorder, clock }, 4);
    complete({ recorder, clock }, 8, now);
    await clock.advance(MINUTE);
    expect(completed()).toBe(15);
  });

  it("writes one at a time, in order", async () => {
    const { recorder, clock, calls, during, completed } = scene();
    let end: () => void = () => {};
    during.push(() => new Promise((resolve) => (end = resolve)));
    complete({ recorder, clock });
    const first = recorder.flush({ all: true });
    const second = recorder.flush({ all: true });
    await new Promise((resolve) => setImmediate(resolve));
    complete({ recorder, clock });
    expect(calls).toHaveLength(1);
    end();
    await Promise.all([first, second]);
    expect(completed()).toBe(2);
    expect(calls).toHaveLength(2);
  });

  it("a role that may not write it has no outage", async () => {
    const on = scene();
    on.during.push(refuse, refuse);
    complete(on);
    await on.clock.advance(3 * MINUTE);
    expect(on.outages).toEqual([]);
    expect(on.completed()).toBe(1);
  });
});
