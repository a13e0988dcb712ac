import { job, type Events, type Holdfast } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { eventsOf, scene, watch, type Scene } from "./scene.js";
import { after, DAY, HOUR, jobsOf, MINUTE, processes, SECOND, slotsMade, START, steps } from "./schedule-scene.js";

const nothing = job({ type: "nothing", run() {} });
const counted = job({ type: "counted", input: z.object({ n: z.number() }), run() {} });

/** A scheduler that has read the slot of 10 s as due and is about to fire it, while another client acts. */
async function caughtFiring(act: (hf: Holdfast) => Promise<unknown>): Promise<Scene & { fired: Events["fired"][] }> {
  const scenery = await scene({ jobs: [nothing, counted] });
  const { hf, clock, another } = scenery;
  // A separate store object, whose calls the test can hold.
  const way = watch(scenery.store.store);
  const scheduler = await another({ jobs: [nothing, counted] }, way.store);
  const fired = eventsOf(scheduler, "fired");
  await hf.schedule("s", { job: counted, input: { n: 1 }, every: "10s" });
  await hf.schedule("other", { job: nothing, every: "10s", startAt: after(SECOND) });
  scheduler.work();
  await clock.advance("9s");
  way.forget();
  const go = way.hold("fire");
  await clock.advance("1s");
  expect([way.count("dueSchedules"), way.count("fire")]).toEqual([1, 1]);
  await act(hf);
  go();
  // The scheduler that came too late tries again a moment later.
  await clock.advance("1s");
  // Slots of other schedules are not affected.
  expect(await slotsMade(hf, "other")).toEqual([after(SECOND), after(11 * SECOND)]);
  return { ...scenery, fired: fired.filter(({ schedule }) => schedule === "s") };
}

describe("C-12 between reading a due schedule and firing it", () => {
  it("disabled: no job is created, then or later", async () => {
    const { hf, clock } = await caughtFiring((client) => client.schedules.disable("s"));
    await clock.advance("30s");
    expect(await jobsOf(hf, "s")).toEqual([]);
    expect(await hf.schedules.get("s")).toMatchObject({ enabled: false, lastSlot: null, slots: [], nextRunAt: null });
  });

  it("disabled and enabled: it runs from then on", async () => {
    const { hf, clock } = await caughtFiring(async (client) => {
      await client.schedules.disable("s");
      await client.schedules.enable("s");
    });
    await clock.advance("10s");
    expect(await slotsMade(hf, "s")).toEqual([after(20 * SECOND)]);
  });

  it("input changed: the slot becomes one job with the new input", async () => {
    const { hf } = await caughtFiring((client) => client.schedules.update("s", { input: { n: 2 } }));
    expect((await jobsOf(hf, "s")).map(({ input, schedule }) => [input, schedule?.slot])).toEqual([
      [{ n: 2 }, after(10 * SECOND)],
    ]);
  });

  it("timing changed: the due slot runs, then the new timing applies", async () => {
    let coming: Date[] = [];
    const { hf, clock } = await caughtFiring(async (client) => {
      await client.schedules.update("s", { every: "7s" });
      coming = await client.schedules.preview("s", 2);
    });
    expect(coming).not.toContainEqual(after(10 * SECOND));
    await clock.advance("13s");
    expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND), ...coming]);
  });

  it("removed: no job is created, and it stays removed", async () => {
    const { hf, clock } = await caughtFiring((client) => client.unschedule("s"));
    await clock.advance("30s");
    expect(await jobsOf(hf, "s")).toEqual([]);
    expect(await hf.schedules.get("s")).toBeNull();
  });

  it("recreated: the new one starts with its own next slot", async () => {
    const { hf, clock } = await caughtFiring(async (client) => {
      await client.unschedule("s");
      await client.schedules.create("s", { job: counted, input: { n: 3 }, every: "10s" });
    });
    expect(await jobsOf(hf, "s")).toEqual([]);
    await clock.advance("10s");
    expect((await jobsOf(hf, "s")).map(({ input, schedule }) => [input, schedule?.slot])).toEqual([
      [{ n: 3 }, after(20 * SECOND)],
    ]);
  });

  it("run manually: the slot still becomes a job", async () => {
    const { hf } = await caughtFiring((client) => client.schedules.runNow("s"));
    const made = await jobsOf(hf, "s");
    expect(made.map(({ schedule }) => schedule?.slot)).toEqual([after(10 * SECOND), after(10 * SECOND)]);
    expect(new Set(made.map(({ id }) => id)).size).toBe(2);
  });

  it("fired by another process: it is not fired or reported again", async () => {
    const { hf, clock, fired } = await caughtFiring((client) => client.schedules.fireDue());
    await clock.advance("5s");
    expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND)]);
    expect(fired).toEqual([]);
  });
});

