import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

/** A temporary folder from which Node finds no copy of the driver; undefined if there is none. */
export function folderWithout(driver: string): string | undefined {
  // A parent of the system's temporary folder may have a node_modules with the driver.
  return [tmpdir(), "/var/tmp", "/dev/shm"].find((folder) => !resolvesIn(folder, driver));
}

function resolvesIn(folder: string, driver: string): boolean {
  try {
    createRequire(join(folder, "x", "y.js")).resolve(driver);
    return true;
  } catch {
    return false;
  }
}

/** The built package with its dependencies, like an install without optional peers. */
export function copyOfThePackage(base: string): string {
  const folder = mkdtempSync(join(base, "holdfast-driver-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(dirname(fileURLToPath(import.meta.resolve("holdfast"))), join(folder, "dist"), { recursive: true });
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  const croner = dirname(createRequire(import.meta.url).resolve("croner/package.json"));
  cpSync(croner, join(folder, "node_modules", "croner"), { recursive: true });
  return folder;
}

/** The output of a program that only opens the store, with the package in this folder. */
export function refusalIn(folder: string, store: string): { name: string; code: string; message: string } {
  writeFileSync(
    join(folder, "main.js"),
    `import { holdfast } from "./dist/index.js";
    try {
      await holdfast({ store: ${JSON.stringify(store)} });
    } catch ({ name, code, message }) {
      console.log(JSON.stringify({ name, code, message }));
    }`,
  );
  const { stdout, stderr } = spawnSync(process.execPath, [join(folder, "main.js")], { encoding: "utf8" });
  if (stdout === "") throw new Error(`no output: ${stderr}`);
  return JSON.parse(stdout) as ReturnType<typeof refusalIn>;
}
