// Enforces the one direction of imports in packages/holdfast/src: domain <- store.ts <- {engine, stores} <- observe <- admin <- cli.
// A script and not a lint rule, because `no-restricted-imports` ignores dynamic imports and needs a list of all files.
import { readFileSync, readdirSync } from "node:fs";
import { join, posix } from "node:path";

const root = join(import.meta.dirname, "..");
const src = "packages/holdfast/src";

/**
 * An area may import itself and every area of a lower level; never a sibling of its own level, never upwards.
 * @typedef {{ name: string, level: number }} Area
 */

/** @type {Record<string, number>} */
const folderLevels = {
  job: 0,
  access: 0,
  history: 0,
  schedule: 0,
  engine: 2,
  stores: 2,
  observe: 3,
  config: 3,
  testing: 3,
  pack: 3,
  admin: 4,
  cli: 5,
};
/** @type {Record<string, Area>} */
const fileAreas = { "store.ts": { name: "store.ts", level: 1 }, "index.ts": { name: "index.ts", level: 6 } };
const domain = { name: "domain", level: 0 };

/** The one place where a store is chosen by its URL, and only on demand. */
const mayLoadStores = "engine/open-store.ts";

/** @param {string} file path below src @returns {Area | undefined} */
function areaOf(file) {
  const [first = "", ...rest] = file.split("/");
  if (rest.length === 0) return fileAreas[first] ?? domain;
  const level = folderLevels[first];
  if (level === 0) return domain;
  return level === undefined ? undefined : { name: `${first}/`, level };
}

/** @param {string} importer @param {string} specifier @returns {string | undefined} path below src */
function target(importer, specifier) {
  const own = specifier.replace(/\.js$/, ".ts");
  if (own.startsWith("#src/")) return own.slice("#src/".length);
  if (own === "holdfast") return "index.ts";
  if (own.startsWith("holdfast/"))
    return `${{ sqlite: "stores/sqlite", postgres: "stores/postgres", dynamodb: "stores/dynamodb" }[own.slice(9)] ?? own.slice(9)}/index.ts`;
  if (!own.startsWith(".")) return undefined;
  return posix.join(posix.dirname(importer), own);
}

// `import … from "x"`, `export … from "x"`, `import "x"`, `import("x")`, also as a type. Comments are blanked first.
const importPattern =
  /\bimport\s*\(\s*["'](?<dynamic>[^"']+)["']|\b(?:import|export)\b(?:[^"'`;()=]*?\bfrom)?\s*["'](?<fixed>[^"']+)["']/g;
const commentPattern = /\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm;

/** @param {string} file @param {string} text */
function* importsOf(file, text) {
  const code = text.replace(commentPattern, (comment) => comment.replace(/[^\n]/g, " "));
  for (const match of code.matchAll(importPattern)) {
    const to = target(file, match.groups?.["dynamic"] ?? match.groups?.["fixed"] ?? "");
    const line = code.slice(0, match.index).split("\n").length;
    if (to !== undefined) yield { to, line, dynamic: match.groups?.["dynamic"] !== undefined };
  }
}

/** @param {string} file @param {string} text */
function* violations(file, text) {
  const from = areaOf(file);
  if (from === undefined) {
    yield `${src}/${file}:1: folder has no layer; give it one in scripts/imports.mjs`;
    return;
  }
  for (const { to, line, dynamic } of importsOf(file, text)) {
    const area = areaOf(to);
    if (area === undefined || area.name === from.name || area.level < from.level) continue;
    if (file === mayLoadStores && dynamic && area.name === "stores/") continue;
    const rule = area.level === from.level ? "they are siblings" : `${area.name} is a layer above`;
    yield `${src}/${file}:${line}: ${from.name} may not import ${to}: ${rule}`;
  }
}

const files = readdirSync(join(root, src), { recursive: true, encoding: "utf8" })
  .map((file) => file.replaceAll("\\", "/"))
  .filter((file) => file.endsWith(".ts"));
const found = files.flatMap((file) => [...violations(file, readFileSync(join(root, src, file), "utf8"))]);
for (const line of found) console.error(line);
console.log(`${files.length} files, ${found.length} imports that violate the layers`);
process.exitCode = found.length > 0 ? 1 : 0;
