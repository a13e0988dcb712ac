import { join } from "node:path";
import { holdfast, job } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import { SLOW, workspace, type Workspace } from "./workspace.js";

const MISSING = "01a1e0d0-d1c0-79bf-a2c2-8d02453060e6";
const HOUR = { delay: "1h" } as const;
const onFile = (): Promise<Workspace> => workspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
const NO_MODULE =
  "warning: no jobs module is configured, so the input is not checked. Use --module jobs.ts, or run: holdfast config set jobs.module jobs.ts\n";

describe("an input that cannot be checked", () => {
  it("is a warning of update and rerun", SLOW, async () => {
    const { hf, run } = await onFile();
    const { id } = await hf.enqueueNamed("order", { n: 1 }, HOUR);
    expect(await run("jobs", "update", id, "--set-input", '{"n":2}')).toEqual({
      code: 0,
      stdout: `${id} updated\n`,
      stderr: NO_MODULE,
    });
    expect((await run("jobs", "rerun", id, '{"n":3}')).stderr).toBe(NO_MODULE);
    expect((await run("jobs", "rerun", id)).stderr).toBe("");
    expect((await run("jobs", "update", id, "--set-priority", "1")).stderr).toBe("");
    const elsewhere = "warning: jobs.ts does not define order, so the input is not checked\n";
    expect((await run("jobs", "update", id, "--set-input", "{}", "--module", "jobs.ts")).stderr).toBe(elsewhere);
    const all = ["jobs", "update", "--state", "pending", "--set-input", "{}", "--yes", "--module", "jobs.ts"];
    expect((await run(...all)).stderr).toBe(elsewhere);
    const { id: known } = await hf.enqueueNamed("mail", { to: "ada" }, HOUR);
    expect((await run("jobs", "rerun", known, '{"to":"bob"}', "--module", "jobs.ts")).stderr).toBe("");
  });

  it("replaces the input of many jobs only if confirmed", SLOW, async () => {
    const { hf, run } = await onFile();
    const { id } = await hf.enqueueNamed("order", { n: 1 }, HOUR);
    const words = ["jobs", "update", "--type", "order", "--set-input", '{"n":2}'];
    const refused = await run(...words);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain("Replace the input of all matching jobs? Confirmation required");
    expect((await hf.get(id))?.input).toEqual({ n: 1 });
    expect((await run(...words, "--yes")).stdout).toBe("1 job updated\n");
    expect((await hf.get(id))?.input).toEqual({ n: 2 });
  });
});

it("errors name the flags and the arguments", SLOW, async () => {
  const { hf, run } = await onFile();
  const { id } = await hf.enqueueNamed("order", {}, HOUR);
  const uuid = 'is not a UUID such as "018f4d2e-7b3a-7c11-8a55-0123456789ab"';
  for (const [args, message] of [
    [["jobs", "update", id, "--priority", "5"], "--priority selects jobs; to change it, use --set-priority 5"],
    [["jobs", "update", "--type", "order", "--tag", "a"], "--tag selects jobs; to change it, use --set-tag a"],
    [["jobs", "update", id, "--set-delay", "9h", "--set-expires", "1h"], "--set-expires would make the job due after"],
    [["jobs", "update", id, "--set-tag", "a", "--unset", "tags"], "--set-tag and --unset tags cannot be combined"],
    [["jobs", "update", id, "--set-queue", "*"], '--set-queue: "*" is not a queue name'],
    [["jobs", "list", "--id", "7"], `--id: "7" ${uuid}`],
    [["jobs", "list", "--parent", "7"], `--parent: "7" ${uuid}`],
    [
      ["jobs", "count", "--input-path", "items[0]", "--equals", "1"],
      '--input-path: "items[0]" looks like JSONPath; write items.0',
    ],
    [["jobs", "list", "--cursor", "abc"], "--cursor is not a cursor of an earlier page; start again without one"],
    [["jobs", "show", "7"], `<id>: "7" ${uuid}`],
    [["jobs", "cancel", "7"], `<id>: "7" ${uuid}`],
    [["jobs", "cancel", id, "7"], `<id>: "7" ${uuid}`],
    [["enqueue", "mail", "--id", "7"], `--id: "7" ${uuid}`],
    [["enqueue", "mail", "--delay", "2h", "--expires", "1h"], "--expires is before the job is due"],
  ] as const) {
    const { code, stderr } = await run(...args);
    expect({ args, code }).toEqual({ args, code: 2 });
    expect(stderr.slice(0, `error: ${message}`.length)).toBe(`error: ${message}`);
  }
  expect((await run("jobs", "promote", id)).code).toBe(0);
  const [lease] = await hf.claim();
  expect((await run("jobs", "promote", id)).stderr).toContain("stop it first with holdfast jobs cancel <id>\n");
  await lease?.complete();
  expect((await run("jobs", "promote", id)).stderr).toContain("holdfast jobs rerun <id> enqueues a copy\n");
});

