import { describe, expect, it } from "vitest";
import { command, readResult, sumOf } from "./command.js";

describe("npm run torture on all stores", () => {
  it.each(["sqlite", "postgres", "dynamodb"])("finds no violation on %s", { timeout: 400_000 }, async (store) => {
    const ended = await command("--store", store, "--runs", "20", "--seed", "1", "--json");
    const { runs, violations, faults } = readResult(ended);
    expect(violations).toEqual([]);
    expect([ended.code, runs]).toEqual([0, 20]);
    expect(sumOf(faults)).toBeGreaterThanOrEqual(20);
  });
});
