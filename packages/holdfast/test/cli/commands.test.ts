import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { job, type JobType } from "holdfast";
import type { JobSummary, OperationResult, ScheduleResult } from "holdfast/admin";
import { describe, expect, it } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { addressOf, ownSchema } from "../postgres/scene.js";
import { postgresServer } from "../postgres/server.js";
import { SLOW, storesOf, workspace } from "./workspace.js";
import { holdfastCommand, type CommandResult } from "./scene.js";

const server = postgresServer();

function mailOf(): JobType {
  return job({ type: "mail", run: () => {} });
}

describe.each(storesOf(server))("holdfast on %s", (_name, address) => {
  it("E-10 stats, process --once and --poll --interval, retry-dead, purge-completed", SLOW, async () => {
    const { json, run, start, hf } = await workspace(address);
    const states = async (): Promise<object> => (await hf.stats()).states;
    for (const to of ["ada", "unknown", "bob"]) await hf.enqueueNamed("mail", { to }, { maxAttempts: 1 });
    expect(await json("stats")).toMatchObject({ states: { pending: 3, completed: 0, dead: 0 } });
    expect((await run("stats")).stdout).toMatch(/^default +3 +0 +0 +0 +0 +0 +0\n/m);

    expect(await json("process", "jobs.ts", "--once")).toEqual({ ran: 1 });
    expect(await states()).toMatchObject({ pending: 2, completed: 1, dead: 0 });

    const mail = async (): Promise<() => Promise<boolean>> => {
      const { id } = await hf.enqueueNamed("mail", { to: "eve" });
      return () => until("the mail to be sent", async () => (await hf.get(id))?.state === "completed", 60_000);
    };
    for (const interval of ["5000", "5s", "200"]) {
      const atFirst = await mail();
      const polling = start("process", "jobs.ts", "--poll", "--interval", interval);
      await atFirst();
      // By a later poll than the first. No test waits five seconds for that.
      if (interval === "200") await (await mail())();
      polling.child.kill("SIGINT");
      expect({ interval, code: await polling.ended }).toEqual({ interval, code: 0 });
    }
    expect(await states()).toMatchObject({ pending: 0, completed: 6, dead: 1 });

    expect(await json<OperationResult>("jobs", "retry-dead")).toMatchObject({ changed: 1, state: "done" });
    expect(await states()).toMatchObject({ pending: 1, completed: 6, dead: 0 });

    expect(await json<OperationResult>("jobs", "purge-completed", "--before", "7d", "--yes")).toMatchObject({
      changed: 0,
    });
    expect(await states()).toMatchObject({ pending: 1, completed: 6 });
    expect((await run("jobs", "purge-completed", "--before", "0s")).stderr).toContain("Delete all completed jobs");
    expect(await json<OperationResult>("jobs", "purge-completed", "--before", "0s", "--yes")).toMatchObject({
      changed: 6,
    });
    expect(await states()).toMatchObject({ pending: 1, completed: 0 });
  });

  it("C-18 lists, shows, retries, cancels and deletes jobs", SLOW, async () => {
    const { run, json, hf } = await workspace(address);
    const { id } = await json<{ id: string }>("enqueue", "mail", '{"to":"unknown"}', "--attempts", "1");
    await json("enqueue", "mail", '{"to":"ada"}');
    expect(await json("process", "jobs.ts")).toEqual({ ran: 2 });
    const { jobs } = await json<{ jobs: JobSummary[] }>("jobs", "list", "--state", "dead");
    expect(jobs).toMatchObject([{ id, type: "mail", error: { message: "no such address" } }]);
    expect((await json<{ jobs: object[] }>("jobs", "list", "--state", "dead,completed")).jobs).toHaveLength(2);
    const past = ["--before", "2020-01-01T00:00:00Z", "--yes"];
    expect(await json<OperationResult>("jobs", "purge", ...past)).toMatchObject({ changed: 0 });
    const list = await run("jobs", "list");
    expect(list.stdout).toMatch(/^Id +Type +State +Time +Attempt +Error\n/);
    expect(list.stdout).toContain("no such address");
    const show = await run("jobs", "show", id);
    expect(show.stdout).toMatch(/state: +dead/);
    expect(show.stdout).toContain('"to": "unknown"');
    expect(show.stdout).toContain("Attempt 1 failed");
    expect(await json<{ states: object }>("stats")).toMatchObject({ states: { dead: 1, completed: 1 } });
    expect((await run("stats")).stdout).toMatch(/oldest due job: +none/);

    expect(await json("jobs", "retry", id)).toEqual({ id, status: "retried" });
    const again = await run("jobs", "retry", id);
    expect(again).toMatchObject({ code: 1, stdout: "" });
    expect(again.stderr).toMatch(/^error: job .+ is pending; only failed, dead and cancelled jobs can be retried/);
    expect(await json("jobs", "cancel", id)).toEqual({ id, status: "cancelled" });
    expect(await json<OperationResult>("jobs", "retry", "--state", "cancelled")).toMatchObject({
      changed: 1,
      state: "done",
    });
    await json("process", "jobs.ts");
    expect(await json<OperationResult>("jobs", "retry-dead")).toMatchObject({ changed: 1 });
    expect((await run("jobs", "delete", id)).code).toBe(2);
    expect(await hf.get(id)).not.toBeNull();
    expect(await json("jobs", "delete", id, "--yes")).toEqual({ id, status: "removed" });
    expect(await hf.get(id)).toBeNull();
    expect(await json<OperationResult>("jobs", "purge", "--before", "0s", "--yes")).toMatchObject({ changed: 1 });
    const { entries } = await json<{ entries: { actor: string; action: string }[] }>("audit");
    expect(entries.map(({ action }) => action)).toEqual(
      expect.arrayContaining(["jobs.enqueue", "jobs.retry", "jobs.cancel", "jobs.remove", "jobs.purge"]),
    );
    for (const { actor } of entries) expect(actor).toMatch(/^cli:.+@.+/);
  });

  it("C-18 lists, creates, changes, previews, runs and deletes schedules", SLOW, async () => {
    const { run, json } = await workspace(address);
    const made = await json<ScheduleResult>(
      "schedules",
      "create",
      "nightly",
      "mail",
      "--cron",
      "0 3 * * *",
      "--input",
      '{"to":"ada"}',
    );
    expect(made).toMatchObject({ name: "nightly", type: "mail", enabled: true, input: { to: "ada" } });
    expect(
      await json<ScheduleResult>("schedules", "update", "nightly", "--every", "15m", "--priority", "-5"),
    ).toMatchObject({ everyMs: 900_000, cron: null, priority: -5 });
    expect(await json<ScheduleResult>("schedules", "disable", "nightly")).toMatchObject({ enabled: false });
    expect((await run("schedules", "list")).stdout).toMatch(/nightly +mail +every 15m +disabled/);
    expect(await json<ScheduleResult>("schedules", "enable", "nightly")).toMatchObject({ enabled: true });
    expect((await json<{ runs: string[] }>("schedules", "preview", "nightly", "--count", "3")).runs).toHaveLength(3);
    const { id } = await json<{ id: string }>("schedules", "run", "nightly");
    expect((await run("schedules", "show", "nightly")).stdout).toContain(id);
    expect(await json("schedules", "delete", "nightly", "--yes")).toEqual({ name: "nightly", status: "removed" });
    const gone = await run("schedules", "show", "nightly");
    expect(gone).toMatchObject({ code: 1 });
    expect(gone.stderr).toMatch(/^error: schedule "nightly" not found/);
  });

  it("sets, changes, unsets and shows every schedule setting", SLOW, async () => {
    const { run, json } = await workspace(address);
    const words = [
      ["schedules", "create", "nightly", "mail", "--cron", "0 3 * * *", "--timezone", "Europe/Berlin"],
      ["--start", "2030-01-01T00:00:00Z", "--end", "2031-01-01T00:00:00Z", "--jitter", "5m", "--catch-up", "all:7"],
      ["--overlap", "skip", "--enabled", "false", "--queue", "slow", "--priority", "5", "--attempts", "2"],
      ["--user", "ada", "--tag", "a", "--tag", "b", "--input", '{"to":"ada"}'],
    ].flat();
    const made = await json<ScheduleResult>(...words);
    const settings = {
      cron: "0 3 * * *",
      timezone: "Europe/Berlin",
      startAt: "2030-01-01T00:00:00.000Z",
      endAt: "2031-01-01T00:00:00.000Z",
      jitterMs: 300_000,
      catchUp: { all: 7 },
      overlap: "skip",
      enabled: false,
      queue: "slow",
      priority: 5,
      maxAttempts: 2,
      user: "ada",
      tags: ["a", "b"],
      input: { to: "ada" },
    };
    expect(made).toMatchObject(settings);
    const shown = (await run("schedules", "show", "nightly")).stdout;
    for (const line of [/jitter: +up to 5m/, /user: +ada/, /tags: +a, b/, /end: +203\d-/, /catch-up: +all, up to 7/]) {
      expect(shown).toMatch(line);
    }
    const unset = ["start", "end", "user", "tags"].flatMap((name) => ["--unset", name]);
    expect(
      await json<ScheduleResult>("schedules", "update", "nightly", ...unset, "--catch-up", "all", "--jitter", "0s"),
    ).toMatchObject({ startAt: null, endAt: null, user: null, tags: [], catchUp: { all: 1_000 }, jitterMs: 0 });
    await json("schedules", "create", "often", "mail", "--every", "1m", "--user", "bob");
    const names = async (...flags: string[]): Promise<string[]> => {
      const { schedules } = await json<{ schedules: ScheduleResult[] }>("schedules", "list", ...flags);
      return schedules.map(({ name }) => name);
    };
    expect(await names("--enabled", "false")).toEqual(["nightly"]);
    expect(await names("--user", "bob")).toEqual(["often"]);
    expect(await names("--origin", "code")).toEqual([]);
    const from = ["--every", "1h", "--start", "2030-01-01T00:30:00Z", "--count", "1"];
    expect(await json("schedules", "preview", ...from)).toEqual({ runs: ["2030-01-01T00:30:00.000Z"] });
    const tokyo = ["--cron", "0 8 * * *", "--timezone", "Asia/Tokyo", "--start", "2030-01-01T00:00:00Z"];
    expect((await run("schedules", "preview", ...tokyo, "--count", "1")).stdout).toMatch(
      /^Asia\/Tokyo +UTC +Local\nWed 2030-01-02 08:00:00 {2}2030-01-01T23:00:00\.000Z/,
    );
    expect((await run("schedules", "preview", "nightly")).stdout).toMatch(
      /^Europe\/Berlin +UTC +Local\n\w+ \S+ 03:00:00 /,
    );
    const { schedules } = await json<{ schedules: object[] }>("schedules", "list");
    for (const each of schedules) expect(each).not.toHaveProperty("slots");
  });

  it("sets every option of an enqueue", SLOW, async () => {
    const { run, json, hf } = await workspace(address);
    const words = [
      ["enqueue", "mail", '{"to":"ada"}', "--queue", "slow", "--priority", "5", "--at", "2030-01-01T00:00:00Z"],
      ["--expires", "2031-01-01T00:00:00Z", "--user", "ada", "--tag", "a", "--attempts", "2"],
      ["--unique", "k", "--unique-for", "waiting", "--id", "018f4d2e-7b3a-7c11-8a55-0123456789ab"],
    ].flat();
    const { id } = await json<{ id: string }>(...words);
    expect(await hf.get(id)).toMatchObject({
      id: "018f4d2e-7b3a-7c11-8a55-0123456789ab",
      queue: "slow",
      priority: 5,
      user: "ada",
      tags: ["a"],
      maxAttempts: 2,
      key: "k",
      runAt: new Date("2030-01-01T00:00:00Z"),
      expiresAt: new Date("2031-01-01T00:00:00Z"),
    });
    const again = ["enqueue", "mail", '{"to":"bob"}', "--user", "ada", "--unique", "k", "--on-conflict"];
    expect(await json(...again, "keep")).toEqual({ id, duplicate: true, replaced: false });
    expect(await json(...again, "replace")).toEqual({ id, duplicate: true, replaced: true });
    expect(await hf.get(id)).toMatchObject({ input: { to: "bob" } });
    expect(await run(...again, "reject")).toMatchObject({ code: 1, stdout: "" });
    const soon = await json<{ id: string }>(
      "enqueue",
      "mail",
      "--expires",
      "2h",
      "--unique",
      "p",
      "--unique-for",
      "1h",
    );
    const left = Number((await hf.get(soon.id))?.expiresAt) - Date.now();
    expect(left).toBeGreaterThan(7_000_000);
    expect(left).toBeLessThanOrEqual(7_200_000);
    await hf.cancel(soon.id);
    expect(await json("enqueue", "mail", "--unique", "p")).toMatchObject({ id: soon.id, duplicate: true });
    const yearly = ["enqueue", "mail", "--unique", "y", "--unique-for", "year@Europe/Berlin"];
    const first = await json<{ id: string }>(...yearly);
    expect(await json(...yearly)).toEqual({ id: first.id, duplicate: true, replaced: false });
    expect(await hf.get(first.id)).toMatchObject({ key: "y" });
  });

  it("C-18 rejects bad arguments before opening the store", SLOW, async () => {
    const { cwd } = await workspace(address);
    const env = { HOLDFAST_STORE: "postgres://ada@127.0.0.1:1/nowhere" };
    for (const [args, message] of [
      [["enqueue", "mail", "{bad"], /<input>: "\{bad" is not JSON/],
      [["schedules", "create", "a", "mail", "--cron", "* * * * *", "--input", "{"], /not JSON/],
      [["schedules", "update", "a", "--enabled", "maybe"], /--enabled/],
      [["schedules", "create", "a", "mail"], /either --cron or --every/],
      [["jobs", "list", "--state", "gone"], /--state/],
      [["jobs", "list", "--state", "dead,gone"], /--state: "gone" is not one of/],
      [["jobs", "purge", "--before", "2999-01-01T00:00:00Z", "--yes"], /--before must be in the past/],
      [["process", "jobs.ts", "--interval", "5s"], /--interval requires --poll/],
      [["tokens", "create"], /missing argument <name>/],
      [["jobs", "rerun", "x", "{bad"], /not JSON.*\nhint: quote it for the shell: '\{"to":"ada"\}'\n/],
      [["jobs", "list", "--limit", "1000"], /--limit/],
      [["jobs", "retry"], /no jobs selected/],
      [
        ["jobs", "purge", "--before", "2026-1-1", "--yes"],
        /--before: "2026-1-1" is not an ISO time such as 2026-01-31T08:00:00Z, or an age/,
      ],
      [
        ["jobs", "purge-completed"],
        /--before is required: an ISO time such as 2026-01-31T08:00:00Z, or an age such as 7d\n/,
      ],
      [
        ["jobs", "purge-completed", "--before"],
        /--before needs a value: an ISO time such as 2026-01-31T08:00:00Z, or an age such as 7d\n/,
      ],
      [
        ["jobs", "purge-completed", "--before", "7"],
        /--before: "7" is not an ISO time such as 2026-01-31T08:00:00Z, or an age such as 7d\n/,
      ],
      [
        ["schedules", "create", "a", "mail", "--every", "1h", "--end", "7"],
        /--end: "7" is not an ISO time such as 2026-01-31T08:00:00Z, or/,
      ],
      [["tokens", "create", "bob", "--role", "user"], /: --role user requires --user <user>\n/],
      [["tokens", "create", "bob", "--role", "admin", "--user", "a"], /--user requires --role user, not admin/],
      [["jobs", "remove", "x", "--yes"], /: holdfast jobs: unknown command "remove"; did you mean delete\?\n/],
      [
        ["jobs", "list", "--after", "yesterday"],
        /--after: "yesterday" is not an ISO time such as 2026-01-31T08:00:00Z, or an age such as 7d/,
      ],
      [["enqueue", "mail", "{}", "--at", "in 5"], /--at: "in 5" is not an ISO time such as 2026-01-31T08:00:00Z\n/],
      [
        ["enqueue", "mail", "{}", "--expires", "5"],
        /--expires: "5" is not an ISO time such as 2026-01-31T08:00:00Z, or a duration from now such as 2h/,
      ],
      [
        ["enqueue", "mail", "{}", "--at", "2027-02-30T00:00:00Z"],
        /--at: "2027-02-30T00:00:00Z" is a day that does not/,
      ],
      [["enqueue", "mail", "{}", "--expires", "2027-01-01"], /--expires: "2027-01-01" has no time zone; write it like/],
      [["jobs", "list", "--before", "2026-01-01"], /--before: "2026-01-01" has no time zone/],
      [["jobs", "purge", "--before", "2026-02-30T00:00:00Z", "--yes"], /--before: "2026-02-30T00:00:00Z" is a day/],
      [["enqueue", "mail", "--at", "2030-01-01T00:00:00Z", "--delay", "1m"], /--delay and --at cannot be combined/],
      [["enqueue", "mail", "--unique-for", "1h"], /--unique-for requires --unique/],
      [
        ["enqueue", "mail", "--unique", "k", "--unique-for", "long"],
        /--unique-for: "long" is not waiting, live, forever, a duration or a calendar period\nhint: examples: 10m/,
      ],
      [
        ["enqueue", "mail", "--unique", "k", "--unique-for", "day@Nowhere"],
        /--unique-for: "Nowhere" is not an IANA time zone/,
      ],
      [["schedules", "update", "a", "--catch-up", "all:0"], /--catch-up: "all:0" is not skip, latest, all/],
      [["schedules", "update", "a", "--user", "b", "--unset", "user"], /user is both set and unset/],
      [["schedules", "preview", "a", "--every", "1h"], /a schedule name and timing flags cannot be combined/],
      [["stats", "--watch", "--interval", "often"], /--interval/],
      [["stats", "--interval", "5s"], /--interval requires --watch/],
    ] as const) {
      const { code, stderr, stdout } = await holdfastCommand(args, { cwd, env });
      expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: "" });
      expect(stderr).toMatch(message);
    }
  });

  it("E-02 process runs one job, all, or polls", SLOW, async () => {
    const { json, start, hf } = await workspace(address);
    for (const to of ["a", "b", "c"]) await json("enqueue", "mail", JSON.stringify({ to }));
    expect(await json("process", "jobs.ts", "--once")).toEqual({ ran: 1 });
    expect(await json("process", "jobs.ts")).toEqual({ ran: 2 });
    expect(await json("process", "jobs.ts", "--once")).toEqual({ ran: 0 });
    const polling = start("process", "jobs.ts", "--poll", "--interval", "200ms");
    const { id } = await json<{ id: string }>("enqueue", "mail", '{"to":"d"}');
    await until("the job to be run", async () => (await hf.get(id))?.state === "completed", 60_000);
    polling.child.kill("SIGINT");
    expect(await polling.ended).toBe(0);
    expect(polling.stdout()).toBe("1 job ran\n");
  });

  it("A-24 B-14 worker finishes a running job after SIGTERM", SLOW, async () => {
    const { start, hf, json } = await workspace(address);
    const working = start("worker", "jobs.ts", "--concurrency", "3");
    await until("the worker to run", () => working.stdout().includes("started"), 60_000);
    await until("its heartbeat", async () => (await hf.workers()).some(({ left }) => !left), 60_000);
    expect((await hf.workers()).map(({ concurrency, types }) => ({ concurrency, types }))).toEqual([
      { concurrency: 3, types: ["mail"] },
    ]);
    expect((await hf.schedules.get("digest"))?.origin).toBe("code");
    const { id } = await json<{ id: string }>("enqueue", "mail", '{"to":"ada","after":"SIGTERM","ms":300}');
    await until("the job to run", async () => (await hf.get(id))?.state === "running", 60_000);
    working.child.kill("SIGTERM");
    expect(await working.ended).toBe(0);
    expect(await hf.get(id)).toMatchObject({ state: "completed", output: { sent: true } });
    expect((await hf.workers()).every(({ left }) => left)).toBe(true);
  });

  it("C-16 starts nothing if jobs.enabled is off", SLOW, async () => {
    const { run, hf, json } = await workspace(address);
    await json("enqueue", "mail", '{"to":"ada"}');
    await run("config", "set", "jobs.enabled", "false");
    for (const args of [
      ["worker", "jobs.ts"],
      ["process", "jobs.ts"],
      ["dev", "jobs.ts"],
    ]) {
      const { code, stdout } = await run(...args);
      expect({ args, code }).toEqual({ args, code: 0 });
      expect(stdout).toContain("jobs.enabled is false");
    }
    expect((await hf.stats()).states.pending).toBe(1);
  });

  it("works with a server by --url and token", SLOW, async () => {
    const { run, start, hf, cwd } = await workspace(address);
    const { token } = await hf.tokens.create({ name: "ci", role: "operator" });
    const serving = start("serve", "--port", "0");
    await until("the server to listen", () => /http:\/\/127\.0\.0\.1:\d+/.test(serving.stdout()), 60_000);
    const [url = ""] = /http:\/\/127\.0\.0\.1:\d+/.exec(serving.stdout()) ?? [];
    const remote = (...args: string[]): Promise<CommandResult> =>
      holdfastCommand([...args, "--url", url], { cwd, env: { HOLDFAST_TOKEN: token } });
    const { stdout } = await remote("enqueue", "mail", '{"to":"ada"}');
    expect(await hf.get(stdout.trim())).toMatchObject({ type: "mail", state: "pending" });
    expect((await remote("stats")).stdout).toContain("default");
    expect((await remote("schedules", "show", "x")).stderr).toContain(`run: holdfast schedules list --url ${url}\n`);
    expect(await remote("jobs", "purge", "--before", "1d", "--yes")).toMatchObject({
      code: 1,
      stderr: "error: permission denied for role operator; this needs admin\n",
    });
    const anonymous = await holdfastCommand(["stats", "--url", url], { cwd });
    expect(anonymous).toMatchObject({ code: 1, stdout: "" });
    expect(anonymous.stderr).toContain("hint: set HOLDFAST_TOKEN");
    serving.child.kill("SIGTERM");
    expect(await serving.ended).toBe(0);
    expect((await run("stats", "--url", url)).stderr).toContain("cannot be reached");
  });

  it("prefers --store over HOLDFAST_URL", SLOW, async () => {
    const { cwd, store } = await workspace(address);
    const env = { HOLDFAST_URL: "http://127.0.0.1:1" };
    expect((await holdfastCommand(["stats", "--store", store], { cwd, env })).code).toBe(0);
    expect((await holdfastCommand(["stats"], { cwd, env })).stderr).toContain("cannot be reached");
    const both = await holdfastCommand(["stats", "--store", store, "--url", "http://127.0.0.1:1"], { cwd });
    expect(both).toMatchObject({ code: 2 });
    expect(both.stderr).toContain("--url and --store cannot be combined");
  });

  it("refuses an empty URL of the server", SLOW, async () => {
    const { run, cwd, store } = await workspace(address);
    const env = { HOLDFAST_STORE: store, HOLDFAST_URL: "" };
    expect(await holdfastCommand(["stats"], { cwd, env })).toEqual({
      code: 2,
      stdout: "",
      stderr: "error: HOLDFAST_URL is empty; unset the variable, or give it a value\n",
    });
    expect(await run("stats", "--url", "")).toEqual({
      code: 2,
      stdout: "",
      stderr: "error: --url is empty; omit the flag, or give it a value\nhint: run: holdfast stats --help\n",
    });
  });

  it("pauses queues, lists workers, creates tokens, runs doctor", SLOW, async () => {
    const { run, json, hf } = await workspace(address);
    await json("enqueue", "mail", '{"to":"ada"}');
    expect(await json("queues", "pause", "default")).toEqual({ queue: "default", paused: true });
    expect((await run("queues", "list")).stdout).toMatch(/default +1 +0 +0 +0 +paused/);
    expect((await run("stats")).stdout).toMatch(/^default \(paused\) +1 /m);
    expect(await run("queues", "resume", "default")).toEqual({ code: 0, stdout: "Resumed default\n", stderr: "" });
    expect(await run("queues", "pause", "defalt")).toEqual({
      code: 0,
      stdout: "Paused defalt\n",
      stderr: "warning: no job or worker uses the queue defalt; did you mean default?\n",
    });
    expect((await run("workers")).stdout).toBe("No workers in the last hour.\n");
    const made = await run("tokens", "create", "ada", "--role", "user", "--user", "ada");
    expect(await hf.tokens.check(made.stdout.trim())).toMatchObject({ role: "user", user: "ada" });
    const { tokens } = await json<{ tokens: { id: string }[] }>("tokens", "list");
    expect(await json("tokens", "revoke", tokens[0]?.id ?? "", "--yes")).toMatchObject({ status: "revoked" });
    const doctor = await run("doctor", "--json");
    expect(doctor.code).toBe(1);
    expect((JSON.parse(doctor.stdout) as { findings: object[] }).findings).toContainEqual(
      expect.objectContaining({ check: "workers", level: "problem" }),
    );
    expect((await run("migrate", "--check")).code).toBe(0);
  });
});

