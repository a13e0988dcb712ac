import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import Database from "better-sqlite3";
import { holdfast, job, type Holdfast } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { emptyWorkspace, SHORT_LIMITS, SLOW, workspace, type Workspace } from "./workspace.js";
import { holdfastCommand } from "./scene.js";

const onSqlite = (cwd: string): string => `sqlite:${join(cwd, "jobs.db")}`;

interface Finding {
  check: string;
  level: string;
  found: string;
  advice: string | null;
}
/** The findings of `doctor` for one check. */
async function findings({ run }: Pick<Workspace, "run">, check: string): Promise<Finding[]> {
  const { stdout } = await run("doctor", "--json");
  return (JSON.parse(stdout) as { findings: Finding[] }).findings.filter((found) => found.check === check);
}

/** Starts a worker on the store and waits until it is listed. */
async function workerOn(store: string, ...types: string[]): Promise<Holdfast> {
  const hf = await holdfast({ store, logger: false, jobs: types.map((type) => job({ type, run: () => {} })) });
  onTestFinished(() => hf.close());
  const { id } = hf.work({ poll: "1h" });
  await until("it to be listed", async () => (await hf.workers()).some((worker) => worker.id === id));
  return hf;
}

/** Moves the last heartbeat of all workers back by this time. */
function ageHeartbeats({ cwd }: Pick<Workspace, "cwd">, ms: number): void {
  const db = new Database(join(cwd, "jobs.db"));
  db.prepare("UPDATE holdfast_workers SET seen_at = seen_at - ?").run(ms);
  db.close();
}

describe("killed workers", () => {
  it("are shown as lost by workers and doctor", SLOW, async () => {
    const ws = await workspace(onSqlite);
    await workerOn(ws.store, "mail");
    await ws.json("enqueue", "mail", '{"to":"ada"}', "--delay", "1h");
    expect(await findings(ws, "workers")).toMatchObject([{ level: "ok", found: "1 live." }]);
    expect((await ws.run("workers")).stdout).not.toContain("lost");
    ageHeartbeats(ws, 61_000);
    expect(await findings(ws, "workers")).toMatchObject([
      { level: "problem", found: "No live worker, and 1 job waiting." },
    ]);
    expect((await ws.run("workers")).stdout).toMatch(/ago +lost\n/);
  });
});

describe("a job type", () => {
  it("that no live worker handles causes a warning", SLOW, async () => {
    const ws = await workspace(onSqlite);
    const named = ["--queue", "q", "--priority", "1", "--attempts", "2"];
    expect((await ws.run("enqueue", "email.welcom", ...named)).stderr).toBe("");
    expect(await findings(ws, "unknown types")).toEqual([]);
    await workerOn(ws.store, "email.welcome");
    expect((await ws.run("enqueue", "email.welcome", ...named, "--delay", "1h")).stderr).toBe("");
    const { code, stderr } = await ws.run("enqueue", "email.welcom", ...named, "--delay", "1h");
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: "warning: no live worker handles the type email.welcom; did you mean email.welcome?\n",
    });
    await ws.run("enqueue", "report", ...named, "--delay", "1h");
    expect(await findings(ws, "unknown types")).toMatchObject([
      {
        level: "warning",
        found:
          "3 jobs waiting, of 2 types that no live worker handles: email.welcom (did you mean email.welcome?), report.",
      },
    ]);
    ageHeartbeats(ws, 61_000);
    expect(await findings(ws, "unknown types")).toEqual([]);
  });

  it("without a module gets defaults, with a warning", SLOW, async () => {
    const ws = await workspace(onSqlite);
    const made = await ws.run("enqueue", "mail", '{"to":"ada"}');
    expect(made.stderr).toBe(
      "warning: no jobs module is configured, so the input is not checked, and the job gets the default queue, priority and attempts. " +
        "Use --module jobs.ts, or run: holdfast config set jobs.module jobs.ts\n",
    );
    expect(await ws.hf.get(made.stdout.trim())).toMatchObject({ maxAttempts: 4 });
    const known = await ws.run("enqueue", "mail", '{"to":"ada"}', "--module", "jobs.ts");
    expect(known.stderr).toBe("");
    expect(await ws.hf.get(known.stdout.trim())).toMatchObject({ maxAttempts: 1 });
    const misspelt = await ws.run("enqueue", "mial", "--module", "jobs.ts", "--queue", "q");
    expect(misspelt.stderr).toBe(
      "warning: jobs.ts does not define mial, so the input is not checked, and the job gets the default priority and attempts; did you mean mail?\n",
    );
    const remote = await ws.run("enqueue", "mail", "--module", "jobs.ts", "--url", "http://127.0.0.1:1");
    expect(remote).toMatchObject({ code: 2, stdout: "" });
    expect(remote.stderr).toContain("--module cannot be combined with --url");
  });
});

