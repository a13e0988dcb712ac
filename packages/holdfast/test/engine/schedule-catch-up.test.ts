import { job, type CatchUp, type Holdfast, type SlotRecord } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { eventsOf, scene } from "./scene.js";
import { after, DAY, HOUR, jobsOf, MINUTE, processes, slotsMade, steps } from "./schedule-scene.js";

const nothing = job({ type: "nothing", run() {} });
const MISSED = "missed";

/** The stored slots, oldest first, without ids and times. */
async function kept(hf: Holdfast, name: string): Promise<[Date, Date | null, "job" | "none", string | null][]> {
  const slots = (await hf.schedules.get(name))?.slots ?? [];
  return slots
    .map(({ slot, through, job: made, reason }: SlotRecord): [Date, Date | null, "job" | "none", string | null] => [
      slot,
      through,
      made === null ? "none" : "job",
      reason,
    ])
    .toReversed();
}

/** Slots every hour; nothing runs after 01:00 until 06:20. */
const WAYS: [string, CatchUp, made: number[], slots: Awaited<ReturnType<typeof kept>>][] = [
  ["skip: none of them", "skip", [], [[after(2 * HOUR), after(6 * HOUR), "none", MISSED]]],
  [
    "latest: the last of them",
    "latest",
    [6],
    [
      [after(2 * HOUR), after(5 * HOUR), "none", MISSED],
      [after(6 * HOUR), null, "job", "late"],
    ],
  ],
  [
    "the newest three",
    { all: 3 },
    [4, 5, 6],
    [
      [after(2 * HOUR), after(3 * HOUR), "none", MISSED],
      [after(4 * HOUR), null, "job", "late"],
      [after(5 * HOUR), null, "job", "late"],
      [after(6 * HOUR), null, "job", "late"],
    ],
  ],
  [
    "all but one",
    { all: 4 },
    [3, 4, 5, 6],
    [
      [after(2 * HOUR), null, "none", MISSED],
      [after(3 * HOUR), null, "job", "late"],
      [after(4 * HOUR), null, "job", "late"],
      [after(5 * HOUR), null, "job", "late"],
      [after(6 * HOUR), null, "job", "late"],
    ],
  ],
  [
    "all of them",
    { all: 5 },
    [2, 3, 4, 5, 6],
    [2, 3, 4, 5, 6].map((hour) => [after(hour * HOUR), null, "job", "late"]),
  ],
  [
    "more than there are",
    { all: 1_000 },
    [2, 3, 4, 5, 6],
    [2, 3, 4, 5, 6].map((hour) => [after(hour * HOUR), null, "job", "late"]),
  ],
];

