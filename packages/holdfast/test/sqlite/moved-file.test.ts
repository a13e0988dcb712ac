import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync, statSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { job, StoreMovedError, type Holdfast } from "holdfast";
import { describe, expect, it } from "vitest";
import { newJob, newJobs } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { adminScene } from "../admin/scene.js";
import { startClient } from "./child.js";
import { hurry } from "../hurry.js";
import { connect, everyJob, integrity, open, openStore, tempFile, tempFolder } from "./scene.js";

const quick = job({ type: "quick", run: () => "done" });
const MOVED = { code: "STORE_MOVED" };

/** How the file is moved. Each returns a function that moves it back. */
const MOVES: [how: string, move: (file: string) => () => void][] = [
  [
    "renamed",
    (file) => {
      renameSync(file, `${file}.away`);
      return () => renameSync(`${file}.away`, file);
    },
  ],
  [
    "replaced",
    (file) => {
      copyFileSync(file, `${file}.copy`);
      renameSync(file, `${file}.away`);
      renameSync(`${file}.copy`, file);
      return () => renameSync(`${file}.away`, file);
    },
  ],
  [
    "moved with its folder",
    (file) => {
      const folder = dirname(file);
      renameSync(folder, `${folder}.away`);
      mkdirSync(folder);
      return () => {
        rmSync(folder, { recursive: true });
        renameSync(`${folder}.away`, folder);
      };
    },
  ],
];

async function idsIn(hf: Holdfast): Promise<string[]> {
  return (await everyJob(hf)).map(({ id }) => id).toSorted();
}

describe.each(MOVES)("a file that is %s while a process has it open", (_, move) => {
  it("accepts no jobs until it is back", async () => {
    const file = join(tempFolder(), "data", "jobs.db");
    const hf = await open(file, { jobs: [quick] });
    const { id: before } = await hf.enqueue(quick);
    const putBack = move(file);
    await expect(hf.enqueue(quick)).rejects.toThrow(StoreMovedError);
    await expect(hf.enqueue(quick)).rejects.toMatchObject({
      ...MOVED,
      message: expect.stringMatching(
        /^.+jobs\.db was renamed, deleted or replaced .+ Move the original file back\. Or, .+ stop every process/,
      ),
    });
    const calls = [hf.get(before), hf.list(), hf.stats(), hf.pause("a"), hf.cancel(before), hf.drain(), hf.purge()];
    await Promise.all(calls.map((call) => expect(call).rejects.toMatchObject(MOVED)));
    putBack();
    const { id: after } = await hf.enqueue(quick);
    expect(await idsIn(hf)).toEqual(expect.arrayContaining([before, after]));
    expect(await hf.drain()).toBeGreaterThanOrEqual(2);
    expect(integrity(file)).toBe("ok");
  });
});

it("a deleted file is not created again", async () => {
  const file = tempFile();
  const hf = await open(file, { jobs: [quick] });
  await hf.enqueue(quick);
  rmSync(file);
  await expect(hf.enqueue(quick)).rejects.toMatchObject(MOVED);
  await expect(hf.stats()).rejects.toMatchObject(MOVED);
  await hf.close();
  expect(existsSync(file)).toBe(false);
});

