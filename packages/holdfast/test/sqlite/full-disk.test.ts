import { statSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { startChild, startClient, type Child } from "./child.js";
import { faultyDisk } from "./faults.js";
import { connect, integrity, open, tempFile } from "./scene.js";

describe("a full disk", () => {
  it("is told to the caller as DISK_FULL, leaves nothing half-written, and is over once there is room", async ({
    skip,
  }) => {
    const file = tempFile();
    const disk = faultyDisk(file, skip);
    const child = await startClient(file, disk.env);
    child.tell({ do: "enqueue", type: "quick", count: 10 });
    const { ids: before } = await child.next("enqueued");

    disk.fill();
    for (const count of [1, 300]) {
      child.tell({ do: "enqueue", type: "quick", count });
      const { code, message } = await child.next("refused");
      expect({ code, message }).toEqual({
        code: "DISK_FULL",
        message: "the disk of the database is full; nothing was written. Free disk space and try again",
      });
    }
    expect(integrity(file)).toBe("ok");
    expect(storedIds(file)).toEqual(before);

    disk.makeRoom();
    child.tell({ do: "enqueue", type: "quick", count: 300 });
    const { ids: after } = await child.next("enqueued");
    expect(storedIds(file)).toEqual([...before, ...after].toSorted());
    const { states } = await (await open(file)).stats();
    expect(states.pending).toBe(310);
    expect(integrity(file)).toBe("ok");
  });

  it("is told as DISK_FULL when there is no room even to open a new file, which opens once there is", async ({
    skip,
  }) => {
    const file = tempFile();
    const disk = faultyDisk(file, skip);
    disk.fill();
    const child = startChild("client.mjs", [file], disk.env);
    await child.next("up");
    child.tell({ do: "open" });
    expect((await child.next("refused")).code).toBe("DISK_FULL");
    disk.makeRoom();
    child.tell({ do: "open" });
    await child.next("opened");
    child.tell({ do: "enqueue", type: "quick", count: 1 });
    expect((await child.next("enqueued")).ids).toEqual(storedIds(file));
  });

  it("does not cost a worker its outcomes: they are kept, and written by themselves once there is room", async ({
    skip,
  }) => {
    const file = tempFile();
    const disk = faultyDisk(file, skip);
    const worker = await startClient(file, disk.env);
    worker.tell({ do: "work" });
    worker.tell({ do: "enqueue", type: "gated", count: 3 });
    const { ids } = await worker.next("enqueued");
    for (const _ of ids) await worker.next("began");

    disk.fill();
    worker.tell({ do: "let go" });
    const { code } = await worker.next("outage");
    expect(code).toBe("DISK_FULL");
    disk.makeRoom();
    for (const _ of ids) await worker.next("completed");
    // New work is taken up as well.
    worker.tell({ do: "enqueue", type: "quick", count: 1 });
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

/** A client on a database of cancelled jobs, on a disk whose last room its log has taken. */
async function withLongLog(skip: (reason: string) => never): Promise<{ file: string; child: Child }> {
  const file = tempFile();
  const disk = faultyDisk(file, skip);
  const child = await startClient(file, disk.env);
  child.tell({ do: "enqueue", type: "quick", count: 1_000 });
  await child.next("enqueued");
  child.tell({ do: "cancel all" });
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

describe("a disk that is full of the write-ahead log", () => {
  it("takes jobs: the log is cut first", async ({ skip }) => {
    const { file, child } = await withLongLog(skip);
    child.tell({ do: "enqueue", type: "quick", count: 1 });
    const { ids } = await child.next("enqueued");
    expect(walBytes(file)).toBeLessThan(MB);
    expect(storedIds(file)).toContain(ids[0]);
    expect(integrity(file)).toBe("ok");
  });

  it("takes jobs where the log holds pages that the file has no room for yet", async ({ skip }) => {
    const file = tempFile();
    const disk = faultyDisk(file, skip);
    const child = await startClient(file, disk.env);
    child.tell({ do: "enqueue", type: "quick", count: 200 });
    await child.next("enqueued");
    const db = connect(file);
    db.pragma("wal_autocheckpoint = 0");
    while (walBytes(file) < 8 * MB) db.exec("UPDATE holdfast_jobs SET updated_at = updated_at + 1");
    db.close();
    disk.leave(0);
    child.tell({ do: "enqueue", type: "quick", count: 1 });
    await child.next("enqueued");
    expect(walBytes(file)).toBeLessThan(MB);
    expect(integrity(file)).toBe("ok");
  });

  it("takes jobs once no reader holds the log", async ({ skip }) => {
    const { file, child } = await withLongLog(skip);
    const reader = connect(file, { readonly: true });
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM holdfast_jobs").get();
    child.tell({ do: "enqueue", type: "quick", count: 1 });
    expect((await child.next("refused")).code).toBe("DISK_FULL");
    reader.exec("COMMIT");
    child.tell({ do: "enqueue", type: "quick", count: 1 });
    await child.next("enqueued");
  });

  it("lets a purge make room", async ({ skip }) => {
    const { file, child } = await withLongLog(skip);
    child.tell({ do: "purge" });
    expect((await child.next("purged")).count).toBe(1_000);
    child.tell({ do: "enqueue", type: "quick", count: 500 });
    await child.next("enqueued");
    expect(integrity(file)).toBe("ok");
  });
});

function storedIds(file: string): unknown[] {
  return connect(file, { readonly: true }).prepare("SELECT id FROM holdfast_jobs ORDER BY id").pluck().all();
}
