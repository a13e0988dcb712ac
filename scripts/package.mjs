// Checks the packages as users would get them: packs each, checks its size, its README, for files that should not ship and for
// types of packages that a user may not have, and runs publint and attw on the tarball. Then loads every export and starts every
// command from the unpacked tarballs.
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { promisify } from "node:util";

const root = join(import.meta.dirname, "..");

/**
 * @typedef {object} Package
 * @property {string} folder below packages/
 * @property {RegExp} shipped the files that may ship
 * @property {number} maxBytes packed
 * @property {boolean} isCore the README of the core is that of the repository
 */

/** @type {Package} */
const CORE = {
  folder: "holdfast",
  shipped:
    /^(package\.json|README\.md|CHANGELOG\.md|LICENSE|docs\/(guides|reference)\/[^/]+\.md|dist\/bundle\/[^/]+\.js|dist\/.+\.d\.ts)$/,
  maxBytes: 1_130_000,
  isCore: true,
};
/** @type {Package[]} */
const PACKS = readdirSync(join(root, "packages"))
  .filter((folder) => !["holdfast", "dashboard"].includes(folder))
  .map((folder) => ({
    folder,
    shipped: /^(package\.json|README\.md|LICENSE|dist\/.+\.(js|d\.ts))$/,
    maxBytes: 60_000,
    isCore: false,
  }));

/** @param {string} folder */
const homeOf = (folder) => join(root, "packages", folder);
/** @param {string} folder @param {string} file */
const read = (folder, file) => readFileSync(join(homeOf(folder), file), "utf8");

/** @typedef {{ name: string, version: string, bin?: Record<string, string>, exports: Record<string, string | { types: string }>, dependencies: Record<string, string>, peerDependencies: Record<string, string>, peerDependenciesMeta?: Record<string, { optional?: boolean }> }} Manifest */
/** @param {string} folder @returns {Manifest} */
const manifestOf = (folder) => JSON.parse(read(folder, "package.json"));

