import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { postgresServer } from "../postgres/server.js";
import { SLOW, storesOf, workspace, type Workspace } from "./workspace.js";

const server = postgresServer();

/** So many jobs, of which each takes so long. */
async function enqueue({ hf }: Workspace, count: number, ms: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push((await hf.enqueueNamed("mail", { to: `${n}`, ms })).id);
  return ids;
}
const isRunning =
  ({ hf }: Workspace) =>
  async (): Promise<boolean> =>
    (await hf.stats()).states.running > 0;

describe.each(storesOf(server))("process on %s", (_name, address) => {
  it("B-14 finishes running jobs after SIGTERM and releases others", SLOW, async () => {
    const there = await workspace(address);
    await enqueue(there, 20, 1_500);
    const processing = there.start("process", "jobs.ts", "--concurrency", "2", "--json");
    await until("two to run", async () => (await there.hf.stats()).states.running === 2, 60_000);
    processing.child.kill("SIGTERM");
    expect(await processing.ended).toBe(0);
    expect(processing.stderr()).toMatch(/^\S+ info +stopping: waiting up to 30s for 2 jobs .+\n$/);
    const { states } = await there.hf.stats();
    expect(states).toMatchObject({ pending: 18, completed: 2, claimed: 0, running: 0, dead: 0 });
    expect(JSON.parse(processing.stdout())).toEqual({ ran: 2 });
    expect(readFileSync(join(there.cwd, "ran.txt"), "utf8")).not.toContain("aborted");
    // The others are released, so that no lease has to expire.
    for (const { attempt, dueAt } of (await there.hf.list({ state: ["pending"] })).jobs) {
      expect(attempt).toBe(0);
      expect(dueAt?.getTime()).toBeLessThanOrEqual(Date.now());
    }
  });

  it("exits immediately at the second signal", SLOW, async () => {
    const there = await workspace(address);
    const [id = ""] = await enqueue(there, 1, 80_000);
    const processing = there.start("process", "jobs.ts", "--once");
    await until("it to run", isRunning(there), 60_000);
    // As an impatient person would: signals within a second are one.
    const asking = setInterval(() => processing.child.kill("SIGTERM"), 300);
    const code = await processing.ended;
    clearInterval(asking);
    expect(code).toBe(143);
    expect((await there.hf.get(id))?.state).toBe("running");
  });

  it("--poll applies retention and fires schedules", SLOW, async () => {
    const there = await workspace(address);
    const [old = ""] = await enqueue(there, 1, 0);
    await there.hf.cancel(old);
    writeFileSync(join(there.cwd, "holdfast.toml"), '[retention]\ncancelled = "0s"\n');
    await there.hf.schedules.create("often", { job: "mail", input: { to: "often" }, every: "1s" });
    const polling = there.start("process", "jobs.ts", "--poll", "--interval", "200ms");
    await until("the old job to be gone", async () => (await there.hf.get(old)) === null, 60_000);
    const made = async (): Promise<number> => (await there.hf.list({ schedule: "often" })).jobs.length;
    await until("the schedule to be fired", async () => (await made()) >= 2, 60_000);
    expect(polling.child.exitCode).toBeNull();
    polling.child.kill("SIGTERM");
    expect(await polling.ended).toBe(0);
    expect(polling.stdout()).toMatch(/^\d+ jobs? ran\n$/);
  });

  it("fires schedules while jobs run, unless disabled", SLOW, async () => {
    const there = await workspace(address);
    await enqueue(there, 1, 60_000);
    await there.hf.schedules.create("often", { job: "mail", input: { to: "often" }, every: "1s" });
    const made = async (): Promise<number> => (await there.hf.list({ schedule: "often" })).jobs.length;
    await there.run("config", "set", "jobs.scheduler_enabled", "false");
    await there.json("process", "jobs.ts", "--once", "--queues", "none");
    expect(await made()).toBe(0);
    await there.run("config", "set", "jobs.scheduler_enabled", "true");
    const polling = there.start("process", "jobs.ts", "--poll", "--interval", "200ms");
    await until("the job to run", isRunning(there), 60_000);
    const before = await made();
    await until("more to be made meanwhile", async () => (await made()) > before, 60_000);
    polling.child.kill("SIGKILL");
    await polling.ended;
  });
});

it("process --poll logs an outage once and continues", SLOW, async () => {
  const there = await workspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
  const polling = there.start("process", "jobs.ts", "--poll", "--interval", "100ms");
  const [first = ""] = await enqueue(there, 1, 0);
  await until("it to work", async () => (await there.hf.get(first))?.state === "completed", 60_000);
  const { id } = await there.hf.enqueueNamed("mail", { to: "ada" }, { delay: "1s" });
  const db = new Database(join(there.cwd, "jobs.db"));
  onTestFinished(() => void db.close());
  db.exec("BEGIN IMMEDIATE");
  const warnings = (): number => polling.stderr().split("retrying every interval").length - 1;
  await until("the warning", () => warnings() === 1, 60_000);
  expect(polling.stderr()).toMatch(
    /^warning: the database .+ did not answer: database is locked; retrying every interval/,
  );
  db.exec("COMMIT");
  await until("it to work again", async () => (await there.hf.get(id))?.state === "completed", 60_000);
  expect(warnings()).toBe(1);
  polling.child.kill("SIGTERM");
  expect(await polling.ended).toBe(0);
});
