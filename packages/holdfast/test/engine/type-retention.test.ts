import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { errorOf } from "../client/scene.js";
import { eventsOf, onFile, scene, untilAborted } from "./scene.js";

describe("retention of a job type", () => {
  const secret = job({
    type: "secret",
    input: z.object({ card: z.string() }),
    retention: { completed: 0, dead: "1h" },
    retry: { maxAttempts: 1 },
    run: ({ input }) => {
      if (input.card === "bad") throw new Error("refused");
    },
  });
  const plain = job({ type: "plain", run: () => {} });

  it("0 deletes a job as soon as it completes", async () => {
    const { hf } = await scene({ jobs: [secret, plain] });
    const { id } = await hf.enqueue(secret, { card: "4111" });
    const other = await hf.enqueue(plain);
    await hf.drain();
    expect(await hf.get(id)).toBeNull();
    expect(await hf.get(other.id)).toMatchObject({ state: "completed" });
    expect((await hf.stats()).types).toEqual({ plain: expect.objectContaining({ completed: 1 }) as object });
  });

  it("a duration deletes it then, in maintenance", async () => {
    const { hf, clock } = await scene({ jobs: [secret, plain] });
    const { id } = await hf.enqueue(secret, { card: "bad" });
    await hf.drain();
    await clock.advance(3_599_999);
    expect((await hf.maintain()).purged).toBe(0);
    expect(await hf.get(id)).toMatchObject({ state: "dead" });
    await clock.advance(1);
    expect((await hf.maintain()).purged).toBe(1);
    expect(await hf.get(id)).toBeNull();
  });

  it("emits one event for all jobs that it deletes", async () => {
    const { hf, clock } = await scene({ jobs: [secret] });
    const purged = eventsOf(hf, "purged");
    for (let n = 0; n < 2; n++) await hf.enqueue(secret, { card: "bad" });
    await hf.drain();
    await clock.advance("1h");
    await hf.maintain();
    expect(purged).toEqual([{ state: null, count: 2 }]);
  });

  it("is longer than the client's, if the type says so", async () => {
    const kept = job({ type: "kept", retention: { completed: "100d" }, run: () => {} });
    const { hf, clock } = await scene({ jobs: [kept, plain], retention: { completed: "1d" } });
    const { id } = await hf.enqueue(kept);
    await hf.enqueue(plain);
    await hf.drain();
    await clock.advance("50d");
    expect((await hf.maintain()).purged).toBe(1);
    expect(await hf.get(id)).toMatchObject({ state: "completed" });
    await clock.advance("50d");
    expect((await hf.maintain()).purged).toBe(1);
  });

  it("applies to jobs that end without a worker", async () => {
    const gone = job({ type: "gone", retention: { cancelled: 0, dead: 0 }, run: () => {} });
    const { hf, clock } = await scene({ jobs: [gone] });
    const cancelled = await hf.enqueue(gone, {}, { delay: "1h" });
    const expired = await hf.enqueue(gone, {}, { delay: "1m", expiresAt: clock.now() + 120_000 });
    await hf.cancel(cancelled.id);
    await clock.advance("3m");
    const { purged, expired: ended } = await hf.maintain();
    expect([purged, ended]).toEqual([2, 1]);
    expect([await hf.get(cancelled.id), await hf.get(expired.id)]).toEqual([null, null]);
  });

  it("applies to jobs of a schedule that end without a worker", async () => {
    const gone = job({ type: "gone", retention: { cancelled: 0 }, run: () => {} });
    const { hf, clock } = await scene({ jobs: [gone] });
    await hf.schedule("s", { job: gone, every: "1h", input: {} });
    const manual = await hf.schedules.runNow("s");
    await clock.advance("1h");
    expect(await hf.schedules.fireDue()).toBe(1);
    const slot = (await hf.list({ state: "pending", order: "oldest" })).jobs.at(-1);
    await hf.cancel([manual.id, slot?.id ?? ""]);
    await clock.advance(1);
    expect((await hf.maintain()).purged).toBe(2);
    expect([await hf.get(manual.id), await hf.get(slot?.id ?? "")]).toEqual([null, null]);
  });

  it("applies to the rerun of a job that was stored without it", async () => {
    const gone = job({ type: "gone", retention: { cancelled: 0 }, run: () => {} });
    const { hf, file } = await onFile();
    const old = await hf.enqueueNamed("gone", {}, { delay: "1h", timeout: "5s" });
    const { hf: other } = await onFile({ jobs: [gone] }, file);
    const { id } = await other.rerun(old.id);
    expect((await other.get(id))?.timeoutMs).toBe(5_000);
    await other.cancel([id, old.id]);
    expect((await other.maintain()).purged).toBe(1);
    expect([await other.get(id), (await other.get(old.id))?.state]).toEqual([null, "cancelled"]);
  });

  it.each([
    [{ finished: 0 }, /^retention\.finished is not an option of retention; known: completed, dead, cancelled/],
    [{ completed: "soon" }, /^retention\.completed: "soon" is not a duration/],
    [{ dead: { count: 5 } }, /^retention\.dead/],
  ])("%j is refused", async (retention, message) => {
    const error = await errorOf(() => job({ type: "t", retention: retention as never, run: () => {} }));
    expect((error as Error).message).toMatch(message);
  });
});

