import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { Counts } from "#src/history/counted.js";
import { sqlite } from "holdfast/sqlite";
import { SLOW, workspace, type Workspace } from "./workspace.js";

const onSqlite = (cwd: string): string => `sqlite:${join(cwd, "jobs.db")}`;
const HOUR = 3_600_000;

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

describe("jobs explain", () => {
  it("prints the decisive reason first, and commands that change it", SLOW, async () => {
    const { hf, run, json } = await workspace(onSqlite);
    const { id } = await hf.enqueueNamed("mail", { to: "ada" }, { delay: "1h" });
    const { code, stdout } = await run("jobs", "explain", id);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^It is due in /);
    expect(stdout).toContain(`  To make it due now, run: holdfast jobs promote ${id}`);
    expect(stdout).toContain("\n\nNo worker is live.");
    const { text, reasons } = await json<{ text: string; reasons: { kind: string; text: string }[] }>(
      "jobs",
      "explain",
      id,
    );
    expect(reasons.map(({ kind }) => kind)).toEqual(["due-later", "no-worker"]);
    // The time that is left is another by now.
    expect(text).toMatch(/^It is due in /);
    await json("process", "jobs.ts");
    await hf.promote(id);
    await json("process", "jobs.ts");
    expect((await run("jobs", "explain", id)).stdout).toContain(`To enqueue a copy, run: holdfast jobs rerun ${id}`);
  });

  it("names a job that does not exist", SLOW, async () => {
    const { run } = await workspace(onSqlite);
    const id = "018f4d2e-7b3a-7c11-8a55-0123456789ab";
    const { code, stdout, stderr } = await run("jobs", "explain", id);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain(`job ${id} not found`);
  });
});

describe("errors", () => {
  it("lists groups, and jobs list their jobs", SLOW, async () => {
    const { hf, run, json } = await workspace(onSqlite);
    expect((await run("errors")).stdout).toBe("No failed attempts.\n");
    for (let n = 0; n < 3; n++) await hf.enqueueNamed("mail", { to: "unknown" }, { maxAttempts: 1 });
    await json("process", "jobs.ts");
    const { groups } = await json<{ groups: { fingerprint: string; count: number }[] }>("errors");
    expect(groups).toMatchObject([{ type: "mail", count: 3, message: "no such address", name: "Error" }]);
    const fingerprint = groups[0]?.fingerprint ?? "";
    const { stdout, stderr } = await run("errors", "--type", "mail");
    expect(stdout).toMatch(/^Fingerprint +Type +Count +Last +Error\n/);
    expect(stdout).toMatch(new RegExp(`${fingerprint} +mail +3 +\\S+(?: ms)? ago`));
    expect(stdout).toContain("no such address");
    expect(stderr).toContain(`holdfast jobs list --fingerprint ${fingerprint}`);
    expect((await json<{ jobs: object[] }>("jobs", "list", "--fingerprint", fingerprint)).jobs).toHaveLength(3);
    expect((await json<{ groups: object[] }>("errors", "--type", "other")).groups).toEqual([]);
  });
});

describe("stats", () => {
  it("shows the last hour as bars", SLOW, async () => {
    const { hf, run, json } = await workspace(onSqlite);
    expect((await run("stats")).stdout).not.toContain("last hour");
    for (const to of ["ada", "bob", "unknown"]) await hf.enqueueNamed("mail", { to }, { maxAttempts: 1 });
    await json("process", "jobs.ts");
    const { stdout } = await run("stats");
    expect(stdout).toMatch(/^last hour: +▁{58,59}█▁? {2}2$/m);
    expect(stdout).toMatch(/^failed attempts: +▁{58,59}█▁? {2}1$/m);
    expect(stdout).toMatch(/^longest wait: +\S+(?: ms)? \(95 % of the jobs of a minute waited less\)$/m);
    expect(await json<object>("stats")).not.toHaveProperty("history");
  });
});

