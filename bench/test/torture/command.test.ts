import { describe, expect, it } from "vitest";
import { command, readResult, sumOf } from "./command.js";

describe("npm run torture", () => {
  it("finds no violation on SQLite", { timeout: 120_000 }, async () => {
    const ended = await command("--store", "sqlite", "--runs", "6", "--seed", "300", "--json");
    const { runs, violations, faults } = readResult(ended);
    expect(violations).toEqual([]);
    expect(ended.code).toBe(0);
    expect(runs).toBe(6);
    expect(sumOf(faults)).toBeGreaterThanOrEqual(6);
  });

  it.each([
    [[], "Name the store with --store: sqlite, postgres, dynamodb."],
    [["--store", "mysql"], "Name the store with --store: sqlite, postgres, dynamodb."],
    [["--store", "sqlite", "--runs", "0"], "--runs must be an integer from 1 to 999999, not 0."],
    [["--store", "sqlite", "--runs", "1", "--minutes", "1"], "--runs cannot be used together with --minutes."],
    [["--store", "sqlite", "--seed", "x"], "--seed must be an integer from 0 to 999999999, not x."],
    [["--stor", "sqlite"], "Unknown option '--stor'; --help lists the options."],
  ])("refuses %j", async (args, message) => {
    const { code, stderr } = await command(...args);
    expect([code, stderr.trim()]).toEqual([2, message]);
  });
});
