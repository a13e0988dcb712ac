// Compiles every project. First deletes outputs whose source no longer exists, because `tsc -b` leaves them behind, and a
// deleted module would still be importable, tested and published.
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { bundlePackage } from "./bundle.mjs";
import { buildDashboard } from "./dashboard.mjs";

const root = join(import.meta.dirname, "..");

/** @param {string} file */
function readJson(file) {
  return JSON.parse(readFileSync(join(root, file), "utf8"));
}

/** @param {string} sources @param {string} outputs */
function removeOrphans(sources, outputs) {
  if (!existsSync(outputs)) return;
  for (const file of readdirSync(outputs, { recursive: true, encoding: "utf8" })) {
    // Only outputs of tsc have a .d.ts. Files that other tools write to dist are not deleted.
    if (!file.endsWith(".d.ts")) continue;
    const stem = file.slice(0, -".d.ts".length);
    if (existsSync(join(sources, `${stem}.ts`)) || existsSync(join(sources, `${stem}.tsx`))) continue;
    for (const ending of [".js", ".js.map", ".d.ts", ".d.ts.map"])
      rmSync(join(outputs, stem + ending), { force: true });
  }
}

/** For `npx holdfast` in a clone: npm links commands when it installs, and they did not exist yet. */
function linkCommands() {
  const isWindows = process.platform === "win32";
  /** @type {string[]} */
  const unlinked = [];
  for (const folder of readdirSync(join(root, "packages"))) {
    /** @type {{ name: string, bin?: Record<string, string> }} */
    const { name: owner, bin = {} } = readJson(`packages/${folder}/package.json`);
    for (const [name, file] of Object.entries(bin)) {
      // npm does so when it links, and the compiler may write the file anew.
      chmodSync(join(root, "packages", folder, file), 0o755);
      if (!existsSync(join(root, "node_modules/.bin", isWindows ? `${name}.cmd` : name))) unlinked.push(owner);
    }
  }
  if (unlinked.length === 0) return;
  spawnSync("npm", ["rebuild", ...unlinked, "--ignore-scripts"], { cwd: root, stdio: "ignore", shell: isWindows });
}

for (const { path } of readJson("tsconfig.json").references) {
  const { rootDir, outDir } = path.endsWith(".json") ? {} : readJson(`${path}/tsconfig.json`).compilerOptions;
  if (outDir) removeOrphans(join(root, path, rootDir), join(root, path, outDir));
}

const { status } = spawnSync(join(root, "node_modules/.bin/tsc"), ["-b", ...process.argv.slice(2)], {
  cwd: root,
  stdio: "inherit",
  shell: process.platform === "win32",
});
if (status === 0) {
  await buildDashboard();
  await bundlePackage();
  linkCommands();
}
process.exitCode = status ?? 1;
