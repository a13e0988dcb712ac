import { Cancel, job, type Job, type Lease } from "holdfast";
import { describe, expect, it } from "vitest";
import { scene, type Scene } from "./scene.js";

const idle = job({ type: "idle", retry: { maxAttempts: 1 }, run: () => {} });

/** Claims the job and starts it. */
async function started({ hf }: Scene): Promise<Lease> {
  const [lease] = await hf.claim();
  await lease?.start();
  return lease as Lease;
}

const ends = ({ attempts }: Job): unknown[] => attempts.map(({ fence, end }) => [fence, end]);

describe("the attempts of a job", () => {
  it("do not include the cancellation of a job that waits after a retry", async () => {
    const test = await scene({ jobs: [idle] });
    const { id } = await test.hf.enqueue(idle);
    await (await started(test)).fail(new Error("broken"));
    await test.hf.retry(id);
    await test.clock.advance("1s");
    await test.hf.cancel(id);
    expect(ends(await test.job(id))).toEqual([[1, "failed"]]);
  });

  it("do not include the cancellation of a job that was released", async () => {
    const test = await scene({ jobs: [idle] });
    const { id } = await test.hf.enqueue(idle);
    await (await started(test)).release();
    await test.clock.advance("1s");
    await test.hf.cancel(id);
    expect(ends(await test.job(id))).toEqual([[1, "released"]]);
  });

  it("show an attempt once if it was released after a cancel request", async () => {
    const test = await scene({ jobs: [idle] });
    const { id } = await test.hf.enqueue(idle);
    const lease = await started(test);
    await test.hf.cancel(id);
    await lease.release();
    const found = await test.job(id);
    expect([found.state, ends(found)]).toEqual(["cancelled", [[1, "released"]]]);
  });

  it("keep a cancelled attempt after a retry", async () => {
    const test = await scene({ jobs: [idle] });
    const { id } = await test.hf.enqueue(idle);
    const lease = await started(test);
    await test.hf.cancel(id);
    await lease.cancel();
    expect(ends(await test.job(id))).toEqual([[1, "cancelled"]]);
    await test.hf.retry(id);
    expect(ends(await test.job(id))).toEqual([[1, "cancelled"]]);
    await test.hf.drain();
    expect(ends(await test.job(id))).toEqual([
      [1, "cancelled"],
      [2, "completed"],
    ]);
  });

  it("keep an attempt that threw Cancel", async () => {
    const type = job({
      type: "t",
      run: () => {
        throw new Cancel("no longer needed");
      },
    });
    const test = await scene({ jobs: [type] });
    const { id } = await test.hf.enqueue(type);
    await test.hf.drain();
    await test.hf.retry(id);
    expect(ends(await test.job(id))).toEqual([[1, "cancelled"]]);
  });

  it("do not include a claim that was cancelled before it ran", async () => {
    const test = await scene({ jobs: [idle] });
    const { id } = await test.hf.enqueue(idle);
    const [lease] = await test.hf.claim();
    await test.hf.cancel(id);
    await lease?.cancel();
    expect(ends(await test.job(id))).toEqual([]);
  });

  it("include the release that makes a job dead", async () => {
    const test = await scene({ jobs: [idle] });
    const { id } = await test.hf.enqueue(idle);
    for (let nth = 0; nth < 4; nth++) await (await started(test)).release();
    const found = await test.job(id);
    expect(found).toMatchObject({ state: "dead", error: { code: "RELEASED" } });
    expect(ends(found)).toEqual([1, 2, 3, 4].map((fence) => [fence, "released"]));
  });
});