describe("slots missed during downtime", () => {
  it.each(WAYS)("on a file that no process had open, %s", async (_what, catchUp, made, slots) => {
    const { clock, open } = await processes();
    const before = await open({ jobs: [nothing] });
    await before.schedule("hourly", { job: nothing, every: "1h", catchUp });
    await clock.advance("1h");
    expect(await before.schedules.fireDue()).toBe(1);
    await before.close();
    await clock.advance("320m");
    const hf = await open({ jobs: [nothing] });
    const [skipped, fired] = [eventsOf(hf, "skipped"), eventsOf(hf, "fired")];
    expect(await hf.schedules.fireDue()).toBe(made.length);
    expect(await slotsMade(hf, "hourly")).toEqual([1, ...made].map((hour) => after(hour * HOUR)));
    expect((await kept(hf, "hourly")).slice(1)).toEqual(slots);
    expect(await hf.schedules.get("hourly")).toMatchObject({ lastSlot: after(6 * HOUR), nextRunAt: after(7 * HOUR) });
    expect(skipped).toEqual(
      slots
        .filter(([, , what]) => what === "none")
        .map(([slot, through, , reason]) => ({ schedule: "hourly", slot, through, reason, heldBy: null })),
    );
    expect(fired.map(({ slot, reason }) => [slot, null, "job", reason])).toEqual(
      slots.filter(([, , what]) => what === "job"),
    );
    // And continues normally.
    await clock.advance("40m");
    expect(await hf.schedules.fireDue()).toBe(1);
    expect((await kept(hf, "hourly")).at(-1)).toEqual([after(7 * HOUR), null, "job", null]);
  });

  it.each(WAYS)("under a worker whose machine slept, %s", async (_what, catchUp, made, slots) => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    await hf.schedule("hourly", { job: nothing, every: "1h", catchUp });
    clock.setWall(clock.now() + 59 * MINUTE + 30_000);
    hf.work();
    await clock.advance("1m");
    // Asleep: the monotonic clock stops, the wall clock does not.
    clock.setWall(clock.now() + 320 * MINUTE - 30_000);
    await clock.advance("10s");
    expect(await slotsMade(hf, "hourly")).toEqual([1, ...made].map((hour) => after(hour * HOUR)));
    expect((await kept(hf, "hourly")).slice(1)).toEqual(slots);
  });

  it("that are late by less than a minute are not missed", async () => {
    for (const catchUp of ["skip", "latest", { all: 5 }] as const) {
      for (const [lateMs, made] of [
        [60_000, 1],
        [60_001, catchUp === "skip" ? 0 : 1],
      ] as const) {
        const { hf, clock } = await scene({ jobs: [nothing] });
        await hf.schedule("hourly", { job: nothing, every: "1h", catchUp });
        await clock.advance(HOUR + lateMs);
        expect(await hf.schedules.fireDue()).toBe(made);
        const reason = lateMs === 60_000 ? null : made === 1 ? "late" : MISSED;
        expect(await kept(hf, "hourly")).toEqual([[after(HOUR), null, made === 1 ? "job" : "none", reason]]);
      }
    }
  });

  it("with skip: only the newest due slot runs", async () => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    await hf.schedule("hourly", { job: nothing, every: "1h", catchUp: "skip" });
    await clock.advance("3h");
    expect(await hf.schedules.fireDue()).toBe(1);
    expect(await kept(hf, "hourly")).toEqual([
      [after(HOUR), after(2 * HOUR), "none", MISSED],
      [after(3 * HOUR), null, "job", null],
    ]);
  });

  it("are logged in hours and days if they are very late", async () => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    await hf.schedule("monthly", { job: nothing, cron: "0 0 1 * *", startAt: after(1), catchUp: { all: 3 } });
    clock.setWall(Date.UTC(2026, 2, 2, 1, 5));
    await hf.schedules.fireDue();
    expect((await kept(hf, "monthly")).map(([, , , reason]) => reason)).toEqual(["late", "late"]);
  });

  it("run without jitter, in their order", async () => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    await hf.schedule("hourly", { job: nothing, every: "1h", catchUp: { all: 3 }, jitter: "30m" });
    await clock.advance("10h");
    await hf.schedules.fireDue();
    const made = await jobsOf(hf, "hourly");
    expect(made.slice(0, 2).map(({ runAt }) => runAt)).toEqual([after(10 * HOUR), after(10 * HOUR)]);
    // Only the last slot is on time, and is still to run.
    const late = Number(made[2]?.runAt) - Number(after(10 * HOUR));
    expect(late >= 0 && late <= 30 * MINUTE).toBe(true);
  });

  it("do not include slots before the start or after the end", async () => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    const window = { startAt: after(2 * HOUR), endAt: after(5 * HOUR) };
    await hf.schedule("hourly", { job: nothing, every: "1h", catchUp: { all: 100 }, ...window });
    clock.setWall(Number(after(30 * DAY)));
    expect(await hf.schedules.fireDue()).toBe(3);
    expect(await slotsMade(hf, "hourly")).toEqual(steps(HOUR, 2, 4));
    expect(await hf.schedules.get("hourly")).toMatchObject({ nextRunAt: null, lastSlot: after(4 * HOUR) });
    expect(await hf.schedules.fireDue()).toBe(0);
  });
});

