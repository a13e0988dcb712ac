import { describe, expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { checked, errorOf } from "./results.js";
import { adminScene, adminStores } from "./scene.js";

describe.each(adminStores())("workers in the admin API on %s", (_name, store) => {
  it("drains one worker and lets it claim again", async () => {
    const { hf, as } = await adminScene(store());
    const client = await as("operator");
    const worker = hf.work({ lease: "1s" });
    const shown = async (): Promise<unknown> => {
      const { workers } = checked("workers.list", await client.workers.list());
      return workers.find(({ id }) => id === worker.id);
    };
    await until("the first heartbeat", async () => (await shown()) !== undefined);
    expect(await shown()).toMatchObject({ draining: false, jobs: [], version: expect.any(String) as string });
    const drained = checked("workers.drain", await client.workers.drain({ id: worker.id }));
    expect(drained).toEqual({ id: worker.id, draining: true });
    expect(await shown()).toMatchObject({ draining: true, left: false });
    await until("the next heartbeat", () => worker.draining);
    expect(checked("workers.resume", await client.workers.resume({ id: worker.id })).draining).toBe(false);
    await until("the next heartbeat", () => !worker.draining);
    await worker.stop();
    const unknown = { status: 404, code: "WORKER_NOT_FOUND" };
    for (const id of [worker.id, "nothing"]) expect(await errorOf(client.workers.drain({ id }))).toMatchObject(unknown);
    const { entries } = await hf.audit.list();
    expect(entries.map(({ action, target }) => [action, target])).toEqual([
      ["workers.resume", worker.id],
      ["workers.drain", worker.id],
    ]);
  });
});
