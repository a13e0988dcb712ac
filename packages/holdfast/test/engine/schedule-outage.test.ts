import { job, StoreUnavailableError } from "holdfast";
import { describe, expect, it } from "vitest";
import { eventsOf, scene } from "./scene.js";
import { after, SECOND, slotsMade, steps } from "./schedule-scene.js";

const nothing = job({ type: "nothing", run() {} });
const gone = new StoreUnavailableError("the database is restarting");

describe("a scheduler whose store fails", () => {
  it.each([["dueSchedules"], ["fire"]] as const)(
    "at %s: says so once, goes on asking, soon and then less often, and nothing is lost when it is back",
    async (call) => {
      const { hf, clock, store, lines } = await scene({ jobs: [nothing] });
      await hf.schedule("s", { job: nothing, every: "10s", catchUp: { all: 100 } });
      const [outages, backs] = [eventsOf(hf, "outage"), eventsOf(hf, "outageEnded")];
      hf.work();
      await clock.advance("11s");
      store.forget();
      const back = store.fail(gone, call);
      await clock.advance("40s");
      expect(outages).toEqual([{ doing: "schedules", error: gone }]);
      expect(lines.filter(({ level, fields }) => level === "warn" && fields["doing"] === "schedules")).toHaveLength(1);
      expect(store.count(call)).toBeGreaterThanOrEqual(6);
      expect(store.count(call)).toBeLessThanOrEqual(14);
      expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND)]);
      back();
      await clock.advance("5s");
      expect(backs).toEqual([{ doing: "schedules" }]);
      expect(await slotsMade(hf, "s")).toEqual(steps(10 * SECOND, 1, 5));
      await clock.advance("5s");
      expect(await slotsMade(hf, "s")).toEqual(steps(10 * SECOND, 1, 6));
      expect([outages, backs]).toMatchObject([{ length: 1 }, { length: 1 }]);
    },
  );

  it("after the jobs were stored, before it returned: nothing is doubled", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [nothing] });
    const lossy = new Proxy(store.store, {
      get(target, property) {
        if (property !== "fire") return Reflect.get(target, property) as unknown;
        return async (...args: Parameters<typeof target.fire>) => {
          const results = await target.fire(...args);
          if (failing) throw gone;
          return results;
        };
      },
    });
    let failing = true;
    const client = await another({ jobs: [nothing] }, lossy);
    await client.schedule("s", { job: nothing, every: "10s", catchUp: { all: 100 } });
    client.work();
    await clock.advance("35s");
    failing = false;
    await clock.advance("25s");
    expect(await slotsMade(hf, "s")).toEqual(steps(10 * SECOND, 1, 6));
    expect((await hf.stats()).states.completed).toBe(6);
    const slots = (await hf.schedules.get("s"))?.slots.map(({ slot }) => slot);
    expect(slots?.toReversed()).toEqual(steps(10 * SECOND, 1, 6));
  });

  it("while it searches undefined schedules keeps firing", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing] });
    await hf.schedule("s", { job: nothing, every: "10s" });
    store.fail(gone, "workers", "listSchedules");
    hf.work();
    await clock.advance("30s");
    expect(await slotsMade(hf, "s")).toEqual(steps(10 * SECOND, 1, 3));
  });

  it("does not prevent close", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing] });
    await hf.schedule("s", { job: nothing, every: "10s" });
    hf.work();
    await clock.advance("9s");
    const back = store.fail(gone, "dueSchedules", "fire");
    await clock.advance("5s");
    let closed = false;
    void hf.close().then(() => (closed = true));
    await clock.advance("1s");
    expect(closed).toBe(true);
    back();
  });

  it("in fireDue throws the error, and can be called again", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing], scheduler: false });
    await hf.schedule("s", { job: nothing, every: "10s" });
    await clock.advance("10s");
    const back = store.fail(gone, "fire");
    await expect(hf.schedules.fireDue()).rejects.toBe(gone);
    await expect(hf.schedules.runNow("s")).rejects.toBe(gone);
    back();
    expect(await hf.schedules.fireDue()).toBe(1);
  });

  it("in a definition or change throws, and nothing is changed", async () => {
    const { hf, store } = await scene({ jobs: [nothing] });
    await hf.schedule("s", { job: nothing, every: "10s" });
    const back = store.fail(gone, "putSchedule");
    await expect(hf.schedule("s", { job: nothing, every: "20s" })).rejects.toBe(gone);
    await expect(hf.schedules.disable("s")).rejects.toBe(gone);
    back();
    expect(await hf.schedules.get("s")).toMatchObject({ everyMs: 10_000, enabled: true, changed: [] });
  });

  it("at one of many firings still fires the others", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [nothing] });
    for (let n = 0; n < 250; n++) await hf.schedule(`s ${n}`, { job: nothing, every: "10s" });
    let fires = 0;
    const failsOnce = new Proxy(store.store, {
      get(target, property) {
        if (property !== "fire" || ++fires !== 2) return Reflect.get(target, property) as unknown;
        return () => Promise.reject(gone);
      },
    });
    const client = await another({ jobs: [nothing] }, failsOnce);
    client.work();
    await clock.advance("10s");
    const before = (await hf.list({ limit: 1_000 })).jobs.length;
    expect(before > 0 && before < 250).toBe(true);
    await clock.advance("5s");
    expect((await hf.list({ limit: 1_000 })).jobs).toHaveLength(250);
  });
});
