import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
} from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { UsageError } from "../usage-error.js";
import { PROTOCOL } from "./protocol.js";

/** The number of builds that are cached for the next comparisons. */
const KEPT = 4;
const DRIVER = join("bench", "dist", "against", "driver.js");
const OUR_DIST = join(import.meta.dirname, "..");

/** One of the two sides of a comparison. */
export interface Build {
  folder: string;
  /** The program that measures it. */
  driver: string;
}

export interface Commit {
  hash: string;
  subject: string;
}

/** Resolves the name of a commit in the repository of `root`. */
export function resolveCommit(root: string, name: string): Commit {
  const { status, stdout } = git(root, ["rev-parse", "--verify", "--quiet", "--end-of-options", `${name}^{commit}`]);
  if (status !== 0) throw new UsageError(`--against must be a commit of this git repository; ${name} is not one.`);
  const hash = stdout.trim();
  return { hash, subject: outputOf(git(root, ["show", "--no-patch", "--format=%s", hash])).trim() };
}

/** Whether files that git tracks differ from the commit they came from. */
export function hasChanges(root: string): boolean {
  return outputOf(git(root, ["status", "--porcelain", "--untracked-files=no"])) !== "";
}

/**
 * The folder of a commit, built by its own scripts once and then cached in `cache`. It shares the packages of `root` if
 * both lock the same versions, and installs its own otherwise.
 */
export function buildCommit(root: string, hash: string, cache: string): string {
  const folder = join(cache, hash);
  // The shared packages may have changed since.
  if (existsSync(folder) && sharesPackages(folder) && !sameLock(root, folder)) rmSync(folder, { recursive: true });
  if (!existsSync(folder)) {
    mkdirSync(cache, { recursive: true });
    const unfinished = mkdtempSync(join(cache, "unfinished-"));
    try {
      checkOut(root, hash, unfinished);
      if (sameLock(root, unfinished)) linkPackages(root, unfinished);
      outputOf(command(unfinished, process.execPath, ["scripts/setup.mjs"]));
      outputOf(command(unfinished, "npm", ["run", "-s", "build"]));
      renameSync(unfinished, folder);
    } finally {
      rmSync(unfinished, { recursive: true, force: true });
    }
  }
  utimesSync(folder, new Date(), new Date());
  removeOldest(cache);
  return folder;
}

/**
 * The build's own driver if it has one with our protocol, otherwise a copy of ours, which is removed when this process
 * exits.
 */
export async function driverOf(folder: string): Promise<string> {
  const protocol = join(folder, dirname(DRIVER), "protocol.js");
  if (existsSync(protocol)) {
    const own = (await import(pathToFileURL(protocol).href)) as { PROTOCOL?: unknown };
    if (own.PROTOCOL === PROTOCOL) return join(folder, DRIVER);
  }
  // Inside the build, so that it imports the `holdfast` of that build.
  const copy = mkdtempSync(join(folder, "bench", "driver-"));
  process.once("exit", () => rmSync(copy, { recursive: true, force: true }));
  cpSync(OUR_DIST, copy, { recursive: true });
  return join(copy, "against", "driver.js");
}

/** Uses a separate git index: neither the repository's index nor its list of work trees changes. */
function checkOut(root: string, hash: string, folder: string): void {
  const index = join(folder, ".checkout-index");
  outputOf(git(root, ["read-tree", hash], index));
  outputOf(git(root, ["checkout-index", "--all", `--prefix=${folder}${sep}`], index));
  rmSync(index);
}

function sameLock(root: string, folder: string): boolean {
  const [ours, theirs] = [root, folder].map((each) => readFileSync(join(each, "package-lock.json"), "utf8"));
  return ours === theirs;
}

function sharesPackages(folder: string): boolean {
  return (
    lstatSync(join(folder, "node_modules", ".package-lock.json"), { throwIfNoEntry: false })?.isSymbolicLink() === true
  );
}

/** Links to every package of `root`. Links into the workspace point into the folder instead. */
function linkPackages(root: string, folder: string): void {
  const ours = realpathSync(root);
  const link = (path: string): void => {
    const real = realpathSync(join(ours, path));
    const below = relative(ours, real);
    const ofWorkspace = !below.startsWith("..") && !below.split(sep).includes("node_modules");
    // Relative, because the folder is renamed when it is complete.
    symlinkSync(ofWorkspace ? relative(dirname(path), below) : real, join(folder, path));
    const inner = join(below, "node_modules");
    if (ofWorkspace && existsSync(join(ours, inner))) linkAll(inner);
  };
  const linkAll = (path: string): void => {
    mkdirSync(join(folder, path));
    for (const name of readdirSync(join(ours, path))) {
      if (name.startsWith("@")) linkAll(join(path, name));
      else if (name !== ".cache") link(join(path, name));
    }
  };
  linkAll("node_modules");
}

function removeOldest(cache: string): void {
  const builds = readdirSync(cache).map((name) => {
    const folder = join(cache, name);
    return { folder, usedAt: statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? 0 };
  });
  const latestFirst = builds.toSorted((a, b) => b.usedAt - a.usedAt);
  for (const { folder } of latestFirst.slice(KEPT)) rmSync(folder, { recursive: true, force: true });
}

function git(root: string, args: string[], index?: string): SpawnSyncReturns<string> {
  const env = index === undefined ? {} : { GIT_INDEX_FILE: index };
  return command(root, "git", args, env);
}

function command(
  cwd: string,
  name: string,
  args: string[],
  env: Record<string, string> = {},
): SpawnSyncReturns<string> {
  return spawnSync(name, args, {
    cwd,
    env: { ...process.env, ...env },
    encoding: "utf8",
    shell: name === "npm" && process.platform === "win32",
  });
}

/** The output of a command. Throws with all output if it failed. */
function outputOf({ status, error, stdout, stderr }: SpawnSyncReturns<string>): string {
  if (status === 0) return stdout;
  throw new Error(`The other build failed: ${error?.message ?? stdout + stderr}`);
}
