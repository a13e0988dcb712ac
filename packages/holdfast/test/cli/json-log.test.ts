import { join } from "node:path";
import { expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { emptyWorkspace, SLOW } from "./workspace.js";

interface Line {
  time: string;
  level: string;
  message: string;
}

function linesOf(stderr: string): Line[] {
  return stderr
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
}

it("with log.format json, all that a worker says is lines of its log", SLOW, async () => {
  const env = { HOLDFAST_LOG_FORMAT: "json", HOLDFAST_URL: "http://127.0.0.1:1" };
  const { start } = emptyWorkspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`, env);
  const worker = start("worker", "jobs.ts");
  await until("the worker to run", () => worker.stderr().includes(" runs"), 60_000);
  worker.child.kill("SIGTERM");
  expect(await worker.ended).toBe(0);
  expect(worker.stdout()).toBe("");
  const lines = linesOf(worker.stderr());
  expect(lines.map(({ level, message }) => [level, message])).toEqual(
    expect.arrayContaining([
      ["warn", expect.stringContaining("HOLDFAST_URL is set; this command works on the store")],
      ["info", expect.stringMatching(/^Worker \S+ runs/)],
      ["info", "Stopping: jobs under way may end."],
    ]),
  );
  for (const { time } of lines) expect(Date.parse(time)).not.toBeNaN();
});

it("with log.format json, why a worker ended is a line of its log too, however silent that is", SLOW, async () => {
  for (const level of ["info", "silent"]) {
    const env = { HOLDFAST_LOG_FORMAT: "json", HOLDFAST_LOG_LEVEL: level };
    const { spawn } = emptyWorkspace(() => "postgres://127.0.0.1:1/nowhere", env);
    const { code, stderr } = await spawn("worker", "jobs.ts");
    expect(code).toBe(1);
    expect(linesOf(stderr)).toEqual([
      {
        time: expect.any(String) as string,
        level: "error",
        message: expect.stringContaining("cannot be reached") as string,
        code: "STORE_UNAVAILABLE",
        hint: expect.stringContaining("HOLDFAST_STORE") as string,
      },
    ]);
  }
});

it("of a command that only looks, notes and errors are for people, whatever the log's format is", SLOW, async () => {
  const { spawn } = emptyWorkspace(() => "postgres://127.0.0.1:1/nowhere", { HOLDFAST_LOG_FORMAT: "json" });
  expect((await spawn("stats")).stderr).toMatch(/^error: PostgreSQL at .+\nhint: .+\n$/);
});
