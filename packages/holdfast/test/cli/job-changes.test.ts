import { join } from "node:path";
import { holdfast, job, type Holdfast, type JobType } from "holdfast";
import type { JobListResult, OperationResult } from "holdfast/admin";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "#src/testing/exercise-store/until.js";
import { postgresServer } from "../postgres/server.js";
import { holdfastCommand, type CommandResult } from "./scene.js";
import { SLOW, storesOf, workspace, type Workspace } from "./workspace.js";

const server = postgresServer();
const MISSING = "01a1e0d0-d1c0-79bf-a2c2-8d02453060e6";

/** Jobs that are due in an hour, with the input `{ order: { id } }`. */
async function orders(hf: Holdfast, ids: readonly (string | number)[]): Promise<string[]> {
  const made: string[] = [];
  for (const id of ids) made.push((await hf.enqueueNamed("order", { order: { id } }, { delay: "1h" })).id);
  return made;
}

async function listed({ json }: Workspace, ...flags: string[]): Promise<string[]> {
  return (await json<JobListResult>("jobs", "list", ...flags)).jobs.map(({ id }) => id);
}

describe.each(storesOf(server))("holdfast on %s", (_name, address) => {
  it("lists and counts jobs by every condition", SLOW, async () => {
    const ws = await workspace(address);
    const { hf, run, json } = ws;
    const [a = "", b = "", c = ""] = await orders(hf, ["o-1", 17, "17"]);
    const { id: keyed } = await hf.enqueueNamed("mail", { to: "Ada" }, { unique: "k", priority: 5, delay: "1h" });
    expect(await listed(ws, "--id", a, "--id", keyed)).toEqual([keyed, a]);
    expect(await listed(ws, "--key", "k")).toEqual([keyed]);
    expect(await listed(ws, "--priority", "5")).toEqual([keyed]);
    expect(await listed(ws, "--parent", MISSING)).toEqual([]);
    expect(await listed(ws, "--order", "oldest", "--limit", "2")).toEqual([a, b]);
    expect(await listed(ws, "--input-path", "order.id", "--equals", "o-1")).toEqual([a]);
    expect(await listed(ws, "--input-path", "order.id", "--equals", "17")).toEqual([b]);
    expect(await listed(ws, "--input-path", "order.id", "--equals", '"17"')).toEqual([c]);
    expect(await listed(ws, "--input-text", "ada")).toEqual([keyed]);
    const first = await run("jobs", "list", "--input-path", "order", "--input-text", "17", "--limit", "1");
    expect(first.stdout).toContain(c);
    expect(first.stderr).toMatch(/^2 jobs examined\. To continue: --cursor [\w-]+\n$/);
    const [cursor = ""] = /[\w-]+$/m.exec(first.stderr) ?? [];
    expect(await listed(ws, "--input-path", "order", "--input-text", "17", "--cursor", cursor)).toEqual([b]);
    expect(await run("jobs", "count", "--type", "order")).toMatchObject({ code: 0, stdout: "3\n" });
    expect((await run("jobs", "count", "--priority", "0", "--at-most", "2")).stdout).toBe("at least 2\n");
    expect(await json("jobs", "count", "--input-text", "ada")).toEqual({ count: 1, exact: true });
    expect(await json("jobs", "count", "--error", "timeout")).toEqual({ count: 0, exact: true });
  });

  it("updates and promotes jobs by id and filter", SLOW, async () => {
    const { hf, run, json } = await workspace(address);
    const [a = "", b = "", c = ""] = await orders(hf, ["o-1", "o-2", "o-3"]);
    const words = [
      ["jobs", "update", a, "--set-at", "2030-01-01T00:00:00Z", "--set-priority", "-5", "--set-queue", "slow"],
      ["--set-input", '{"order":{"id":"new"}}', "--set-tag", "x", "--set-tag", "y", "--set-attempts", "9"],
      ["--set-expires", "2031-01-01T00:00:00Z"],
    ].flat();
    expect(await run(...words)).toMatchObject({ code: 0, stdout: `${a} updated\n` });
    expect(await hf.get(a)).toMatchObject({
      dueAt: new Date("2030-01-01T00:00:00Z"),
      priority: -5,
      queue: "slow",
      input: { order: { id: "new" } },
      tags: ["x", "y"],
      maxAttempts: 9,
      expiresAt: new Date("2031-01-01T00:00:00Z"),
    });
    expect(await json("jobs", "update", a, "--unset", "expires,tags", "--set-delay", "2h")).toEqual({
      id: a,
      status: "updated",
    });
    expect(await hf.get(a)).toMatchObject({ expiresAt: null, tags: [] });
    await hf.cancel(c);
    expect((await run("jobs", "update", "--type", "order", "--set-priority", "3")).stdout).toBe(
      "2 of 3 jobs updated; only pending and failed jobs can be changed\n",
    );
    expect((await run("jobs", "update", "--input-text", "o-2", "--set-priority", "4")).stdout).toBe(
      "1 job updated; 3 examined\n",
    );
    const late = await run("jobs", "update", c, "--set-priority", "1");
    expect(late).toEqual({
      code: 1,
      stdout: "",
      stderr: `error: job ${c} is cancelled; only a pending or failed job can be updated; holdfast jobs rerun <id> enqueues a copy\n`,
    });
    expect(await json("jobs", "promote", b)).toEqual({ id: b, status: "promoted" });
    expect(Number((await hf.get(b))?.dueAt)).toBeLessThanOrEqual(Date.now());
    expect(await json<OperationResult>("jobs", "promote", "--queue", "slow")).toMatchObject({
      action: "promote",
      changed: 1,
    });
    const { entries } = await json<{ entries: { action: string }[] }>("audit", "--action", "jobs.update");
    expect(entries).toHaveLength(2);
  });

  it("frees keys, pauses everything, sets timeouts", SLOW, async () => {
    const { hf, run, json } = await workspace(address);
    const { id } = await json<{ id: string }>("enqueue", "mail", '{"to":"ada"}', "--timeout", "10m");
    expect(await hf.get(id)).toMatchObject({ timeoutMs: 600_000 });
    expect((await run("jobs", "show", id)).stdout).toMatch(/^timeout: +10m$/m);
    const unlimited = await json<{ id: string }>("enqueue", "mail", "--timeout", "none", "--unique", "k");
    expect(await hf.get(unlimited.id)).toMatchObject({ timeoutMs: 0 });
    expect((await run("keys", "free", "k")).stdout).toContain(`k not freed: job ${unlimited.id} (pending) holds it`);
    expect(await json("keys", "free", "k", "--user", "ada")).toEqual({ key: "k", status: "missing" });
    const scope = { calendar: "year", zone: "Europe/Berlin" } as const;
    const yearly = await hf.enqueueNamed("mail", {}, { unique: { key: "y", scope }, delay: "1h" });
    const flags = ["--key", "y", "--key-scope", "year", "--key-zone", "Europe/Berlin"];
    expect(await json("jobs", "list", "--key", "y")).toMatchObject({ jobs: [] });
    expect(await json("jobs", "list", ...flags)).toMatchObject({ jobs: [{ id: yearly.id }] });
    expect((await run("jobs", "count", "--key-scope", "day")).stderr).toMatch(/--key-scope requires --key/);
    expect(await run("queues", "pause", "--all")).toEqual({ code: 0, stdout: "Paused all queues\n", stderr: "" });
    expect((await run("stats")).stdout).toMatch(/^paused: +all queues$/m);
    expect(await json("stats")).toMatchObject({ paused: true });
    expect((await run("queues", "list")).stdout).toMatch(/^All queues are paused\.\n.*\ndefault .* paused\n/);
    expect((await run("doctor")).stdout).toContain("paused queues: All queues are paused.");
    expect(await json("queues", "resume", "--all")).toEqual({ paused: false });
    expect((await run("stats")).stdout).not.toContain("paused");
  });

  it("shows parent, children, progress and attempts", SLOW, async () => {
    const { store, run } = await workspace(address);
    const child: JobType = job({ type: "child", run: () => {} });
    const parent: JobType = job({
      type: "parent",
      retry: { maxAttempts: 2, backoff: () => 0 },
      async run({ hf: own, progress, job: { attempt } }) {
        if (attempt === 1) throw new Error("not yet");
        progress(0.4, { page: 12 });
        await own.enqueue(child);
      },
    });
    const hf = await holdfast({ store, jobs: [parent, child], logger: false });
    onTestFinished(() => hf.close());
    const { id } = await hf.enqueue(parent);
    await until("the parent to complete", async () => (await hf.drain(), (await hf.get(id))?.state === "completed"));
    const [made] = (await hf.list({ parent: id })).jobs;
    const { stdout } = await run("jobs", "show", id);
    expect(stdout).toMatch(new RegExp(`^children: +1; to list them, run: holdfast jobs list --parent ${id}$`, "m"));
    expect(stdout).toMatch(/^progress: +40 %, \{"page":12\}$/m);
    expect(stdout).toMatch(/^Attempt 1 failed .+, fence 1\nafter .+\nError: not yet/m);
    expect(stdout).toMatch(/^Attempt 2 completed .+, fence 2\nafter \d/m);
    expect((await run("jobs", "show", made?.id ?? "")).stdout).toMatch(new RegExp(`^parent: +${id}$`, "m"));
  });

  it("does the same with a server", SLOW, async () => {
    const { hf, start, cwd } = await workspace(address);
    const { token } = await hf.tokens.create({ name: "ci", role: "operator" });
    const [a = ""] = await orders(hf, ["o-1", "o-2"]);
    const serving = start("serve", "--port", "0");
    await until("the server to listen", () => /http:\/\/127\.0\.0\.1:\d+/.test(serving.stdout()), 60_000);
    const [url = ""] = /http:\/\/127\.0\.0\.1:\d+/.exec(serving.stdout()) ?? [];
    const remote = (...args: string[]): Promise<CommandResult> =>
      holdfastCommand([...args, "--url", url], { cwd, env: { HOLDFAST_TOKEN: token } });
    expect((await remote("jobs", "list", "--input-path", "order.id", "--equals", "o-1")).stdout).toContain(a);
    expect((await remote("jobs", "count", "--input-text", "o-")).stdout).toBe("2\n");
    expect((await remote("jobs", "update", a, "--set-priority", "2")).stdout).toBe(`${a} updated\n`);
    expect((await remote("jobs", "promote", "--type", "order")).stdout).toBe("2 jobs promoted\n");
    expect((await remote("queues", "pause", "--all")).stdout).toBe("Paused all queues\n");
    expect((await remote("keys", "free", "a b", "--user", "ada")).stdout).toBe("a b is not held\n");
    expect(await hf.get(a)).toMatchObject({ priority: 2 });
    expect(await hf.isPaused()).toBe(true);
  });
});

