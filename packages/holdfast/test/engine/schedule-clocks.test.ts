import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { eventsOf, scene } from "./scene.js";
import { after, overwrite, DAY, HOUR, jobsOf, MINUTE, SECOND, slotsMade, START, steps } from "./schedule-scene.js";

const nothing = job({ type: "nothing", run() {} });

describe("C-12 a clock that is changed while a scheduler runs", () => {
  it("back by an hour: no slot runs twice, and schedules resume after the hour", async () => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    await hf.schedule("every", { job: nothing, every: "10m" });
    await hf.schedule("cron", { job: nothing, cron: "*/10 * * * *", timezone: "Europe/Berlin" });
    clock.setWall(START + 2 * HOUR - MINUTE);
    await hf.schedules.fireDue();
    hf.work({ poll: "1m" });
    await clock.advance("2m");
    const before = await slotsMade(hf, "every");
    expect(before.at(-1)).toEqual(after(2 * HOUR));
    clock.setWall(clock.now() - HOUR);
    await clock.advance("58m");
    expect(await slotsMade(hf, "every")).toEqual(before);
    // From 02:00 on, the clock has caught up.
    await clock.advance("11m");
    const expected = [...before, after(2 * HOUR + 10 * MINUTE)];
    for (const name of ["every", "cron"]) expect(await slotsMade(hf, name)).toEqual(expected);
    for (const { createdAt, schedule } of (await jobsOf(hf, "every")).slice(-1))
      expect(createdAt).toEqual(schedule?.slot);
  });

  it("back by an hour: changes and restarts repeat no slot", async () => {
    const { hf, clock, another } = await scene({ jobs: [nothing], scheduler: false });
    await hf.schedule("s", { job: nothing, every: "10m" });
    await clock.advance("1h");
    await hf.schedules.fireDue();
    clock.setWall(START + 5 * MINUTE);
    await hf.schedules.disable("s");
    expect((await hf.schedules.enable("s")).nextRunAt).toEqual(after(HOUR + 10 * MINUTE));
    expect((await hf.schedules.update("s", { every: "5m" })).nextRunAt).toEqual(after(HOUR + 5 * MINUTE));
    const restarted = await another();
    expect((await restarted.schedule("s", { job: nothing, every: "20m" })).nextRunAt).toEqual(after(HOUR + 5 * MINUTE));
    expect(await restarted.schedules.fireDue()).toBe(0);
    expect(await slotsMade(hf, "s")).toEqual([after(HOUR)]);
  });

  it("back by a few seconds: the last slot is not fired again", async () => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    await hf.schedule("s", { job: nothing, every: "10s" });
    hf.work();
    await clock.advance("10s");
    clock.setWall(clock.now() - 3 * SECOND);
    await clock.advance("13s");
    expect(await slotsMade(hf, "s")).toEqual(steps(10 * SECOND, 1, 2));
  });

  it("back by an hour: a recreated schedule does not repeat a job", async () => {
    const { hf, clock } = await scene({ jobs: [nothing], scheduler: false });
    for (let times = 0; times < 2; times++) {
      await hf.schedule("s", { job: nothing, every: "1h" });
      await clock.advance("1h");
      await hf.schedules.fireDue();
      await hf.drain();
      await hf.unschedule("s");
      clock.setWall(START);
    }
    expect((await jobsOf(hf, "s")).map(({ schedule, attempt }) => [schedule?.slot, attempt])).toEqual([
      [after(HOUR), 1],
    ]);
  });

  it("back by days: schedules continue from the right time", async () => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    await hf.schedule("every", { job: nothing, every: "1m" });
    await hf.schedule("daily", { job: nothing, cron: "0 0 * * *" });
    await hf.schedule("off", { job: nothing, every: "1m" });
    clock.setWall(START + 10 * DAY);
    hf.work();
    await clock.advance("90s");
    await hf.schedules.disable("off");
    expect((await slotsMade(hf, "every")).at(-1)).toEqual(after(10 * DAY + MINUTE));
    clock.setWall(START + HOUR);
    // Until maintenance has noticed it.
    await clock.advance("2m");
    const before = (await jobsOf(hf, "every")).length;
    await clock.advance("5m");
    expect((await jobsOf(hf, "every")).length).toBe(before + 5);
    expect((await hf.schedules.get("daily"))?.nextRunAt).toEqual(after(DAY));
    expect((await hf.schedules.enable("off")).nextRunAt).toEqual(after(HOUR + 8 * MINUTE));
  });

  it("back by days: schedules created meanwhile continue too", async () => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    clock.setWall(START + 1_000 * DAY);
    await hf.schedule("s", { job: nothing, every: "1m" });
    hf.work();
    await clock.advance("30s");
    await hf.maintain();
    clock.setWall(START);
    await clock.advance("2m");
    await hf.maintain();
    await clock.advance("5m");
    expect((await slotsMade(hf, "s")).length).toBeGreaterThanOrEqual(4);
  });

  it("back by days: also without maintenance meanwhile", async () => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    await hf.schedule("s", { job: nothing, every: "10s" });
    await hf.maintain();
    clock.setWall(START + 1_000 * DAY);
    hf.work();
    await clock.advance("15s");
    expect(await slotsMade(hf, "s")).not.toEqual([]);
    clock.setWall(START);
    await clock.advance("2m");
    await hf.maintain();
    const before = (await slotsMade(hf, "s")).length;
    await clock.advance("1m");
    expect((await slotsMade(hf, "s")).length).toBe(before + 6);
  });

  it("forward by hours: skipped slots are caught up within a tick", async () => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    await hf.schedule("latest", { job: nothing, every: "1h" });
    await hf.schedule("all", { job: nothing, every: "1h", catchUp: { all: 10 } });
    hf.work();
    await clock.advance("1m");
    clock.setWall(START + 3 * HOUR + 30 * MINUTE);
    await clock.advance("5s");
    expect(await slotsMade(hf, "latest")).toEqual([after(3 * HOUR)]);
    expect(await slotsMade(hf, "all")).toEqual(steps(HOUR, 1, 3));
  });
});

