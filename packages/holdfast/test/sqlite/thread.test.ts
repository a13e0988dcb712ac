import { existsSync, renameSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import workerThreads from "node:worker_threads";
import { ClosedError, job, StoreUnavailableError } from "holdfast";
import { sqlite } from "holdfast/sqlite";
import { describe, expect, it, onTestFinished } from "vitest";
import { connect as connectAs } from "#src/stores/sqlite/thread/connection.js";
import { claim, claimRequest, newJob, newJobs, outcomeOf } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { startChild, startClient } from "./child.js";
import { faultyDisk } from "./faults.js";
import { connect, open, openStore, tempFile } from "./scene.js";

const quick = job({ type: "quick", run: () => "done" });

describe("durability", () => {
  it.each([
    ["full", 2],
    ["normal", 1],
  ] as const)("%s sets PRAGMA synchronous to %d, in WAL mode", (durability, synchronous) => {
    const db = connectAs({ file: tempFile(), durability, busyMs: 100, mustExist: false });
    onTestFinished(() => void db.close());
    expect(db.pragma("synchronous", { simple: true })).toBe(synchronous);
    expect(db.pragma("journal_mode", { simple: true })).toBe("wal");
  });

  it("is full by default: an enqueue waits for the disk sync", async ({ skip }) => {
    const file = tempFile();
    const disk = faultyDisk(file, skip);
    const full = await startClient(file, disk.env);
    const normal = await startClient(file, disk.env, "normal");
    const SYNC_MS = 300;
    disk.slowSync(SYNC_MS);
    const enqueueMs = async (child: typeof full): Promise<number> => {
      child.send({ do: "enqueue", type: "quick", count: 1 });
      return (await child.next("enqueued")).tookMs;
    };
    expect(await enqueueMs(full)).toBeGreaterThanOrEqual(SYNC_MS);
    expect(await enqueueMs(normal)).toBeLessThan(SYNC_MS);
  });
});

describe("a lock that another process holds", () => {
  it("fails all waiting calls after one busy timeout", async () => {
    const file = tempFile();
    const store = await openStore(file, { busyTimeout: "300ms" });
    const other = connect(file);
    other.exec("BEGIN IMMEDIATE");
    const from = performance.now();
    const calls = [
      ...Array.from({ length: 20 }, () => store.insert([newJob()])),
      store.claim(claimRequest()),
      store.settle([]),
      store.cancel([newJob().id]),
      store.tryAcquireDuty("duty", 1_000),
      store.pause("default"),
    ];
    const results = await Promise.allSettled(calls);
    // One after another they would take more than 20 timeouts.
    expect(performance.now() - from).toBeLessThan(3_000);
    const failed = results.filter((result) => result.status === "rejected");
    expect(failed.length).toBeGreaterThanOrEqual(20);
    for (const { reason } of failed) {
      expect(reason).toBeInstanceOf(StoreUnavailableError);
      expect(reason.message).toBe(`the database ${file} did not respond: database is locked`);
    }
    other.exec("ROLLBACK");
    expect(await store.insert(newJobs(2))).toEqual([{ status: "inserted" }, { status: "inserted" }]);
    expect((await store.stats()).counts).toMatchObject([{ state: "pending", count: 2 }]);
  });

  it("does not lose a worker's outcomes", async () => {
    const file = tempFile();
    const store = sqlite(file, { busyTimeout: "50ms" });
    const other = connect(file);
    const locking = job({ type: "locking", run: () => void other.exec("BEGIN IMMEDIATE") });
    const hf = await open(file, { store, jobs: [locking] });
    const outage = new Promise((resolve) => hf.on("outage", resolve));
    const { id } = await hf.enqueue(locking);
    hf.work();
    await outage;
    other.exec("ROLLBACK");
    await hf.result(id, { timeout: "10s" });
    expect(await hf.get(id)).toMatchObject({
      state: "completed",
      attempt: 1,
      attempts: [{ attempt: 1, end: "completed" }],
    });
  });
});

describe("the store's thread", () => {
  it("does not keep a finished process alive, and loses no job", async () => {
    const file = tempFile();
    const child = startChild("enqueue-and-end.mjs", [file]);
    const { ids } = await child.next("enqueued");
    expect(await child.ended(5_000)).toBe(0);
    const hf = await open(file);
    for (const id of ids) expect((await hf.get(id))?.state).toBe("pending");
  });

  it("ends with close, which may be called repeatedly", async () => {
    const threads = spyOnThreads();
    const file = tempFile();
    const store = sqlite(file);
    await store.close();
    await store.close();
    const hf = await open(file, { jobs: [quick] });
    await hf.enqueue(quick);
    await Promise.all([hf.close(), hf.close()]);
    await hf.close();
    await until("the threads to end", () => threads.every((thread) => thread.threadId === -1), 5_000);
    // The last connection to close checkpoints and deletes the log.
    expect(() => connect(`${file}-wal`, { fileMustExist: true })).toThrow("unable to open database file");
  });

  it("is not started by calls after close", async () => {
    const file = tempFile();
    const hf = await open(file, { jobs: [quick] });
    const { id } = await hf.enqueue(quick);
    await hf.close();
    const threads = spyOnThreads();
    await expect(hf.enqueue(quick)).rejects.toThrow(ClosedError);
    await expect(hf.get(id)).rejects.toThrow(ClosedError);
    await expect(hf.stats()).rejects.toThrow(ClosedError);
    expect(() => hf.work()).toThrow(ClosedError);
    const store = sqlite(file);
    await store.close();
    const started = threads.length;
    await expect(store.insert([newJob()])).rejects.toMatchObject({ code: "CLOSED", message: /open a new one/ });
    await expect(store.migrate()).rejects.toThrow(ClosedError);
    expect(() => store.insertIn(connect(file), [newJob()])).toThrow(ClosedError);
    expect(threads).toHaveLength(started);
  });

  it("rejects calls in flight when it dies, then is started again", async () => {
    const file = tempFile();
    const threads = spyOnThreads();
    const store = await openStore(file);
    expect(threads).toHaveLength(1);
    const other = connect(file);
    other.exec("BEGIN IMMEDIATE");
    const jobs = newJobs(3);
    const inFlight = Promise.allSettled([store.insert(jobs), store.pause("default")]);
    await Promise.resolve();
    const ended = threads[0]?.terminate();
    other.exec("ROLLBACK");
    for (const result of await inFlight) {
      expect(result).toMatchObject({ status: "rejected", reason: { code: "STORE_UNAVAILABLE" } });
      expect((result as PromiseRejectedResult).reason).toBeInstanceOf(StoreUnavailableError);
    }
    await ended;
    // Safe to repeat: each job is stored once, whether or not the first call took effect.
    await store.insert(jobs);
    expect((await claim(store)).map(({ id }) => id)).toEqual(jobs.map(({ id }) => id));
    expect(threads).toHaveLength(2);
  });

  it("creates no new file when it dies after a move", async () => {
    const file = tempFile();
    const threads = spyOnThreads();
    const store = await openStore(file);
    renameSync(file, `${file}.away`);
    await threads[0]?.terminate();
    await expect(store.insert([newJob()])).rejects.toMatchObject({ code: "STORE_MOVED" });
    expect(existsSync(file)).toBe(false);
    renameSync(`${file}.away`, file);
    expect(await store.insert([newJob()])).toEqual([{ status: "inserted" }]);
    expect(threads).toHaveLength(2);
  });

  it("may die under a worker, which is still woken by other processes", async () => {
    const file = tempFile();
    const threads = spyOnThreads();
    const hf = await open(file, { jobs: [quick] });
    const enqueuer = await startClient(file);
    hf.work({ poll: "1m" });
    const completed: string[] = [];
    hf.on("completed", ({ id }) => completed.push(id));
    const { id: before } = await hf.enqueue(quick);
    await until("the first job", () => completed.includes(before), 10_000);
    await threads[0]?.terminate();
    const { id: after } = await hf.enqueue(quick);
    await until("a job after the thread's death", () => completed.includes(after), 10_000);
    enqueuer.send({ do: "enqueue", type: "quick", count: 1 });
    const [elsewhere = ""] = (await enqueuer.next("enqueued")).ids;
    await until("a job of another process", () => completed.includes(elsewhere), 10_000);
  });

  it("fails a bad call alone, and not others of its group", async () => {
    const store = await openStore(tempFile());
    const [job1] = newJobs(1);
    const broken = { ...newJob(), input: 5n as unknown as string, maxAttempts: {} as number };
    const [good, bad] = await Promise.allSettled([
      store.insert(job1 === undefined ? [] : [job1]),
      store.insert([broken]),
    ]);
    expect(good).toEqual({ status: "fulfilled", value: [{ status: "inserted" }] });
    expect(bad).toMatchObject({ status: "rejected", reason: { code: "STORE_ERROR" } });
    const [claimed] = await claim(store);
    expect(claimed?.id).toBe(job1?.id);
    if (claimed !== undefined) expect(await store.settle([outcomeOf(claimed, "completed")])).toEqual(["applied"]);
  });
});

/** Every thread that is started from now on, until the test ends. */
function spyOnThreads(): workerThreads.Worker[] {
  const threads: workerThreads.Worker[] = [];
  const { Worker } = workerThreads;
  workerThreads.Worker = class extends Worker {
    constructor(...args: ConstructorParameters<typeof Worker>) {
      super(...args);
      threads.push(this);
    }
  };
  syncBuiltinESMExports();
  onTestFinished(() => {
    workerThreads.Worker = Worker;
    syncBuiltinESMExports();
  });
  return threads;
}