it("a search that finds nothing hints at its flags", SLOW, async () => {
  const { hf, run } = await onFile();
  const { id } = await hf.enqueueNamed("order", { order: { id: "o-17" } }, HOUR);
  const commas = '--type "order,mail" is one name; for several, repeat the flag: --type order --type mail\n';
  for (const args of [["list"], ["count"], ["cancel"], ["retry-dead"]])
    expect((await run("jobs", ...args, "--type", "order,mail")).stderr).toBe(commas);
  expect((await run("jobs", "list", "--type", "order")).stderr).toBe("");
  const whole =
    '--equals without --input-path compares the whole input with "o-17"; add --input-path, or use --input-text\n';
  expect((await run("jobs", "list", "--equals", "o-17")).stderr).toBe(whole);
  expect((await run("jobs", "count", "--equals", "o-17")).stderr).toBe(whole);
  expect((await run("jobs", "list", "--input-path", '["order","id"]', "--equals", "o-17")).stdout).toContain(id);
});

it("a resumed queue that stays paused is a warning", SLOW, async () => {
  const { hf, run } = await onFile();
  await hf.enqueueNamed("mail", {}, { queue: "other" });
  await hf.pause("default");
  await hf.pause();
  expect((await run("queues", "list")).stdout).toMatch(/^default .* paused, all paused\nother .* all paused\n/m);
  expect(await run("queues", "resume", "default")).toEqual({
    code: 0,
    stdout: "Resumed default\n",
    stderr:
      "warning: all queues are paused, so default stays paused; to resume all, run: holdfast queues resume --all\n",
  });
  expect((await run("stats")).stdout).toMatch(/^oldest due job: +none \(jobs in paused queues are not counted\)$/m);
  expect((await run("doctor")).stdout).toContain("oldest due job: None. Jobs in paused queues are not counted.");
});

it("bulk results name what was not changed", SLOW, async () => {
  const { hf, run, json } = await onFile();
  const ids: string[] = [];
  for (let n = 0; n < 4; n++) ids.push((await hf.enqueueNamed("order", { n })).id);
  await hf.cancel(ids[0] ?? "");
  await hf.claim({ limit: 1 });
  expect((await run("jobs", "cancel", ids[0] ?? "", ids[1] ?? "", ids[2] ?? "", MISSING)).stdout).toBe(
    `1 of 4 jobs cancelled, cancellation requested for 1 running job; the others had finished: ${ids[0]}, ${MISSING}\n`,
  );
  expect((await run("jobs", "retry", ids[3] ?? "", ids[2] ?? "")).stdout).toBe(
    `1 of 2 jobs retried; only failed, dead and cancelled jobs can be retried: ${ids[3]}\n`,
  );
  expect((await run("jobs", "cancel", "--type", "order")).stdout).toMatch(
    /^2 of 4 jobs cancelled, cancellation requested for 1 running job; the others had finished\n$/,
  );
  expect(await json("jobs", "update", "--type", "order", "--set-priority", "1")).toMatchObject({ unchanged: [] });
  const { stdout } = await run("audit", "--action", "jobs.cancelMany");
  expect(stdout).toMatch(/ –\n/);
  expect((await run("audit", "--action", "operation.cancel")).stdout).toMatch(/ 2\n/);
});

it("updates by ids say why jobs were not changed", SLOW, async () => {
  const { hf, run, json } = await onFile();
  const ids: string[] = [];
  for (let n = 0; n < 25; n++) ids.push((await hf.enqueueNamed("order", { n })).id);
  const [first = "", second = ""] = ids;
  await hf.cancel(first);
  expect((await run("jobs", "update", first, second, MISSING, "--set-priority", "1")).stdout).toBe(
    "1 of 3 jobs updated; only pending and failed jobs can be changed\n" +
      `  ${first}: is cancelled\n  ${MISSING}: not found\n`,
  );
  expect(await json("jobs", "promote", first, second)).toMatchObject({
    unchanged: [first],
    reasons: { [first]: "is cancelled" },
  });
  await hf.cancel(ids);
  // The first 20 of the ids.
  const { stdout } = await run("jobs", "promote", ...ids);
  expect(stdout.split("\n").slice(-4)).toEqual([expect.any(String), `  ${ids[19]}: is cancelled`, "  and 5 more", ""]);
});

it("keys free names the job that holds the key", SLOW, async () => {
  const { hf, run } = await onFile();
  const { id } = await hf.enqueueNamed("order", {}, { unique: "k" });
  expect((await run("keys", "free", "k")).stdout).toBe(
    `k not freed: job ${id} (pending) holds it; to delete the job and free its key, run: holdfast jobs delete ${id}\n`,
  );
});

it("failed attempts show their duration and worker", SLOW, async () => {
  const { store, run } = await onFile();
  const failing = job({ type: "failing", retry: { maxAttempts: 1 }, run: () => Promise.reject(new Error("no")) });
  const hf = await holdfast({ store, jobs: [failing], logger: false });
  onTestFinished(() => hf.close());
  const { id } = await hf.enqueue(failing);
  await hf.runNext();
  expect((await run("jobs", "show", id)).stdout).toMatch(/^Attempt 1 failed .+\nafter .+, worker .+\nError: no/m);
});

it("a timeout may be none or false", SLOW, async () => {
  const { hf, json } = await onFile();
  for (const word of ["none", "false"]) {
    const { id } = await json<{ id: string }>("enqueue", "mail", "--timeout", word);
    expect(await hf.get(id)).toMatchObject({ timeoutMs: 0 });
  }
});
