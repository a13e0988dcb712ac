// Bundles the compiled package into the files that are published: Node loads a handful of files several times as fast as a
// hundred small ones. Tests of internals import the compiled modules in dist/ directly; users, the command and the examples
// get dist/bundle/.
import { chmodSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rolldown } from "rolldown";

const home = join(import.meta.dirname, "../packages/holdfast");
const dist = join(home, "dist");
const bundle = join(dist, "bundle");

/** Each published file, and the module it starts from. The last two are started as a thread and as a process, by name. */
const ENTRIES = {
  index: "index.js",
  sqlite: "stores/sqlite/index.js",
  postgres: "stores/postgres/index.js",
  dynamodb: "stores/dynamodb/index.js",
  admin: "admin/index.js",
  opentelemetry: "observe/opentelemetry/index.js",
  sentry: "observe/sentry.js",
  config: "config/load.js",
  pack: "pack/index.js",
  "pack-command": "cli/pack-program.js",
  store: "stores/contract.js",
  testing: "testing/index.js",
  cli: "cli/main.js",
  thread: "stores/sqlite/thread/thread.js",
  process: "testing/exercise-store/process.js",
};

const SHARED = /\/dist\/(?:(?!index\.js)[^/]+\.js|(?:access|job|schedule)\/[^/]+\.js)$/;
const ENGINE = /\/dist\/(?:engine|observe)\/(?!opentelemetry|sentry)/;

/** Writes dist/bundle, unless it is up to date with the compiled files. */
export async function bundlePackage() {
  const times = ["src.tsbuildinfo", "admin/dashboard/files.js"].map((file) => statSync(join(dist, file)).mtimeMs);
  const version = times.join(" ") + readFileSync(import.meta.filename, "utf8");
  const stamp = join(bundle, ".made-from");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === version) return;

  const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));
  const packages = [...Object.keys(dependencies), ...Object.keys(peerDependencies)];
  const build = await rolldown({
    input: Object.fromEntries(Object.entries(ENTRIES).map(([name, file]) => [name, join(dist, file)])),
    platform: "node",
    external: (id) => id.startsWith("node:") || packages.some((name) => id === name || id.startsWith(`${name}/`)),
  });
  const fresh = mkdtempSync(join(dist, "bundle-"));
  await build.write({
    dir: fresh,
    format: "esm",
    entryFileNames: "[name].js",
    chunkFileNames: "[name]-[hash].js",
    // A few files instead of many tiny ones.
    codeSplitting: {
      groups: [
        { name: "shared", test: SHARED },
        { name: "engine", test: ENGINE },
      ],
    },
    comments: false,
  });
  await build.close();
  writeFileSync(join(fresh, ".made-from"), version);
  chmodSync(fresh, 0o755);
  chmodSync(join(fresh, "cli.js"), 0o755);
  rmSync(bundle, { recursive: true, force: true });
  renameSync(fresh, bundle);
}
