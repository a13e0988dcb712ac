import { job } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { add, claim, claimIds, claimOne, finish, insertOne, newJob } from "#src/testing/exercise-store/builders.js";
import { addSchedules, firedAll, firingFor } from "#src/testing/exercise-store/schedule-builders.js";
import { hurry } from "../hurry.js";
import { openClient, openScene, type RunSql, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const HOUR = 3_600_000;
const INSERTED = { status: "inserted" } as const;
const mail = job({ type: "mail", run() {} });

/** A session with an open transaction. */
async function begin({ session }: Scene): ReturnType<Scene["session"]> {
  const tx = await session();
  await tx.sql("BEGIN");
  return tx;
}

/** Creates a lane that was last used some hours ago and that no process remembers. */
async function addOldLane(sql: RunSql, queue: string, hours: number): Promise<void> {
  await sql(
    `INSERT INTO $s.lanes (queue, priority, paused, used_at)
     VALUES ($1, 0, false, extract(epoch FROM clock_timestamp()) * 1000 - $2::bigint)`,
    [queue, hours * HOUR],
  );
}

async function hoursUnused(sql: RunSql, queue: string): Promise<number> {
  const [row] = await sql<{ hours: number }>(
    `SELECT round((extract(epoch FROM clock_timestamp()) * 1000 - used_at) / ${HOUR})::integer AS hours FROM $s.lanes WHERE queue = $1`,
    [queue],
  );
  return row?.hours ?? Number.NaN;
}

describe("a new queue that an open SQL transaction creates", () => {
  it("accepts jobs that the same transaction enqueues", async () => {
    const scene = await openScene(server);
    const hf = await openClient(scene.store, mail);
    const { sql, client: tx } = await begin(scene);
    await sql("SELECT $s.enqueue('mail', queue => 'fresh')");
    for (let n = 0; n < 100; n++) await hf.enqueue(mail, {}, { tx, queue: "fresh" });
    await sql("COMMIT");
    expect(await claim(scene.store)).toHaveLength(101);
  });

  it("does not block jobs of other queues in the batch", async () => {
    const scene = await openScene(server);
    const { store } = scene;
    await add(store, { queue: "known" });
    const { sql } = await begin(scene);
    await sql("SELECT $s.enqueue('mail', queue => 'fresh')");
    const jobs = ["a", "fresh", "known", "z"].map((queue) => newJob({ queue }));
    expect(await store.insert(jobs)).toEqual([INSERTED, "busy", INSERTED, INSERTED]);
    expect(await store.insert([newJob({ queue: "fresh" })])).toEqual(["busy"]);
    await sql("ROLLBACK");
    expect(await insertOne(store, newJob({ queue: "fresh" }))).toEqual(INSERTED);
    expect(await claimIds(store, { queues: ["fresh"] })).toHaveLength(1);
  });

  it("is waited for, and named on a timeout", async () => {
    const scene = await openScene(server);
    const hf = await openClient(scene.store, mail);
    const { sql } = await begin(scene);
    await sql("SELECT $s.enqueue('mail', queue => 'fresh')");
    await hurry(() =>
      expect(hf.enqueue(mail, {}, { queue: "fresh" })).rejects.toMatchObject({
        code: "STORE_UNAVAILABLE",
        message: expect.stringMatching(/queue "fresh".*; retry/),
      }),
    );
    const waiting = hf.enqueue(mail, {}, { queue: "fresh" });
    await hf.enqueue(mail);
    await sql("COMMIT");
    expect(await waiting).toMatchObject({ duplicate: false });
    expect(await claimIds(scene.store, { queues: ["fresh"] })).toHaveLength(2);
  });

  it("delays only the schedules of that queue", async () => {
    const scene = await openScene(server);
    const { store } = scene;
    const { sql } = await begin(scene);
    await sql("SELECT $s.enqueue('mail', queue => 'fresh')");
    const schedules = await addSchedules(store, ["a", "b", "c"]);
    const firings = schedules.map((schedule) =>
      firingFor(schedule, [1], { queue: schedule.name === "b" ? "fresh" : "other" }),
    );
    const [a, b, c] = firings as [(typeof firings)[0], (typeof firings)[0], (typeof firings)[0]];
    expect(await store.fire(firings)).toEqual([firedAll(a), { status: "busy" }, firedAll(c)]);
    await sql("COMMIT");
    expect(await store.fire([b])).toEqual([firedAll(b)]);
  });
});

describe("an old queue that an open SQL transaction uses", () => {
  it("blocks no enqueue", async () => {
    const scene = await openScene(server);
    await addOldLane(scene.sql, "old", 13);
    const { sql } = await begin(scene);
    await sql("SELECT $s.enqueue('mail', queue => 'old')");
    const jobs = [newJob({ queue: "old" }), newJob({ queue: "other" })];
    expect(await scene.store.insert(jobs)).toEqual([INSERTED, INSERTED]);
    expect((await claimIds(scene.store)).toSorted()).toEqual(jobs.map(({ id }) => id).toSorted());
  });

  it("blocks no other transaction", async () => {
    const scene = await openScene(server);
    await addOldLane(scene.sql, "old", 13);
    const [one, other] = [await begin(scene), await begin(scene)];
    await one.sql("SELECT $s.enqueue('mail', queue => 'old')");
    expect(await scene.store.insertIn(other.client, [newJob({ queue: "old" })])).toEqual([INSERTED]);
    expect(await scene.store.insertIn(one.client, [newJob({ queue: "old" })])).toEqual([INSERTED]);
  });

  it("accepts no job when it is about to be deleted", async () => {
    const scene = await openScene(server);
    await addOldLane(scene.sql, "old", 25);
    const { sql } = await begin(scene);
    await sql("SELECT $s.enqueue('mail', queue => 'old')");
    const jobs = [newJob({ queue: "old" }), newJob({ queue: "other" })];
    expect(await scene.store.insert(jobs)).toEqual(["busy", INSERTED]);
  });
});

describe("an existing queue", () => {
  it("is updated by a new process only if it is old", async () => {
    const { store, sql } = await openScene(server);
    await addOldLane(sql, "fresh", 0);
    await addOldLane(sql, "old", 13);
    const [before] = await sql("SELECT xmin FROM $s.lanes WHERE queue = 'fresh'");
    await store.insert([newJob({ queue: "fresh" }), newJob({ queue: "old" })]);
    expect(await sql("SELECT xmin FROM $s.lanes WHERE queue = 'fresh'")).toEqual([before]);
    expect(await hoursUnused(sql, "old")).toBe(0);
  });

  it("is created again after the process was suspended", async () => {
    const clock = fakeClock();
    const { store } = await openScene(server, { clock });
    await add(store);
    await finish(store, await claimOne(store));
    clock.setWall(clock.now() + 25 * HOUR);
    await store.maintain();
    expect(await store.queues()).toEqual([]);
    const id = await add(store);
    expect(await claimIds(store)).toEqual([id]);
  });
});
