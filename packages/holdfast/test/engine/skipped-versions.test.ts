import { fakeClock } from "holdfast/testing";
import { describe, expect, it } from "vitest";
import { SkippedVersions } from "#src/engine/scheduler/skipped-versions.js";

describe("a schedule with a backoff", () => {
  it("waits longer each time, until it is reset", async () => {
    const clock = fakeClock();
    const left = new SkippedVersions(clock);
    const waits: number[] = [];
    for (let n = 0; n < 5; n++) {
      left.skip("v", 100, 500);
      expect(left.has("v")).toBe(true);
      const { versions, nextInMs } = left.count();
      expect(versions).toBe(1);
      waits.push(nextInMs);
      await clock.advance(nextInMs);
      expect(left.has("v")).toBe(false);
      expect(left.count()).toEqual({ versions: 0, nextInMs: Number.POSITIVE_INFINITY });
    }
    expect(waits).toEqual([100, 200, 400, 500, 500]);
    await clock.advance(500);
    left.count();
    left.skip("v", 100, 500);
    expect(left.count().nextInMs).toBe(100);
  });

  it("is one of a bounded number", () => {
    const left = new SkippedVersions(fakeClock());
    for (let n = 0; n < 10_001; n++) left.skip(`v${n}`, 100);
    expect(left.count().versions).toBe(10_000);
    expect([left.has("v0"), left.has("v10000")]).toEqual([true, false]);
  });
});
