// Makes a fresh clone ready: checks Node, installs the npm packages of package-lock.json, and, with `--tests`, Java for
// DynamoDB Local and Chromium for the dashboard. Needs nothing installed, does nothing if everything is installed, and may run concurrently (the second
// process waits for the first).
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

// Not import.meta.dirname: a Node version without it must still reach the version check below.
const root = fileURLToPath(new URL("..", import.meta.url));
const lockfile = join(root, "package-lock.json");
const modules = join(root, "node_modules");
const stampFile = join(modules, ".holdfast-setup");
const lockDir = join(root, ".setup-lock");

const minimum = { major: 20, minor: 19 };
const nativeHint =
  "better-sqlite3 could not be built. It compiles from source where no prebuilt binary can be fetched: " +
  "install python3, make and g++ (Debian: apt install python3 make g++; macOS: xcode-select --install), then run this again.";

/** @param {string} sentence @returns {never} */
function giveUp(sentence) {
  console.error(`setup: ${sentence}`);
  process.exit(1);
}

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major > minimum.major || (major === minimum.major && minor >= minimum.minor)) return;
  giveUp(`Holdfast needs Node.js ${minimum.major}.${minimum.minor} or later; this is ${process.versions.node}.`);
}

/** Identifies node_modules: the locked packages, and the platform and ABI of the native package. */
function wantedStamp() {
  if (!existsSync(lockfile)) giveUp("package-lock.json is missing; restore it with git.");
  const hash = createHash("sha256").update(readFileSync(lockfile)).digest("hex");
  return `${hash} ${process.platform}-${process.arch} abi ${process.versions.modules}\n`;
}

/** @param {string} stamp */
function isStamped(stamp) {
  return existsSync(stampFile) && readFileSync(stampFile, "utf8") === stamp;
}

/** Whether `npm install`, run manually, already installed exactly the locked versions. */
function matchesLockfile() {
  const hidden = join(modules, ".package-lock.json");
  if (!existsSync(hidden)) return false;
  /** @typedef {{ version?: string, optional?: boolean }} Entry */
  /** @type {Record<string, Entry>} */
  const locked = JSON.parse(readFileSync(lockfile, "utf8")).packages;
  /** @type {Record<string, Entry>} */
  const present = JSON.parse(readFileSync(hidden, "utf8")).packages;
  return Object.entries(locked).every(([path, { version, optional }]) => {
    if (path === "") return true;
    const entry = present[path];
    return entry === undefined ? optional === true : entry.version === version;
  });
}

/** In a separate process: a binding built for another Node version can crash the process. */
function sqliteLoads() {
  const script = "new (require('better-sqlite3'))(':memory:').close()";
  return spawnSync(process.execPath, ["-e", script], { cwd: root, stdio: "ignore" }).status === 0;
}

/** @param {string[]} args */
function npm(args) {
  // The npm that runs this script, or the one on the PATH.
  const cli = process.env["npm_execpath"];
  const [command, ...rest] = cli?.endsWith("npm-cli.js") ? [process.execPath, cli, ...args] : ["npm", ...args];
  const { status, error, stdout, stderr } = spawnSync(command, rest, {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 1 << 28,
    shell: command === "npm" && process.platform === "win32",
  });
  return { ok: status === 0, output: error ? String(error) : stdout + stderr };
}

function install() {
  console.error("setup: installing npm packages (a minute or two the first time)");
  const { ok, output } = npm(["ci", "--loglevel=error"]);
  if (!ok) {
    console.error(output);
    giveUp(/better-sqlite3|gyp/.test(output) ? nativeHint : "npm ci failed; its output is above.");
  }
  if (sqliteLoads()) return;
  // Happens if install scripts are disabled in the user's npm settings.
  const rebuilt = npm(["rebuild", "better-sqlite3", "--ignore-scripts=false"]);
  if (sqliteLoads()) return;
  console.error(rebuilt.output);
  giveUp(nativeHint);
}

/** @param {unknown} error */
function errorCode(error) {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

/** True if the process that created the lock has exited, or crashed before it wrote its id. */
function lockIsStale() {
  try {
    const pid = Number(readFileSync(join(lockDir, "pid"), "utf8"));
    if (pid > 0) {
      process.kill(pid, 0);
      return false;
    }
  } catch (error) {
    if (errorCode(error) === "ESRCH") return true;
    if (errorCode(error) === "EPERM") return false;
  }
  const made = statSync(lockDir, { throwIfNoEntry: false });
  return made !== undefined && Date.now() - made.mtimeMs > 5_000;
}

async function takeLock() {
  for (let waited = false; ; waited = true) {
    try {
      mkdirSync(lockDir);
      writeFileSync(join(lockDir, "pid"), String(process.pid));
      process.once("exit", () => rmSync(lockDir, { recursive: true, force: true }));
      return;
    } catch (error) {
      if (errorCode(error) !== "EEXIST") throw error;
    }
    if (lockIsStale()) rmSync(lockDir, { recursive: true, force: true });
    else {
      if (!waited) console.error("setup: another setup is running, waiting for it");
      await sleep(200);
    }
  }
}

const oldestJava = 17;

function javaVersion() {
  const { status, stderr } = spawnSync("java", ["-version"], { encoding: "utf8" });
  return status === 0 ? Number(/version "(\d+)/.exec(stderr)?.[1] ?? 0) : 0;
}

/** Installs a package of Debian, where this process may. @param {string} name @param {string} why */
function installWithApt(name, why) {
  if (process.platform !== "linux" || process.getuid?.() !== 0 || !existsSync("/usr/bin/apt-get")) return;
  console.error(`setup: installing ${why}`);
  /** @param {string[]} args */
  const apt = (args) =>
    spawnSync("apt-get", ["-qq", ...args], {
      stdio: "ignore",
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    }).status === 0;
  const packages = ["install", "-y", "--no-install-recommends", name];
  if (!apt(packages) && apt(["update"])) apt(packages);
}

/** DynamoDB Local is a Java program. Without Java, its tests are skipped with that reason. */
function findJava() {
  if (process.env["HOLDFAST_TEST_DYNAMODB"] !== undefined || javaVersion() >= oldestJava) return;
  installWithApt("default-jre-headless", "Java for DynamoDB Local");
  if (javaVersion() >= oldestJava) return;
  console.error(
    `setup: Java ${oldestJava} or later was not found: the tests on DynamoDB Local are skipped. Install it (Debian: apt install default-jre-headless; macOS: brew install openjdk), or set HOLDFAST_TEST_DYNAMODB to the endpoint of one.`,
  );
}

const browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** The tests of the dashboard run in Chromium. Without it they are skipped, and fail under CI=true. */
function findChromium() {
  const isThere = () => process.env["HOLDFAST_CHROMIUM"] !== undefined || browsers.some((path) => existsSync(path));
  if (isThere()) return;
  installWithApt("chromium", "Chromium for the tests of the dashboard");
  if (isThere()) return;
  console.error(
    "setup: Chromium was not found: the tests of the dashboard are skipped, and fail under CI=true. Install it (Debian: apt install chromium), or set HOLDFAST_CHROMIUM to its path.",
  );
}

checkNode();
const stamp = wantedStamp();
if (!isStamped(stamp)) {
  await takeLock();
  if (!isStamped(stamp)) {
    if (!matchesLockfile() || !sqliteLoads()) install();
    writeFileSync(stampFile, stamp);
  }
}
if (process.argv.includes("--tests")) {
  findJava();
  findChromium();
}
