import { ClosedError, holdfast } from "holdfast";
import { describe, expect, it } from "vitest";
import { cleanup, double, expectRefusal, fileStore, jobOf, open, untyped } from "./scene.js";

const closed = { is: ClosedError, code: "CLOSED" } as const;
const id = "018f4d2e-7b3a-7c11-8a55-0123456789ab";

describe("after close", () => {
  it.each<[Exclude<keyof ReturnType<typeof untyped>, symbol>, unknown[]]>([
    ["enqueue", [double, { n: 1 }]],
    ["enqueueMany", [double, [{ n: 1 }]]],
    ["get", [id]],
    ["list", []],
    ["result", [id]],
    ["cancel", [id]],
    ["cancel", [{}]],
    ["retry", [id]],
    ["remove", [id]],
    ["rerun", [id]],
    ["stats", []],
    ["pause", ["default"]],
    ["resume", ["default"]],
    ["queues", []],
    ["workers", []],
    ["work", []],
    ["claim", []],
    ["runNext", []],
    ["drain", []],
    ["reapExpiredLeases", []],
    ["expireOverdue", []],
    ["purge", []],
  ])("%s(%j) throws ClosedError with what to do", async (call, args) => {
    const { hf } = await open({ jobs: [double] });
    await hf.close();
    await expectRefusal(() => untyped(hf)[call](...args), {
      ...closed,
      says: /clos(ed|ing); create a new one with holdfast\(\)/,
    });
  });

  it("a client of forUser is closed too", async () => {
    const { hf } = await open();
    const mine = hf.forUser("ada");
    await hf.close();
    for (const call of [
      mine.enqueue(cleanup),
      mine.get(id),
      mine.list(),
      mine.cancel(id),
      mine.retry({}),
      mine.result(id),
    ]) {
      await expectRefusal(call, closed);
    }
  });

  it("an enqueue into a transaction throws synchronously", async () => {
    const { hf } = await open();
    await hf.close();
    expect(() => hf.enqueue(cleanup, {}, { tx: {} })).toThrow(ClosedError);
  });

  it("close can be called again", async () => {
    const { hf } = await open();
    const first = hf.close();
    expect(hf.close()).toBe(first);
    await first;
    await expect(hf.close()).resolves.toBeUndefined();
  });

  it("`await using` closes", async () => {
    const { hf } = await open();
    await hf[Symbol.asyncDispose]();
    await expectRefusal(hf.stats(), closed);
  });

  it("a lease cannot be settled after close", async () => {
    const { hf } = await open();
    await hf.enqueue(cleanup);
    const [lease] = await hf.claim();
    await hf.close();
    await expectRefusal(lease!.complete(), { ...closed, says: /closed/ });
  });
});

describe("while closing", () => {
  it("earlier enqueues are stored", async () => {
    const store = await fileStore();
    const hf = await holdfast({ store });
    const results = Array.from({ length: 50 }, (_, n) => hf.enqueue(double, { n }));
    await hf.close();
    const again = await holdfast({ store });
    for (const result of results) expect(await jobOf(again, (await result).id)).toMatchObject({ state: "pending" });
    await again.close();
  });

  it("a concurrent enqueue is stored or refused, never lost", async () => {
    const store = await fileStore();
    const hf = await holdfast({ store });
    const racing: Promise<void>[] = [];
    const stored: string[] = [];
    const refusals: unknown[] = [];
    const closing = hf.close();
    for (let n = 0; n < 200; n++) {
      const result = hf.enqueue(double, { n });
      racing.push(
        result.then(
          ({ id }) => void stored.push(id),
          (error: unknown) => void refusals.push(error),
        ),
      );
      if (n % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await Promise.all([closing, ...racing]);
    const again = await holdfast({ store });
    for (const id of stored) expect(await again.get(id)).not.toBeNull();
    expect((await again.stats()).states.pending).toBe(stored.length);
    expect(refusals.length).toBe(200 - stored.length);
    for (const error of refusals) expect(error).toBeInstanceOf(ClosedError);
    await again.close();
  });
});

describe("a worker that was stopped", () => {
  it("cannot be started again", async () => {
    const { hf } = await open({ jobs: [double] });
    const worker = hf.work();
    await worker.stop();
    await expectRefusal(() => worker.start(), { ...closed, says: /stopped; call hf\.work\(\) for a new one/ });
  });

  it("can be stopped again; start on a running one does nothing", async () => {
    const { hf } = await open({ jobs: [double] });
    const worker = hf.work();
    worker.start();
    await worker.stop();
    await worker.stop();
    expect((await hf.workers()).map((seen) => seen.left)).toEqual([true]);
  });

  it("stops with its client", async () => {
    const { hf } = await open({ jobs: [double] });
    const worker = hf.work();
    await hf.close();
    expect(() => worker.start()).toThrow(ClosedError);
  });
});
