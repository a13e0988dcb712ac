import { describe, expect, it } from "vitest";
import { add, assertNothingToClaim } from "#src/testing/exercise-store/builders.js";
import { openScene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

describe("a queue that is paused while a lane is created", () => {
  it("is paused, and resumed completely", async () => {
    const { store, sql, session } = await openScene(server);
    await add(store);
    const { sql: enqueuing } = await session();
    await enqueuing("BEGIN");
    await enqueuing("SELECT $s.enqueue('mail', priority => 9)");
    await store.pause("default");
    await enqueuing("COMMIT");
    expect(await store.queues()).toEqual([{ queue: "default", paused: true, priorities: [9, 0] }]);
    expect((await store.stats()).oldestDueMs).toBeNull();
    const found = (await store.doctor()).filter(({ check }) => check === "paused queues");
    expect(found).toMatchObject([{ level: "warning", found: expect.stringContaining('"default"') }]);
    await store.resume("default");
    expect(await store.queues()).toEqual([{ queue: "default", paused: false, priorities: [9, 0] }]);
    expect(await sql("SELECT DISTINCT paused FROM $s.lanes")).toEqual([{ paused: false }]);
    expect((await store.stats()).oldestDueMs).not.toBeNull();
  });
});

describe("a queue that is resumed while a lane is created", () => {
  it("stays resumed", async () => {
    const { store, session } = await openScene(server);
    await add(store);
    await store.pause("default");
    const { sql: enqueuing } = await session();
    await enqueuing("BEGIN");
    await enqueuing("SELECT $s.enqueue('mail', priority => 9)");
    await store.resume("default");
    await enqueuing("COMMIT");
    expect(await store.queues()).toEqual([{ queue: "default", paused: false, priorities: [9, 0] }]);
  });

  it("returns no job from a new lane while paused", async () => {
    const { store } = await openScene(server);
    await add(store);
    await store.pause("default");
    await add(store, { priority: 9 });
    await assertNothingToClaim(store);
    expect(await store.queues()).toEqual([{ queue: "default", paused: true, priorities: [9, 0] }]);
  });
});
