import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AuditRecord } from "holdfast";
import { describe, expect, it } from "vitest";
import { addressOf, ownSchema } from "../postgres/scene.js";
import { postgresServer } from "../postgres/server.js";
import { createsSchema, entriesOf } from "./audit-suite.js";
import { emptyWorkspace, SLOW, storesOf, workspace } from "./workspace.js";
import { holdfastCommand } from "./scene.js";

const server = postgresServer();

describe.each(storesOf(server))("the audit log on %s", (_name, address) => {
  it("records a migration once", SLOW, async () => {
    const ws = emptyWorkspace(address);
    const { migrated, applied } = await ws.json<{ migrated: boolean; applied: string[] }>("migrate");
    expect(migrated).toBe(true);
    expect(applied.length).toBeGreaterThan(0);
    expect(await ws.json("migrate")).toEqual({ migrated: false, applied: [] });
    expect(await entriesOf(ws)).toMatchObject([
      {
        actor: expect.stringMatching(/^cli:.+@.+/) as string,
        action: "store.migrate",
        count: applied.length,
        detail: { applied },
      },
    ]);
  });

  createsSchema(address, { commands: [["enqueue", "mail", '{"to":"ada"}']], services: [["worker", "jobs.ts"]] });

  it("records configuration changes without passwords", SLOW, async () => {
    const ws = await workspace(address);
    await ws.json("config", "set", "jobs.concurrency", "8");
    await ws.json("config", "set", "store", "postgres://ada:secret@localhost/jobs");
    await ws.json("config", "unset", "jobs.concurrency");
    // Changes nothing, so it is not recorded.
    await ws.json("config", "unset", "jobs.concurrency");
    const file = join(ws.cwd, "holdfast.toml");
    const actor = expect.stringMatching(/^cli:/) as string;
    expect(await entriesOf(ws)).toMatchObject([
      { actor, action: "config.set", target: "jobs.concurrency", count: 1, detail: { file, value: 8 } },
      { actor, action: "config.set", target: "store", detail: { value: "postgres://ada:***@localhost/jobs" } },
      { actor, action: "config.unset", target: "jobs.concurrency", detail: { file } },
    ]);
  });

  it("does not create a store for configuration changes", SLOW, async () => {
    const ws = emptyWorkspace(address);
    const { code, stderr } = await ws.run("config", "set", "jobs.concurrency", "8");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect((await ws.run("migrate", "--check")).code).toBe(1);
  });

  it("warns about an unknown action", SLOW, async () => {
    const ws = await workspace(address);
    await ws.json("queues", "pause", "mail");
    const known = await ws.run("audit", "--action", "queues.pause");
    expect(known).toMatchObject({ code: 0, stderr: "" });
    expect(known.stdout).toContain("queues.pause");
    expect(await ws.run("audit", "--action", "queue.pause")).toEqual({
      code: 0,
      stdout: "No matching entries.\n",
      stderr: 'warning: "queue.pause" is not a known action; did you mean queues.pause?\n',
    });
    const { stderr } = await ws.run("audit", "--action", "x");
    expect(stderr).toMatch(/^warning: "x" is not a known action; known actions: config\.set, .+, operation\.retry, /);
    expect(stderr).not.toContain("session.");
  });

  it("is filtered by time", SLOW, async () => {
    const ws = await workspace(address);
    await ws.json("queues", "pause", "early");
    const [early] = await entriesOf(ws);
    const since = new Date(Date.parse(String(early?.at)) + 1).toISOString();
    await ws.json("queues", "pause", "late");
    const targets = async (...flags: string[]): Promise<(string | null)[]> => {
      const { entries } = await ws.json<{ entries: AuditRecord[] }>("audit", ...flags);
      return entries.map(({ target }) => target);
    };
    expect(await targets("--after", since)).toEqual(["late"]);
    expect(await targets("--before", since)).toEqual(["early"]);
    expect(await targets("--after", "1h")).toEqual(["late", "early"]);
    expect(await targets("--before", "1h")).toEqual([]);
    const refused = await ws.run("audit", "--after", "yesterday");
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toMatch(
      /^error: --after: "yesterday" is not an ISO time such as 2026-01-31T08:00:00Z, or an age such as 7d\nhint: .+\n$/,
    );
  });
});

it("an unreachable store does not prevent configuration changes", SLOW, async () => {
  const ws = emptyWorkspace(() => "postgres://ada@127.0.0.1:1/nowhere");
  const { code, stdout, stderr } = await ws.run("config", "set", "jobs.concurrency", "8");
  expect({ code, stdout }).toEqual({ code: 0, stdout: "jobs.concurrency = 8 in holdfast.toml\n" });
  expect(stderr).toMatch(/^warning: the change is not in the audit log: PostgreSQL at .+ cannot be reached: .+\n$/);
  expect(readFileSync(join(ws.cwd, "holdfast.toml"), "utf8")).toContain("concurrency = 8");
});

it("a file with several errors can be fixed stepwise", SLOW, async () => {
  const { cwd } = emptyWorkspace((folder) => `sqlite:${join(folder, "jobs.db")}`);
  writeFileSync(join(cwd, "holdfast.toml"), '[jobs]\nconcurrency = "many"\nqueues = 7\n');
  const { code, stderr } = await holdfastCommand(["config", "set", "jobs.concurrency", "8"], { cwd });
  expect(code).toBe(0);
  expect(stderr).toMatch(/^warning: the change is not in the audit log: .*jobs\.queues/);
  expect(existsSync(join(cwd, "holdfast.db"))).toBe(false);
});

it("an import is audited, a dry run is not", SLOW, async () => {
  const ws = await workspace(() => addressOf(server.url(), ownSchema(server)));
  const old = ownSchema(server);
  await server.query(`CREATE SCHEMA ${old}`);
  await server.query(`CREATE TABLE ${old}.mails (id uuid, status text)`);
  await server.query(`INSERT INTO ${old}.mails SELECT gen_random_uuid(), 'pending' FROM generate_series(1, 3)`);
  const options = { table: `${old}.mails`, type: "mail", map: { id: "id", status: "status" }, drop: true };
  writeFileSync(join(ws.cwd, "import.json"), JSON.stringify(options));
  await ws.json("import", "import.json");
  expect(await entriesOf(ws)).toEqual([]);
  await ws.json("import", "import.json", "--yes");
  expect(await entriesOf(ws)).toMatchObject([
    { actor: expect.stringMatching(/^cli:/) as string, action: "jobs.import", target: options.table, count: 3 },
  ]);
});
