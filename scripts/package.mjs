// Checks the package as a user would get it: packs it, which builds it, checks its size, its README, for files that should
// not ship and for types of packages that a user may not have, and runs publint and attw on the tarball.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { promisify } from "node:util";

const root = join(import.meta.dirname, "..");
const home = join(root, "packages/holdfast");
const shipped =
  /^(package\.json|README\.md|CHANGELOG\.md|LICENSE|docs\/(guides|reference)\/[^/]+\.md|dist\/bundle\/[^/]+\.js|dist\/.+\.d\.ts)$/;
const MAX_BYTES = 1_000_000;

/** @param {string} file */
const read = (file) => readFileSync(join(home, file), "utf8");

/** The import specifiers of a file. @param {string} file */
function importsOf(file) {
  const code = read(file).replaceAll(/\/\*.*?\*\/|^\s*\/\/[^\n]*$/gms, "");
  return [...code.matchAll(/(?:from|import|import\(|require\(|import\.meta\.url\)\()\s*"([^"]+)"/g)].map(
    (match) => match[1] ?? "",
  );
}

/** The published type declarations may import only packages that are installed with this one. */
function* foreignTypes() {
  /** @type {{ exports: Record<string, string | { types: string }>, dependencies: Record<string, string> }} */
  const { exports, dependencies } = JSON.parse(read("package.json"));
  const files = new Set(
    Object.values(exports).flatMap((entry) => (typeof entry === "string" ? [] : [join(entry.types)])),
  );
  for (const file of files) {
    for (const name of importsOf(file)) {
      if (name.startsWith(".")) files.add(join(dirname(file), name.replace(/\.js$/, ".d.ts")));
      else if (!name.startsWith("node:") && !(name in dependencies)) yield `${file} needs the types of ${name}`;
    }
  }
}

/** @param {string[]} files */
function* unusedPeers(files) {
  const used = new Set(files.filter((file) => file.endsWith(".js")).flatMap(importsOf));
  for (const peer of Object.keys(JSON.parse(read("package.json")).peerDependencies)) {
    if (!used.has(peer)) yield `nothing imports the peer ${peer}`;
  }
}

/** The package's page shows the whole README, and every link of the shipped pages leads to a shipped page. @param {string[]} files */
function* badPages(files) {
  const headings = (/** @type {string} */ text) => text.match(/^#+ .+$/gm)?.join("\n");
  if (headings(read("README.md")) !== headings(readFileSync(join(root, "README.md"), "utf8"))) {
    yield "its README is not the whole README of the repository";
  }
  for (const page of files.filter((file) => file.endsWith(".md"))) {
    for (const [, path = ""] of read(page).matchAll(/\]\((?!https?:|#)([^)#]+)/g)) {
      if (!files.includes(posix.join(posix.dirname(page), path))) yield `${page} links to ${path}, which does not ship`;
    }
  }
}

const run = promisify(execFile);
/** @param {string} command @param {string[]} args */
const bin = (command, args) =>
  run(join(root, "node_modules/.bin", command), args, { cwd: root, shell: process.platform === "win32" });

const directory = mkdtempSync(join(tmpdir(), "holdfast-pack-"));
try {
  const pack = [
    "pack",
    "--workspace=holdfast",
    "--json",
    `--pack-destination=${directory}`,
    "--loglevel=error",
    "--foreground-scripts=false",
  ];
  const { stdout } = await run("npm", pack, { cwd: root, shell: process.platform === "win32" });
  /** @type {{ filename: string, size: number, files: { path: string }[] }} */
  const packed = JSON.parse(stdout)[0];
  const files = packed.files.map(({ path }) => path);
  const problems = files.filter((path) => !shipped.test(path)).map((path) => `${path} must not ship`);
  problems.push(...foreignTypes(), ...unusedPeers(files), ...badPages(files));
  if (packed.size > MAX_BYTES) problems.push(`${packed.size} bytes packed; at most ${MAX_BYTES}`);
  const tarball = join(directory, packed.filename);

  const results = await Promise.allSettled([
    bin("publint", ["run", tarball, "--strict"]),
    bin("attw", [tarball, "--profile", "esm-only"]),
  ]);
  for (const problem of problems) console.error(`package: ${problem}`);
  for (const result of results) {
    if (result.status === "rejected")
      console.error(`${result.reason.stdout ?? ""}${result.reason.stderr ?? result.reason}`);
  }
  console.log(`${packed.files.length} files, ${Math.round(packed.size / 1000)} kB packed`);
  if (problems.length > 0 || results.some(({ status }) => status === "rejected")) process.exitCode = 1;
} finally {
  rmSync(directory, { recursive: true, force: true });
}
