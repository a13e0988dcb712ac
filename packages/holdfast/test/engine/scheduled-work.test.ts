import { holdfast, job } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { scene, type Scene } from "./scene.js";
import { after, DAY, HOUR, jobsOf, MINUTE, slotsMade, steps } from "./schedule-scene.js";

/** A product with scheduled agents and reminders. */
async function product(): Promise<Scene & { invoked: string[]; reminders: Reminder[]; delivered: string[] }> {
  const invoked: string[] = [];
  const delivered: string[] = [];
  const reminders: Reminder[] = [];
  const invocation = job({
    type: "agent_invocation",
    input: z.object({ agent: z.string() }),
    run: ({ input }) => void invoked.push(input.agent),
  });
  const delivery = job({
    type: "reminder_delivery",
    input: z.object({ reminder: z.string() }),
    run({ input }) {
      delivered.push(input.reminder);
      for (const found of reminders) if (found.id === input.reminder) found.delivered = true;
    },
  });
  const sweep = job({
    type: "reminder_sweep",
    async run({ job: { schedule } }) {
      const until = schedule?.slot ?? new Date(0);
      const due = reminders.filter((reminder) => reminder.dueAt <= until && !reminder.delivered);
      await scenery.hf.enqueueMany(
        delivery,
        due.map(({ id }) => ({ reminder: id })),
        { each: ({ reminder }) => ({ unique: { key: `reminder:${reminder}`, scope: "forever" } }) },
      );
    },
  });
  const scenery: Scene = await scene({ jobs: [invocation, delivery, sweep] });
  const client = scenery.hf;
  await client.schedule("agent:ada", { job: invocation, input: { agent: "ada" }, cron: "*/2 * * * *" });
  await client.schedule("agent:bob", {
    job: invocation,
    input: { agent: "bob" },
    cron: "*/3 * * * *",
    timezone: "Asia/Tokyo",
  });
  await client.schedule("reminders", { job: sweep, every: "1m" });
  return { ...scenery, invoked, reminders, delivered };
}
interface Reminder {
  id: string;
  dueAt: Date;
  delivered?: boolean;
}

