import { statSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { startChild, startClient, type Child } from "./child.js";
import { faultyDisk } from "./faults.js";
import { connect, integrity, open, tempFile } from "./scene.js";

describe("a full disk", () => {
  it("rejects writes with DISK_FULL, and accepts them once space is free", async ({ skip }) => {
    const file = tempFile();
    const disk = faultyDisk(file, skip);
    const child = await startClient(file, disk.env);
    child.send({ do: "enqueue", type: "quick", count: 10 });
    const { ids: before } = await child.next("enqueued");

    disk.fill();
    for (const count of [1, 300]) {
      child.send({ do: "enqueue", type: "quick", count });
      const { code, message } = await child.next("refused");
      expect({ code, message }).toEqual({
        code: "DISK_FULL",
        message: "the disk of the database is full; nothing was written. Free disk space and try again",
      });
    }
    expect(integrity(file)).toBe("ok");
    expect(storedIds(file)).toEqual(before);

    disk.free();
    child.send({ do: "enqueue", type: "quick", count: 300 });
    const { ids: after } = await child.next("enqueued");
    expect(storedIds(file)).toEqual([...before, ...after].toSorted());
    const { states } = await (await open(file)).stats();
    expect(states.pending).toBe(310);
    expect(integrity(file)).toBe("ok");
  });

  it("rejects opening a new file with DISK_FULL until space is free", async ({ skip }) => {
    const file = tempFile();
    const disk = faultyDisk(file, skip);
    disk.fill();
    const child = startChild("client.mjs", [file], disk.env);
    await child.next("up");
    child.send({ do: "open" });
    expect((await child.next("refused")).code).toBe("DISK_FULL");
    disk.free();
    child.send({ do: "open" });
    await child.next("opened");
    child.send({ do: "enqueue", type: "quick", count: 1 });
    expect((await child.next("enqueued")).ids).toEqual(storedIds(file));
  });

  it("does not lose a worker's outcomes: they are written once space is free", async ({ skip }) => {
    const file = tempFile();
    const disk = faultyDisk(file, skip);
    const worker = await startClient(file, disk.env);
    worker.send({ do: "work" });
    worker.send({ do: "enqueue", type: "gated", count: 3 });
    const { ids } = await worker.next("enqueued");
    for (const _ of ids) await worker.next("began");

    disk.fill();
    worker.send({ do: "open gate" });
    const { code } = await worker.next("outage");
    expect(code).toBe("DISK_FULL");
    disk.free();
    for (const _ of ids) await worker.next("completed");
    // The worker also runs new jobs.
    worker.send({ do: "enqueue", type: "quick", count: 1 });
    await worker.next("completed");

    const hf = await open(file);
    for (const id of ids) {
      expect(await hf.get(id)).toMatchObject({
        state: "completed",
        attempt: 1,
        output: { pid: worker.pid },
        error: null,
      });
    }
    expect(worker.reports.filter((report) => report.kind === "began")).toHaveLength(3);
    expect(integrity(file)).toBe("ok");
  });
});

const MB = 1024 * 1024;

/** A client on a database of cancelled jobs, on a disk that its write-ahead log has filled. */
async function withLongLog(skip: (reason: string) => never): Promise<{ file: string; child: Child }> {
  const file = tempFile();
  const disk = faultyDisk(file, skip);
  const child = await startClient(file, disk.env);
  child.send({ do: "enqueue", type: "quick", count: 1_000 });
  await child.next("enqueued");
  child.send({ do: "cancel all" });
  expect((await child.next("cancelled")).count).toBe(1_000);
  const db = connect(file);
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.pragma("wal_autocheckpoint = 0");
  while (walBytes(file) < 8 * MB) db.exec("UPDATE holdfast_jobs SET updated_at = updated_at + 1");
  db.close();
  disk.leave(0);
  return { file, child };
}

function walBytes(file: string): number {
  return statSync(`${file}-wal`).size;
}

describe("a disk filled by the write-ahead log", () => {
  it("accepts jobs: the log is truncated first", async ({ skip }) => {
    const { file, child } = await withLongLog(skip);
    child.send({ do: "enqueue", type: "quick", count: 1 });
    const { ids } = await child.next("enqueued");
    expect(walBytes(file)).toBeLessThan(MB);
    expect(storedIds(file)).toContain(ids[0]);
    expect(integrity(file)).toBe("ok");
  });

  it("accepts jobs when the checkpoint must grow the file", async ({ skip }) => {
    const file = tempFile();
    const disk = faultyDisk(file, skip);
    const child = await startClient(file, disk.env);
    child.send({ do: "enqueue", type: "quick", count: 200 });
    await child.next("enqueued");
    const db = connect(file);
    db.pragma("wal_autocheckpoint = 0");
    while (walBytes(file) < 8 * MB) db.exec("UPDATE holdfast_jobs SET updated_at = updated_at + 1");
    db.close();
    disk.leave(0);
    child.send({ do: "enqueue", type: "quick", count: 1 });
    await child.next("enqueued");
    expect(walBytes(file)).toBeLessThan(MB);
    expect(integrity(file)).toBe("ok");
  });

  it("accepts jobs once no reader holds the log", async ({ skip }) => {
    const { file, child } = await withLongLog(skip);
    const reader = connect(file, { readonly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM holdfast_jobs").get();
    child.send({ do: "enqueue", type: "quick", count: 1 });
    expect((await child.next("refused")).code).toBe("DISK_FULL");
    reader.exec("COMMIT");
    child.send({ do: "enqueue", type: "quick", count: 1 });
    await child.next("enqueued");
  });

  it("lets a purge free space", async ({ skip }) => {
    const { file, child } = await withLongLog(skip);
    child.send({ do: "purge" });
    expect((await child.next("purged")).count).toBe(1_000);
    child.send({ do: "enqueue", type: "quick", count: 500 });
    await child.next("enqueued");
    expect(integrity(file)).toBe("ok");
  });
});

function storedIds(file: string): unknown[] {
  return connect(file, { readonly: true }).prepare("SELECT id FROM holdfast_jobs ORDER BY id").pluck().all();
}
