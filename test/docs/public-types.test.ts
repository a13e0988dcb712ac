import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "./documents.js";
import { publicTypes } from "./public-types.js";

const folders = readdirSync(join(ROOT, "packages")).filter((folder) => folder !== "dashboard");

describe.each(folders)("published declarations of packages/%s", (folder) => {
  const { entryPoints, reachableFiles, textOf, unexportedTypes } = publicTypes(folder);

  it("are those of every entry point", () => {
    expect(entryPoints().size).toBeGreaterThan(folder === "holdfast" ? 5 : 0);
    expect(reachableFiles().length).toBeGreaterThan(folder === "holdfast" ? 30 : 3);
  });

  it("contain nothing internal", () => {
    expect(reachableFiles().filter((file) => textOf(file).includes("@internal"))).toEqual([]);
  });

  it("use only types that an entry point exports", () => {
    expect(unexportedTypes()).toEqual([]);
  });
});
