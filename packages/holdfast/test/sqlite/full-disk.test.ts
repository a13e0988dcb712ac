import { describe, expect, it } from "vitest";
import { startChild, startClient } from "./child.js";
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
        message: "the disk that holds the database is full; nothing was written. Make room and try again",
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

function storedIds(file: string): unknown[] {
  return connect(file, { readonly: true }).prepare("SELECT id FROM holdfast_jobs ORDER BY id").pluck().all();
}
