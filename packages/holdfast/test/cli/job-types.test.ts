import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { postgresServer } from "../postgres/server.js";
import { SLOW, storesOf, workspace, type Workspace } from "./workspace.js";
import { holdfastCommand } from "./scene.js";

const server = postgresServer();

const STRICT = `
import { job } from "holdfast";
export const count = job({
  type: "count",
  queue: "numbers",
  retry: { maxAttempts: 2 },
  input: { "~standard": { version: 1, vendor: "test", validate: (value) =>
    typeof value?.n === "number" ? { value } : { issues: [{ message: "must be a number", path: ["n"] }] } } },
  run: () => {},
});
`;

async function withModule(address: (cwd: string) => string): Promise<Workspace> {
  const ws = await workspace(address);
  writeFileSync(join(ws.cwd, "strict.mjs"), STRICT);
  writeFileSync(join(ws.cwd, "holdfast.toml"), 'jobs.module = "strict.mjs"\n');
  return ws;
}

describe.each(storesOf(server))("with a jobs module on %s", (_name, address) => {
  it("a schedule uses its type and validates inputs", SLOW, async () => {
    const { run, hf } = await withModule(address);
    const bad = await run("schedules", "create", "s", "count", "--every", "1h", "--input", '{"n":"one"}');
    expect(bad).toMatchObject({ code: 2, stderr: expect.stringContaining("n must be a number") as string });
    expect((await run("schedules", "create", "s", "count", "--every", "1h", "--input", '{"n":1}')).stderr).toBe("");
    expect(await hf.schedules.get("s")).toMatchObject({ queue: "numbers", maxAttempts: 2, input: { n: 1 } });
    expect((await run("schedules", "update", "s", "--input", '{"n":"two"}')).code).toBe(2);
    const misspelt = await run("schedules", "create", "t", "cuont", "--every", "1h");
    expect(misspelt.stderr).toContain(
      "strict.mjs does not define cuont, so the input is not checked, and the schedule gets the default queue, priority and attempts; did you mean count?",
    );
  });

  it("jobs rerun validates the input", SLOW, async () => {
    const { run, hf } = await withModule(address);
    const { stdout } = await run("enqueue", "count", '{"n":1}');
    expect((await run("jobs", "rerun", stdout.trim(), '{"n":"one"}')).stderr).toContain("n must be a number");
    const again = await run("jobs", "rerun", stdout.trim(), '{"n":2}');
    expect(await hf.get(again.stdout.trim())).toMatchObject({ input: { n: 2 }, queue: "numbers" });
  });

  it("serve validates inputs and uses the job type", SLOW, async () => {
    const { start, cwd, hf } = await withModule(address);
    const serving = start("serve", "--port", "0");
    await until("the server to listen", () => serving.stdout().includes("http://"), 60_000);
    const [url = ""] = /http:\S+/.exec(serving.stdout()) ?? [];
    const enqueue = (input: string) => holdfastCommand(["enqueue", "count", input, "--url", url], { cwd });
    expect(await enqueue('{"n":"one"}')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("n must be a number") as string,
    });
    const { stdout } = await enqueue('{"n":1}');
    expect(await hf.get(stdout.trim())).toMatchObject({ queue: "numbers", maxAttempts: 2 });
  });
});

const [onSqlite] = storesOf(server).map(([, address]) => address);

describe("an input", () => {
  it("may have line breaks and be long", SLOW, async () => {
    const { run, hf } = await workspace(onSqlite as (cwd: string) => string);
    const long = { text: "x".repeat(100_000) };
    for (const input of [{ to: "ada" }, long]) {
      const { stdout } = await run("enqueue", "mail", JSON.stringify(input, null, 2));
      expect(await hf.get(stdout.trim())).toMatchObject({ input });
    }
  });

  it("is read from stdin with -", SLOW, async () => {
    const { cwd, store, hf } = await workspace(onSqlite as (cwd: string) => string);
    const env = { HOLDFAST_STORE: store };
    const run = (words: string[], stdin: string) => holdfastCommand(words, { cwd, env, input: stdin });
    const first = (await run(["enqueue", "mail", "-"], '{"to":"ada"}')).stdout.trim();
    expect(await hf.get(first)).toMatchObject({ input: { to: "ada" } });
    const second = (await run(["jobs", "rerun", first, "-"], '{"to":"bob"}')).stdout.trim();
    expect(await hf.get(second)).toMatchObject({ input: { to: "bob" } });
    await run(["schedules", "create", "s", "mail", "--every", "1h", "--input", "-"], '{"to":"eve"}');
    expect(await hf.schedules.get("s")).toMatchObject({ input: { to: "eve" } });
    expect((await run(["enqueue", "mail", "-"], "{bad")).stderr).toContain("the input on stdin is not JSON");
  });
});

it("warns when a code schedule is deleted", SLOW, async () => {
  const { run, hf } = await workspace(onSqlite as (cwd: string) => string);
  const report = job({ type: "report", run: () => {} });
  await hf.schedule("digest", { job: report, every: "1h" });
  const { stdout, stderr } = await run("schedules", "delete", "digest", "--yes");
  expect(stdout).toBe("Deleted digest\n");
  expect(stderr).toMatch(
    /^warning: the schedule is defined in code and will be created again at the next start; to stop it, run: holdfast schedules disable digest\n$/,
  );
  await run("schedules", "create", "own", "report", "--every", "1h");
  expect((await run("schedules", "delete", "own", "--yes")).stderr).toBe("");
});

it("lists a queue whose jobs have all finished", SLOW, async () => {
  const { run, json, hf } = await workspace(onSqlite as (cwd: string) => string);
  await hf.enqueue(job({ type: "done", queue: "crm", run: () => {} }));
  const jobs = (await json<{ jobs: { id: string }[] }>("jobs", "list")).jobs;
  await hf.cancel(jobs[0]?.id ?? "");
  expect(await json<{ queues: object[] }>("queues", "list")).toMatchObject({
    queues: [{ queue: "crm", paused: false }],
  });
  expect((await run("queues", "pause", "crm")).stderr).toBe("");
});
