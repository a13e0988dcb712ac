import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { eventsOf, scene } from "./scene.js";

const ghost = job({ type: "ghost", run: () => ({ ran: true }) });
const MESSAGE = "No handler registered for job_type: ghost";

describe("types without a handler", () => {
  it('A-15 C-09 with unknownType "dead" the job is dead without retry', async () => {
    const { hf, clock, lines, job: read } = await scene();
    const died = eventsOf(hf, "dead");
    hf.work({ unknownType: "dead" });
    const { id } = await hf.enqueue(ghost);
    await clock.settle();

    expect(await read(id)).toMatchObject({
      state: "dead",
      attempt: 0,
      error: { message: MESSAGE, code: "NO_HANDLER" },
      attempts: [{ error: { message: MESSAGE } }],
    });
    expect(died).toMatchObject([{ id, error: { message: MESSAGE } }]);
    expect(lines.filter((line) => line.level === "error")).toHaveLength(1);
  });

  it("by default is deferred without counting an attempt", async () => {
    const fine = job({ type: "fine", run: () => {} });
    const { hf, clock, job: read } = await scene({ jobs: [fine] });
    hf.work({ concurrency: 1 });
    const { id } = await hf.enqueue(ghost);
    const other = await hf.enqueue(fine);
    await clock.settle();

    expect((await read(other.id)).state).toBe("completed");
    const aside = await read(id);
    expect(aside).toMatchObject({ state: "pending", attempt: 0, error: { message: MESSAGE } });
    expect(aside.runAt.getTime() - clock.now()).toBe(15_000);
  });

  it("runs when a worker has the handler, with all attempts", async () => {
    const { hf, clock, another, job: read } = await scene();
    const old = hf.work();
    const { id } = await hf.enqueue(ghost);
    await clock.advance("5m");
    await old.stop();
    (await another({ jobs: [ghost] })).work();
    await clock.advance("15s");
    expect(await read(id)).toMatchObject({ state: "completed", attempt: 1, output: { ran: true } });
  });

  it("is dead when no worker has listed the type for 10 minutes", async () => {
    const { hf, clock, job: read } = await scene();
    hf.work();
    const { id } = await hf.enqueue(ghost);
    await clock.advance("9m 59s");
    expect(await read(id)).toMatchObject({ state: "pending", attempt: 0 });
    await clock.advance("16s");
    expect(await read(id)).toMatchObject({ state: "dead", attempt: 0, error: { message: MESSAGE } });
  });

  it("stays while another live worker lists the type", async () => {
    const { hf, clock, another, job: read } = await scene();
    // The worker with the handler serves another queue.
    const knowing = (await another({ jobs: [ghost] })).work({ queues: ["elsewhere"] });
    hf.work();
    const { id } = await hf.enqueue(ghost);
    await clock.advance("30m");
    expect(await read(id)).toMatchObject({ state: "pending", attempt: 0 });
    await knowing.stop();
    await clock.advance("9m");
    expect((await read(id)).state).toBe("pending");
    await clock.advance("2m");
    expect((await read(id)).state).toBe("dead");
  });

  it("a worker without the handler does not list the type", async () => {
    const { hf, clock, job: read } = await scene();
    hf.work({ types: ["ghost"] });
    await clock.settle();
    expect(await hf.workers()).toMatchObject([{ types: [] }]);
    const { id } = await hf.enqueue(ghost);
    await clock.advance("11m");
    expect((await read(id)).state).toBe("dead");
  });

  it("a worker with a types option lists only these", async () => {
    const fine = job({ type: "fine", run: () => {} });
    const { hf, clock } = await scene({ jobs: [ghost, fine] });
    hf.work({ types: [fine] });
    await clock.settle();
    expect(await hf.workers()).toMatchObject([{ types: ["fine"] }]);
  });

  it("no job dies if workers cannot be listed", async () => {
    const { hf, clock, store, job: read } = await scene();
    hf.work();
    const { id } = await hf.enqueue(ghost);
    await clock.advance("1s");
    const restore = store.fail(new Error("no response"), "workers");
    await clock.advance("15m");
    expect((await read(id)).state).toBe("pending");
    restore();
    await clock.advance("1m");
    expect((await read(id)).state).toBe("dead");
  });

  it("runNext and drain defer it and do not count it", async () => {
    const fine = job({ type: "fine", run: () => {} });
    const { hf, job: read } = await scene({ jobs: [fine] });
    const { id } = await hf.enqueue(ghost);
    await hf.enqueue(fine);
    expect(await hf.runNext()).toBe(true);
    expect(await read(id)).toMatchObject({ state: "pending", attempt: 0, error: { message: MESSAGE } });
    expect(await hf.runNext()).toBe(false);

    const dying = await hf.enqueue(ghost);
    expect(await hf.drain({ unknownType: "dead" })).toBe(0);
    expect((await read(dying.id)).state).toBe("dead");
  });

  it("a worker that stops completes a deferral first", async () => {
    const { hf, clock, store, job: read } = await scene();
    const letGo = store.hold("workers");
    const worker = hf.work();
    const { id } = await hf.enqueue(ghost);
    await clock.settle();
    let stopped = false;
    const stopping = worker.stop().then(() => (stopped = true));
    await clock.advance("5s");
    expect(stopped).toBe(false);
    letGo();
    await stopping;
    expect(await read(id)).toMatchObject({ state: "pending", attempt: 0 });
  });

  it("a retried job has ten minutes again", async () => {
    const { hf, clock, job: read } = await scene();
    hf.work();
    const { id } = await hf.enqueue(ghost);
    await clock.advance("11m");
    expect((await read(id)).state).toBe("dead");
    await clock.advance("10m");
    expect(await hf.retry(id)).toBe("retried");
    await clock.advance("9m");
    expect(await read(id)).toMatchObject({ state: "pending", error: { message: MESSAGE } });
    await clock.advance("2m");
    expect((await read(id)).state).toBe("dead");
  });

  it("a missing registration is logged once per type", async () => {
    const { hf, clock, lines } = await scene({ jobs: [job({ type: "known", run: () => {} })] });
    hf.work();
    for (let n = 0; n < 3; n++) await hf.enqueue(ghost);
    await clock.advance("1m");
    const logged = lines.filter(({ message }) => message.startsWith("no handler for this type here"));
    expect(logged).toMatchObject([{ level: "warn", fields: { type: "ghost", known: "known" } }]);
  });
});