describe("C-12 several schedulers on one store", () => {
  it("create one job per slot and emit each event once", async () => {
    const { hf, clock, another } = await scene({ jobs: [nothing] });
    const clients = [hf, await another({ jobs: [nothing] }), await another({ jobs: [nothing] })];
    const fired = clients.map((client) => eventsOf(client, "fired"));
    const enqueued = clients.map((client) => eventsOf(client, "enqueued"));
    const completed = clients.map((client) => eventsOf(client, "completed"));
    for (const client of clients) {
      await client.schedule("every", { job: nothing, every: "2s" });
      await client.schedule("cron", { job: nothing, cron: "*/3 * * * * *" });
      client.work();
    }
    await clock.advance("1m");
    expect(await slotsMade(hf, "every")).toEqual(steps(2 * SECOND, 1, 30));
    expect(await slotsMade(hf, "cron")).toEqual(steps(3 * SECOND, 1, 20));
    for (const events of [fired, enqueued, completed]) expect(events.flat()).toHaveLength(50);
    for (const made of await jobsOf(hf, "every")) {
      expect(made).toMatchObject({ state: "completed", attempt: 1, createdAt: made.schedule?.slot });
    }
  });

  it("retry with a delay when another was faster", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [nothing], scheduler: { tick: "1h" } });
    const ways = [watch(store.store), watch(store.store)];
    const others = await Promise.all(
      ways.map((way) => another({ jobs: [nothing], scheduler: { tick: "1h" } }, way.store)),
    );
    await hf.schedule("s", { job: nothing, every: "10s" });
    for (const client of [hf, ...others]) client.work({ poll: "1h" });
    await clock.advance("1s");
    for (const way of ways) way.forget();
    await clock.advance("60s");
    expect(await slotsMade(hf, "s")).toEqual(steps(10 * SECOND, 1, 6));
    // For each slot: a read, an attempt, and another read.
    for (const way of ways) {
      expect(way.count("dueSchedules")).toBeLessThanOrEqual(18);
      expect(way.count("fire")).toBeLessThanOrEqual(6);
    }
  });

  it("with a clock that is a month behind repeat no slot", async () => {
    const { clock, open } = await processes();
    const right = await open({ jobs: [nothing] });
    await right.schedule("s", { job: nothing, every: "1h", catchUp: { all: 1_000 } });
    for (let hour = 0; hour < 5; hour++) {
      await clock.advance("1h");
      expect(await right.schedules.fireDue()).toBe(1);
    }
    expect(await right.drain()).toBe(5);
    await right.maintain();
    await clock.advance("1s");
    // Old jobs do not prevent a repeated slot: they are purged.
    expect(await right.purge({ state: "completed", olderThan: 0 })).toBe(5);

    const wrong = await open({ jobs: [nothing], clock: fakeClock(START - 30 * DAY) });
    for (let minute = 0; minute < 3; minute++) {
      await wrong.maintain();
      await wrong.schedules.fireDue();
      await right.maintain();
      await clock.advance("1m");
      expect(await right.schedules.fireDue()).toBe(0);
    }
    await clock.advance("1h");
    expect(await right.schedules.fireDue()).toBe(1);
    expect(await slotsMade(right, "s")).toEqual([after(6 * HOUR)]);
  });

  it("that are always too late retry about ten times a second", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [nothing] });
    let tries = 0;
    const unlucky = new Proxy(store.store, {
      get(target, property) {
        if (property !== "fire") return Reflect.get(target, property) as unknown;
        return (firings: Parameters<typeof target.fire>[0]): ReturnType<typeof target.fire> => {
          // Without a delay this test would never end.
          if (++tries > 1_000) return target.fire(firings);
          return Promise.resolve(firings.map(() => ({ status: "changed" })));
        };
      },
    });
    await hf.schedule("s", { job: nothing, every: "10s" });
    const fired = eventsOf(hf, "fired");
    (await another({ jobs: [nothing] }, unlucky)).work({ poll: "1h" });
    await clock.advance("10s");
    for (let turns = 0; turns < 10; turns++) await clock.settle();
    expect(tries).toBe(1);
    await clock.advance("2s");
    expect(tries).toBeGreaterThanOrEqual(10);
    expect(tries).toBeLessThanOrEqual(40);
    expect(fired).toEqual([]);
    expect(await hf.schedules.fireDue()).toBe(1);
  });

  it("continue when one of them is closed", async () => {
    const { hf, clock, another } = await scene({ jobs: [nothing] });
    const others = await Promise.all([another({ jobs: [nothing] }), another({ jobs: [nothing] })]);
    await hf.schedule("s", { job: nothing, every: "1s" });
    for (const client of others) client.work();
    for (const client of others) {
      await clock.advance("5500ms");
      const closing = client.close();
      await clock.advance("1500ms");
      await closing;
      if (client === others[0]) hf.work();
    }
    await clock.advance("6s");
    expect(await slotsMade(hf, "s")).toEqual(steps(SECOND, 1, 20));
  });

  it("whose clocks differ by an hour create one job per slot", async () => {
    const { clock, open } = await processes();
    const right = await open({ jobs: [nothing] });
    const [slow, fast] = [
      await open({ clock: fakeClock(START - HOUR) }),
      await open({ clock: fakeClock(START + HOUR) }),
    ];
    await right.schedule("s", { job: nothing, every: "10m", catchUp: { all: 100 } });
    expect(await slow.schedules.fireDue()).toBe(0);
    // By its clock all slots are due.
    expect(await fast.schedules.fireDue()).toBe(6);
    for (let minute = 0; minute < 70; minute += 10) {
      await clock.advance("10m");
      expect(await slow.schedules.fireDue()).toBe(0);
      expect(await right.schedules.fireDue()).toBe(minute === 60 ? 1 : 0);
    }
    expect(await slotsMade(right, "s")).toEqual(steps(10 * MINUTE, 1, 7));
  });
});
