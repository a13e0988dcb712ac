import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { deferred, eventsOf, scene, type Deferred } from "./scene.js";
import { after, jobsOf, SECOND, slotsMade, steps } from "./schedule-scene.js";

const OVERLAP = "overlap";

/** A job type whose runs end when the test releases them. */
function gated(): { type: ReturnType<typeof job<void>>; gates: Deferred<void>[] } {
  const gates: Deferred<void>[] = [];
  const type = job({
    type: "gated",
    retry: { maxAttempts: 3, backoff: { base: "25s", jitter: 0 } },
    run() {
      const gate = deferred();
      gates.push(gate);
      return gate.promise;
    },
  });
  return { type, gates };
}

describe("overlap: skip", () => {
  it("skips slots while a run is live, and reports them", async () => {
    const { type, gates } = gated();
    const { hf, clock, lines } = await scene({ jobs: [type] });
    await hf.schedule("s", { job: type, every: "10s", overlap: "skip" });
    const [fired, skipped] = [eventsOf(hf, "fired"), eventsOf(hf, "skipped")];
    hf.work();
    await clock.advance("35s");
    expect(fired.map(({ slot }) => slot)).toEqual([after(10 * SECOND)]);
    const live = fired[0]?.id ?? "";
    expect(skipped).toEqual(
      steps(10 * SECOND, 2, 3).map((slot) => ({ schedule: "s", slot, through: null, reason: OVERLAP, heldBy: live })),
    );
    // Skipping was requested, so it is not a warning.
    const logged = lines.filter(({ message }) => message === "a slot was skipped");
    expect(logged.map(({ level, fields }) => [level, fields["heldBy"]])).toEqual(Array(2).fill(["info", live]));
    gates[0]?.resolve();
    await clock.advance("10s");
    expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND), after(40 * SECOND)]);
    const { slots } = (await hf.schedules.get("s")) ?? {};
    expect(slots?.map(({ slot, job: made, reason }) => [slot, made !== null, reason])).toEqual([
      [after(40 * SECOND), true, null],
      [after(30 * SECOND), false, OVERLAP],
      [after(20 * SECOND), false, OVERLAP],
      [after(10 * SECOND), true, null],
    ]);
    gates[1]?.resolve();
  });

  it("skips slots while a run waits", async () => {
    const { type } = gated();
    const { hf, clock } = await scene({ jobs: [type], scheduler: false });
    await hf.schedule("s", { job: type, every: "10s", overlap: "skip" });
    for (let slot = 1; slot <= 3; slot++) {
      await clock.advance("10s");
      expect(await hf.schedules.fireDue()).toBe(slot === 1 ? 1 : 0);
    }
    await hf.cancel({ schedule: "s" });
    await clock.advance("10s");
    expect(await hf.schedules.fireDue()).toBe(1);
    expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND), after(40 * SECOND)]);
  });

  it("skips slots while a run waits for its retry", async () => {
    const { type, gates } = gated();
    const { hf, clock } = await scene({ jobs: [type] });
    await hf.schedule("s", { job: type, every: "10s", overlap: "skip", maxAttempts: 2 });
    const skipped = eventsOf(hf, "skipped");
    hf.work();
    await clock.advance("11s");
    gates[0]?.reject(new Error("not yet"));
    await clock.advance("10s");
    expect((await jobsOf(hf, "s")).map(({ state }) => state)).toEqual(["failed"]);
    expect(skipped.map(({ slot }) => slot)).toEqual([after(20 * SECOND)]);
    // The retry is due at 36 s; at 30 s and at 40 s the run is live.
    await clock.advance("20s");
    expect(skipped.map(({ slot }) => slot)).toEqual(steps(10 * SECOND, 2, 4));
    gates[1]?.reject(new Error("nor now"));
    await clock.advance("10s");
    expect((await jobsOf(hf, "s")).map(({ state, attempt }) => [state, attempt])).toEqual([
      ["dead", 2],
      ["running", 1],
    ]);
    expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND), after(50 * SECOND)]);
    gates[2]?.resolve();
  });

  it("applies to a run delayed by jitter", async () => {
    const { type } = gated();
    const { hf, clock } = await scene({ jobs: [type], scheduler: false });
    await hf.schedule("s", { job: type, cron: "*/10 * * * * *", overlap: "skip", jitter: "1h" });
    await clock.advance("10s");
    expect(await hf.schedules.fireDue()).toBe(1);
    await clock.advance("10s");
    expect(await hf.schedules.fireDue()).toBe(0);
  });

  it("runs the newest of many missed slots and reports the others", async () => {
    const { type } = gated();
    const { hf, clock } = await scene({ jobs: [type], scheduler: false });
    await hf.schedule("s", { job: type, every: "10s", overlap: "skip", catchUp: { all: 3 } });
    await clock.advance("50s");
    expect(await hf.schedules.fireDue()).toBe(1);
    expect(await slotsMade(hf, "s")).toEqual([after(50 * SECOND)]);
    expect((await hf.schedules.get("s"))?.slots.map(({ slot, through, reason }) => [slot, through, reason])).toEqual([
      [after(50 * SECOND), null, null],
      [after(10 * SECOND), after(40 * SECOND), "missed"],
    ]);
    expect((await hf.schedules.get("s"))?.lastSlot).toEqual(after(50 * SECOND));
  });

  it("applies per schedule, not per job type", async () => {
    const { type } = gated();
    const { hf, clock } = await scene({ jobs: [type], scheduler: false });
    for (const name of ["a", "b"]) await hf.schedule(name, { job: type, every: "10s", overlap: "skip" });
    await hf.enqueue(type, undefined, { unique: "a" });
    await hf.enqueue(type, undefined, { unique: "schedule:a" });
    await clock.advance("10s");
    expect(await hf.schedules.fireDue()).toBe(2);
    expect((await hf.stats()).states.pending).toBe(4);
  });

  it("takes effect at the next slot when changed", async () => {
    const { type } = gated();
    const { hf, clock } = await scene({ jobs: [type], scheduler: false });
    await hf.schedule("s", { job: type, every: "10s" });
    const slots = async (count: number): Promise<number[]> => {
      const made: number[] = [];
      for (let slot = 0; slot < count; slot++) {
        await clock.advance("10s");
        made.push(await hf.schedules.fireDue());
      }
      return made;
    };
    expect(await slots(2)).toEqual([1, 1]);
    await hf.schedules.update("s", { overlap: "skip" });
    // Earlier runs do not count, because they could overlap. After that, one runs at a time.
    expect(await slots(3)).toEqual([1, 0, 0]);
    await hf.schedules.update("s", { overlap: "allow" });
    expect(await slots(2)).toEqual([1, 1]);
  });

  it("works across processes that fire the same slots", async () => {
    const { type, gates } = gated();
    const { hf, clock, another } = await scene({ jobs: [type] });
    await hf.schedule("s", { job: type, every: "10s", overlap: "skip" });
    hf.work();
    (await another({ jobs: [type] })).work();
    await clock.advance("65s");
    expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND)]);
    gates[0]?.resolve();
    await clock.advance("10s");
    expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND), after(70 * SECOND)]);
    gates[1]?.resolve();
  });
});

describe("overlap: allow", () => {
  it("runs every slot, however many are live", async () => {
    const { type, gates } = gated();
    const { hf, clock } = await scene({ jobs: [type] });
    await hf.schedule("s", { job: type, every: "10s" });
    hf.work({ concurrency: 10 });
    await clock.advance("60s");
    expect((await jobsOf(hf, "s")).map(({ state }) => state)).toEqual([...Array(5).fill("running"), "claimed"]);
    expect(gates).toHaveLength(6);
    for (const gate of gates) gate.resolve();
  });
});
