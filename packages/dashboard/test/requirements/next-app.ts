import { execFile, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { transformWithOxc } from "vite";
import { onTestFinished } from "vitest";

const ROOT = join(import.meta.dirname, "../../../..");
/** Below node_modules, so that the application finds `holdfast`, and that the next run finds the packages of Next.js. */
const HOME = join(ROOT, "node_modules/.cache/holdfast-next");
/** Not in the lockfile: they take 340 MB, and only this test needs them. */
const PACKAGES = { next: "16.4.6", react: "19.3.1", "react-dom": "19.3.1" };
/** No reports, and no network. */
const ENV = { ...process.env, NEXT_TELEMETRY_DISABLED: "1", NODE_ENV: "production" };
const NEXT = join(HOME, "node_modules/next/dist/bin/next");

/** The application has the dashboard here, and at the root. */
export const PREFIX = "/ops/jobs";

const run = promisify(execFile);

/** The route of the guide, as the guide has it. */
function routeOfGuide(): string {
  const guide = readFileSync(join(ROOT, "docs/guides/admin-api.md"), "utf8");
  const code = /\*\*Next\.js\*\*.*?```ts\n(.*?)```/s.exec(guide)?.[1];
  if (code === undefined) throw new Error("docs/guides/admin-api.md has no code for Next.js");
  return code;
}

async function install(): Promise<void> {
  const packages = Object.entries(PACKAGES);
  const isInstalled = packages.every(([name, version]) => {
    const file = join(HOME, "node_modules", name, "package.json");
    return existsSync(file) && (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version === version;
  });
  if (isInstalled) return;
  const options = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"];
  await run("npm", ["install", ...options, ...packages.map((each) => each.join("@"))], {
    cwd: HOME,
    shell: process.platform === "win32",
  });
}

/** Installs Next.js if it is not there, and builds the application. */
export async function buildNextApp(): Promise<void> {
  mkdirSync(HOME, { recursive: true });
  const write = (path: string, text: string): void => {
    mkdirSync(join(HOME, path, ".."), { recursive: true });
    writeFileSync(join(HOME, path), text);
  };
  write("package.json", JSON.stringify({ name: "next-app", private: true, type: "module" }));
  await install();
  // JavaScript: for TypeScript, Next.js would install a compiler.
  const { code } = await transformWithOxc(routeOfGuide(), "route.ts");
  rmSync(join(HOME, "app"), { recursive: true, force: true });
  const basePath = /(?<=basePath: )"[^"]*"/;
  // Not the path of the guide: `/jobs` is also a page of the dashboard at the root.
  write(`app${PREFIX}/[[...path]]/route.js`, code.replace(basePath, JSON.stringify(PREFIX)));
  write("app/[[...path]]/route.js", code.replace(basePath, '""'));
  write("app/own/route.js", 'export const GET = () => new Response("own");\n');
  await run(process.execPath, [NEXT, "build"], { cwd: HOME, env: { ...ENV, DATABASE_URL: "sqlite::memory:" } });
}

/** Starts the application on a store; resolves to its origin. It ends with the test. */
export async function startNextApp(store: string): Promise<string> {
  const child = spawn(process.execPath, [NEXT, "start", "--port", "0", "--hostname", "127.0.0.1"], {
    cwd: HOME,
    env: { ...ENV, DATABASE_URL: store },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  onTestFinished(async () => {
    child.kill();
    await ended;
  });
  return new Promise((resolve, reject) => {
    let printed = "";
    const read = (chunk: Buffer): void => {
      printed += chunk.toString();
      const origin = /http:\/\/127\.0\.0\.1:\d+/.exec(printed)?.[0];
      if (origin !== undefined && printed.includes("Ready")) resolve(origin);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    void ended.then(() => reject(new Error(`Next.js ended:\n${printed}`)));
  });
}