/** The import specifiers of a file. @param {string} folder @param {string} file */
function importsOf(folder, file) {
  const code = read(folder, file).replaceAll(/\/\*.*?\*\/|^\s*\/\/[^\n]*$/gms, "");
  return [...code.matchAll(/(?:from|import|import\(|require\(|import\.meta\.url\)\(|requirePeer\()\s*"([^"]+)"/g)].map(
    (match) => match[1] ?? "",
  );
}

/** The name of the package that a specifier belongs to. @param {string} specifier */
function packageOf(specifier) {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/** The published type declarations may import only packages that are installed with this one. @param {string} folder */
function* foreignTypes(folder) {
  const { exports, dependencies, peerDependencies, peerDependenciesMeta = {} } = manifestOf(folder);
  const required = Object.keys(peerDependencies).filter((name) => peerDependenciesMeta[name]?.optional !== true);
  const installed = new Set([...Object.keys(dependencies), ...required]);
  const files = new Set(
    Object.values(exports).flatMap((entry) => (typeof entry === "string" ? [] : [join(entry.types)])),
  );
  for (const file of files) {
    for (const name of importsOf(folder, file)) {
      if (name.startsWith(".")) files.add(join(dirname(file), name.replace(/\.js$/, ".d.ts")));
      else if (!name.startsWith("node:") && !installed.has(packageOf(name))) {
        yield `${file} needs the types of ${name}`;
      }
    }
  }
}

/** @param {string} folder @param {string[]} files */
function* unusedPeers(folder, files) {
  const used = new Set(
    files.filter((file) => file.endsWith(".js")).flatMap((file) => importsOf(folder, file).map(packageOf)),
  );
  for (const peer of Object.keys(manifestOf(folder).peerDependencies)) {
    if (!used.has(peer)) yield `nothing imports the peer ${peer}`;
  }
}

/** The core's page shows the whole README. Links of its pages lead to shipped pages, those of packs to pages that the core ships. @param {Package} of @param {string[]} files */
function* badPages({ folder, isCore }, files) {
  if (!files.includes("README.md")) yield "has no README";
  const headings = (/** @type {string} */ text) => text.match(/^#+ .+$/gm)?.join("\n");
  if (isCore && headings(read(folder, "README.md")) !== headings(readFileSync(join(root, "README.md"), "utf8"))) {
    yield "its README is not the whole README of the repository";
  }
  for (const page of files.filter((file) => file.endsWith(".md"))) {
    for (const [, path = ""] of read(folder, page).matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
      const to = posix.join(posix.dirname(page), path);
      const ships = isCore
        ? files.includes(to)
        : CORE.shipped.test(to.replace("../../", "")) && existsSync(join(homeOf(folder), to));
      if (!ships) yield `${page} links to ${path}, which does not ship`;
    }
  }
}

/** Packs need the version of the core that they were tested with. @param {string} folder */
function* badVersions(folder) {
  const { version } = manifestOf(CORE.folder);
  const own = manifestOf(folder);
  if (own.version !== version) yield `has version ${own.version}, and the core ${version}`;
  const peer = own.peerDependencies["holdfast"];
  if (peer !== undefined && peer !== `^${version}`) yield `needs holdfast ${peer}, and the core is ${version}`;
}

const run = promisify(execFile);
/** @param {string} command @param {string[]} args */
const bin = (command, args) =>
  run(join(root, "node_modules/.bin", command), args, { cwd: root, shell: process.platform === "win32" });

// In node_modules, so that the unpacked packages find their dependencies.
const directory = mkdtempSync(join(root, "node_modules/.holdfast-pack-"));

/** @param {Package} of */
async function check(of) {
  const { folder, isCore, shipped, maxBytes } = of;
  const pack = [
    "pack",
    `--workspace=packages/${folder}`,
    "--json",
    `--pack-destination=${directory}`,
    "--loglevel=error",
    "--foreground-scripts=false",
    // The core's prepack builds all of them.
    ...(isCore ? [] : ["--ignore-scripts"]),
  ];
  const { stdout } = await run("npm", pack, { cwd: root, shell: process.platform === "win32" });
  /** @type {{ filename: string, size: number, files: { path: string }[] }} */
  const packed = JSON.parse(stdout)[0];
  const files = packed.files.map(({ path }) => path);
  const problems = files.filter((path) => !shipped.test(path)).map((path) => `${path} must not ship`);
  problems.push(...foreignTypes(folder), ...unusedPeers(folder, files), ...badPages(of, files), ...badVersions(folder));
  if (packed.size > maxBytes) problems.push(`${packed.size} bytes packed; at most ${maxBytes}`);
  const tarball = join(directory, packed.filename);

  const results = await Promise.allSettled([
    bin("publint", ["run", tarball, "--strict"]),
    bin("attw", [tarball, "--profile", "esm-only"]),
  ]);
  for (const problem of problems) console.error(`${folder}: ${problem}`);
  for (const result of results) {
    if (result.status === "rejected")
      console.error(`${folder}: ${result.reason.stdout ?? ""}${result.reason.stderr ?? result.reason}`);
  }
  console.log(`${folder}: ${packed.files.length} files, ${Math.round(packed.size / 1000)} kB packed`);
  if (problems.length > 0 || results.some(({ status }) => status === "rejected")) process.exitCode = 1;
  return tarball;
}

/** Unpacks a tarball to where npm would install it. @param {string} name @param {string} tarball */
async function unpack(name, tarball) {
  const home = join(directory, "node_modules", name);
  mkdirSync(home, { recursive: true });
  await run("tar", ["-xzf", tarball, "-C", home, "--strip-components=1"]);
  return home;
}

/** Loads every export of an installed package, and starts every command. @param {Manifest} manifest @param {string} home */
async function use({ name, version, bin: commands = {}, exports }, home) {
  const specifiers = Object.keys(exports)
    .filter((path) => !path.endsWith(".json"))
    .map((path) => JSON.stringify(name + path.slice(1)));
  const program = specifiers.map((specifier) => `await import(${specifier});`).join("\n");
  await run(process.execPath, ["--input-type=module", "--eval", program], { cwd: directory });
  for (const [command, file] of Object.entries(commands)) {
    const { stdout } = await run(process.execPath, [join(home, file), "--version"], { cwd: directory });
    if (stdout.trim() !== version) throw new Error(`${command} --version prints ${stdout}`);
  }
}

try {
  /** @type {[manifest: Manifest, home: string][]} */
  const installed = [];
  for (const each of [CORE, ...PACKS]) {
    const manifest = manifestOf(each.folder);
    installed.push([manifest, await unpack(manifest.name, await check(each))]);
  }
  for (const [manifest, home] of installed) {
    await use(manifest, home).catch((/** @type {Error} */ error) => {
      console.error(`${manifest.name}: ${error.message}`);
      process.exitCode = 1;
    });
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}
