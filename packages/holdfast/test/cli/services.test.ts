import { spawn as spawnNode } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { MAIN, plainEnv } from "./scene.js";
import { MODULE, SLOW, workspace } from "./workspace.js";

it("serve accepts only localhost until a token exists", SLOW, async () => {
  const { run, start, hf } = await workspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
  const refused = await run("serve", "--host", "0.0.0.0", "--port", "0");
  expect(refused).toMatchObject({ code: 1 });
  expect(refused.stderr).toMatch(
    /^error: no API tokens exist, and 0\.0\.0\.0 accepts requests from other machines\nhint: run: holdfast tokens create/,
  );
  const open = start("serve", "--port", "0");
  await until("the server to listen", () => open.stdout().includes("http://"), 60_000);
  expect(open.stderr()).toContain(
    "No API tokens exist, so authentication is off. Only requests from localhost are accepted.",
  );
  const [url = ""] = /http:\/\/127\.0\.0\.1:\d+/.exec(open.stdout()) ?? [];
  const status = async (headers = {}): Promise<number> => (await fetch(`${url}/api/admin/jobs`, { headers })).status;
  expect(await status()).toBe(200);
  const { id, token } = await hf.tokens.create({ name: "a", role: "admin" });
  await until("it to ask for the token", async () => (await status()) === 401);
  const headers = { authorization: `Bearer ${token}` };
  expect(await status(headers)).toBe(200);
  await fetch(`${url}/api/admin/queues/default/pause`, { method: "POST", headers });
  expect((await run("audit")).stdout).toMatch(new RegExp(`token:a ${id} +queues.pause`));
  const guarded = start("serve", "--host", "0.0.0.0", "--port", "0");
  await until("the server to listen", () => guarded.stdout().includes("http://"), 60_000);
});

it("exits although a module holds an open handle", SLOW, async () => {
  const { cwd, spawn } = await workspace((folder) => `sqlite:${join(folder, "jobs.db")}`);
  writeFileSync(join(cwd, "held.ts"), `${MODULE}\nsetInterval(() => {}, 1_000_000);\n`);
  expect(await spawn("process", "held.ts", "--once")).toMatchObject({ code: 0, stdout: "0 jobs ran\n" });
});

it("Ctrl-C stops a bulk operation on a server", SLOW, async () => {
  const { cwd, hf, start } = await workspace((folder) => `sqlite:${join(folder, "jobs.db")}`);
  const jobs = 60_000;
  await hf.enqueueMany(
    job({ type: "mail", run: () => {} }),
    Array.from({ length: jobs }, () => ({})),
    { delay: "1h" },
  );
  const { token } = await hf.tokens.create({ name: "a", role: "admin" });
  const serving = start("serve", "--port", "0");
  await until("the server to listen", () => serving.stdout().includes("http://"), 60_000);
  const [url = ""] = /http:\/\/127\.0\.0\.1:\d+/.exec(serving.stdout()) ?? [];
  const deleting = spawnNode(process.execPath, [MAIN, "jobs", "delete", "--state", "pending", "--yes", "--url", url], {
    cwd,
    env: plainEnv({ HOLDFAST_TOKEN: token }),
  });
  const ended = once(deleting, "exit");
  await until("it to have begun", async () => (await hf.stats()).states.pending < jobs, 60_000);
  deleting.kill("SIGINT");
  await ended;
  const left = (await hf.stats()).states.pending;
  expect(left).toBeGreaterThan(0);
  await until(
    "the end to be audited",
    async () => (await hf.audit.list({ action: "operation.delete" })).entries.length === 1,
    60_000,
  );
  expect((await hf.stats()).states.pending).toBe(left);
});

it("dev restarts when the module changes", SLOW, async () => {
  const { cwd, start, hf, json } = await workspace((folder) => `sqlite:${join(folder, "jobs.db")}`);
  const dev = start("dev", "jobs.ts", "--port", "0");
  await until("it to run", () => dev.stdout().includes("dashboard:"), 60_000);
  writeFileSync(join(cwd, "jobs.ts"), `${MODULE}\nexport const another = { ...mail, type: "another" };\n`);
  await until("it to run again", () => dev.stdout().split("dashboard:").length > 2, 60_000);
  const { id } = await json<{ id: string }>("enqueue", "another", '{"to":"ada"}');
  await until("the new type to run", async () => (await hf.get(id))?.state === "completed", 60_000);
  dev.child.kill("SIGTERM");
  expect(await dev.ended).toBe(0);
});

describe("each job is logged", () => {
  const LOGGING = `
import { job } from "holdfast";
export const logging = job({
  type: "logging",
  run({ input, log }) {
    log("hello \\u001b[2J" + input.to);
    if (input.to === "unknown") throw new Error("no such address");
  },
});
`;

  it("by dev, with duration, log lines and error", SLOW, async () => {
    const { cwd, start, json } = await workspace((folder) => `sqlite:${join(folder, "jobs.db")}`);
    writeFileSync(join(cwd, "logging.js"), LOGGING);
    const dev = start("dev", "logging.js", "--port", "0");
    await until("it to run", () => dev.stdout().includes("http://"), 60_000);
    const { id } = await json<{ id: string }>("enqueue", "logging", '{"to":"ada"}');
    await json("enqueue", "logging", '{"to":"unknown"}', "--attempts", "1");
    await until("both to be logged", () => /completed/.test(dev.stderr()) && /is dead/.test(dev.stderr()), 60_000);
    expect(dev.stderr()).toMatch(
      new RegExp(`^\\S+Z info  job completed job=${id} type=logging attempt=1 durationMs=\\d+$`, "m"),
    );
    expect(dev.stderr()).toContain(`job log job=${id} type=logging line="hello \\u001b[2Jada"\n`);
    expect(dev.stderr()).toMatch(/error job is dead .+ error="no such address"\n/);
    dev.child.kill("SIGTERM");
    expect(await dev.ended).toBe(0);
  });

  it("by other commands only at log.level debug", SLOW, async () => {
    const { cwd, run } = await workspace((folder) => `sqlite:${join(folder, "jobs.db")}`);
    writeFileSync(join(cwd, "logging.js"), LOGGING);
    for (const [level, logged] of [
      ["info", false],
      ["debug", true],
    ] as const) {
      await run("config", "set", "log.level", level);
      await run("enqueue", "logging", '{"to":"ada"}');
      const { stdout, stderr } = await run("process", "logging.js");
      expect(stdout).toBe("1 job ran\n");
      expect({ level, logged: stderr.includes("job completed") }).toEqual({ level, logged });
    }
  });
});

it("dashboard serves the page on a free port", SLOW, async () => {
  const { start, hf } = await workspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
  await hf.stats();
  const serving = start("dashboard");
  await until("the server to listen", () => serving.stdout().includes("Ctrl-C"), 60_000);
  expect(serving.stdout()).toMatch(/^Dashboard: http:\/\/127\.0\.0\.1:\d+\/\nPress Ctrl-C to stop\.\n$/);
  const [url = ""] = /http:\S+/.exec(serving.stdout()) ?? [];
  expect(new URL(url).port).not.toBe("7700");
  const page = await fetch(url, { headers: { accept: "text/html" } });
  expect(await page.text()).toContain('<div id="app">');
  expect((await fetch(`${url}api/admin/jobs`)).status).toBe(200);
});
