import { describe, expect, it } from "vitest";
import { LaneLimit } from "#src/admin/calls/lane-limit.js";
import { engineOf } from "#src/engine/client/holdfast.js";
import { until } from "#src/testing/exercise-store/until.js";
import { adminScene, adminStores, never } from "./scene.js";

const STORES = adminStores();

describe.each(STORES)("the lane limit on %s", (_name, store) => {
  it("applies to pairs of queue and priority", async () => {
    const { hf, as } = await adminScene(store(), { maxLanes: 4 });
    const client = await as("operator");
    const full = { status: 409, code: "TOO_MANY_LANES" };
    for (const queue of ["a", "b", "c"]) await client.jobs.enqueue({ type: "never", queue });
    const { id } = await client.jobs.enqueue({ type: "never", queue: "a", priority: 5 });
    // Concurrently, on every route that can create lanes.
    const calls = [
      () => client.jobs.enqueue({ type: "never", queue: "d" }),
      () => client.jobs.enqueue({ type: "other", queue: "d", priority: -3 }),
      () => client.jobs.enqueue({ type: "never", queue: "a", priority: 6 }),
      () => client.schedules.create({ name: "s", job: "never", every: "1h", queue: "e" }),
      () => client.queues.pause({ queue: "f" }),
      () => client.jobs.update({ id, queue: "g" }),
      () => client.jobs.update({ id, priority: 6 }),
      () => client.jobs.updateMany({ ids: [id], queue: "g" }),
      () => client.jobs.updateMany({ filter: { queue: ["a"] }, priority: 6 }),
      ...Array.from({ length: 20 }, (_, nth) => () => client.jobs.enqueue({ type: "never", queue: `random ${nth}` })),
    ];
    for (const result of await Promise.allSettled(calls.map((call) => call()))) {
      expect(result).toMatchObject({ status: "rejected", reason: full });
    }
    expect((await hf.queues()).map(({ queue }) => queue).toSorted()).toEqual(["a", "b", "c"]);
    // Existing lanes are always accepted, and so are lanes that code creates.
    await client.jobs.enqueue({ type: "never", queue: "a", priority: 5 });
    await client.jobs.enqueue({ type: "never", queue: "c" });
    await client.jobs.enqueue({ type: "never" });
    await client.queues.pause({ queue: "b" });
    await client.jobs.update({ id, queue: "b", priority: 0 });
    await client.schedules.create({ name: "s", job: "never", every: "1h", queue: "a" });
    await expect(client.schedules.update({ name: "s", queue: "g" })).rejects.toMatchObject(full);
    await expect(client.schedules.update({ name: "s", priority: 7 })).rejects.toMatchObject(full);
    await client.schedules.update({ name: "s", priority: 5, every: "2h" });
    await hf.enqueue(never, {}, { queue: "from code" });
    await until("the new lane to be accepted", () =>
      client.jobs.enqueue({ type: "never", queue: "from code" }).then(
        () => true,
        () => false,
      ),
    );
  });

  it("counts all lanes that a bulk update may create", async () => {
    const { hf, as } = await adminScene(store(), { maxLanes: 12 });
    const client = await as("operator");
    const full = { status: 409, code: "TOO_MANY_LANES" };
    const ids: string[] = [];
    for (let n = 0; n < 10; n++)
      ids.push((await hf.enqueue(never, {}, { queue: `q${n}`, delay: "1h", tags: [`t${n % 2}`] })).id);
    await expect(client.jobs.updateMany({ filter: { state: ["pending"] }, priority: 50 })).rejects.toMatchObject(full);
    await expect(client.jobs.updateMany({ ids, priority: 50 })).rejects.toMatchObject(full);
    // One lane per queue that the filter can match, or per id.
    await client.jobs.updateMany({ filter: { queue: ["q1"] }, priority: 50 });
    await client.jobs.updateMany({ ids: ids.slice(2, 3), priority: 50 });
    await expect(client.jobs.updateMany({ filter: { queue: ["q3"] }, priority: 50 })).rejects.toMatchObject(full);
    // All of them have the same priority, in a queue that exists.
    const { id } = await client.jobs.updateMany({ filter: { queue: ["q4", "q5"] }, queue: "q6" });
    await until("the end", async () => (await client.operations.get({ id })).state === "done");
  });

  it("counts lanes of schedules before they fire", async () => {
    const { hf, as } = await adminScene(store(), { maxLanes: 3 });
    const client = await as("operator");
    const full = { status: 409, code: "TOO_MANY_LANES" };
    for (const queue of ["a", "b", "c"]) {
      await client.schedules.create({ name: queue, job: "never", every: "1h", queue });
    }
    const again = new LaneLimit(hf, 3);
    await expect(again.admit("d", 0)).rejects.toMatchObject(full);
    await again.admit("c", 0);
    await expect(client.jobs.enqueue({ type: "never", queue: "d" })).rejects.toMatchObject(full);
    await client.schedules.run({ name: "a" });
    expect((await hf.queues()).map(({ queue }) => queue)).toEqual(["a"]);
  });

  it("applies to concurrent calls with one read", async () => {
    const { hf, as } = await adminScene(store(), { maxLanes: 10 });
    const client = await as("operator");
    const { store: asked } = engineOf(hf);
    const before = asked.queues.bind(asked);
    let reads = 0;
    asked.queues = () => {
      reads++;
      return before();
    };
    const started = performance.now();
    const results = await Promise.allSettled(
      Array.from({ length: 60 }, (_, nth) => client.jobs.enqueue({ type: "never", queue: `q${nth}` })),
    );
    const seconds = Math.ceil((performance.now() - started) / 1_000);
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(10);
    expect(reads).toBeLessThanOrEqual(seconds + 1);
    expect(await before()).toHaveLength(10);
  });
});