describe("C-13 a next run that is missing", () => {
  it("is computed at the start, from now on", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing] });
    await hf.schedule("s", { job: nothing, every: "1h", catchUp: { all: 100 } });
    await overwrite(store.store, "s", { nextRunAt: null });
    await clock.advance("150m");
    expect((await hf.schedules.get("s"))?.nextRunAt).toBeNull();
    const [fired, skipped] = [eventsOf(hf, "fired"), eventsOf(hf, "skipped")];
    hf.work({ poll: "1h" });
    await clock.settle();
    expect(await hf.schedules.get("s")).toMatchObject({ nextRunAt: after(3 * HOUR), slots: [] });
    expect([fired, skipped]).toEqual([[], []]);
    await clock.advance("30m");
    expect(await slotsMade(hf, "s")).toEqual([after(3 * HOUR)]);
  });

  it("is computed after the last slot", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing], scheduler: false });
    await hf.schedule("s", { job: nothing, every: "1h" });
    await clock.advance("2h");
    await hf.schedules.fireDue();
    await overwrite(store.store, "s", { nextRunAt: null });
    clock.setWall(START + HOUR);
    expect(await hf.schedules.fireDue()).toBe(0);
    expect((await hf.schedules.get("s"))?.nextRunAt).toEqual(after(3 * HOUR));
  });

  it("or is before the last slot is computed after it", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing] });
    await hf.schedule("s", { job: nothing, every: "10s", catchUp: { all: 100 } });
    await clock.advance("60s");
    await hf.schedules.fireDue();
    const logged = (await hf.schedules.get("s"))?.slots;
    await overwrite(store.store, "s", { nextRunAt: START + 20 * SECOND });
    store.forget();
    const fired = eventsOf(hf, "fired");
    hf.work({ poll: "1h" });
    await clock.advance("5s");
    expect(await slotsMade(hf, "s")).toEqual(steps(10 * SECOND, 1, 6));
    expect(fired).toEqual([]);
    expect(await hf.schedules.get("s")).toMatchObject({ nextRunAt: after(70 * SECOND), slots: logged });
    expect(store.count("fire")).toBe(1);
  });

  it("of a disabled or ended schedule stays null", async () => {
    const { hf, store, clock } = await scene({ jobs: [nothing], scheduler: false });
    await hf.schedule("off", { job: nothing, every: "1h", enabled: false });
    await hf.schedule("over", { job: nothing, every: "1h", endAt: after(-1) });
    await overwrite(store.store, "over", { nextRunAt: null });
    expect(await hf.schedules.fireDue()).toBe(0);
    store.forget();
    await clock.advance("1d");
    expect(await hf.schedules.fireDue()).toBe(0);
    expect([store.count("dueSchedules"), store.count("fire")]).toEqual([1, 0]);
  });
});

describe("a schedule that cannot be read", () => {
  it.each<[string, Parameters<typeof overwrite>[2], RegExp]>([
    ["a nonsense pattern", { cron: "every morning" }, /^cron: "every morning" has 2 fields/],
    ["a zone that is gone", { timezone: "Europe/Atlantis" }, /^timezone: "Europe\/Atlantis"/],
  ])("for %s is logged once and does not affect others", async (_what, changes, why) => {
    const { hf, clock, store, lines } = await scene({ jobs: [nothing] });
    await hf.schedule("a", { job: nothing, cron: "*/10 * * * * *" });
    await hf.schedule("bad", { job: nothing, cron: "*/10 * * * * *" });
    await hf.schedule("c", { job: nothing, cron: "*/10 * * * * *" });
    await overwrite(store.store, "bad", changes);
    const skipped = eventsOf(hf, "skipped");
    hf.work({ poll: "1h" });
    await clock.advance("1m");
    expect(skipped).toEqual([]);
    for (const name of ["a", "c"]) expect(await slotsMade(hf, name)).toEqual(steps(10 * SECOND, 1, 6));
    const logged = lines.filter(({ level, fields }) => level === "error" && fields["schedule"] === "bad");
    expect(logged.map(({ fields }) => fields["problem"])).toEqual([expect.stringMatching(why)]);
    // One firing for each slot of the others, two on a busy machine, and no more.
    expect(store.count("fire")).toBeGreaterThanOrEqual(6);
    expect(store.count("fire")).toBeLessThanOrEqual(12);
    // Its slot waits: another process may be able to read it.
    expect(await hf.schedules.get("bad")).toMatchObject({ slots: [], nextRunAt: after(10 * SECOND) });
    // Once it is repaired it runs.
    await hf.schedules.update("bad", { cron: "*/10 * * * * *", timezone: "UTC" });
    await clock.advance("10s");
    expect(await slotsMade(hf, "bad")).toEqual([after(70 * SECOND)]);
  });

  it("is read again an hour later", async () => {
    const { hf, clock, store, lines } = await scene({ jobs: [nothing], scheduler: false });
    await hf.schedule("bad", { job: nothing, cron: "* * * * *" });
    await overwrite(store.store, "bad", { cron: "never ever" });
    for (let minute = 0; minute < 150; minute++) {
      await clock.advance("1m");
      await hf.schedules.fireDue();
    }
    expect(lines.filter(({ level, fields }) => level === "error" && fields["schedule"] === "bad")).toHaveLength(3);
  });
});
