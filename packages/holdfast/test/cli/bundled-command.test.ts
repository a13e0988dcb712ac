import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { postgresServer } from "../postgres/server.js";
import { addressOf, ownSchema } from "../postgres/scene.js";
import { SLOW, storesOf, emptyWorkspace } from "./workspace.js";
import type { CommandResult } from "./scene.js";

const server = postgresServer();

/** Most CLI tests run in process. These prove that the bundled script loads what each command needs. */
describe.each(storesOf(server))("the bundled command on %s", (_name, address) => {
  it("runs every kind of command in its own process", SLOW, async () => {
    const { spawn } = emptyWorkspace(address);
    const succeed = async (...args: string[]): Promise<CommandResult> => {
      const ended = await spawn(...args);
      expect({ args, code: ended.code, stderr: ended.code === 0 ? "" : ended.stderr }).toEqual({
        args,
        code: 0,
        stderr: "",
      });
      return ended;
    };
    await succeed("migrate");
    const id = (await succeed("enqueue", "mail", '{"to":"ada"}', "--module", "jobs.ts")).stdout.trim();
    await Promise.all([
      succeed("schedules", "create", "nightly", "mail", "--every", "1d"),
      succeed("tokens", "create", "ci", "--role", "viewer"),
      succeed("config", "set", "jobs.concurrency", "8"),
    ]);
    expect(JSON.parse((await succeed("process", "jobs.ts", "--json")).stdout)).toEqual({ ran: 1 });
    const [show, list, queues, , stats, tokens, audit, config] = await Promise.all([
      succeed("jobs", "show", id),
      succeed("schedules", "list"),
      succeed("queues", "list"),
      succeed("workers"),
      succeed("stats"),
      succeed("tokens", "list"),
      succeed("audit"),
      succeed("config", "list"),
    ]);
    expect(show.stdout).toMatch(/state: +completed/);
    expect(list.stdout).toContain("nightly");
    expect(queues.stdout).toContain("default");
    expect(stats.stdout).toContain("last minute:");
    expect(tokens.stdout).toMatch(/ci +viewer/);
    expect(audit.stdout).toContain("store.migrate");
    expect(config.stdout).toMatch(/jobs\.concurrency +8 +holdfast\.toml:2/);
    expect((await spawn("doctor")).stdout).toContain("workers: ");
  });
});

it("the bundled command imports rows of a PostgreSQL table", SLOW, async () => {
  const { cwd, spawn } = emptyWorkspace(() => addressOf(server.url(), ownSchema(server)));
  const schema = ownSchema(server);
  await server.query(`CREATE SCHEMA ${schema}`);
  await server.query(`CREATE TABLE ${schema}.mails (id uuid, status text)`);
  await server.query(`INSERT INTO ${schema}.mails VALUES (gen_random_uuid(), 'pending')`);
  const options = { table: `${schema}.mails`, type: "mail", map: { id: "id", status: "status" } };
  writeFileSync(join(cwd, "import.json"), JSON.stringify(options));
  const { code, stdout } = await spawn("import", "import.json", "--yes", "--json");
  expect({ code, result: JSON.parse(stdout) as unknown }).toMatchObject({ code: 0, result: { imported: 1 } });
});
