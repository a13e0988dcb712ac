import { job } from "holdfast";
import type { Firing } from "holdfast/store";
import { describe, expect, it, onTestFinished } from "vitest";
import { scheduleUnique } from "#src/engine/enqueue/unique.js";
import { add, claimOne, key, outcomeOf } from "#src/testing/exercise-store/builders.js";
import {
  addSchedule,
  addSchedules,
  firedAll,
  firingFor,
  scheduleOf,
} from "#src/testing/exercise-store/schedule-builders.js";
import { hurry } from "../hurry.js";
import { openClient, openScene, type RunSql, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const BUSY = { status: "busy" } as const;
const mail = job({ type: "mail", run() {} });

interface SceneWithUsers extends Scene {
  users: string;
  /** A transaction that stays open until the test ends it. */
  begin: () => ReturnType<Scene["session"]>;
}

/** A store whose jobs refer to a users' table with `ada` and `bob`. */
async function sceneWithUsers(): Promise<SceneWithUsers> {
  const users = `users_${server.newSchema()}`;
  await server.query(`CREATE TABLE ${users} (id text PRIMARY KEY); INSERT INTO ${users} VALUES ('ada'), ('bob')`);
  onTestFinished(async () => void (await server.query(`DROP TABLE ${users} CASCADE`)));
  const scene = await openScene(server, { users: { table: `public.${users}` } });
  const begin = async (): ReturnType<Scene["session"]> => {
    const opened = await scene.session();
    await opened.sql("BEGIN");
    return opened;
  };
  return { ...scene, users, begin };
}

function lockAda(sql: RunSql, users: string): Promise<unknown> {
  return sql(`SELECT 1 FROM ${users} WHERE id = 'ada' FOR UPDATE`);
}

/** Due an hour ago, or a little later, once. */
function onceDue(laterMs = 0): { nextRunAt: number; startAt: number; endAt: number } {
  const at = Date.now() - 3_600_000 + laterMs;
  return { nextRunAt: at, startAt: at, endAt: at + 1 };
}

async function schedulesWithJobs({ sql }: Scene): Promise<string[]> {
  const rows = await sql<{ schedule: string }>("SELECT DISTINCT schedule FROM $s.live WHERE schedule IS NOT NULL");
  return rows.map(({ schedule }) => schedule).toSorted();
}

describe("a schedule whose last run is settled in an open transaction", () => {
  it("is fired later, and all others immediately", async () => {
    const scene = await sceneWithUsers();
    const { store } = scene;
    const names = Array.from({ length: 20 }, (_, n) => `s${n}`);
    const schedules = await addSchedules(store, names);
    const firings = schedules.map((schedule) => firingFor(schedule, [1], { unique: key(schedule.name) }));
    await add(store, { unique: key("s7") });
    const { client } = await scene.begin();
    await store.settleIn(client, outcomeOf(await claimOne(store), "completed"), null);
    const results = await store.fire(firings);
    expect(results).toEqual(firings.map((firing) => (firing.name === "s7" ? BUSY : firedAll(firing))));
    expect(await scheduleOf(store, "s7")).toEqual(schedules[7]);
    await client.query("COMMIT");
    expect(await store.fire([firings[7] as Firing])).toEqual([firedAll(firings[7] as Firing)]);
  });

  it("does not block other schedules, and runs later", async () => {
    const scene = await sceneWithUsers();
    const { store } = scene;
    const hf = await openClient(store, mail);
    await add(store, { unique: key(scheduleUnique("held").key) });
    const { client } = await scene.begin();
    await store.settleIn(client, outcomeOf(await claimOne(store), "completed"), null);
    await addSchedule(store, { name: "held", overlap: "skip", ...onceDue() });
    await addSchedules(store, ["other", "another"], onceDue());
    const outages: unknown[] = [];
    hf.on("outage", (outage) => outages.push(outage));
    const fired = (name: string): Promise<void> =>
      new Promise((resolve) => void hf.on("fired", ({ schedule }) => schedule === name && resolve()));
    const [held, other] = [fired("held"), fired("other")];
    hf.work({ types: ["none"] });
    await other;
    // The next poll finds the held one due and fires its new slots.
    const later = fired("later");
    await addSchedule(store, { name: "later", ...onceDue() });
    await later;
    expect(await schedulesWithJobs(scene)).toEqual(["another", "later", "other"]);
    await client.query("COMMIT");
    await held;
    expect(outages).toEqual([]);
  });
});

describe("a schedule of a user whose row is locked", () => {
  it("is fired later, and all others immediately", async () => {
    const scene = await sceneWithUsers();
    const { store } = scene;
    const owners = ["bob", "ada", null, "ada", "bob"];
    const firings: Firing[] = [];
    for (const [n, user] of owners.entries()) {
      const schedule = await addScheduleOf(scene, `s${n}`, user);
      firings.push(firingFor(schedule, [1], { user }));
    }
    const { client, sql } = await scene.begin();
    await lockAda(sql, scene.users);
    expect(await store.fire(firings)).toEqual(
      firings.map((firing, n) => (owners[n] === "ada" ? BUSY : firedAll(firing))),
    );
    await client.query("COMMIT");
    const hers = firings.filter((_, n) => owners[n] === "ada");
    expect(await store.fire(hers)).toEqual(hers.map((firing) => firedAll(firing)));
  });

  it("does not block others, even with many due before them", async () => {
    const scene = await sceneWithUsers();
    const { store } = scene;
    const hf = await openClient(store, mail);
    const { client, sql } = await scene.begin();
    await addSchedules(
      store,
      Array.from({ length: 150 }, (_, n) => `hers ${n}`),
      { user: "ada", ...onceDue() },
    );
    await addSchedule(store, { name: "his", user: "bob", ...onceDue(1_000) });
    await lockAda(sql, scene.users);
    expect(await hf.schedules.fireDue()).toBe(1);
    expect(await schedulesWithJobs(scene)).toEqual(["his"]);
    await client.query("COMMIT");
    expect(await hf.schedules.fireDue()).toBe(150);
  });

  it("that is being deleted with its user does not block others", async () => {
    const scene = await sceneWithUsers();
    const { store } = scene;
    const hers = await addScheduleOf(scene, "hers", "ada");
    const his = await addScheduleOf(scene, "his", "bob");
    const { client, sql } = await scene.begin();
    await sql(`DELETE FROM ${scene.users} WHERE id = 'ada'`);
    const firings = [firingFor(hers, [1], { user: "ada" }), firingFor(his, [1], { user: "bob" })] as const;
    expect(await store.fire(firings)).toEqual([BUSY, firedAll(firings[1])]);
    await client.query("COMMIT");
    expect(await store.fire([firings[0]])).toEqual([{ status: "changed" }]);
  });

  it("can be run manually after the lock; fails after two seconds", async () => {
    const scene = await sceneWithUsers();
    const hf = await openClient(scene.store, mail);
    await hf.schedules.create("hers", { job: mail, every: "1h", user: "ada" });
    const { client, sql } = await scene.begin();
    await lockAda(sql, scene.users);
    await hurry(() =>
      expect(hf.schedules.runNow("hers")).rejects.toMatchObject({
        code: "STORE_UNAVAILABLE",
        message: expect.stringMatching(/schedule "hers".*; retry/),
      }),
    );
    const running = hf.schedules.runNow("hers");
    await client.query("COMMIT");
    expect(await running).toMatchObject({ duplicate: false });
  });

  it("is not rescheduled before its open slot is handled", async () => {
    const scene = await sceneWithUsers();
    const hf = await openClient(scene.store, mail);
    await addSchedule(scene.store, { name: "hers", user: "ada", ...onceDue(), endAt: null });
    const { client, sql } = await scene.begin();
    await lockAda(sql, scene.users);
    await hurry(() =>
      expect(hf.schedules.update("hers", { every: "2h" })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" }),
    );
    await client.query("COMMIT");
    await hf.schedules.update("hers", { every: "2h" });
    expect(await schedulesWithJobs(scene)).toEqual(["hers"]);
  });
});

async function addScheduleOf({ store }: Scene, name: string, user: string | null): ReturnType<typeof addSchedule> {
  return addSchedule(store, { name, user });
}
