import { describe, expect, it } from "vitest";
import { sqliteBed } from "#src/bed-sqlite.js";
import type { Rule } from "#src/torture/checker.js";
import type { MutantName } from "#src/torture/mutants.js";
import { planRound } from "#src/torture/plan.js";
import { torture, type FoundViolation } from "#src/torture/torture.js";
import { folder } from "./command.js";

const RUNS = 4;

/** Runs a store that breaks a rule in real processes. */
async function violationsOf(mutant: MutantName, seed: number, endWithinMs = 15_000): Promise<FoundViolation[]> {
  const path = folder();
  const options = { store: "sqlite", seed, runs: RUNS, minutes: null, mutant, endWithinMs } as const;
  const silent = { step: () => {}, within: () => {}, end: () => {} };
  return (await torture(sqliteBed(path), path, options, silent)).violations;
}

/** The first seed whose plan pauses a process inside a function. */
function seedWithPause(): number {
  for (let seed = 1; ; seed++) {
    const faults = planRound(seed, RUNS).runs.flatMap((run) => run.faults);
    if (faults.some(({ action, place, moment }) => action === "pause" && place === "step" && moment === "inside"))
      return seed;
  }
}

describe("the checker finds a store that", { timeout: 120_000 }, () => {
  it.each<[MutantName, Rule]>([
    ["forgets steps", "runs once"],
    ["changes results", "one result"],
    ["loses events", "wait ends"],
    ["loses the ends of children", "parent goes on"],
    ["loses a job", "job ends"],
  ])("%s", async (mutant, rule) => {
    const violations = await violationsOf(mutant, 1);
    expect(violations.map((violation) => violation.rule)).toContain(rule);
  });

  it("keeps late steps", async () => {
    const violations = await violationsOf("keeps late steps", seedWithPause(), 60_000);
    expect(violations.map(({ rule }) => rule)).toContain("late steps refused");
  });
});