it("a symbolic link must not lead to another file", async () => {
  const folder = tempFolder();
  const [link, first, second] = ["jobs.db", "first.db", "second.db"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  await (await open(second)).close();
  symlinkSync(first, link);
  const hf = await open(link, { jobs: [quick] });
  await hf.enqueue(quick);
  rmSync(link);
  symlinkSync(second, link);
  await expect(hf.enqueue(quick)).rejects.toMatchObject(MOVED);
  // The same file under another name: the data in its log would not be found there.
  rmSync(link);
  renameSync(first, join(folder, "third.db"));
  symlinkSync(join(folder, "third.db"), link);
  await expect(hf.enqueue(quick)).rejects.toMatchObject(MOVED);
});

it("a renamed file has all acknowledged jobs, without its log", async () => {
  const file = tempFile();
  const hf = await open(file, { jobs: [quick] });
  const enqueued = await hf.enqueueMany(
    quick,
    Array.from({ length: 300 }, () => ({})),
  );
  const ids = enqueued.map(({ id }) => id);
  const away = join(tempFolder(), "away.db");
  renameSync(file, away);
  await expect(hf.enqueue(quick, {}, { id: newJob().id })).rejects.toMatchObject(MOVED);
  expect(statSync(`${file}-wal`).size).toBe(0);
  await hf.close();
  expect(await idsIn(await open(away))).toEqual(expect.arrayContaining(ids));
  expect(integrity(away)).toBe("ok");
});

it("a backup put in its place is not mixed with the old log", async () => {
  const file = tempFile();
  const hf = await open(file, { jobs: [quick] });
  const { id: kept } = await hf.enqueue(quick);
  const db = connect(file);
  db.exec(`VACUUM INTO '${file}.backup'`);
  db.close();
  await hf.enqueueMany(
    quick,
    Array.from({ length: 300 }, () => ({})),
  );
  renameSync(file, `${file}.away`);
  renameSync(`${file}.backup`, file);
  await expect(hf.enqueue(quick)).rejects.toMatchObject(MOVED);
  await hf.close();
  expect(await idsIn(await open(file))).toEqual([kept]);
  expect(integrity(file)).toBe("ok");
  expect((await everyJob(await open(`${file}.away`))).length).toBeGreaterThanOrEqual(301);
});

it("a worker reports the move once, runs nothing and resumes", async () => {
  const file = tempFile();
  const runs: string[] = [];
  const counted = job({ type: "counted", run: (context) => void runs.push(context.job.id) });
  const hf = await open(file, { jobs: [counted] });
  const outages: unknown[] = [];
  hf.on("outage", ({ doing, error }) => doing === "claim" && outages.push(error));
  const back = new Promise((resolve) => hf.on("outageEnded", ({ doing }) => doing === "claim" && resolve(null)));
  hf.work({ poll: "100ms" });
  const { id } = await hf.enqueue(counted);
  await hf.result(id);
  renameSync(file, `${file}.away`);
  await until("the outage", () => outages.length > 0, 10_000);
  renameSync(`${file}.away`, file);
  await back;
  const { id: next } = await hf.enqueue(counted);
  await hf.result(next);
  expect(runs).toEqual([id, next]);
  expect(outages).toMatchObject([MOVED]);
});

it("/readyz fails while the file is moved", async () => {
  const file = tempFile();
  const { send } = await adminScene(`sqlite:${file}`);
  const status = async (): Promise<number> => (await send("/readyz")).status;
  expect(await status()).toBe(200);
  renameSync(file, `${file}.away`);
  // It asks the store once a second.
  await hurry(() => until("it to fail", async () => (await status()) === 503, 100_000));
  renameSync(`${file}.away`, file);
  await hurry(() => until("it to be ready", async () => (await status()) === 200, 100_000));
});

it("a server logs once that its file is moved, and once that it is back", async () => {
  const file = tempFile();
  const lines: [doing: unknown, code: unknown, message: string][] = [];
  const warn = ({ doing, error }: { doing?: unknown; error?: { code?: unknown } }, message: string): void =>
    void lines.push([doing, error?.code, message]);
  const logger = { debug() {}, info() {}, error() {}, warn };
  const { as, send } = await adminScene(`sqlite:${file}`, {}, { logger });
  const client = await as("admin");
  const enqueue = (): Promise<unknown> => client.jobs.enqueue({ type: "never" });
  await enqueue();
  expect(lines).toEqual([]);
  renameSync(file, `${file}.away`);
  for (let n = 0; n < 3; n++) await expect(enqueue()).rejects.toMatchObject(MOVED);
  expect((await send("/readyz")).status).toBe(503);
  const begun = ["admin API", "STORE_MOVED", "a store call failed"];
  expect(lines).toEqual([begun]);
  renameSync(`${file}.away`, file);
  await until("an enqueue", () => enqueue().then(Boolean, () => false), 10_000);
  await enqueue();
  expect(lines).toEqual([begun, ["admin API", undefined, "the store is available again"]]);
});

it("the API refuses an enqueue with 503 STORE_MOVED", async () => {
  const file = tempFile();
  const { as } = await adminScene(`sqlite:${file}`);
  const client = await as("admin");
  renameSync(file, `${file}.away`);
  await expect(client.jobs.enqueue({ type: "never" })).rejects.toMatchObject({ status: 503, ...MOVED });
  renameSync(`${file}.away`, file);
});

it("an enqueue in the caller's transaction is refused too", async () => {
  const file = tempFile();
  const hf = await open(file, { jobs: [quick] });
  const db = connect(file);
  const enqueue = async (): Promise<void> => {
    db.exec("BEGIN IMMEDIATE");
    try {
      await hf.enqueue(quick, {}, { tx: db });
    } finally {
      db.exec("COMMIT");
    }
  };
  await enqueue();
  renameSync(file, `${file}.away`);
  await expect(enqueue()).rejects.toMatchObject(MOVED);
  renameSync(`${file}.away`, file);
  await enqueue();
  expect((await hf.stats()).states.pending).toBe(2);
});

describe("a write-ahead log that is deleted", () => {
  it("is created again if one process has the file open", async () => {
    const file = tempFile();
    const child = await startClient(file);
    child.send({ do: "enqueue", type: "quick", count: 10 });
    const { ids: before } = await child.next("enqueued");
    rmSync(`${file}-wal`);
    child.send({ do: "enqueue", type: "quick", count: 10 });
    const { ids: after } = await child.next("enqueued");
    await until("a new log", () => existsSync(`${file}-wal`));
    // Killed, so that closing does not checkpoint the log.
    child.kill();
    expect(await child.ended()).toBe("SIGKILL");
    expect(await idsIn(await open(file))).toEqual([...before, ...after].toSorted());
    expect(integrity(file)).toBe("ok");
  });

  it("stops all processes on the file until one is left", async () => {
    const file = tempFile();
    const store = await openStore(file);
    const child = await startClient(file);
    await store.insert(newJobs(5));
    rmSync(`${file}-wal`);
    await until("it to be noticed", () =>
      store.stats().then(
        () => false,
        () => true,
      ),
    );
    await expect(store.insert([newJob()])).rejects.toMatchObject({
      ...MOVED,
      message: expect.stringMatching(/jobs\.db-wal was deleted or replaced .+ Stop every process that uses it/),
    });
    // A process trusts its last check for a moment.
    await until("the other process to notice", () => {
      child.send({ do: "enqueue", type: "quick", count: 1 });
      return child.reports.some(({ kind }) => kind === "refused");
    });
    expect((await child.next("refused")).code).toBe("STORE_MOVED");
    child.kill();
    await child.ended();
    await store.insert(newJobs(5));
    await store.close();
    expect((await everyJob(await open(file))).length).toBeGreaterThanOrEqual(10);
    expect(integrity(file)).toBe("ok");
  });
});