it("rejects conflicting flags before opening the store", SLOW, async () => {
  const { cwd } = await workspace((folder) => `sqlite:${join(folder, "jobs.db")}`);
  const env = { HOLDFAST_STORE: "postgres://ada@127.0.0.1:1/nowhere" };
  for (const [args, message] of [
    [["jobs", "update"], /no jobs selected/],
    [["jobs", "update", MISSING], /no changes given\nhint: give a flag such as --set-priority/],
    [["jobs", "update", MISSING, "--state", "pending", "--set-priority", "1"], /cannot be combined/],
    [["jobs", "update", MISSING, "--set-delay", "1h", "--set-at", "2030-01-01T00:00:00Z"], /--set-delay and --set-at/],
    [["jobs", "update", MISSING, "--set-tag", "a", "--unset", "tags"], /--set-tag and --unset tags cannot be combined/],
    [["jobs", "promote"], /no jobs selected/],
    [["jobs", "list", "--input-path", "a"], /--input-path requires --equals or --input-text/],
    [["jobs", "list", "--equals", "a", "--input-text", "b"], /--equals and --input-text cannot be combined/],
    [["jobs", "list", "--order", "random"], /--order/],
    [["enqueue", "mail", "--timeout", "soon"], /--timeout: "soon" is neither a duration such as 10m, nor none/],
    [["queues", "pause"], /no queue given\nhint: name a queue, or use --all/],
    [["queues", "pause", "*"], /"\*" is not a queue name\nhint: for all queues, use --all/],
    [["queues", "resume", "a", "--all"], /a queue and --all cannot be combined/],
  ] as const) {
    const { code, stderr, stdout } = await holdfastCommand(args, { cwd, env });
    expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: "" });
    expect(stderr).toMatch(message);
  }
});
