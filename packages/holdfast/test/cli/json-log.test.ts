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

it("log.format json: a worker writes only JSON lines", SLOW, async () => {
  const env = { HOLDFAST_LOG_FORMAT: "json", HOLDFAST_URL: "http://127.0.0.1:1" };
  const { start } = emptyWorkspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`, env);
  const worker = start("worker", "jobs.ts");
  await until("the worker to run", () => worker.stderr().includes(" started"), 60_000);
  worker.child.kill("SIGTERM");
  expect(await worker.ended).toBe(0);
  expect(worker.stdout()).toBe("");
  const lines = linesOf(worker.stderr());
  expect(lines.map(({ level, message }) => [level, message])).toEqual(
    expect.arrayContaining([
      ["warn", expect.stringContaining("HOLDFAST_URL is ignored; this command uses the store")],
      ["info", expect.stringMatching(/^Worker \S+ started/)],
      ["info", "Shutting down; waiting for running jobs."],
    ]),
  );
  for (const { time } of lines) expect(Date.parse(time)).not.toBeNaN();
});

it("log.format json: the fatal error is logged at every level", SLOW, async () => {
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

it("log.format json does not affect short commands", SLOW, async () => {
  const { spawn } = emptyWorkspace(() => "postgres://127.0.0.1:1/nowhere", { HOLDFAST_LOG_FORMAT: "json" });
  expect((await spawn("stats")).stderr).toMatch(/^error: PostgreSQL at .+\nhint: .+\n$/);
});