describe("a thousand slots to catch up", () => {
  it("are caught up in batches, each slot once and in order", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing] });
    await hf.schedule("minutely", { job: nothing, every: "1m", catchUp: { all: 1_000 } });
    clock.setWall(Number(after(2_000 * MINUTE)));
    const fired = eventsOf(hf, "fired");
    hf.work({ concurrency: 50 });
    for (let round = 0; round < 50 && fired.length < 1_000; round++) await clock.settle();
    expect(fired.map(({ slot }) => slot)).toEqual(steps(MINUTE, 1_001, 2_000));
    expect(await slotsMade(hf, "minutely")).toEqual(steps(MINUTE, 1_001, 2_000));
    const [oldest] = (await kept(hf, "minutely")).filter(([, , what]) => what === "none");
    expect(oldest).toEqual([after(MINUTE), after(1_000 * MINUTE), "none", MISSED]);
    const parts = store.calls("fire").map(([firings]) => (firings as { slots: unknown[] }[])[0]?.slots.length);
    expect(parts.length).toBeGreaterThanOrEqual(10);
    for (const size of parts) expect(size).toBeLessThanOrEqual(101);
    await clock.advance("1m");
    expect((await hf.stats()).states.completed).toBe(1_001);
  });

  it("are caught up in smaller batches if their input is large", async () => {
    const large = job({ type: "large", input: z.object({ text: z.string() }), run() {} });
    const { hf, clock, store } = await scene({ jobs: [large] });
    const input = { text: "x".repeat(200_000) };
    for (const name of ["a", "b", "c"]) {
      await hf.schedule(name, { job: large, input, every: "1m", catchUp: { all: 12 } });
    }
    await clock.advance("12m");
    store.forget();
    expect(await hf.schedules.fireDue()).toBe(36);
    for (const [firings] of store.calls("fire")) {
      const jobs = (firings as { slots: { job: { input: string } | null }[] }[]).flatMap(({ slots }) => slots);
      expect(jobs.reduce((sum, { job: made }) => sum + (made?.input.length ?? 0), 0)).toBeLessThanOrEqual(1_048_576);
    }
    for (const name of ["a", "b", "c"]) expect(await slotsMade(hf, name)).toEqual(steps(MINUTE, 1, 12));
  });

  it("of many schedules are spread over transactions", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing] });
    for (let n = 0; n < 30; n++) {
      await hf.schedule(`s ${n}`, { job: nothing, every: "1m", catchUp: { all: 150 } });
    }
    await clock.advance("150m");
    store.forget();
    expect(await hf.schedules.fireDue()).toBe(30 * 150);
    const made = store.calls("fire").map(([firings]) => {
      return (firings as { slots: unknown[] }[]).reduce((sum, { slots }) => sum + slots.length, 0);
    });
    // One batch of an enqueueMany, and a few that are only recorded.
    expect(Math.max(...made)).toBeLessThanOrEqual(600);
  });

  it("are neither lost nor doubled if the store fails midway", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing] });
    await hf.schedule("minutely", { job: nothing, every: "1m", catchUp: { all: 1_000 } });
    await clock.advance("1000m");
    const gone = new Error("the database is restarting");
    hf.on("fired", ({ slot }) => {
      if (Number(slot) === Number(after(350 * MINUTE))) store.fail(gone, "fire");
    });
    await expect(hf.schedules.fireDue()).rejects.toBe(gone);
    // Whole batches, up to the failed one.
    const made = (await slotsMade(hf, "minutely")).length;
    expect(made).toBeGreaterThanOrEqual(350);
    expect(made).toBeLessThan(1_000);
    expect(await slotsMade(hf, "minutely")).toEqual(steps(MINUTE, 1, made));
    store.fail(gone, "fire")();
    expect(await hf.schedules.fireDue()).toBe(1_000 - made);
    expect(await slotsMade(hf, "minutely")).toEqual(steps(MINUTE, 1, 1_000));
  });
});