describe("doctor explains the oldest due job", () => {
  it("behind many older ones that are not due", SLOW, async () => {
    const ws = await workspace(onSqlite);
    for (let n = 0; n < 260; n++) await ws.hf.enqueueNamed("mail", { to: "later" }, { delay: "1h" });
    expect(await findings(ws, "why jobs wait")).toEqual([]);
    await ws.hf.enqueueNamed("mail", { to: "eve" }, { runAt: Date.now() - 90_000 });
    const { id } = await ws.hf.enqueueNamed("mail", { to: "ada" }, { runAt: Date.now() - 120_000 });
    expect(await findings(ws, "why jobs wait")).toMatchObject([
      { level: "warning", found: `Job ${id} waits. No worker is live.` },
    ]);
    expect(await findings(ws, "oldest due job")).toMatchObject([
      { level: "warning", found: expect.stringMatching(/^Waiting for \d+m.*\.$/) as string },
    ]);
  });

  it("if its retry is due, and not one of a paused queue", SLOW, async () => {
    const ws = await workspace(onSqlite);
    await ws.hf.enqueueNamed("mail", { to: "ada" }, { queue: "paused", runAt: Date.now() - 500_000 });
    await ws.hf.pause("paused");
    const { id } = await ws.hf.enqueueNamed("mail", { to: "unknown" }, { maxAttempts: 2 });
    await ws.json("process", "jobs.ts");
    expect((await ws.hf.get(id))?.state).toBe("failed");
    const db = new Database(join(ws.cwd, "jobs.db"));
    db.prepare("UPDATE holdfast_jobs SET due_at = ? WHERE id = ?").run(Date.now() - 120_000, id);
    db.close();
    expect(await findings(ws, "why jobs wait")).toMatchObject([{ found: `Job ${id} waits. No worker is live.` }]);
    expect(await findings(ws, "paused queue")).toMatchObject([{ level: "warning" }]);
  });
});

describe("doctor compares the last hour with the day before", () => {
  /** Stores what happened in each of the last `hours`, ended at this time. */
  async function happened(
    { store }: Pick<Workspace, "store">,
    { ago, hours = 1, completed = 0, failed = 0, waitMs = 0 }: Record<string, number>,
  ): Promise<void> {
    const counts = new Counts();
    const counted = counts.of("default", "mail");
    counted.completed = completed;
    counted.failed = failed;
    for (let n = 0; n < completed + failed; n++) counted.wait.add(waitMs);
    const now = Date.now() - (ago ?? 0);
    const opened = sqlite(store.replace("sqlite:", ""));
    await opened.putHistory(
      Array.from({ length: hours }, (_, hour) => ({
        resolution: "minute",
        at: Math.floor((now - hour * HOUR) / 60_000) * 60_000,
        writer: `test${hour}`,
        data: counts.toText(),
      })),
    );
    await opened.close();
  }

  it("and warns of more failures and longer waits", SLOW, async () => {
    const ws = await workspace(onSqlite);
    expect(await findings(ws, "last hour")).toEqual([]);
    await happened(ws, { ago: 0, completed: 60, failed: 40, waitMs: 60_000 });
    expect(await findings(ws, "last hour")).toMatchObject([
      {
        level: "warning",
        found: expect.stringMatching(
          /^100 attempts, 40 % failed\. 95 % of the jobs typically waited at most \S+\.$/,
        ) as string,
      },
    ]);
    await happened(ws, { ago: 3 * HOUR, hours: 10, completed: 98, failed: 2, waitMs: 500 });
    const [found] = await findings(ws, "last hour");
    expect(found?.found).toMatch(/40 % failed \(2 % on the day before\).* \(\d+ ms on the day before\)\.$/);
    expect(found?.advice).toMatch(/holdfast errors.*start more workers\.$/);
  });

  it("and finds nothing if it is like that day", SLOW, async () => {
    const ws = await workspace(onSqlite);
    await happened(ws, { ago: 0, hours: 10, completed: 60, failed: 40, waitMs: 60_000 });
    expect(await findings(ws, "last hour")).toMatchObject([{ level: "ok", advice: null }]);
  });
});

it("doctor names the latest errors and dead jobs", SLOW, async () => {
  const ws = await workspace(onSqlite);
  for (let n = 0; n < 2; n++) await ws.hf.enqueueNamed("mail", { to: "unknown" }, { maxAttempts: 1 });
  await ws.json("process", "jobs.ts");
  expect(await findings(ws, "errors")).toMatchObject([
    {
      level: "warning",
      found: expect.stringMatching(/^2 failed attempts, the last .+ ago: mail: no such address$/) as string,
    },
  ]);
  expect(await findings(ws, "dead jobs")).toMatchObject([{ level: "warning", found: "2." }]);
});
