import { describe, expect, it } from "vitest";
import { entryPoints, reachableFiles, textOf, unexportedTypes } from "./public-types.js";

describe("published declarations", () => {
  it("are those of every entry point", () => {
    expect(entryPoints().size).toBeGreaterThan(5);
    expect(reachableFiles().length).toBeGreaterThan(30);
  });

  it("contain nothing internal", () => {
    expect(reachableFiles().filter((file) => textOf(file).includes("@internal"))).toEqual([]);
  });

  it("use only types that an entry point exports", () => {
    expect(unexportedTypes()).toEqual([]);
  });
});