it("import has a dry run, and validates its file", SLOW, async () => {
  const { cwd, run, json, hf } = await workspace(() => addressOf(server.url(), ownSchema(server)));
  const old = ownSchema(server);
  await server.query(`CREATE SCHEMA ${old}`);
  await server.query(`CREATE TABLE ${old}.mails (id uuid, status text, recipient text)`);
  await server.query(`INSERT INTO ${old}.mails SELECT gen_random_uuid(), 'pending', 'ada' FROM generate_series(1, 3)`);
  const options = {
    table: `${old}.mails`,
    type: "mail",
    map: { id: "id", status: "status", input: { to: "recipient" } },
  };
  writeFileSync(join(cwd, "import.json"), JSON.stringify(options));
  expect(await json("import", "import.json")).toMatchObject({ imported: 3, dryRun: true });
  expect((await hf.stats()).states.pending).toBe(0);
  const printed = (await run("import", "import.json")).stdout;
  expect(printed).toMatch(/^3 rows would be imported as jobs\npending: +3\n\nJobs\nId +State +Queue +Created +Input\n/);
  expect(printed).toMatch(/ pending +default +\S+ \S+ +\{"to": ?"ada"\}\n/);
  const { samples } = await json<{ samples: object[] }>("import", "import.json");
  expect(samples[0]).toMatchObject({ input: { to: "ada" }, runAt: expect.stringMatching(/^\d{4}-.+Z$/) as string });
  expect(await json("import", "import.json", "--yes")).toMatchObject({ imported: 3, dryRun: false });
  expect((await hf.list({ type: "mail" })).jobs.map(({ input }) => input)).toEqual(Array(3).fill({ to: "ada" }));
  writeFileSync(join(cwd, "bad.json"), JSON.stringify({ ...options, tabel: 1 }));
  for (const [file, message] of [
    ["bad.json", /tabel/],
    ["none.json", /cannot be read/],
    ["jobs.ts", /is not JSON/],
  ] as const) {
    const refused = await run("import", file);
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toMatch(message);
  }
});

