import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";

it("docs/reference/test-matrix.md is what node scripts/test-matrix.mjs writes", () => {
  const script = join(import.meta.dirname, "../../scripts/test-matrix.mjs");
  expect(() => execFileSync(process.execPath, [script, "--check"], { stdio: "pipe" })).not.toThrow();
});
