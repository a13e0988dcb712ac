import { job, type Events, type Holdfast } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { recordEvents, scene, watch, type Scene } from "./scene.js";
import { after, DAY, HOUR, jobsOf, MINUTE, processes, SECOND, slotsMade, START, steps } from "./schedule-scene.js";

const nothing = job({ type: "nothing", run() {} });
const counted = job({ type: "counted", input: z.object({ n: z.number() }), run() {} });

/** A scheduler that has read the slot of 10 s as due and is on its way to fire it, while somebody else acts. */
async function caughtFiring(act: (hf: Holdfast) => Promise<unknown>): Promise<Scene & { fired: Events["fired"][] }> {
  const scenery = await scene({ jobs: [nothing, counted] });
  const { hf, clock, another } = scenery;
  // A way of its own to the database, with a gate that nobody else has to pass.
  const way = watch(scenery.store.store);
  const scheduler = await another({ jobs: [nothing, counted] }, way.store);
  const fired = recordEvents(scheduler, "fired");
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
  // Who came too late looks again a moment later.
  await clock.advance("1s");
  // Whatever became of it, nobody else's slot suffers.
  expect(await slotsMade(hf, "other")).toEqual([after(SECOND), after(11 * SECOND)]);
  return { ...scenery, fired: fired.filter(({ schedule }) => schedule === "s") };
}

describe("C-12 between the moment a schedule is seen to be due and the moment it is fired", () => {
  it("somebody disables it: no job is made, then or later", async () => {
    const { hf, clock } = await caughtFiring((client) => client.schedules.disable("s"));
    await clock.advance("30s");
    expect(await jobsOf(hf, "s")).toEqual([]);
    expect(await hf.schedules.get("s")).toMatchObject({ enabled: false, lastSlot: null, slots: [], nextRunAt: null });
  });

  it("somebody disables and enables it: it runs from then on", async () => {
    const { hf, clock } = await caughtFiring(async (client) => {
      await client.schedules.disable("s");
      await client.schedules.enable("s");
    });
    await clock.advance("10s");
    expect(await slotsMade(hf, "s")).toEqual([after(20 * SECOND)]);
  });

  it("somebody changes its input: the slot becomes a job with the new one, once", async () => {
    const { hf } = await caughtFiring((client) => client.schedules.update("s", { input: { n: 2 } }));
    expect((await jobsOf(hf, "s")).map(({ input, schedule }) => [input, schedule?.slot])).toEqual([
      [{ n: 2 }, after(10 * SECOND)],
    ]);
  });

  it("somebody changes its times: the slot that has come runs as it was, and the new times follow", async () => {
    let coming: Date[] = [];
    const { hf, clock } = await caughtFiring(async (client) => {
      await client.schedules.update("s", { every: "7s" });
      coming = await client.schedules.preview("s", 2);
    });
    expect(coming).not.toContainEqual(after(10 * SECOND));
    await clock.advance("13s");
    expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND), ...coming]);
  });

  it("somebody removes it: no job is made, and it does not come back", async () => {
    const { hf, clock } = await caughtFiring((client) => client.unschedule("s"));
    await clock.advance("30s");
    expect(await jobsOf(hf, "s")).toEqual([]);
    expect(await hf.schedules.get("s")).toBeNull();
  });

  it("somebody removes it and makes it anew: the new one begins with its own next slot", async () => {
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

  it("somebody runs it by hand: the slot becomes a job all the same", async () => {
    const { hf } = await caughtFiring((client) => client.schedules.runNow("s"));
    const made = await jobsOf(hf, "s");
    expect(made.map(({ schedule }) => schedule?.slot)).toEqual([after(10 * SECOND), after(10 * SECOND)]);
    expect(new Set(made.map(({ id }) => id)).size).toBe(2);
  });

  it("somebody else fires it: it is not fired again, nor told again", async () => {
    const { hf, clock, fired } = await caughtFiring((client) => client.schedules.fireDue());
    await clock.advance("5s");
    expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND)]);
    expect(fired).toEqual([]);
  });
});

describe("C-12 several schedulers on one store", () => {
  it("make one job of each slot, and what is fired, skipped and enqueued is told once", async () => {
    const { hf, clock, another } = await scene({ jobs: [nothing] });
    const clients = [hf, await another({ jobs: [nothing] }), await another({ jobs: [nothing] })];
    const fired = clients.map((client) => recordEvents(client, "fired"));
    const enqueued = clients.map((client) => recordEvents(client, "enqueued"));
    const completed = clients.map((client) => recordEvents(client, "completed"));
    for (const client of clients) {
      await client.schedule("every", { job: nothing, every: "2s" });
      await client.schedule("cron", { job: nothing, cron: "*/3 * * * * *" });
      client.work();
    }
    await clock.advance("1m");
    expect(await slotsMade(hf, "every")).toEqual(steps(2 * SECOND, 1, 30));
    expect(await slotsMade(hf, "cron")).toEqual(steps(3 * SECOND, 1, 20));
    for (const received of [fired, enqueued, completed]) expect(received.flat()).toHaveLength(50);
    for (const made of await jobsOf(hf, "every")) {
      expect(made).toMatchObject({ state: "completed", attempt: 1, createdAt: made.schedule?.slot });
    }
  });

  it("leave each other to it: who comes too late asks again a little later, and not in a hurry", async () => {
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
    // For each slot: a look, an attempt, and a look afterwards.
    for (const way of ways) {
      expect(way.count("dueSchedules")).toBeLessThanOrEqual(18);
      expect(way.count("fire")).toBeLessThanOrEqual(6);
    }
  });

  it("of which one has a clock that is a month behind: no slot that had its run comes again", async () => {
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
    // Old jobs are not what keeps a slot from coming again: they go when their retention is over.
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

  it("of which one is always too late ask about ten times a second, however long that goes on", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [nothing] });
    let tries = 0;
    const unlucky = new Proxy(store.store, {
      get(target, property) {
        if (property !== "fire") return Reflect.get(target, property) as unknown;
        return (firings: Parameters<typeof target.fire>[0]): ReturnType<typeof target.fire> => {
          // A scheduler that did not pause would never get to the end of this test.
          if (++tries > 1_000) return target.fire(firings);
          return Promise.resolve(firings.map(() => ({ status: "changed" })));
        };
      },
    });
    await hf.schedule("s", { job: nothing, every: "10s" });
    const fired = recordEvents(hf, "fired");
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

  it("go on when one of them is closed in the middle of it", async () => {
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

  it("whose clocks differ by an hour make one job of each slot, and wait for nobody", async () => {
    const { clock, open } = await processes();
    const right = await open({ jobs: [nothing] });
    const [slow, fast] = [
      await open({ clock: fakeClock(START - HOUR) }),
      await open({ clock: fakeClock(START + HOUR) }),
    ];
    await right.schedule("s", { job: nothing, every: "10m", catchUp: { all: 100 } });
    expect(await slow.schedules.fireDue()).toBe(0);
    // By its clock they have all come.
    expect(await fast.schedules.fireDue()).toBe(6);
    for (let minute = 0; minute < 70; minute += 10) {
      await clock.advance("10m");
      expect(await slow.schedules.fireDue()).toBe(0);
      expect(await right.schedules.fireDue()).toBe(minute === 60 ? 1 : 0);
    }
    expect(await slotsMade(right, "s")).toEqual(steps(10 * MINUTE, 1, 7));
  });
});
