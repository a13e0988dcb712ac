import { join } from "node:path";
import Database from "better-sqlite3";
import { holdfast, job, type Holdfast } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { place, SLOW, type Place } from "./place.js";

const onSqlite = (cwd: string): string => `sqlite:${join(cwd, "jobs.db")}`;

interface Finding {
  check: string;
  level: string;
  found: string;
  advice: string | null;
}
/** What `doctor` found, by the name of the check. */
async function findings({ run }: Pick<Place, "run">, check: string): Promise<Finding[]> {
  const { stdout } = await run("doctor", "--json");
  return (JSON.parse(stdout) as { findings: Finding[] }).findings.filter((found) => found.check === check);
}

/** A worker of the test's own on the store, once the store lists it. */
async function workerOn(store: string, ...types: string[]): Promise<Holdfast> {
  const hf = await holdfast({ store, logger: false, jobs: types.map((type) => job({ type, run: () => {} })) });
  onTestFinished(() => hf.close());
  const { id } = hf.work({ poll: "1h" });
  await until("it to be listed", async () => (await hf.workers()).some((worker) => worker.id === id));
  return hf;
}

/** The workers of a SQLite file say nothing for so long. */
function silence({ cwd }: Pick<Place, "cwd">, ms: number): void {
  const db = new Database(join(cwd, "jobs.db"));
  db.prepare("UPDATE holdfast_workers SET seen_at = seen_at - ?").run(ms);
  db.close();
}

describe("workers that were killed", () => {
  it("are not live to doctor, and workers marks them", SLOW, async () => {
    const there = await place(onSqlite);
    await workerOn(there.store, "mail");
    await there.json("enqueue", "mail", '{"to":"ada"}', "--delay", "1h");
    expect(await findings(there, "workers")).toMatchObject([{ level: "ok", found: "1 live." }]);
    expect((await there.run("workers")).stdout).not.toContain("gone?");
    silence(there, 61_000);
    expect(await findings(there, "workers")).toMatchObject([
      { level: "problem", found: "No worker is live, and 1 job waits." },
    ]);
    expect((await there.run("workers")).stdout).toMatch(/ago +gone\?\n/);
  });
});
