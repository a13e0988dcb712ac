import { job, StoreUnavailableError } from "holdfast";
import { describe, expect, it } from "vitest";
import { eventsOf, scene } from "./scene.js";
import { run, stepping } from "./step-scene.js";

describe("explain of a parked job", () => {
  it("names the event, and what lets it go on", async () => {
    const on = await run(({ waitFor }) => waitFor("payment", { event: "paid:7", timeout: "2d" }));
    await on.clock.advance("1h");
    const { text, reasons } = await on.hf.explain(on.id);
    expect(text).toMatch(/^It has waited for the event "paid:7" for 1h, in step "payment", and waits until \S+Z\.$/);
    expect(reasons[0]).toMatchObject({
      kind: "waits-for-event",
      event: "paid:7",
      change: 'hf.emit("paid:7", payload) lets it go on.',
    });
  });

  it("names the child, the time of a sleep, and the next call of a step", async () => {
    const child = job({ type: "child", run: () => 1 });
    const on = await run(({ spawn }) => spawn("pack", child, {}, { delay: "1h" }));
    const [{ id: childId } = { id: "" }] = (await on.hf.list({ parent: on.id })).jobs;
    expect((await on.hf.explain(on.id)).reasons[0]).toMatchObject({ kind: "waits-for-job", job: childId });
    const set = await run(({ spawnAll }) => spawnAll("pack", child, [{}, {}], { delay: "1h" }));
    expect((await set.hf.explain(set.id)).text).toMatch(/^It waits for 2 of 2 child jobs of step "pack", for 0 ms\.$/);
    const asleep = await run(({ sleep }) => sleep("night", "12h"));
    expect((await asleep.hf.explain(asleep.id)).text).toMatch(/^It sleeps until \S+Z, in step "night"\.$/);
    const flaky = await run(({ step }) =>
      step("call", () => Promise.reject(new Error("down")), { retry: { maxAttempts: 2, backoff: { base: "1h" } } }),
    );
    expect((await flaky.hf.explain(flaky.id)).text).toMatch(/^Step "call" failed once and runs again at \S+Z\.$/);
  });
});

describe("steps during an outage of the store", () => {
  it("wait until their result is stored", async () => {
    let calls = 0;
    const on = await scene({ jobs: [stepping(({ step }) => step("pay", () => ++calls))] });
    const restore = on.store.fail(new StoreUnavailableError("no route"), "saveSteps");
    const outages = eventsOf(on.hf, "outage");
    const ended = eventsOf(on.hf, "outageEnded");
    const { id } = await on.hf.enqueueNamed("stepping");
    const running = on.hf.runNext();
    await on.clock.settle();
    await on.clock.advance("3s");
    restore();
    await on.clock.advance("1s");
    await running;
    expect(await on.job(id)).toMatchObject({ state: "completed", output: 1, attempt: 1 });
    expect([outages.map(({ doing }) => doing), ended.map(({ doing }) => doing)]).toEqual([
      ["store a step"],
      ["store a step"],
    ]);
  });

  it("fail the attempt if the store refuses to be read", async () => {
    const on = await scene({ jobs: [stepping(({ step }) => step("pay", () => 1))] });
    const { id } = await on.hf.enqueueNamed("stepping");
    const [lease] = await on.hf.claim();
    await lease?.release();
    const restore = on.store.fail(new Error("damaged"), "steps");
    await on.hf.runNext();
    expect(await on.job(id)).toMatchObject({ state: "failed", error: { message: "damaged" } });
    restore();
    await on.hf.drain();
    expect(await on.job(id)).toMatchObject({ state: "completed" });
  });

  it("lose nothing if the lease expires meanwhile", async () => {
    const calls: number[] = [];
    const on = await scene({ jobs: [stepping(({ step, job: { fence } }) => step("pay", () => calls.push(fence)))] });
    const restore = on.store.fail(new StoreUnavailableError("no route"), "saveSteps", "extend", "settle");
    const { id } = await on.hf.enqueueNamed("stepping");
    const running = on.hf.runNext();
    await on.clock.settle();
    await on.clock.advance("2m");
    restore();
    await on.clock.advance("10s");
    await running;
    await on.hf.drain();
    expect(await on.job(id)).toMatchObject({ state: "completed" });
    expect(calls).toEqual([1, 2]);
  });
});
