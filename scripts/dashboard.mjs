// Builds the dashboard and writes its files, compressed, into one module of the core package: so it works wherever the package
// does, also in a bundle or in a function without a file system. Does nothing if it is up to date.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { gzipAsync } from "@gfx/zopfli";
import { build } from "vite";

const root = join(import.meta.dirname, "..");
const home = join(root, "packages/dashboard");
const site = join(home, "dist/site");
const output = join(root, "packages/holdfast/dist/admin/dashboard/files.js");

/** What the build reads besides the dashboard itself. */
const SHARED = ["admin/contract/client.ts", "admin/contract/routes.ts", "errors.ts"].map((file) =>
  join(root, "packages/holdfast/src", file),
);

const TYPES = /** @type {Record<string, string>} */ ({
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
});

/** The groups of vite.config.mjs with views. */
const VIEWS = ["job", "more"];

/** @param {string} file */
const nameOf = (file) => file.replace("assets/", "");

function versionOfSources() {
  const hash = createHash("sha256");
  const own = readdirSync(join(home, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
  for (const file of [...own, ...SHARED, join(home, "vite.config.mjs"), import.meta.filename])
    hash.update(file.slice(root.length)).update(readFileSync(file));
  return hash.digest("hex");
}

/** Whether it was built anew. */
export async function buildDashboard() {
  const comment = `// Made from ${versionOfSources()}\n`;
  if (existsSync(output) && readFileSync(output, "utf8").startsWith(comment)) return false;
  await build({ configFile: join(home, "vite.config.mjs"), logLevel: "error" });
  /** @type {Record<string, { file: string, name?: string, css?: string[], imports?: string[], isEntry?: boolean }>} */
  const manifest = JSON.parse(readFileSync(join(site, ".vite/manifest.json"), "utf8"));
  const entry = Object.values(manifest).find(({ name }) => name === "main");
  if (entry === undefined) throw new Error("the build of the dashboard has no entry");
  /** All files that a module needs, without those of the entry. @type {(name: string) => string[]} */
  const filesOf = (name) => {
    const { file = "", imports = [] } = manifest[name] === entry ? {} : (manifest[name] ?? {});
    return file === "" ? [] : [...new Set([file, ...imports.flatMap(filesOf)])];
  };
  const imported = (entry.imports ?? []).flatMap(filesOf);
  const views = Object.entries(manifest).filter(([, { name = "" }]) => VIEWS.includes(name));
  if (views.length !== VIEWS.length) throw new Error(`the build of the dashboard has no module of ${VIEWS.join(", ")}`);
  const names = readdirSync(join(site, "assets")).toSorted();
  const styles = names.filter((name) => name.endsWith(".css"));
  const files = await Promise.all(
    names.map(async (name) => {
      // 3.5 % smaller than zlib at its highest level.
      const data = await gzipAsync(readFileSync(join(site, "assets", name)), { numiterations: 15 });
      return [
        name,
        { type: TYPES[extname(name)] ?? "application/octet-stream", gzip: Buffer.from(data).toString("base64") },
      ];
    }),
  );
  const text = `${comment}export const ENTRY = ${JSON.stringify({
    script: nameOf(entry.file),
    preload: imported.map(nameOf),
    views: Object.fromEntries(views.map(([key, { name }]) => [name, filesOf(key).map(nameOf)])),
    styles,
  })};\nexport const FILES = ${JSON.stringify(Object.fromEntries(files))};\n`;
  mkdirSync(join(output, ".."), { recursive: true });
  writeFileSync(output, text);
  return true;
}

if (process.argv[1] === import.meta.filename) await buildDashboard();
