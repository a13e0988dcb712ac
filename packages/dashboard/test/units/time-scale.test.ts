import { describe, expect, it } from "vitest";
import { barsPath, linePaths, newScale, niceTop, timeTicks, topOf, type Layer } from "../../src/ui/time-scale.js";

const same = newScale(0, 1_000, 0, 1_000);
const layer = (kind: Layer["kind"], values: Layer["values"]): Layer => ({ kind, values, state: "pending" });

describe("charts over time", () => {
  it("have an axis as high as their stacked bars", () => {
    expect(topOf([layer("bars", [1, 4]), layer("bars", [2, 3])])).toBe(7);
    expect(topOf([layer("line", [1, null]), layer("dashed", [5, 3])])).toBe(5);
    expect(topOf([])).toBe(0);
    expect([niceTop(7, 2), niceTop(214), niceTop(0.9)]).toEqual([10, 240, 1]);
  });

  it("place values, also if there is only one", () => {
    expect([0, 5, 10].map(newScale(0, 10, 100, 0))).toEqual([100, 50, 0]);
    expect(newScale(7, 7, 40, 300)(7)).toBe(40);
  });

  it("stack bars on the layers below, without empty ones", () => {
    const input = { at: [0, 100], values: [2, 0], below: [layer("bars", [3, 1])], period: 100, x: same, y: same };
    expect(barsPath(input)).toBe("M9 3V5H91V3Z");
  });

  it("interrupt lines where values are missing", () => {
    const { stroke, area } = linePaths({ at: [0, 1, 2, 3], values: [5, 6, null, 7], x: same, y: same });
    expect(stroke).toBe("M0 5L1 6M3 7h.01");
    expect(area).toBe("M0 5L1 6V0H0ZM3 7V0H3Z");
  });

  it("label round local times", () => {
    const from = new Date(2026, 10, 16, 13, 32).getTime() / 1_000;
    const ticks = timeTicks(from, from + 3_600, 6).map((time) => new Date(time * 1_000).getMinutes());
    expect(ticks).toEqual([40, 50, 0, 10, 20, 30]);
  });

  it("label midnights while the clocks change", () => {
    const from = new Date(2026, 9, 10, 5).getTime() / 1_000;
    const hours = timeTicks(from, from + 30 * 86_400, 8).map((time) => new Date(time * 1_000).getHours());
    expect(hours.length).toBeGreaterThan(5);
    expect(new Set(hours)).toEqual(new Set([0]));
  });
});
