import { job } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { add, claim, finish } from "#src/testing/exercise-store/builders.js";
import { newSchedule } from "#src/testing/exercise-store/schedule-builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { openClient, openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

const LARGE = JSON.stringify("x".repeat(2_000));
const NAMES = Array.from({ length: 30 }, (_, nth) => `schedule ${nth}`);
const JOBS = 20;

describe("a process with more shards", () => {
  it.each([
    ["nothing", async () => {}],
    ["a claim", claim],
    ["a read of due schedules", (store: Parameters<typeof claim>[0]) => store.dueSchedules(0)],
  ])("registers the shards before it puts a schedule, after %s", async (_what, first) => {
    const { store, again } = await openScene(server, { shards: 2 });
    await add(store);
    const more = again({ shards: 64 });
    await first(more);
    for (const name of NAMES) expect(await more.putSchedule(newSchedule({ name, nextRunAt: 1_000 }), null)).toBe("put");
    await claim(store);
    const { schedules } = await store.dueSchedules(100);
    expect(schedules.map(({ name }) => name).toSorted()).toEqual(NAMES.toSorted());
  });

  it("completes jobs where other processes purge them", async () => {
    const { store, again } = await openScene(server, { shards: 2 });
    for (let n = 0; n < JOBS; n++) await add(store, { input: LARGE });
    const [claims, more] = [again({ shards: 64 }), again({ shards: 64 })];
    const leased = await claim(claims);
    expect(leased).toHaveLength(JOBS);
    // Half of them are completed by a process that did not claim them.
    for (const [at, each] of leased.entries()) await finish(at % 2 === 0 ? claims : more, each);
    expect(await store.purge({ state: "completed", before: null, keep: null, limit: 100 })).toBe(JOBS);
  });

  it("creates schedules that earlier workers fire", async () => {
    const { again } = await openScene(server, { shards: 1 });
    const tick = job({ type: "tick", run: () => {} });
    const old = await openClient({ store: again({ shards: 1 }), jobs: [tick], scheduler: { tick: "1s" } });
    const fired = new Set<string>();
    old.on("fired", ({ schedule }) => void fired.add(schedule));
    old.work({ poll: "100ms" });
    const fresh = await openClient({ store: again({ shards: 8 }), jobs: [tick] });
    const names = Array.from({ length: 10 }, (_, nth) => `tick ${nth}`);
    for (const name of names) await fresh.schedule(name, { job: tick, every: "1s" });
    await fresh.close();
    await until("all to be fired", () => fired.size === names.length);
  });
});

it("reads new shards within a minute without claims", async () => {
  const clock = fakeClock();
  const { store, again } = await openScene(server, { clock, shards: 2 });
  expect((await store.dueSchedules(100)).schedules).toEqual([]);
  const more = again({ shards: 64 });
  for (const name of NAMES) await more.putSchedule(newSchedule({ name, nextRunAt: 1_000 }), null);
  await clock.advance("1m");
  expect((await store.dueSchedules(100)).schedules).toHaveLength(NAMES.length);
});
