import { job } from "holdfast";
import type { Outcome } from "holdfast/store";
import { describe, expect, it } from "vitest";
import { scene } from "./scene.js";

describe("steps and clocks", () => {
  it("a step does not begin in a process that was suspended", async () => {
    const calls: string[] = [];
    let suspend = (): void => {};
    const stepping = job({
      type: "stepping",
      async run({ step, job: { fence } }) {
        await step("first", () => calls.push(`first ${fence}`));
        if (fence === 1) suspend();
        await step("second", () => calls.push(`second ${fence}`));
      },
    });
    const { hf, clock, job: read } = await scene({ jobs: [stepping] });
    const monotonic = clock.monotonic.bind(clock);
    // The process goes on where it was stopped, before its timers fire.
    suspend = () => {
      clock.monotonic = () => monotonic() + 60_000;
    };
    const { id } = await hf.enqueue(stepping);
    await hf.drain();
    await clock.advance("2m");
    await hf.drain();
    expect(calls).toEqual(["first 1", "second 2"]);
    expect(await read(id)).toMatchObject({ state: "completed" });
  });

  it("a park is stored in whole milliseconds", async () => {
    const sleeping = job({ type: "sleeping", run: ({ sleep }) => sleep("night", "12h") });
    const { hf, clock, store } = await scene({ jobs: [sleeping] });
    const monotonic = clock.monotonic.bind(clock);
    let reads = 0;
    clock.monotonic = () => monotonic() + ++reads / 10;
    await hf.enqueue(sleeping);
    await hf.drain();
    const outcomes = store.calls("settle").flatMap(([settled]) => settled as Outcome[]);
    const times = outcomes.flatMap(({ delayMs, park }) => [delayMs, park?.until ?? Number.NaN]);
    expect(times).toEqual([expect.any(Number), expect.any(Number)]);
    expect(times.filter((time) => !Number.isInteger(time))).toEqual([]);
  });
});