describe("scheduled work of a product", () => {
  it("A-21 schedules of agents only create agent_invocation jobs", async () => {
    const { hf, clock, invoked } = await product();
    await clock.advance("6m");
    expect(await hf.schedules.fireDue()).toBe(3);
    expect(invoked).toEqual([]);
    const { jobs } = await hf.list({ type: "agent_invocation" });
    expect(jobs.map(({ state, input, schedule }) => [state, input, schedule?.name])).toEqual(
      expect.arrayContaining([
        ["pending", { agent: "ada" }, "agent:ada"],
        ["pending", { agent: "bob" }, "agent:bob"],
      ]),
    );
    expect(await hf.drain({ types: ["agent_invocation"] })).toBe(2);
    expect(invoked.toSorted()).toEqual(["ada", "bob"]);
  });

  it("A-22 the reminder sweep creates one reminder_delivery job per due reminder", async () => {
    const { hf, clock, reminders, delivered } = await product();
    reminders.push({ id: "a", dueAt: after(30_000) }, { id: "b", dueAt: after(MINUTE) });
    reminders.push({ id: "later", dueAt: after(HOUR) });
    await clock.advance("1m");
    await hf.schedules.fireDue();
    expect(await hf.drain({ types: ["reminder_sweep"] })).toBe(1);
    const waiting = (await hf.list({ type: "reminder_delivery" })).jobs;
    expect(waiting.map(({ input, state }) => [input, state])).toEqual([
      [{ reminder: "b" }, "pending"],
      [{ reminder: "a" }, "pending"],
    ]);
    expect(delivered).toEqual([]);
    // Sweeps before a delivery find the same reminders, and create no job twice.
    for (let sweeps = 0; sweeps < 3; sweeps++) {
      await clock.advance("1m");
      await hf.schedules.fireDue();
      expect(await hf.drain({ types: ["reminder_sweep"] })).toBe(1);
    }
    expect((await hf.list({ type: "reminder_delivery" })).jobs).toHaveLength(2);
    await hf.drain();
    expect(delivered.toSorted()).toEqual(["a", "b"]);
  });

  it("A-22 failed and manual sweeps deliver nothing twice", async () => {
    const { hf, clock, store, reminders, delivered } = await product();
    for (let n = 0; n < 20; n++) reminders.push({ id: `${n}`, dueAt: after(n * 1_000) });
    await clock.advance("1m");
    const back = store.fail(new Error("not now"), "insert");
    await hf.schedules.fireDue();
    await hf.drain({ types: ["reminder_sweep"] });
    back();
    await hf.schedules.runNow("reminders");
    hf.work();
    await clock.advance("5m");
    expect(delivered).toHaveLength(20);
    expect(new Set(delivered).size).toBe(20);
    expect((await hf.list({ type: "reminder_delivery" })).jobs).toHaveLength(20);
  });

  it("A-23 one loop claims all types, another fires all slots", async () => {
    const calls: number[] = [];
    for (const many of [1, 40]) {
      const types = Array.from({ length: many }, (_, n) => job({ type: `type ${n}`, run() {} }));
      const { hf, clock, store } = await scene({ jobs: types });
      for (const type of types) await hf.schedule(type.type, { job: type, cron: "@daily" });
      hf.work();
      await clock.advance("10s");
      store.forget();
      await clock.advance("5m");
      calls.push(store.total());
    }
    expect(calls[1]).toBe(calls[0]);
  });

  it("A-24 work() starts scheduler, worker and maintenance; close() stops them", async () => {
    const { hf, clock, store, invoked } = await product();
    store.forget();
    await clock.advance("10m");
    expect([store.count("dueSchedules"), store.count("claim"), store.count("tryAcquireDuty")]).toEqual([0, 0, 0]);
    hf.work();
    await clock.advance("6m");
    expect(invoked.length).toBeGreaterThan(0);
    for (const call of ["dueSchedules", "claim", "tryAcquireDuty", "heartbeat"] as const)
      expect(store.count(call)).toBeGreaterThan(0);
    const closing = hf.close();
    await clock.advance("2m");
    await closing;
    store.forget();
    await clock.advance("1h");
    expect(store.total()).toBe(0);
  });
});

