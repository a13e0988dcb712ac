// The checks behind `npm test`, `npm run test:quick` (--quick) and `npm run test:all` (--all). Steps that need no build run
// alongside it, the others alongside the tests. Further arguments go to vitest: `npm test -- retry`.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

/** @typedef {"default" | "quick" | "all"} TestSet */
const SET = /** @type {const} */ (["quick", "all"]);
/** @type {TestSet} */
const set = SET.find((name) => process.argv.includes(`--${name}`)) ?? "default";
const passedOn = process.argv.slice(2).filter((argument) => !SET.some((name) => argument === `--${name}`));

/** What vitest runs. Projects are defined in vitest.config.ts. @type {Record<TestSet, string[]>} */
const SELECTIONS = {
  quick: projects("unit", "conformance"),
  default: projects(
    "unit",
    "conformance",
    "sqlite",
    "postgres",
    "dynamodb",
    "cli",
    "admin",
    "dashboard",
    "packs",
    "docs",
    "torture",
  ),
  all: [],
};

/** A caller who names projects gets those alone. */
const selection = passedOn.some((argument) => argument.startsWith("--project")) ? [] : SELECTIONS[set];

/** @param {string[]} names */
function projects(...names) {
  return names.map((name) => `--project=${name}`);
}

const root = join(import.meta.dirname, "..");
const scratch = mkdtempSync(join(tmpdir(), "holdfast-test-"));
const countsFile = join(scratch, "counts.json");
const env = {
  ...(process.stdout.isTTY ? { FORCE_COLOR: "1" } : { NO_COLOR: "1" }),
  ...process.env,
  PATH: join(root, "node_modules/.bin") + delimiter + process.env["PATH"],
  TEST_COUNTS_FILE: countsFile,
};

/** @type {Set<import("node:child_process").ChildProcess>} */
const children = new Set();
process.once("exit", () => {
  for (const child of children) child.kill();
  rmSync(scratch, { recursive: true, force: true });
});
for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM"])) process.once(signal, () => process.exit(1));

/** @type {string[]} */
const failedSteps = [];

/**
 * @param {string} name
 * @param {string} command
 * @param {string[]} args
 * @param {(chunk: Buffer) => void} onOutput
 * @returns {Promise<boolean>} whether it passed
 */
function start(name, command, args, onOutput) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      env,
      stdio: ["ignore", "pipe", "pipe"],
      shell: process.platform === "win32",
    });
    children.add(child);
    child.stdout.on("data", onOutput);
    child.stderr.on("data", onOutput);
    child.once("error", (error) => onOutput(Buffer.from(`${error.message}\n`)));
    child.once("close", (code) => {
      children.delete(child);
      if (code !== 0) failedSteps.push(name);
      resolve(code === 0);
    });
  });
}

/** @param {string} name @param {boolean} ok @param {number} startedAt */
function heading(name, ok, startedAt) {
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(`${ok ? "ok  " : "FAIL"}  ${name.padEnd(28)} ${seconds.padStart(5)} s`);
}

/** One line when it passes, all its output when it fails. @param {string} name @param {string} command @param {string[]} args */
async function step(name, command, args) {
  const startedAt = performance.now();
  /** @type {Buffer[]} */
  const output = [];
  const ok = await start(name, command, args, (chunk) => output.push(chunk));
  heading(name, ok, startedAt);
  if (!ok) console.log(`${Buffer.concat(output).toString().trimEnd()}\n`);
  return ok;
}

/** Holds vitest's output back until the other steps have ended, so that its summary is the last output. */
function startTests() {
  const reporters = ["--reporter=default", "--reporter=./scripts/count-tests.mjs"];
  /** @type {Buffer[]} */
  const held = [];
  let mayPrint = false;
  const done = start("tests", "vitest", ["run", ...reporters, ...selection, ...passedOn], (chunk) => {
    if (mayPrint) process.stdout.write(chunk);
    else held.push(chunk);
  });
  return async function print() {
    mayPrint = true;
    process.stdout.write(Buffer.concat(held));
    await done;
  };
}

const [built] = await Promise.all([
  step("build and type check", "node", ["scripts/build.mjs"]),
  step("format", "oxfmt", ["--check"]),
  step("lockfile", "node", ["scripts/lockfile.mjs"]),
  step("import direction", "node", ["scripts/imports.mjs"]),
]);
if (built) {
  const printTests = startTests();
  const lint = step("lint", "oxlint", []);
  await (set === "quick" ? lint : Promise.all([lint, step("package", "node", ["scripts/package.mjs"])]));
  await printTests();
}
/** @type {{ passed: number, failed: number } | null} */
const counts = existsSync(countsFile) ? JSON.parse(readFileSync(countsFile, "utf8")) : null;
// A program that the tests load could end vitest with another exit code than its own.
if (counts !== null && counts.failed > 0 && !failedSteps.includes("tests")) failedSteps.push("tests");
if (built && counts === null) failedSteps.push("tests (they did not end)");
if (failedSteps.length > 0) {
  console.log(`\nfailed: ${failedSteps.join(", ")}`);
  process.exitCode = 1;
}
if (counts !== null) console.log(`${counts.passed} passed, ${counts.failed} failed`);
