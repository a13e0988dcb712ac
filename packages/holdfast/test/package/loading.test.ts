import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";

const ROOT = join(import.meta.dirname, "../../../..");
const DIST = join(import.meta.dirname, "../../dist");

/** The files that a process loads for an import, relative to the repository. */
function loadedBy(specifier: string): string[] {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-loading-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  // Coverage lists every loaded script.
  execFileSync(process.execPath, ["--input-type=module", "-e", `await import(${JSON.stringify(specifier)})`], {
    cwd: import.meta.dirname,
    env: { ...process.env, NODE_V8_COVERAGE: folder },
  });
  return readdirSync(folder)
    .flatMap((file) => (JSON.parse(readFileSync(join(folder, file), "utf8")) as { result: { url: string }[] }).result)
    .flatMap(({ url }) => (/^file:.*js$/.test(url) ? [fileURLToPath(url).slice(ROOT.length + 1)] : []))
    .toSorted();
}

describe('import "holdfast"', () => {
  it("loads only three files and croner", () => {
    const loaded = loadedBy("holdfast").map((file) => file.replace(/-[\w-]{8}\.js$/, ".js"));
    const bundle = "packages/holdfast/dist/bundle";
    expect(loaded).toEqual([
      expect.stringMatching(/^node_modules\/croner\//),
      `${bundle}/engine.js`,
      `${bundle}/index.js`,
      `${bundle}/shared.js`,
    ]);
  });

  it("loads no store, admin API, CLI or schema library", () => {
    const loaded = loadedBy(pathToFileURL(join(DIST, "index.js")).href);
    expect(loaded.length).toBeLessThanOrEqual(145);
    const own = loaded.filter((file) => file.startsWith("packages/"));
    const folders = new Set(own.map((file) => file.split("/").slice(3, -1)[0] ?? ""));
    expect([...folders].toSorted()).toEqual(["", "access", "engine", "history", "job", "observe", "schedule"]);
    expect(loaded.filter((file) => !file.startsWith("packages/"))).toEqual([expect.stringContaining("croner")]);
  });
});
