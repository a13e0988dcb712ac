import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { postgresServer } from "../postgres/server.js";
import { SLOW, storesOf, workspace, type Workspace } from "./workspace.js";

const server = postgresServer();

/** Enqueues `count` jobs that take `ms` each, or `ms` after a signal. */
async function enqueue({ hf }: Workspace, count: number, ms: number, after?: "SIGTERM"): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push((await hf.enqueueNamed("mail", { to: `${n}`, after, ms })).id);
  return ids;
}
const isRunning =
  ({ hf }: Workspace) =>
  async (): Promise<boolean> =>
    (await hf.stats()).states.running > 0;

describe.each(storesOf(server))("process on %s", (_name, address) => {
  it("B-14 finishes running jobs after SIGTERM and releases others", SLOW, async () => {
    const ws = await workspace(address);
    await enqueue(ws, 20, 300, "SIGTERM");
    const processing = ws.start("process", "jobs.ts", "--concurrency", "2", "--json");
    await until("two to run", async () => (await ws.hf.stats()).states.running === 2, 60_000);
    processing.child.kill("SIGTERM");
    expect(await processing.ended).toBe(0);
    expect(processing.stderr()).toMatch(/^\S+ info +stopping: waiting up to 30s for 2 jobs .+\n$/);
    const { states } = await ws.hf.stats();
    expect(states).toMatchObject({ pending: 18, completed: 2, claimed: 0, running: 0, dead: 0 });
    expect(JSON.parse(processing.stdout())).toEqual({ ran: 2 });
    expect(readFileSync(join(ws.cwd, "ran.txt"), "utf8")).not.toContain("aborted");
    // The others are released, so that no lease has to expire.
    for (const { attempt, dueAt } of (await ws.hf.list({ state: ["pending"] })).jobs) {
      expect(attempt).toBe(0);
      expect(dueAt?.getTime()).toBeLessThanOrEqual(Date.now());
    }
  });

  it("exits immediately at the second signal", SLOW, async () => {
    const ws = await workspace(address);
    const [id = ""] = await enqueue(ws, 1, 80_000);
    const processing = ws.start("process", "jobs.ts", "--once");
    await until("it to run", isRunning(ws), 60_000);
    // Repeated, as signals within a second count as one.
    const asking = setInterval(() => processing.child.kill("SIGTERM"), 300);
    const code = await processing.ended;
    clearInterval(asking);
    expect(code).toBe(143);
    expect((await ws.hf.get(id))?.state).toBe("running");
  });

  it("--poll applies retention and fires schedules", SLOW, async () => {
    const ws = await workspace(address);
    const [old = ""] = await enqueue(ws, 1, 0);
    await ws.hf.cancel(old);
    writeFileSync(join(ws.cwd, "holdfast.toml"), '[retention]\ncancelled = "0s"\n');
    await ws.hf.schedules.create("often", { job: "mail", input: { to: "often" }, every: "1s" });
    const polling = ws.start("process", "jobs.ts", "--poll", "--interval", "200ms");
    await until("the old job to be gone", async () => (await ws.hf.get(old)) === null, 60_000);
    const made = async (): Promise<number> => (await ws.hf.list({ schedule: "often" })).jobs.length;
    await until("the schedule to be fired", async () => (await made()) >= 2, 60_000);
    expect(polling.child.exitCode).toBeNull();
    polling.child.kill("SIGTERM");
    expect(await polling.ended).toBe(0);
    expect(polling.stdout()).toMatch(/^\d+ jobs? ran\n$/);
  });

  it("fires schedules while jobs run, unless disabled", SLOW, async () => {
    const ws = await workspace(address);
    await enqueue(ws, 1, 60_000);
    await ws.hf.schedules.create("often", { job: "mail", input: { to: "often" }, every: "1s" });
    const made = async (): Promise<number> => (await ws.hf.list({ schedule: "often" })).jobs.length;
    await ws.run("config", "set", "jobs.scheduler_enabled", "false");
    await ws.json("process", "jobs.ts", "--once", "--queues", "none");
    expect(await made()).toBe(0);
    await ws.run("config", "set", "jobs.scheduler_enabled", "true");
    const polling = ws.start("process", "jobs.ts", "--poll", "--interval", "200ms");
    await until("the job to run", isRunning(ws), 60_000);
    const before = await made();
    await until("more to be made meanwhile", async () => (await made()) > before, 60_000);
    polling.child.kill("SIGKILL");
    await polling.ended;
  });
});

it("process --poll logs an outage once and continues", SLOW, async () => {
  const ws = await workspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
  const polling = ws.start("process", "jobs.ts", "--poll", "--interval", "100ms");
  const [first = ""] = await enqueue(ws, 1, 0);
  await until("it to work", async () => (await ws.hf.get(first))?.state === "completed", 60_000);
  const { id } = await ws.hf.enqueueNamed("mail", { to: "ada" }, { delay: "1s" });
  const db = new Database(join(ws.cwd, "jobs.db"));
  onTestFinished(() => void db.close());
  db.exec("BEGIN IMMEDIATE");
  const warnings = (): number => polling.stderr().split("retrying every interval").length - 1;
  await until("the warning", () => warnings() === 1, 60_000);
  expect(polling.stderr()).toMatch(
    /^warning: the database .+ did not respond: database is locked; retrying every interval/,
  );
  db.exec("COMMIT");
  await until("it to work again", async () => (await ws.hf.get(id))?.state === "completed", 60_000);
  expect(warnings()).toBe(1);
  polling.child.kill("SIGTERM");
  expect(await polling.ended).toBe(0);
});
