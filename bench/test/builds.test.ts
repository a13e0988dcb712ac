import { execFileSync } from "node:child_process";
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { buildCommit, driverOf, hasChanges, resolveCommit } from "#src/against/builds.js";
import { PROTOCOL } from "#src/against/protocol.js";

let folder: string;
let root: string;
let cache: string;

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-builds-")));
  root = join(folder, "repository");
  cache = join(root, "node_modules", ".cache", "builds");
  mkdirSync(root);
  git("init", "--quiet");
});
afterEach(() => rmSync(folder, { recursive: true }));

function git(...args: string[]): string {
  const identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
  return execFileSync("git", [...identity, ...args], { cwd: root, encoding: "utf8" }).trim();
}

function write(path: string, content: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), content);
}

function commit(subject: string): string {
  git("add", "--all");
  git("commit", "--quiet", "--message", subject);
  return git("rev-parse", "HEAD");
}

/** A repository whose build records that it ran. */
function writeProject(source: string, lock: string = "{}"): void {
  write(".gitignore", "node_modules/\ndist/\n");
  write("package.json", JSON.stringify({ scripts: { build: "node scripts/build.mjs" } }));
  write("package-lock.json", lock);
  write("scripts/setup.mjs", "");
  write(
    "scripts/build.mjs",
    `import { appendFileSync, cpSync } from "node:fs";
     cpSync("packages/product/source.txt", "bench/dist/source.txt");
     appendFileSync(${JSON.stringify(join(folder, "built"))}, "x");`,
  );
  write("packages/product/source.txt", source);
}

/** Packages as npm leaves them: one from outside, one of the workspace. */
function installPackages(): void {
  write("node_modules/.package-lock.json", "{}");
  write("node_modules/@scope/driver/index.js", "");
  symlinkSync("../packages/product", join(root, "node_modules", "product"));
}

describe("the build of a commit", () => {
  it("is built once from the files of that commit", () => {
    writeProject("old");
    installPackages();
    const old = commit("Old");
    writeProject("new");
    commit("New");
    write("packages/product/source.txt", "changed");

    const build = buildCommit(root, old, cache);
    expect(readFileSync(join(build, "bench/dist/source.txt"), "utf8")).toBe("old");
    expect(readFileSync(join(root, "packages/product/source.txt"), "utf8")).toBe("changed");
    expect(git("status", "--porcelain")).toBe("M packages/product/source.txt");
    expect(git("worktree", "list").split("\n")).toHaveLength(1);

    expect(buildCommit(root, old, cache)).toBe(build);
    expect(readFileSync(join(folder, "built"), "utf8")).toBe("x");
  });

  it("shares packages except those of the workspace", () => {
    writeProject("old");
    installPackages();
    const build = buildCommit(root, commit("Old"), cache);
    expect(realpathSync(join(build, "node_modules/@scope/driver"))).toBe(join(root, "node_modules/@scope/driver"));
    expect(realpathSync(join(build, "node_modules/product"))).toBe(join(build, "packages/product"));
  });

  it("installs its own packages if the lockfile differs", () => {
    writeProject("old", '{ "other": true }');
    const old = commit("Old");
    writeProject("new");
    installPackages();
    commit("New");
    // The setup script of this repository installs nothing.
    expect(lstatSync(join(buildCommit(root, old, cache), "node_modules"), { throwIfNoEntry: false })).toBeUndefined();
  });

  it("is built again when shared packages change", () => {
    writeProject("old");
    installPackages();
    const old = commit("Old");
    buildCommit(root, old, cache);
    write("package-lock.json", '{ "other": true }');
    buildCommit(root, old, cache);
    expect(readFileSync(join(folder, "built"), "utf8")).toBe("xx");
  });

  it("leaves nothing behind when it fails", async () => {
    writeProject("old");
    write("scripts/build.mjs", 'console.error("no such type"); process.exit(1);');
    installPackages();
    const broken = commit("Broken");
    expect(() => buildCommit(root, broken, cache)).toThrow("no such type");
    expect(await readdir(cache)).toEqual([]);
  });

  it("is cached with the last four builds", async () => {
    for (const [day, name] of ["second", "first", "fifth", "third", "fourth"].entries()) {
      mkdirSync(join(cache, name), { recursive: true });
      utimesSync(join(cache, name), day, day);
    }
    writeProject("old");
    installPackages();
    const hash = commit("Old");
    buildCommit(root, hash, cache);
    expect(await readdir(cache)).toEqual([hash, "fifth", "fourth", "third"].toSorted());
  });
});

describe("the driver of a build", () => {
  function withProtocol(number: number | null): string {
    const build = join(folder, "build");
    mkdirSync(join(build, "bench/dist/against"), { recursive: true });
    if (number !== null)
      writeFileSync(join(build, "bench/dist/against/protocol.js"), `export const PROTOCOL = ${number};`);
    return build;
  }

  it("is its own if the protocol is the same", async () => {
    const build = withProtocol(PROTOCOL);
    expect(await driverOf(build)).toBe(join(build, "bench/dist/against/driver.js"));
  });

  it.each([["none", null] as const, ["another protocol", PROTOCOL + 1] as const])(
    "is a copy of ours inside a build that has %s",
    async (_, number) => {
      const build = withProtocol(number);
      const driver = await driverOf(build);
      expect(driver).toMatch(join(build, "bench", "driver-"));
      expect(readFileSync(driver, "utf8")).toContain("class Driver");
    },
  );
});

describe("the commit to compare with", () => {
  it("is found by any git name", () => {
    writeProject("old");
    const hash = commit("Old");
    expect(resolveCommit(root, "HEAD")).toEqual({ hash, subject: "Old" });
    expect(resolveCommit(root, hash.slice(0, 8))).toEqual({ hash, subject: "Old" });
    expect(hasChanges(root)).toBe(false);
    write("packages/product/source.txt", "changed");
    expect(hasChanges(root)).toBe(true);
  });

  it.each(["nothing", "--all", ""])("is rejected if it is %j", (name) => {
    writeProject("old");
    commit("Old");
    expect(() => resolveCommit(root, name)).toThrow(/^--against must be a commit of this git repository/);
  });
});
