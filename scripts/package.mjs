// Checks the package as a user would get it: packs it, looks for files that should not ship, and runs publint and attw
// on the tarball. Expects a finished build.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const root = join(import.meta.dirname, "..");
const shipped = /^(package\.json|README\.md|LICENSE|dist\/(?!.*\.(tsbuildinfo|test\.js)$).+)$/;

const run = promisify(execFile);
/** @param {string} command @param {string[]} args */
const bin = (command, args) =>
  run(join(root, "node_modules/.bin", command), args, { cwd: root, shell: process.platform === "win32" });

const directory = mkdtempSync(join(tmpdir(), "holdfast-pack-"));
try {
  const pack = ["pack", "--workspace=holdfast", "--json", `--pack-destination=${directory}`, "--loglevel=error"];
  const { stdout } = await run("npm", pack, { cwd: root, shell: process.platform === "win32" });
  /** @type {{ filename: string, size: number, files: { path: string }[] }} */
  const packed = JSON.parse(stdout)[0];
  const unwanted = packed.files.map(({ path }) => path).filter((path) => !shipped.test(path));
  const tarball = join(directory, packed.filename);

  const results = await Promise.allSettled([
    bin("publint", ["run", tarball, "--strict"]),
    bin("attw", [tarball, "--profile", "esm-only"]),
  ]);
  for (const path of unwanted) console.error(`package: ${path} must not ship`);
  for (const result of results) {
    if (result.status === "rejected")
      console.error(`${result.reason.stdout ?? ""}${result.reason.stderr ?? result.reason}`);
  }
  console.log(`${packed.files.length} files, ${Math.round(packed.size / 1000)} kB packed`);
  if (unwanted.length > 0 || results.some(({ status }) => status === "rejected")) process.exitCode = 1;
} finally {
  rmSync(directory, { recursive: true, force: true });
}
