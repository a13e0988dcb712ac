import { InvalidOptionError, job, LeaseLostError } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { eventsOf, scene } from "./scene.js";

const type = job({ type: "t", input: z.object({ n: z.number() }), run: () => {} });

describe("the lease API", () => {
  it("A-26 A-28 A-10 A-11 create → claim → running → complete, step by step", async () => {
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const completed = eventsOf(hf, "completed");
    const { id } = await hf.enqueue(type, { n: 1 }, { user: "ada" });
    expect((await read(id)).state).toBe("pending");

    const [lease] = await hf.claim();
    expect(lease).toMatchObject({
      id,
      type: "t",
      queue: "default",
      user: "ada",
      input: { n: 1 },
      attempt: 1,
      fence: 1,
    });
    expect(await read(id)).toMatchObject({ state: "claimed", claimedAt: new Date(clock.now()), startedAt: null });

    await clock.advance("1s");
    expect(await lease?.start()).toEqual({ cancelRequested: false });
    expect(await read(id)).toMatchObject({ state: "running", startedAt: new Date(clock.now()) });

    await clock.advance("1s");
    await lease?.complete({ total: 42 });
    expect(await read(id)).toMatchObject({
      state: "completed",
      output: { total: 42 },
      finishedAt: new Date(clock.now()),
    });
    expect(completed).toMatchObject([{ id, output: { total: 42 }, durationMs: 1_000 }]);
  });

  it("A-26 claims by limit, queues and types, in order", async () => {
    const other = job({ type: "other", run: () => {} });
    const { hf } = await scene({ jobs: [type, other] });
    expect(await hf.claim()).toEqual([]);
    const low = await hf.enqueue(type, { n: 1 });
    const high = await hf.enqueue(type, { n: 2 }, { priority: 5 });
    const elsewhere = await hf.enqueue(type, { n: 3 }, { queue: "elsewhere" });
    const typed = await hf.enqueue(other);
    const ids = async (...args: Parameters<typeof hf.claim>): Promise<string[]> =>
      (await hf.claim(...args)).map(({ id }) => id);
    expect(await ids({ queues: ["elsewhere"], limit: 10 })).toEqual([elsewhere.id]);
    expect(await ids({ types: [other], limit: 10 })).toEqual([typed.id]);
    expect(await ids({ limit: 10 })).toEqual([high.id, low.id]);
    await expect(hf.claim({ limit: 0 })).rejects.toThrow(InvalidOptionError);
    await expect(hf.claim({ limit: 501 })).rejects.toThrow(/^limit:/);
  });

  it("A-26 fail schedules a retry with the type's backoff", async () => {
    const slow = job({ type: "slow", retry: { backoff: { base: "7s", jitter: 0 } }, run: () => {} });
    const { hf, clock, job: read } = await scene({ jobs: [slow] });
    const failed = eventsOf(hf, "failed");
    const { id } = await hf.enqueue(slow);
    const [lease] = await hf.claim();
    expect(await lease?.fail(new Error("no response"))).toBe("failed");
    const waiting = await read(id);
    expect(waiting).toMatchObject({ state: "failed", attempt: 1, error: { message: "no response" } });
    expect(waiting.runAt.getTime() - clock.now()).toBe(7_000);
    expect(failed).toMatchObject([{ id, retryInMs: 7_000 }]);
  });

  it("A-26 A-12 A-31 fail is final without retry or attempts left", async () => {
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const final = await hf.enqueue(type, { n: 1 });
    const [first] = await hf.claim();
    expect(await first?.fail("never again", { retry: false })).toBe("dead");
    expect(await read(final.id)).toMatchObject({ state: "dead", attempt: 1, finishedAt: new Date(clock.now()) });

    const used = await hf.enqueue(type, { n: 2 }, { maxAttempts: 1 });
    const [second] = await hf.claim();
    expect(await second?.fail(new Error("last"))).toBe("dead");
    expect((await read(used.id)).state).toBe("dead");
  });

  it("A-26 extend keeps the lease; release restores the attempt", async () => {
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type, { n: 1 });
    const [lease] = await hf.claim({ lease: "10s" });
    await clock.advance("9s");
    await lease?.extend();
    expect((await read(id)).dueAt?.getTime()).toBe(clock.now() + 10_000);
    await lease?.extend("1m");
    expect((await read(id)).dueAt?.getTime()).toBe(clock.now() + 60_000);
    await lease?.release({ delay: "5s" });
    expect(await read(id)).toMatchObject({ state: "pending", attempt: 0 });
    expect(await hf.claim()).toEqual([]);
    await clock.advance("5s");
    expect(await hf.claim()).toMatchObject([{ id, attempt: 1, fence: 2 }]);
  });

  it("a lost lease throws LeaseLostError and changes nothing", async () => {
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type, { n: 1 });
    const [old] = await hf.claim();
    await clock.advance("30s");
    const [held] = await hf.claim();
    expect(held).toMatchObject({ id, fence: 2 });
    const before = await read(id);
    for (const call of ["start", "extend", "complete", "cancel", "release"] as const) {
      await expect(old?.[call]()).rejects.toThrow(LeaseLostError);
    }
    await expect(old?.fail(new Error("x"))).rejects.toThrow(LeaseLostError);
    expect(await read(id)).toEqual(before);
    await held?.complete();
  });

  it("C-02 claims of expired leases are logged; exhausted jobs become dead", async () => {
    const { hf, clock, lines, job: read } = await scene({ jobs: [type] });
    const [recovered, died] = [eventsOf(hf, "recovered"), eventsOf(hf, "dead")];
    const { id } = await hf.enqueue(type, { n: 1 }, { maxAttempts: 2 });
    for (let round = 0; round < 2; round++) {
      const [lease] = await hf.claim();
      await lease?.start();
      await clock.advance("30s");
    }
    expect(await hf.claim()).toEqual([]);
    expect(await read(id)).toMatchObject({ state: "dead", attempt: 2 });
    expect(recovered).toHaveLength(2);
    expect(died).toMatchObject([{ id, error: { code: "STALE_CLAIM" } }]);
    expect(lines.filter((line) => line.level === "warn")).toHaveLength(2);
    expect(lines.filter((line) => line.level === "error")).toHaveLength(1);
  });

  it("start and extend report a cancellation; cancel confirms it", async () => {
    const { hf, job: read } = await scene({ jobs: [type] });
    const first = await hf.enqueue(type, { n: 1 });
    const second = await hf.enqueue(type, { n: 2 });
    const third = await hf.enqueue(type, { n: 3 });
    const [a, b, c] = await hf.claim({ limit: 3 });
    for (const { id } of [first, second, third]) expect(await hf.cancel(id)).toBe("requested");
    expect(await a?.start()).toEqual({ cancelRequested: true });
    expect(await a?.extend()).toEqual({ cancelRequested: true });
    await a?.cancel();
    await b?.complete();
    expect(await c?.fail(new Error("stopped"))).toBe("cancelled");
    expect((await read(first.id)).state).toBe("cancelled");
    expect((await read(second.id)).state).toBe("completed");
    expect((await read(third.id)).state).toBe("cancelled");
  });
});
