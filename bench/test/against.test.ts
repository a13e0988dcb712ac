import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { alternate } from "#src/against/alternate.js";
import { comparisonTable } from "#src/against/comparison-table.js";
import { compare, reaches, type Comparison } from "#src/against/comparison.js";
import { PLANS } from "#src/against/run.js";
import { ratioOf, tail } from "#src/against/statistics.js";
import { sqliteBed } from "#src/bed-sqlite.js";
import { COMPARED_ROUNDS, readOptions } from "#src/options.js";

/** Random numbers from 0 to 1 with a fixed seed. */
function fixedRandom(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

/** Simulated ratios: each round has an error of its processes, each pair its own error. */
function ratios(random: () => number, truth: number, rounds: number = 20, pairs: number = 4): number[][] {
  const noise = (spread: number): number => spread * (random() + random() + random() - 1.5);
  return Array.from({ length: rounds }, () => {
    const ofRound = noise(0.05);
    return Array.from({ length: pairs }, () => truth * Math.exp(ofRound + noise(0.1)));
  });
}

describe("a ratio and its interval", () => {
  it("is the ratio itself without noise", () => {
    expect(ratioOf(Array.from({ length: 10 }, () => [1.05, 1.05]))).toEqual({ value: 1.05, low: 1.05, high: 1.05 });
  });

  it("is the same for the same samples", () => {
    const samples = ratios(fixedRandom(1), 1);
    expect(ratioOf(samples)).toEqual(ratioOf(samples));
  });

  it("contains the true ratio in about 19 of 20 comparisons", () => {
    const random = fixedRandom(7);
    const comparisons = Array.from({ length: 40 }, () => ratioOf(ratios(random, 0.97)));
    const right = comparisons.filter(({ low, high }) => low <= 0.97 && high >= 0.97).length;
    expect(right).toBeGreaterThanOrEqual(36);
    expect(right).toBeLessThan(40);
  });

  it("stays wide when many pairs share few processes", () => {
    const rounds = Array.from({ length: 10 }, (_, round) => Array.from({ length: 100 }, () => 1 + (round % 5) / 10));
    const { low, high } = ratioOf(rounds);
    expect(high - low).toBeGreaterThan(0.1);
  });

  it("has the coverage of Student's distribution", () => {
    // Φ(−√(n / (n − 1)) · t) with t from a table: 2.0930 for 19 degrees of freedom, 2.2622 for 9.
    expect(tail(20)).toBeCloseTo(0.01589, 4);
    expect(tail(10)).toBeCloseTo(0.00855, 4);
    expect(tail(1_000_000)).toBeCloseTo(0.025, 5);
  });
});

describe("the verdict", () => {
  it.each([
    ["above", { value: 1.02, low: 1, high: 1.04 }, true],
    ["around", { value: 0.97, low: 0.95, high: 0.99 }, true],
    ["just at", { value: 0.97, low: 0.96, high: 0.98 }, true],
    ["wholly below", { value: 0.95, low: 0.93, high: 0.979 }, false],
  ])("of an interval %s 0.98", (_, ratio, met) => {
    expect(reaches(ratio, 0.98)).toBe(met);
  });

  it("treats less time and more jobs per second as faster", () => {
    const rounds = (before: number, after: number): { before: number; after: number }[][] =>
      Array.from({ length: 10 }, () => [{ before, after }]);
    const rows = compare(
      [
        { name: "insert 1", unit: "ms", rounds: rounds(2, 1) },
        { name: "drain", unit: "jobs/s", rounds: rounds(1_000, 900) },
      ],
      0.98,
    );
    expect(rows).toMatchObject([
      { name: "insert 1", before: 2, after: 1, pairs: 10, ratio: { value: 2 }, met: true, wide: false },
      { name: "drain", before: 1_000, after: 900, pairs: 10, ratio: { value: 0.9 }, met: false, wide: false },
    ]);
  });

  it("is the last line of the table", () => {
    const slow = Array.from({ length: 10 }, (_, round) => [{ before: 1, after: round % 2 === 0 ? 1.2 : 1.5 }]);
    const rows = compare([{ name: "insert 1", unit: "ms", rounds: slow }], 0.98);
    const comparison: Comparison = {
      version: 1,
      store: "sqlite",
      before: { commit: "a".repeat(40), subject: "An older commit" },
      after: { commit: "b".repeat(40), changed: true },
      at: "2026-01-01T00:00:00.000Z",
      seconds: 100,
      machine: { cores: 2, cpu: "a processor", memoryMb: 1_024, system: "linux", node: "v20" },
      database: { sqlite: "3" },
      rounds: 10,
      drainJobs: 1_000,
      atLeast: 0.98,
      rows,
      met: false,
    };
    const lines = comparisonTable(comparison).split("\n");
    expect(lines[0]).toContain("working tree (bbbbbbbbbb with changes) over that of aaaaaaaaaa (An older commit)");
    expect(lines).toContainEqual(
      expect.stringMatching(/^insert 1 +1\.00 ms +1\.35 ms +0\.750 +0\.667 – 0\.833 +10 {2}✗$/),
    );
    expect(lines.at(-2)).toMatch(/^The intervals of insert 1 are wider than ±5 %/);
    expect(lines.at(-1)).toBe("At least 0.98 × before: missed by insert 1");
  });
});

describe("--against", () => {
  it("reads its options", () => {
    expect(readOptions(["sqlite", "--against", "HEAD~1", "--at-least", "0.95", "--rounds", "12", "--json"])).toEqual({
      kind: "compare",
      store: "sqlite",
      against: "HEAD~1",
      atLeast: 0.95,
      rounds: 12,
      json: true,
    });
    expect(readOptions(["postgres", "--against", "main"])).toMatchObject({ atLeast: 0.98, rounds: 20, json: false });
  });

  it.each([
    [["sqlite", "--at-least", "1"], "--at-least needs --against."],
    [["sqlite", "--against", "x", "--only", "drain"], "--only cannot be used together with --against."],
    [["sqlite", "--against", "x", "--at-least", "some"], "--at-least must be a ratio such as 0.98, not some."],
    [["sqlite", "--against", "x", "--rounds", "3"], "--rounds must be an integer from 10 to 200, not 3."],
  ])("rejects %j", (args, sentence) => {
    expect(() => readOptions(args)).toThrow(sentence);
  });

  it.each(Object.entries(PLANS))("measures 100 pairs of calls and 10 of drains on %s", (_, { times, drains }) => {
    expect(times * COMPARED_ROUNDS.min).toBeGreaterThanOrEqual(100);
    expect(drains * COMPARED_ROUNDS.min).toBeGreaterThanOrEqual(10);
  });

  it("rejects a build that loads the other one", async () => {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-against-"));
    const driver = fileURLToPath(new URL("../dist/against/driver.js", import.meta.url));
    const build = { folder, driver };
    const plan = { rounds: 1, sizes: [1], times: 1, warmUp: 0, drainJobs: 1, drains: 1 };
    const comparison = alternate(sqliteBed(folder), { before: build, after: build }, plan, () => {});
    await expect(comparison).rejects.toThrow(/loads another build: .*packages/);
    await rm(folder, { recursive: true });
  });

  it("measures inserts, claims, settles and drains alternately", async () => {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-against-"));
    const root = fileURLToPath(new URL("../..", import.meta.url));
    const build = { folder: root, driver: join(root, "bench/dist/against/driver.js") };
    const begun: number[] = [];
    const plan = { rounds: 2, sizes: [1, 5], times: 3, warmUp: 1, drainJobs: 30, drains: 1 };
    const measures = await alternate(sqliteBed(folder), { before: build, after: build }, plan, (n) => begun.push(n));
    await rm(folder, { recursive: true });

    expect(begun).toEqual([0, 1]);
    expect(measures.map(({ name, unit, rounds }) => [name, unit, rounds.map((pairs) => pairs.length)])).toEqual([
      ["insert 1", "ms", [3, 3]],
      ["claim 1", "ms", [3, 3]],
      ["settle 1", "ms", [3, 3]],
      ["insert 5", "ms", [3, 3]],
      ["claim 5", "ms", [3, 3]],
      ["settle 5", "ms", [3, 3]],
      ["drain", "jobs/s", [1, 1]],
    ]);
    for (const { before, after } of measures.flatMap(({ rounds }) => rounds.flat())) {
      expect(before).toBeGreaterThan(0);
      expect(after).toBeGreaterThan(0);
    }
  });
});
