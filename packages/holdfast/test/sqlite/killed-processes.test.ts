import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { startClient } from "./child.js";
import { everyJob, integrity, open, tempFile } from "./scene.js";

const ACKNOWLEDGED = 2_000;

describe("killed processes", () => {
  it("lose no acknowledged job and leave the file intact", async () => {
    const file = tempFile();
    const writer = await startClient(file);
    writer.send({ do: "burst" });
    await until("a burst of enqueues", () => writer.reports.length > ACKNOWLEDGED, 15_000);
    writer.kill();
    expect(await writer.ended()).toBe("SIGKILL");

    const acknowledged = writer.reports.filter((report) => report.kind === "acknowledged").map((report) => report.id);
    expect(integrity(file)).toBe("ok");
    const hf = await open(file);
    const stored = new Set((await everyJob(hf)).map(({ id }) => id));
    expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
    // Counters are written in the same transaction.
    expect((await hf.stats()).states.pending).toBe(stored.size);
  });

  it("A-35 B-19 leave their job to another process after the lease", async () => {
    const file = tempFile();
    const victim = await startClient(file);
    victim.send({ do: "work", lease: "500ms" });
    victim.send({ do: "enqueue", type: "endless", count: 1 });
    const { id } = await victim.next("began");
    const endless = job({ type: "endless", run: ({ job: { attempt } }) => ({ attempt }) });
    const hf = await open(file, { jobs: [endless] });
    await until("its start to be stored", async () => (await hf.get(id))?.state === "running");
    const recovered: string[] = [];
    hf.on("recovered", (event) => recovered.push(event.id));
    hf.work();

    victim.kill();
    expect(await victim.ended()).toBe("SIGKILL");
    expect(await hf.result(endless, id, { timeout: "10s" })).toEqual({ attempt: 2 });
    expect(recovered).toEqual([id]);
    expect(await hf.get(id)).toMatchObject({
      state: "completed",
      attempt: 2,
      attempts: [
        { attempt: 1, end: "expired", error: { code: "STALE_CLAIM", message: "Job timed out (stale claim)" } },
        { attempt: 2, end: "completed", error: null },
      ],
    });
    expect(integrity(file)).toBe("ok");
  });
});