describe("bulk changes", () => {
  it("print how many jobs were changed and skipped", SLOW, async () => {
    const { hf, run } = await workspace((folder) => `sqlite:${join(folder, "jobs.db")}`);
    const type = mailOf();
    await hf.enqueue(type);
    const [lease] = await hf.claim({ types: [type] });
    expect(await run("jobs", "delete", "--type", "mail", "--yes")).toMatchObject({
      code: 0,
      stdout: "0 of 1 job deleted; running jobs were skipped\n",
    });
    await hf.enqueue(type);
    expect((await run("jobs", "cancel", "--type", "mail")).stdout).toBe(
      "1 job cancelled, cancellation requested for 1 running job\n",
    );
    expect(await hf.get(String(lease?.id))).toMatchObject({ state: "claimed" });
    expect((await run("jobs", "delete", "--type", "mail", "--yes")).stdout).toBe(
      "1 of 2 jobs deleted; running jobs were skipped\n",
    );
  });
});

it("marks a code schedule that was changed", SLOW, async () => {
  const { run, json } = await workspace((folder) => `sqlite:${join(folder, "jobs.db")}`);
  await run("process", "jobs.ts");
  expect((await run("schedules", "list")).stdout).toMatch(/digest .* in code$/m);
  await json("schedules", "update", "digest", "--priority", "3");
  expect((await run("schedules", "list")).stdout).toMatch(/digest .* in code, changed$/m);
  expect((await run("schedules", "show", "digest")).stdout).toMatch(/defined: +in code, changed\n/);
});
