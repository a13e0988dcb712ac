import { job } from "holdfast";
import type { Outcome } from "holdfast/store";
import { describe, expect, it } from "vitest";
import {
  attemptRecord,
  claim,
  claimOne,
  failureOf,
  key,
  newJob,
  newJobs,
  outcomeOf,
  recordOf,
} from "#src/testing/exercise-store/builders.js";
import { addSchedule, firingFor } from "#src/testing/exercise-store/schedule-builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { startProxy, type Proxy } from "./proxy.js";
import { openClient, openStore, type Opened } from "./scene.js";
import { postgresServer } from "./server.js";

/** Parts of the statements that identify them. */
const INSERT = /INSERT INTO \S+\.live/;
const CLAIM = /UPDATE \S+\.live j SET\s+prev_state/;
const FINISH = /INSERT INTO \S+\.archive/;
const RESCHEDULE = /o\.delay_ms/;
const COMMIT = /^COMMIT/;

const server = postgresServer();

/** A store behind a proxy that can cut connections. */
async function openBreakable(): Promise<Opened & { proxy: Proxy }> {
  const proxy = await startProxy(server.url());
  return { ...(await openStore(server, { by: proxy.url, notify: false })), proxy };
}

describe("an enqueue whose result is lost", () => {
  it.each([
    ["plain", {}],
    ["with a unique key", { unique: key("k", { onConflict: "reject" }) }],
  ])("%s: fails, and a retry creates no duplicate", async (_case, given) => {
    const { store, proxy } = await openBreakable();
    const jobs = [newJob(given), newJob()];
    const lost = proxy.loseResponseTo(INSERT);
    await expect(store.insert(jobs)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await lost;
    const again = await store.insert(jobs);
    expect(again[0]).toEqual({ status: "duplicate", of: jobs[0]?.id, replaced: false });
    expect((await store.list({}, { limit: 10, cursor: null })).jobs).toHaveLength(2);
    expect((await store.stats()).counts).toMatchObject([{ state: "pending", count: 2 }]);
  });

  it("is not retried by the client; the caller can by id", async () => {
    const { address, proxy } = await openBreakable();
    const type = job({ type: "mail", run() {} });
    const hf = await openClient(address, type);
    const id = newJob().id;
    const lost = proxy.loseResponseTo(INSERT);
    await expect(hf.enqueue(type, {}, { id })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await lost;
    expect(await hf.enqueue(type, {}, { id })).toEqual({ id, duplicate: true, replaced: false });
    expect((await hf.list()).jobs.map((each) => each.id)).toEqual([id]);
  });
});

describe("a claim whose result is lost", () => {
  it("leaves its jobs until the lease expires", async () => {
    const { store, proxy } = await openBreakable();
    await store.insert(newJobs(2));
    const lost = proxy.loseResponseTo(CLAIM);
    await expect(claim(store, { leaseMs: 300 })).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await lost;
    expect(await claim(store)).toEqual([]);
    const jobs = await until("the lease to end", async () => {
      const found = await claim(store, { leaseMs: 300 });
      return found.length > 0 && found;
    });
    expect(jobs).toMatchObject([
      { attempt: 1, losses: 1, fence: 2, previous: { state: "claimed", attempt: 0 } },
      { attempt: 1, losses: 1, fence: 2, previous: { state: "claimed", attempt: 0 } },
    ]);
  });
});

describe("an outcome whose result is lost", () => {
  it.each<[string, (claimed: Parameters<typeof outcomeOf>[0]) => Outcome, RegExp, object]>([
    [
      "completed",
      (claimed) => outcomeOf(claimed, "completed", { output: `"done"` }),
      FINISH,
      { state: "completed", output: `"done"`, attempts: [] },
    ],
    [
      "dead",
      (claimed) => outcomeOf(claimed, "dead", { attemptRecord: attemptRecord(1, "no") }),
      FINISH,
      { state: "dead", attempts: [{ attempt: 1 }] },
    ],
    ["failed", (claimed) => failureOf(claimed, "no"), RESCHEDULE, { state: "failed", attempts: [{ attempt: 1 }] }],
    [
      "released",
      (claimed) => outcomeOf(claimed, "pending"),
      RESCHEDULE,
      { state: "pending", attempts: [], attempt: 0 },
    ],
  ])("%s: is applied once when settled again", async (_case, outcome, statement, record) => {
    const { store, proxy } = await openBreakable();
    await store.insert([newJob()]);
    const claimed = await claimOne(store);
    const lost = proxy.loseResponseTo(statement);
    await expect(store.settle([outcome(claimed)])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await lost;
    expect(await store.settle([outcome(claimed)])).toEqual(["applied"]);
    const stored = await recordOf(store, claimed.id);
    expect(stored).toMatchObject(record);
    expect((await store.stats()).counts).toMatchObject([{ state: stored.state, count: 1 }]);
  });

  it("is settled again by the worker, once", async () => {
    const { address, proxy } = await openBreakable();
    let runs = 0;
    const type = job({ type: "once", run: () => ({ run: ++runs }) });
    const hf = await openClient(address, type);
    const completed: string[] = [];
    hf.on("completed", ({ id }) => completed.push(id));
    const lost = proxy.loseResponseTo(FINISH);
    hf.work({ poll: "50ms" });
    const { id } = await hf.enqueue(type);
    await lost;
    expect(await hf.result(type, id, { timeout: "10s" })).toEqual({ run: 1 });
    await until("the worker to settle it", () => completed.length > 0);
    expect(completed).toEqual([id]);
    expect(await hf.get(id)).toMatchObject({ attempt: 1, attempts: [{ attempt: 1, end: "completed" }] });
    const { states, lastMinute } = await hf.stats();
    expect([states.completed, lastMinute.completed]).toEqual([1, 1]);
  });
});

describe("a firing whose commit result is lost", () => {
  it("created its job; another firing creates no more", async () => {
    const { store, proxy } = await openBreakable();
    const firing = firingFor(await addSchedule(store, { nextRunAt: 1_000 }), [1_000]);
    const lost = proxy.loseResponseTo(COMMIT);
    await expect(store.fire([firing])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await lost;
    expect(await store.fire([firing])).toEqual([{ status: "changed" }]);
    expect((await store.list({ schedule: "digest" }, { limit: 10, cursor: null })).jobs).toHaveLength(1);
    expect((await store.getSchedule("digest"))?.slots).toHaveLength(1);
  });

  it("is retried by the scheduler, and the slot runs once", async () => {
    const { address, proxy } = await openBreakable();
    const type = job({ type: "digest", run() {} });
    const hf = await openClient(address, type);
    const lost = proxy.loseResponseTo(COMMIT);
    const start = Date.now() + 200;
    await hf.schedule("digest", { job: type, every: "1h", startAt: start });
    hf.work({ poll: "50ms" });
    await lost;
    await until("its job to be completed", async () => (await hf.stats()).states.completed === 1);
    const { jobs } = await hf.list({ schedule: "digest" });
    expect(jobs).toHaveLength(1);
    expect(await hf.schedules.get("digest")).toMatchObject({ slots: [{ slot: new Date(start), job: jobs[0]?.id }] });
  });
});
