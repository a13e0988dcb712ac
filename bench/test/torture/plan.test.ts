import { describe, expect, it } from "vitest";
import { PLACES_COUNT, planRound, STEPS, type Fault, type PlannedRun } from "#src/torture/plan.js";

function faultsOf({ faults, emits, children }: PlannedRun): Fault[] {
  return [{ faults }, ...emits, ...Object.values(children).flat()].flatMap((each) => each.faults);
}

describe("a plan", () => {
  it("is the same for the same seed", () => {
    expect(planRound(7, 10)).toEqual(planRound(7, 10));
    expect(planRound(8, 10)).not.toEqual(planRound(7, 10));
  });

  it("has 20 steps and a fault in each run", () => {
    for (const run of planRound(1, 50).runs) {
      expect(new Set(run.steps.map(({ name }) => name)).size).toBe(STEPS);
      expect(faultsOf(run).length).toBeGreaterThan(0);
    }
  });

  it("interrupts consecutive runs at every place", () => {
    const rounds = Array.from({ length: Math.ceil(PLACES_COUNT / 10) }, (_, round) => planRound(100 + round, 10));
    const faults = rounds.flatMap(({ runs }) => runs.flatMap(faultsOf));
    const places = new Set(faults.map(({ place, moment, step }) => `${place} ${moment} ${step ?? ""}`));
    for (let at = 1; at <= STEPS; at++) {
      const step = `s${String(at).padStart(2, "0")}`;
      for (const place of ["step before", "save during", "step after"]) expect(places).toContain(`${place} ${step}`);
    }
    for (const place of ["park", "emit", "child end"]) {
      for (const moment of ["before", "during", "after"]) expect(places).toContain(`${place} ${moment} `);
    }
    expect(places).toContain("claim after ");
    expect([...places].some((place) => place.startsWith("step inside"))).toBe(true);
    expect(new Set(faults.map(({ action }) => action))).toEqual(new Set(["kill", "pause"]));
  });
});
