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
    expect(await store.queues()).toMatchObject([{ queue: "default", paused: true, priorities: [9, 0] }]);
    expect((await store.stats()).oldestDueMs).toBeNull();
    const found = (await store.doctor()).filter(({ check }) => check === "paused queues");
    expect(found).toMatchObject([{ level: "warning", found: expect.stringContaining('"default"') }]);
    await store.resume("default");
    expect(await store.queues()).toMatchObject([{ queue: "default", paused: false, priorities: [9, 0] }]);
    expect(await sql("SELECT DISTINCT paused FROM $s.lanes")).toEqual([{ paused: false }]);
    expect((await store.stats()).oldestDueMs).not.toBeNull();
  });
});

describe("all queues", () => {
  it("are reported as paused by doctor, and leave no lane when resumed", async () => {
    const { store, sql } = await openScene(server);
    await add(store);
    await store.pause("*");
    await store.pause("*");
    const found = async (check: string): Promise<unknown[]> =>
      (await store.doctor()).filter((finding) => finding.check === check);
    expect(await found("paused queues")).toMatchObject([
      { level: "warning", found: expect.stringContaining("all queues are paused") },
    ]);
    expect(await found("overdue jobs")).toMatchObject([{ level: "ok" }]);
    await store.resume("*");
    expect(await sql("SELECT queue FROM $s.lanes")).toEqual([{ queue: "default" }]);
    expect(await found("paused queues")).toMatchObject([{ level: "ok" }]);
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
    expect(await store.queues()).toMatchObject([{ queue: "default", paused: false, priorities: [9, 0] }]);
  });

  it("returns no job from a new lane while paused", async () => {
    const { store } = await openScene(server);
    await add(store);
    await store.pause("default");
    await add(store, { priority: 9 });
    await assertNothingToClaim(store);
    expect(await store.queues()).toMatchObject([{ queue: "default", paused: true, priorities: [9, 0] }]);
  });
});
