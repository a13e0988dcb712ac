import { job } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { connect, integrity, open, tempFile } from "./scene.js";

const nothing = job({ type: "nothing", run() {} });
const HOUR = 3_600_000;
const START = Date.UTC(2026, 0, 1);

describe("schedules on a file", () => {
  it("C-12 write job and next run together or not at all", async () => {
    const file = tempFile();
    const clock = fakeClock(START);
    const hf = await open(file, { jobs: [nothing], clock });
    await hf.schedule("s", { job: nothing, every: "1h" });
    await clock.advance("1h");
    const db = connect(file);
    // The schedule can be updated, but its slot cannot be recorded.
    db.exec("CREATE TRIGGER broken BEFORE INSERT ON holdfast_slots BEGIN SELECT RAISE(ROLLBACK, 'no'); END");
    const before = await hf.schedules.get("s");
    await expect(hf.schedules.fireDue()).rejects.toThrow("no");
    expect(await hf.schedules.get("s")).toEqual(before);
    expect((await hf.list()).jobs).toEqual([]);
    db.exec("DROP TRIGGER broken");
    expect(await hf.schedules.fireDue()).toBe(1);
    expect((await hf.stats()).states.pending).toBe(1);
    expect(integrity(file)).toBe("ok");
  });

  it("report a job that the database refuses as skipped, and continue", async () => {
    const file = tempFile();
    const clock = fakeClock(START);
    const hf = await open(file, { jobs: [nothing], clock });
    for (const name of ["a", "bad", "c"]) await hf.schedule(name, { job: nothing, every: "1h", queue: name });
    connect(file).exec(
      `CREATE TRIGGER picky BEFORE INSERT ON holdfast_jobs WHEN NEW.queue = 'bad'
       BEGIN SELECT RAISE(ABORT, 'not stored'); END`,
    );
    const skipped: unknown[] = [];
    hf.on("skipped", ({ schedule, slot, reason }) => skipped.push([schedule, slot, reason]));
    await clock.advance("1h");
    expect(await hf.schedules.fireDue()).toBe(2);
    await clock.advance("1h");
    expect(await hf.schedules.fireDue()).toBe(2);
    expect((await hf.list({ schedule: "bad" })).jobs).toEqual([]);
    const { slots, lastSlot, nextRunAt } = (await hf.schedules.get("bad")) ?? {};
    expect(slots?.map(({ slot, job: made, reason }) => [Number(slot), made, reason])).toEqual([
      [START + 2 * HOUR, null, "refused: not stored"],
      [START + HOUR, null, "refused: not stored"],
    ]);
    expect([lastSlot, nextRunAt]).toEqual([new Date(START + 2 * HOUR), new Date(START + 3 * HOUR)]);
    expect(skipped).toHaveLength(2);
    await expect(hf.schedules.runNow("bad")).rejects.toMatchObject({ code: "NOT_STORED" });
  });

  it("survive damaged settings of one schedule", async () => {
    const file = tempFile();
    const clock = fakeClock(START);
    const hf = await open(file, { jobs: [nothing], clock });
    for (const name of ["a", "bad", "c"]) await hf.schedule(name, { job: nothing, every: "1h" });
    await hf.schedules.update("bad", { priority: 5 });
    connect(file).exec(`
      UPDATE holdfast_schedules SET catch_up = 'whatever', tags = '[oops', changes = '{oops', defined = 'oops'
      WHERE name = 'bad'`);
    await clock.advance("1h");
    expect(await hf.schedules.fireDue()).toBeGreaterThanOrEqual(2);
    expect((await hf.schedules.list()).schedules.map(({ name }) => name)).toEqual(["a", "bad", "c"]);
    expect(await hf.schedules.get("bad")).toMatchObject({ name: "bad", tags: [] });
    // A start of the program mends it.
    expect(await hf.schedule("bad", { job: nothing, every: "1h" })).toMatchObject({ catchUp: "latest", changed: [] });
    await clock.advance("1h");
    expect(await hf.schedules.fireDue()).toBe(3);
  });

  it("show a damaged input as null, until it is defined again", async () => {
    const file = tempFile();
    const hf = await open(file, { jobs: [nothing], clock: fakeClock(START) });
    for (const name of ["a", "bad"]) await hf.schedule(name, { job: nothing, every: "1h" });
    connect(file).exec("UPDATE holdfast_schedules SET input = '{oops' WHERE name = 'bad'");
    expect((await hf.schedules.list()).schedules.map(({ name, input }) => [name, input])).toEqual([
      ["a", {}],
      ["bad", null],
    ]);
    expect((await hf.schedule("bad", { job: nothing, every: "1h" })).input).toEqual({});
  });
});