describe("timeout of one job", () => {
  const slow = job({ type: "slow", timeout: "1m", run: ({ signal }) => untilAborted(signal) });

  it("replaces the type's", async () => {
    const { hf, clock, job: read } = await scene({ jobs: [slow] });
    hf.work();
    const { id } = await hf.enqueue(slow, {}, { timeout: "5s" });
    await clock.advance("5s");
    expect(await read(id)).toMatchObject({ state: "failed", timeoutMs: 5_000, error: { code: "JOB_TIMEOUT" } });
    expect((await read(id)).error?.message).toContain("5000 ms");
  });

  it("false means none, for a job and for a type", async () => {
    const endless = job({ type: "endless", timeout: false, run: ({ signal }) => untilAborted(signal) });
    const { hf, clock, job: read } = await scene({ jobs: [slow, endless] });
    hf.work({ grace: 0 });
    const ids = [(await hf.enqueue(slow, {}, { timeout: false })).id, (await hf.enqueue(endless)).id];
    await clock.advance("1h");
    for (const id of ids) expect((await read(id)).state).toBe("running");
    expect((await read(ids[0]!)).timeoutMs).toBe(0);
  });

  it.each([[0], ["never"], [true], [-1]])("%j is refused", async (timeout) => {
    const { hf } = await scene({ jobs: [slow] });
    const error = await errorOf(hf.enqueue(slow, {}, { timeout: timeout as never }));
    expect(error).toMatchObject({ code: "INVALID_OPTION", field: "timeout" });
  });
});

describe("progress", () => {
  it("carries a small object", async () => {
    const seen: unknown[] = [];
    const type = job({ type: "t", run: ({ progress }) => progress(0.4, { page: 12 }) });
    const { hf, job: read } = await scene({ jobs: [type] });
    hf.on("progress", ({ fraction, note, data }) => void seen.push([fraction, note, data]));
    const { id } = await hf.enqueue(type);
    await hf.runNext();
    expect((await read(id)).progress).toEqual({ fraction: 0.4, note: null, data: { page: 12 } });
    expect(seen).toEqual([[0.4, null, { page: 12 }]]);
  });

  it.each([
    ["over 4 kB", { text: "x".repeat(5_000) }, "PAYLOAD_TOO_LARGE"],
    ["that JSON cannot represent", { n: 1n }, "INVALID_OPTION"],
  ])("an object %s fails the attempt", async (_what, data, code) => {
    const type = job({ type: "t", run: ({ progress }) => progress(0.4, data) });
    const { hf, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    await hf.runNext();
    expect(await read(id)).toMatchObject({ state: "failed", error: { code }, progress: null });
  });
});