describe("B-09 periodic syncs", () => {
  interface Intervals {
    fallback: string;
    full: string;
    watch: string;
  }

  /** Five of six users are active. The stream of them fails once at `breakAt`. */
  async function syncs(
    intervals: Partial<Intervals> = {},
    { users = 12, breakAt = Number.NaN } = {},
  ): Promise<Scene & { synced: string[] }> {
    const synced: string[] = [];
    let breaks = 1;
    const sync = job({
      type: "sync",
      queue: "sync",
      input: z.object({ user: z.string(), days: z.number().nullable() }),
      run: ({ input }) => void synced.push(`${input.user} ${input.days}`),
    });
    const renew = job({ type: "renew_watch", input: z.object({ user: z.string() }), queue: "sync", run() {} });
    const everyUser = job({
      type: "sync_every_user",
      input: z.object({ days: z.number().nullable() }),
      async run({ input: { days } }) {
        await scenery.hf.enqueueMany(sync, active(days), {
          each: ({ user }) => ({ user, unique: days === null ? "sync" : "full sync" }),
        });
      },
    });
    const renewAll = job({
      type: "renew_every_watch",
      async run() {
        await scenery.hf.enqueueMany(renew, active(null), { each: ({ user }) => ({ user, unique: "watch" }) });
      },
    });
    // A stream, as from a database.
    async function* active(days: number | null): AsyncGenerator<{ user: string; days: number | null }> {
      for (let n = 0; n < users; n++) {
        if (n === breakAt && breaks-- > 0) throw new Error("the database went away");
        if (n % 6 !== 0) yield await Promise.resolve({ user: `user ${n}`, days });
      }
    }
    const scenery: Scene = await scene({ jobs: [sync, renew, everyUser, renewAll] });
    const client = scenery.hf;
    const { fallback = "15m", full = "1h", watch = "24h" } = intervals;
    await client.schedule("fallback sync", { job: everyUser, input: { days: null }, every: fallback, overlap: "skip" });
    await client.schedule("full sync", { job: everyUser, input: { days: 10 }, every: full, overlap: "skip" });
    await client.schedule("watch renewal", { job: renewAll, every: watch });
    return { ...scenery, synced };
  }

  it("run every 15 minutes, every hour and every 24 hours", async () => {
    const { hf, clock } = await syncs();
    for (let quarters = 0; quarters < 4 * 25; quarters++) {
      await clock.advance("15m");
      await hf.schedules.fireDue();
      await hf.drain({ queues: ["default"] });
    }
    expect(await slotsMade(hf, "fallback sync")).toEqual(steps(15 * MINUTE, 1, 100));
    expect(await slotsMade(hf, "full sync")).toEqual(steps(HOUR, 1, 25));
    expect(await slotsMade(hf, "watch renewal")).toEqual([after(DAY)]);
  });

  it("can be configured, also while they run", async () => {
    const { hf, clock } = await syncs({ fallback: "5m", full: "30m", watch: "12h" });
    const next = async (name: string): Promise<Date | null> => (await hf.schedules.get(name))?.nextRunAt ?? null;
    expect(await next("fallback sync")).toEqual(after(5 * MINUTE));
    expect(await next("full sync")).toEqual(after(30 * MINUTE));
    expect(await next("watch renewal")).toEqual(after(12 * HOUR));
    await hf.schedules.update("watch renewal", { every: "6h" });
    await clock.advance("6h");
    await hf.schedules.fireDue();
    expect(await slotsMade(hf, "watch renewal")).toEqual([after(6 * HOUR)]);
  });

  it("for every active user: one job each, in batches, without overlap", async () => {
    const { hf, clock, store, synced } = await syncs({}, { users: 1_200 });
    await clock.advance("15m");
    await hf.schedules.fireDue();
    store.forget();
    expect(await hf.drain({ queues: ["default"] })).toBe(1);
    expect((await hf.stats()).types["sync"]?.pending).toBe(1_000);
    // A thousand jobs in a few calls, none larger than a batch.
    const batches = store.calls("insert").map(([jobs]) => (jobs as unknown[]).length);
    expect(batches.reduce((sum, size) => sum + size, 0)).toBe(1_000);
    expect(batches.length).toBeLessThanOrEqual(10);
    for (const size of batches) expect(size).toBeLessThanOrEqual(500);

    await clock.advance("15m");
    await hf.schedules.fireDue();
    await hf.drain({ queues: ["default"] });
    expect((await hf.stats()).types["sync"]?.pending).toBe(1_000);
    await hf.drain();
    expect(synced).toHaveLength(1_000);
    expect(new Set(synced).size).toBe(1_000);
    expect(synced).not.toContain("user 0 null");
    await clock.advance("15m");
    await hf.schedules.fireDue();
    await hf.drain();
    expect(synced).toHaveLength(2_000);
    expect(await jobsOf(hf, "fallback sync")).toHaveLength(3);
  });

  it("for every active user: a failed fan-out is completed by its retry", async () => {
    const { hf, clock, synced } = await syncs({}, { users: 1_200, breakAt: 900 });
    await clock.advance("15m");
    await hf.schedules.fireDue();
    await hf.drain({ queues: ["default"] });
    expect((await jobsOf(hf, "fallback sync"))[0]).toMatchObject({ state: "failed", attempt: 1 });
    expect((await hf.stats()).types["sync"]?.pending).toBeGreaterThan(0);
    await clock.advance("1m");
    await hf.drain({ queues: ["default"] });
    expect((await jobsOf(hf, "fallback sync"))[0]).toMatchObject({ state: "completed", attempt: 2 });
    await hf.drain();
    expect([synced.length, new Set(synced).size]).toEqual([1_000, 1_000]);
  });
});

it("A-24 a process that only enqueues and defines schedules starts no worker", async () => {
  const type = job({ type: "t", run() {} });
  const hf = await holdfast({ store: "sqlite::memory:", jobs: [type], logger: false });
  await hf.schedule("s", { job: type, every: "1s" });
  await hf.enqueue(type);
  expect(await hf.workers()).toEqual([]);
  await hf.close();
});