it("commands without server support warn about HOLDFAST_URL", SLOW, async () => {
  const ws = await workspace(onSqlite);
  const env = { HOLDFAST_STORE: ws.store, HOLDFAST_URL: "http://127.0.0.1:1" };
  const warning = `warning: HOLDFAST_URL is ignored; this command uses the store ${ws.store}\n`;
  for (const words of [["doctor"], ["migrate"], ["migrate", "--check"], ["process", "jobs.ts"]]) {
    const { stderr } = await holdfastCommand(words, { cwd: ws.cwd, env });
    expect({ words, stderr }).toEqual({ words, stderr: warning });
  }
  const { stdout, stderr } = await holdfastCommand(["doctor", "--store", ws.store], { cwd: ws.cwd, env });
  expect(stderr).toBe("");
  expect(stdout).toMatch(/^store +sqlite:.+jobs\.db \(the store is set by .*--store.*\)\n/);
});

it("suggested commands repeat --store", SLOW, async () => {
  const ws = await workspace(onSqlite);
  const { stdout } = await holdfastCommand(["doctor", "--store", ws.store], { cwd: ws.cwd });
  expect(stdout).toContain("No live worker, and no jobs waiting.");
  expect(stdout).toContain(`To start one, run: holdfast worker <module> --store ${ws.store}\n`);
  const spaced = "sqlite:my jobs.db";
  const { stderr } = await holdfastCommand(["stats", "--store", spaced], { cwd: ws.cwd });
  expect(stderr).toContain(`to create it, run: holdfast migrate --store '${spaced}'\n`);
});

it("a SQLite file without tables is reported", SLOW, async () => {
  const ws = emptyWorkspace(onSqlite);
  const db = new Database(join(ws.cwd, "jobs.db"));
  db.exec("CREATE TABLE theirs (a)");
  db.close();
  const { code, stderr } = await ws.run("jobs", "list");
  expect(code).toBe(1);
  expect(stderr).toMatch(/^error: no Holdfast tables in jobs\.db\nhint: .+-wal file.+VACUUM INTO/);
  expect(await findings(ws, "schema")).toMatchObject([{ level: "problem", found: "No Holdfast tables in jobs.db." }]);
});

const FLOATING = `
import { job } from "holdfast";
export const floating = job({
  type: "floating",
  async run() {
    void Promise.reject(new Error("not awaited"));
    await new Promise(() => {});
  },
});
`;

describe("an unhandled rejection", () => {
  it.each([["worker"], ["process"]])("ends %s with exit code 1 and releases jobs", SLOW, async (name) => {
    const ws = await workspace(onSqlite, SHORT_LIMITS);
    writeFileSync(join(ws.cwd, "floating.ts"), FLOATING);
    const { id } = await ws.json<{ id: string }>("enqueue", "floating");
    for (let nth = 0; nth < 5; nth++) await ws.hf.enqueueNamed("floating");
    const running = ws.start(name, "floating.ts", "--concurrency", "1");
    expect(await running.ended).toBe(1);
    const lines = running
      .stderr()
      .split("\n")
      .filter((line) => line.includes("not awaited"));
    expect(lines).toEqual([expect.stringMatching(/error unhandled promise rejection; shutting down/)]);
    expect(lines[0]).toContain(`floating ${id}`);
    expect(running.stderr()).not.toMatch(/node:internal|Node\.js v/);
    expect((await ws.hf.stats()).states).toMatchObject({ claimed: 0, pending: 5 });
  });
});

describe("dev", () => {
  it("exits if no file change would help", SLOW, async () => {
    const ws = emptyWorkspace(onSqlite);
    const missing = await ws.run("dev", "job.ts");
    expect(missing).toMatchObject({ code: 1, stdout: "" });
    expect(missing.stderr).toMatch(/^error: file not found: job\.ts\n/);
    const taken = createServer().listen(0, "127.0.0.1");
    onTestFinished(() => void taken.close());
    await once(taken, "listening");
    const port = String((taken.address() as AddressInfo).port);
    const busy = await ws.spawn("dev", "jobs.ts", "--port", port);
    expect(busy.code).toBe(1);
    expect(busy.stderr).toContain(
      `error: cannot listen on 127.0.0.1:${port}: the address is in use; choose another port\nhint: use --port`,
    );
    expect(busy.stderr).not.toContain("waiting for a file to change");
  });
});

it("a worker reports that its SQLite file was deleted", SLOW, async () => {
  const ws = emptyWorkspace(onSqlite);
  const worker = ws.start("worker", "jobs.ts");
  await until("it to run", () => worker.stdout().includes("started"), 60_000);
  rmSync(join(ws.cwd, "jobs.db"));
  const warning = /warn.+a store call failed; retrying.+jobs\.db was renamed, deleted or replaced/;
  await until("it to be logged", () => warning.test(worker.stderr()), 60_000);
  worker.child.kill("SIGTERM");
  expect(await worker.ended).toBe(0);
});
