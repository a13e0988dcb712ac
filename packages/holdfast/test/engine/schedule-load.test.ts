import { join } from "node:path";
import { holdfast, job, type Holdfast, type Store } from "holdfast";
import { sqlite } from "holdfast/sqlite";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { folder } from "./scene.js";
import { START } from "./schedule-scene.js";

const MANY = 10_000;
const tick = job({ type: "tick", queue: "ticks", run() {} });
const chain = job({ type: "chain", queue: "chain", input: z.object({ n: z.number() }), run() {} });

interface Crowd {
  hf: Holdfast;
  clock: FakeClock;
  /** The calls to the store, in order. */
  calls: string[];
}

/** A store with thousands of schedules that are due in the same second. */
async function crowd(place: string, many: number): Promise<Crowd> {
  const clock = fakeClock(START);
  const real = sqlite(place === "in memory" ? ":memory:" : join(await folder(), "jobs.db"), { clock });
  const calls: string[] = [];
  const store = new Proxy(real, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        calls.push(String(property));
        return Reflect.apply(value, target, args);
      };
    },
  });
  const hf = await holdfast({ store, jobs: [tick, chain], clock, logger: false });
  onTestFinished(() => hf.close());
  await hf.schedule("0", { job: tick, every: "1h" });
  await fill(real, clock, many);
  return { hf, clock, calls };
}

async function fill(store: Store, clock: FakeClock, many: number): Promise<void> {
  const first = await store.getSchedule("0");
  if (first === null) throw new Error("it was just made");
  const others = Array.from({ length: many - 1 }, (_, n) => ({ ...first, name: `${n + 1}`, version: `v${n + 1}` }));
  await Promise.all(others.map((schedule) => store.putSchedule(schedule, null)));
  clock.setWall(Number(first.nextRunAt));
}

describe.each(["in memory", "on a file"])(`${MANY} schedules that are due in the same second, %s`, (place) => {
  it("become jobs in batches, with other calls in between", async () => {
    const { hf, clock, calls } = await crowd(place, MANY);
    let fired = 0;
    let completed = 0;
    let last = (): void => {};
    const all = new Promise<void>((resolve) => (last = resolve));
    hf.on("fired", () => void (++fired === MANY && last()));
    // One job after another: each is enqueued when the previous one has finished.
    const next = (): void => void hf.enqueue(chain, { n: completed });
    hf.on("completed", ({ queue }) => {
      if (queue !== "chain") return;
      completed++;
      if (fired < MANY) next();
    });
    calls.length = 0;
    next();
    hf.work({ queues: ["chain"] });
    await all;
    // The clock stood still: no tick was needed, one run continued until nothing was due.
    expect(clock.now()).toBe(START + 3_600_000);
    const firings = calls.filter((call) => call === "fire").length;
    // The batch size depends on the planning time: a busy machine has smaller batches.
    expect(firings).toBeGreaterThanOrEqual(100);
    expect(firings).toBeLessThanOrEqual(1_000);
    expect(calls.filter((call) => call === "dueSchedules").length).toBeLessThanOrEqual(firings + 1);
    expect(await hf.schedules.fireDue()).toBe(0);
    expect((await hf.stats()).queues["ticks"]?.pending).toBe(MANY);

    // Other calls ran between the first firing and the last.
    const between = calls.slice(calls.indexOf("fire"), calls.lastIndexOf("fire"));
    const turns = between
      .join(" ")
      .split(/(?:fire|dueSchedules)/)
      .filter((turn) => /claim|settle|insert/.test(turn));
    expect(turns.length).toBeGreaterThanOrEqual(50);
    expect(completed).toBeGreaterThanOrEqual(10);
  }, 90_000);
});

it("a slot among a thousand schedules costs no more than alone", async () => {
  const { hf, clock, calls } = await crowd("in memory", 1_000);
  await hf.schedules.fireDue();
  await hf.schedule("alone", { job: tick, every: "10s" });
  await clock.advance("10s");
  calls.length = 0;
  expect(await hf.schedules.fireDue()).toBe(1);
  expect(calls).toEqual(["dueSchedules", "fire", "dueSchedules"]);
});
