import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const FOLDER = join(ROOT, "examples/backend");

interface Ended {
  exitCode: number | null;
  stdout: string;
  stderr: string;
  /** Temporary files that it leaves. */
  files: string[];
}

interface Run {
  child: ChildProcess;
  /** For its temporary files. */
  folder: string;
  /** Waits until its output matches. */
  prints: (pattern: RegExp) => Promise<RegExpExecArray>;
  ended: Promise<Ended>;
}

/** Starts it as `npm run example -- backend` does. */
function start(options: string[] = [], env: Record<string, string> = {}): Run {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-example-"));
  // Under root, PostgreSQL runs as another user.
  chmodSync(folder, 0o755);
  const child = spawn(process.execPath, [join(ROOT, "scripts/example.mjs"), "backend", ...options], {
    env: { ...process.env, TMPDIR: folder, ...env },
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => (stdout += String(chunk)));
  child.stderr.on("data", (chunk) => (stderr += String(chunk)));
  return {
    child,
    folder,
    async prints(pattern) {
      for (;;) {
        const found = pattern.exec(stdout);
        if (found !== null) return found;
        await once(child.stdout, "data");
      }
    },
    ended: once(child, "close").then(() => {
      const files = readdirSync(folder);
      rmSync(folder, { recursive: true });
      return { exitCode: child.exitCode, stdout, stderr, files };
    }),
  };
}

/** The process id of PostgreSQL. */
function postmaster(folder: string): number {
  const [data = ""] = readdirSync(folder).filter((name) => name.startsWith("holdfast-backend-"));
  return Number(readFileSync(join(folder, data, "data/postmaster.pid"), "utf8").split("\n")[0]);
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe("examples/backend", () => {
  let walk: Ended;
  let staying: Run;
  let failing: Run;
  beforeAll(async () => {
    const broken = `globalThis.fetch = async () => new Response("{}", { status: 500 });`;
    failing = start([], { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(broken)}` });
    staying = start(["--stay"]);
    walk = await start().ended;
  }, 90_000);
  afterAll(async () => {
    for (const { child, ended } of [staying, failing]) {
      child.kill();
      await ended;
    }
  }, 30_000);

  it("walks through its stories and exits with code 0", () => {
    expect(walk).toMatchObject({ exitCode: 0, stderr: "", files: [] });
    expect(walk.stdout.match(/^\d+\. .+$/gm)).toHaveLength(11);
    expect(walk.stdout).toMatch(/✓ All 11 stories are true/);
    for (const name of ["Backend", "Admin API", "Dashboard", "Database"]) {
      expect(walk.stdout).toMatch(new RegExp(`^${name}: +\\S+127\\.0\\.0\\.1:\\d+`, "m"));
    }
  });

  const stories: [title: string, lines: RegExp[]][] = [
    [
      "C-14 expired rows are deleted in chunks, live rows stay",
      [
        /2345 rows of app_sessions deleted, 40 kept/,
        /in chunks of 500 rows/,
        /1000 rows of app_oauth_tokens deleted, 125 kept/,
        /200 rows of app_oauth_authorization_codes deleted, 10 kept/,
        /600 rows of app_magic_links deleted, 20 kept/,
        /80 rows of app_password_resets deleted, 5 kept/,
        /1200 rows of app_webhook_deliveries deleted, 30 kept/,
      ],
    ],
    ["C-15 default schedules are created once", [/session_cleanup_hourly +0 \* \* \* \*/]],
    [
      "C-15 an operator's changes survive a restart",
      [/after a restart, and after holdfast process: both changes are there/],
    ],
    [
      "C-16 the pruner runs only while the queue is disabled",
      [/queue disabled: the pruner deleted 700/, /queue enabled: .* the pruner deleted nothing/],
    ],
    ["C-17 the admin API checks roles and schedules", [/viewer: POST .*\/run → 403/, /an unknown time zone: 400/]],
    [
      "C-18 the command lists, cancels and retries jobs, and refuses wrong flags",
      [/jobs retry: \S+ retried/, /jobs cancel: \S+ cancelled/, /exit code 2: error: --enabled/],
    ],
    ["unknown types, the dashboard and its sessions work", [/handler registered for/, /with the session cookie: \d+/]],
  ];
  it.each(stories)("%s", (_title, lines) => {
    for (const line of lines) expect(walk.stdout).toMatch(line);
  });

  it("--stay serves until SIGTERM, and leaves neither PostgreSQL nor files", { timeout: 60_000 }, async () => {
    const { child, folder, prints, ended } = staying;
    const [, url = ""] = await prints(/until Ctrl-C\.\nBackend: +(\S+)/);
    expect(await (await fetch(url)).json()).toEqual({ name: "backend", dashboard: "/ops/" });
    expect((await fetch(`${url}/ops/readyz`)).status).toBe(200);
    const pid = postmaster(folder);
    expect(isAlive(pid)).toBe(true);
    child.kill("SIGTERM");
    expect(await ended).toMatchObject({ exitCode: 0, stderr: "", files: [] });
    expect(isAlive(pid)).toBe(false);
  });

  it("a story that fails ends it with a sentence and exit code 1", { timeout: 60_000 }, async () => {
    const { exitCode, stderr } = await failing.ended;
    expect(stderr).toBe("\n✗ The status of GET /schedules: expected 200, found 500.\n");
    expect(exitCode).toBe(1);
  });

  it("its README names its files", () => {
    const readme = readFileSync(join(FOLDER, "README.md"), "utf8");
    const named = [...readme.matchAll(/^\| `([^`]+)`/gm)].map(([, name = ""]) => name.replace(/\/$/, ""));
    const others = ["README.md", "dist", "package.json", "tsconfig.json", "node_modules"];
    expect(named.toSorted()).toEqual(
      readdirSync(FOLDER)
        .filter((name) => !others.includes(name))
        .toSorted(),
    );
  });
});
