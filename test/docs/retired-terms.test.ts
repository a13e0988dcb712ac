import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "./documents.js";
import { retiredTermsIn } from "./retired-terms.js";

/** Files that people read: code, tests and documents. The changelog names what was renamed. */
function files(): string[] {
  const inRoot = readdirSync(ROOT, { withFileTypes: true }).filter((entry) => entry.isFile());
  const inFolders = ["bench", "docs", "examples", "packages", "scripts", "test"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).map((path) => join(folder, path)),
  );
  return [...inRoot.map(({ name }) => name), ...inFolders].filter(
    (path) =>
      /\.(?:ts|mjs|md|sql|c|toml)$/.test(path) &&
      !/node_modules|\bdist\b|\.blocks|^CHANGELOG|^test\/docs\/retired-terms/.test(path) &&
      !COPIED.test(path),
  );
}

/** Copies that packing leaves in the package's folder. */
const COPIED = /^packages\/holdfast\/(?:docs\/|[A-Z]+\.md$)/;

describe("retired terms", () => {
  it("are in no code, test or document", () => {
    const found = files().flatMap((file) =>
      readFileSync(join(ROOT, file), "utf8")
        .split("\n")
        .flatMap((line, index) =>
          retiredTermsIn(line).map(({ term, instead }) => `${file}:${index + 1}: "${term}", use: ${instead}`),
        ),
    );
    expect(found).toEqual([]);
  });

  it.each([
    ["What must not run is laid down.", "laid down"],
    ["// Nobody is told.", "told"],
    ["const auditDeed = 1;", "Deed"],
    ["MOST_ANSWERS", "ANSWERS"],
  ])("are found in %s", (line, term) => {
    expect(retiredTermsIn(line).map((found) => found.term)).toContain(term);
  });

  it.each(["Math.floor(1.5)", "the text of an error", "Returns the result."])("are not found in %s", (line) => {
    expect(retiredTermsIn(line)).toEqual([]);
  });
});
