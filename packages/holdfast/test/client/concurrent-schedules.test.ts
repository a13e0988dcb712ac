import { ScheduleExistsError, type Holdfast, type ScheduleChanges } from "holdfast";
import { describe, expect, it } from "vitest";
import { after, HOUR, openOn, scheduleOf, slotsMade } from "./schedule-scene.js";
import { cleanup } from "./scene.js";

const CLIENTS = 5;
const hourly = { job: cleanup, every: "1h" } as const;

/** Several clients with separate connections on one file, like as many processes. */
async function several(): Promise<{ clients: Holdfast[] } & Awaited<ReturnType<typeof openOn>>> {
  const scene = await openOn("on a file");
  const others = await Promise.all(Array.from({ length: CLIENTS - 1 }, () => scene.another()));
  return { ...scene, clients: [scene.hf, ...others] };
}

describe("clients that change schedules on one file concurrently", () => {
  it("define one schedule if their definitions are equal", async () => {
    const { hf, clients } = await several();
    const defined = await Promise.all(clients.map((client) => client.schedule("s", hourly)));
    expect((await hf.schedules.list()).schedules).toHaveLength(1);
    for (const result of defined) expect(result).toEqual(defined[0]);
  });

  it("C-11 create one schedule; the others throw ScheduleExistsError", async () => {
    const { hf, clients } = await several();
    const results = await Promise.allSettled(
      clients.map((client, index) => client.schedules.create("s", { ...hourly, priority: index })),
    );
    const made = results.filter((result) => result.status === "fulfilled");
    expect(made).toHaveLength(1);
    expect(await scheduleOf(hf, "s")).toEqual(made[0]?.value);
    for (const result of results) {
      if (result.status === "rejected") expect(result.reason).toBeInstanceOf(ScheduleExistsError);
    }
  });

  it("keep each other's changes of different settings", async () => {
    const { hf, clients } = await several();
    await hf.schedule("s", hourly);
    const changes: ScheduleChanges[] = [
      { priority: 7 },
      { queue: "q" },
      { maxAttempts: 9 },
      { tags: ["t"] },
      { catchUp: { all: 3 } },
    ];
    await Promise.all(clients.map((client, index) => client.schedules.update("s", changes[index] ?? {})));
    const { changed, ...all } = await scheduleOf(hf, "s");
    expect(all).toMatchObject(Object.assign({}, ...changes));
    expect(changed.toSorted()).toEqual(["catchUp", "maxAttempts", "priority", "queue", "tags"]);
  });

  it("C-15 keep changes of an operator while they start", async () => {
    const { hf, clients } = await several();
    await hf.schedule("s", hourly);
    const deployed = { ...hourly, queue: "deployed", priority: 1 };
    const [operator, ...starting] = clients;
    await Promise.all([
      operator?.schedules.update("s", { priority: 7 }),
      ...starting.map((client) => client.schedule("s", deployed)),
    ]);
    expect(await scheduleOf(hf, "s")).toMatchObject({ priority: 7, queue: "deployed", changed: ["priority"] });
  });

  it("C-12 fire each slot once during changes and manual runs", async () => {
    const { hf, clients, clock } = await several();
    await hf.schedule("s", { ...hourly, catchUp: { all: 100 } });
    const manualRuns: string[] = [];
    for (let hour = 1; hour <= 8; hour++) {
      await clock.advance("1h");
      const [, , run] = await Promise.all([
        clients[0]?.schedules.fireDue(),
        clients[1]?.schedules.fireDue(),
        clients[2]?.schedules.runNow("s"),
        clients[3]?.schedules.update("s", { priority: hour }),
        clients[4]?.schedules.fireDue(),
      ]);
      manualRuns.push(run?.id ?? "");
    }
    await hf.schedules.fireDue();
    const { jobs } = await hf.list({ schedule: "s" });
    const bySlot = jobs.filter(({ id }) => !manualRuns.includes(id)).map(({ schedule }) => schedule?.slot);
    expect(bySlot.toSorted((a, b) => Number(a) - Number(b))).toEqual(
      Array.from({ length: 8 }, (_, index) => after((index + 1) * HOUR)),
    );
    expect(await slotsMade(hf, "s")).toHaveLength(16);
    expect(await scheduleOf(hf, "s")).toMatchObject({ priority: 8, lastSlot: after(8 * HOUR) });
  });
});
