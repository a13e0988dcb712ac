import { DescribeTableCommand, ListTablesCommand, UpdateTableCommand } from "@aws-sdk/client-dynamodb";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { rootOf, type Command } from "#src/cli/parse/command.js";
import { program } from "#src/cli/program.js";
import { until } from "#src/testing/exercise-store/until.js";
import { dynamoServer, NO_SERVER } from "../dynamodb/server.js";
import { addressOf, ownSchema } from "../postgres/scene.js";
import { postgresServer } from "../postgres/server.js";
import { emptyWorkspace, SLOW, type Workspace } from "./workspace.js";

const server = postgresServer();
const dynamo = dynamoServer({ forSome: true });

type Runs = Pick<Workspace, "run">;

interface Check {
  code: number | null;
  current: boolean;
  pending: string[];
}
async function check({ run }: Runs): Promise<Check> {
  const { code, stdout, stderr } = await run("migrate", "--check", "--json");
  expect(stderr).toBe("");
  return { code, ...(JSON.parse(stdout) as Omit<Check, "code">) };
}
/** Expects exit code 1 and a schema problem. */
async function expectDoctorToFind({ run }: Runs, found: RegExp): Promise<void> {
  const { code, stdout } = await run("doctor");
  expect({ code, stdout }).toEqual({ code: 1, stdout: expect.stringMatching(found) as string });
}

describe("commands that read change nothing on SQLite", () => {
  it("migrate --check and doctor create no file", SLOW, async () => {
    const ws = emptyWorkspace((cwd) => `sqlite:${join(cwd, "deep/er/jobs.db")}`);
    const made = await check(ws);
    expect(made).toMatchObject({ code: 1, current: false });
    expect(made.pending[0]).toBe("schema version 1");
    await expectDoctorToFind(ws, /^problem +schema: The database deep\/er\/jobs\.db does not exist\./m);
    expect(existsSync(join(ws.cwd, "deep"))).toBe(false);
    expect((await ws.run("migrate", "--check")).stdout).toMatch(
      /^Schema is out of date\. Pending migrations:\n {2}schema version 1\n/,
    );
    expect((await ws.json<{ applied: string[] }>("migrate")).applied).toEqual(made.pending);
    expect(await check(ws)).toEqual({ code: 0, current: true, pending: [] });
    expect(readdirSync(join(ws.cwd, "deep/er"))).toEqual(["jobs.db"]);
  });

  it("a foreign or older file stays unchanged", SLOW, async () => {
    const ws = emptyWorkspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
    const db = new Database(join(ws.cwd, "jobs.db"));
    onTestFinished(() => void db.close());
    db.exec("CREATE TABLE theirs (a)");
    const tables = (): unknown => db.prepare("SELECT name FROM sqlite_schema").pluck().all();
    expect((await check(ws)).pending.length).toBeGreaterThan(0);
    expect(tables()).toEqual(["theirs"]);
    expect(db.pragma("journal_mode", { simple: true })).toBe("delete");
    await ws.json("migrate");
    db.exec("DELETE FROM holdfast_migrations WHERE version = (SELECT max(version) FROM holdfast_migrations)");
    const [last] = db.prepare("SELECT coalesce(max(version), 0) + 1 FROM holdfast_migrations").pluck().all();
    expect(await check(ws)).toEqual({ code: 1, current: false, pending: [`schema version ${String(last)}`] });
  });

  it("a newer database is rejected with advice", SLOW, async () => {
    const ws = emptyWorkspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
    await ws.json("migrate");
    const db = new Database(join(ws.cwd, "jobs.db"));
    onTestFinished(() => void db.close());
    db.exec("INSERT INTO holdfast_migrations VALUES (999, 0)");
    const { code, stdout, stderr } = await ws.run("migrate", "--check");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^error: the database is at schema version 999.+upgrade the holdfast package\n$/);
  });

  it("a file that is no database is reported", SLOW, async () => {
    const ws = emptyWorkspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
    writeFileSync(join(ws.cwd, "jobs.db"), "no database at all".repeat(100));
    expect((await ws.run("migrate", "--check")).stderr).toMatch(/^error: .+jobs\.db is not a SQLite database/);
    const folder = emptyWorkspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
    mkdirSync(join(folder.cwd, "jobs.db"));
    expect((await folder.run("migrate", "--check")).stderr).toMatch(/^error: .+jobs\.db is a folder/);
  });
});

/** Commands that create a missing store. */
const CREATORS = ["dev", "worker", "serve", "process", "enqueue", "schedules create", "tokens create", "migrate"];
/** Arguments that some commands need to reach the store. */
const ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  "jobs purge": ["--state", "dead", "--before", "1h", "--yes"],
  "jobs purge-completed": ["--before", "1h", "--yes"],
  "jobs update": ["01a1e34e-6d36-7000-b10f-84e97ddde2d2", "--set-priority", "1"],
  "jobs promote": ["01a1e34e-6d36-7000-b10f-84e97ddde2d2"],
  "queues pause": ["--all"],
  "queues resume": ["--all"],
  "jobs retry": ["01a1e34e-6d36-7000-b10f-84e97ddde2d2"],
  "jobs cancel": ["01a1e34e-6d36-7000-b10f-84e97ddde2d2"],
  "jobs delete": ["01a1e34e-6d36-7000-b10f-84e97ddde2d2", "--yes"],
  "schedules update": ["--cron", "0 8 * * *"],
  "schedules delete": ["--yes"],
  "schedules preview": ["--cron", "0 8 * * *"],
  "tokens revoke": ["--yes"],
  import: ["--yes"],
};

/** Every command with a store, by its name. */
function commandsOnStores(of: Command, path: readonly string[] = []): [name: string, command: Command][] {
  const own: [string, Command][] = of.run !== null && "store" in of.flags ? [[path.join(" "), of]] : [];
  return [...own, ...of.commands.flatMap((each) => commandsOnStores(each, [...path, each.name]))];
}

describe("a mistyped SQLite path", () => {
  const others = commandsOnStores(rootOf(program())).filter(([name]) => !CREATORS.includes(name));

  it.each(others)("is not created by holdfast %s", SLOW, async (name, { arguments: taken }) => {
    const ws = emptyWorkspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
    const before = readdirSync(ws.cwd);
    const needed = Object.values(taken).filter((argument) => argument.optional !== true);
    const words = [...name.split(" "), ...needed.map(() => "jobs.ts"), ...(ARGUMENTS[name] ?? [])];
    const { code, stderr } = await ws.run(...words, "--store", "sqlite:typo/jobs.db");
    expect({ stderr, isUsage: code === 2 }).toEqual({ stderr, isUsage: false });
    expect(readdirSync(ws.cwd)).toEqual(before);
  });

  it("is reported with its source", SLOW, async () => {
    const ws = emptyWorkspace((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
    const { code, stderr } = await ws.run("jobs", "list", "--store", "sqlite:typo.db");
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^error: the database typo\.db does not exist\nhint: the store is set by --store; to create it, run: holdfast migrate --store sqlite:typo\.db\n$/,
    );
  });
});

describe("commands that read change nothing on PostgreSQL", () => {
  it("migrate --check, doctor and import create no schema", SLOW, async () => {
    const schema = ownSchema(server);
    const ws = emptyWorkspace(() => addressOf(server.url(), schema));
    const isThere = async (): Promise<unknown> =>
      (await server.query(`SELECT count(*)::int AS n FROM pg_namespace WHERE nspname = '${schema}'`)).rows;
    const made = await check(ws);
    expect(made).toMatchObject({ code: 1, current: false });
    expect(made.pending).toEqual([
      "the schema",
      "migration 1: jobs, schedules, audit log and tokens",
      "migration 2: functions for SQL",
      "migration 3: functions that only granted roles may call",
      "migration 4: marks of new jobs",
      "migration 5: a key for cursors",
      "migration 6: functions that check their arguments",
      "migration 7: names of the API",
      "migration 8: parents, settings and purge times",
      "migration 9: an index of purge times",
      "migration 10: error groups, history and transitions",
      "migration 11: indexes of error groups",
      "migration 12: operations and draining workers",
      "migration 13: transitions with their size, without compression",
      "migration 14: functions for many unique keys",
      "migration 15: steps and events",
    ]);
    await expectDoctorToFind(ws, /problem +schema version: the tables of Holdfast are missing/);
    expect((await ws.run("jobs", "list")).stderr).toMatch(
      /^error: no Holdfast tables in postgres.+\nhint: the store is set by .+; to create the tables, run: holdfast migrate\n$/,
    );
    writeFileSync(join(ws.cwd, "import.json"), JSON.stringify({ table: "t", type: "mail", map: { id: "id" } }));
    const dry = await ws.run("import", "import.json");
    expect(dry).toMatchObject({ code: 1, stdout: "" });
    expect(dry.stderr).toBe(
      "error: the schema is out of date, and a dry run does not migrate it\n" +
        "hint: run: holdfast migrate, or add --yes to migrate and import\n",
    );
    expect(await isThere()).toEqual([{ n: 0 }]);
    expect((await ws.json<{ applied: string[] }>("migrate")).applied).toEqual(made.pending);
    expect(await check(ws)).toEqual({ code: 0, current: true, pending: [] });
    await server.query(
      `DELETE FROM ${schema}.migrations WHERE version = (SELECT max(version) FROM ${schema}.migrations)`,
    );
    expect(await check(ws)).toEqual({ code: 1, current: false, pending: made.pending.slice(-1) });
  });

  it("an unreachable server is an error", SLOW, async () => {
    const ws = emptyWorkspace(() => "postgres://ada@127.0.0.1:1/nowhere");
    const { code, stdout, stderr } = await ws.run("migrate", "--check");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^error: PostgreSQL at .+ cannot be reached: /);
  });
});

describe.skipIf(NO_SERVER !== null)(
  `commands that read change nothing on DynamoDB${NO_SERVER === null ? "" : ` (${NO_SERVER})`}`,
  () => {
    it("migrate --check and doctor create no table", SLOW, async () => {
      const table = dynamo.newTable();
      onTestFinished(() => dynamo.drop(table));
      // The AWS SDK warns about old versions of Node.
      const env = { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test", NODE_NO_WARNINGS: "1" };
      const { spawn } = emptyWorkspace(() => dynamo.address(table), env);
      // The AWS SDK reads its credentials from the environment of the process.
      const ws: Runs = { run: spawn };
      const made = await check(ws);
      expect(made).toMatchObject({ code: 1, current: false });
      expect(made.pending).toEqual([expect.stringContaining(`table ${table}`)]);
      await expectDoctorToFind(ws, /^problem +schema: No Holdfast tables in dynamodb/m);
      const { TableNames = [] } = await dynamo.client().send(new ListTablesCommand({}));
      expect(TableNames).not.toContain(table);
      expect((await ws.run("migrate")).code).toBe(0);
      expect(await check(ws)).toEqual({ code: 0, current: true, pending: [] });
    });

    it("migrate prints an optional index that it creates", SLOW, async () => {
      const table = dynamo.newTable();
      onTestFinished(() => dynamo.drop(table));
      const env = { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test", NODE_NO_WARNINGS: "1" };
      const { spawn } = emptyWorkspace(() => dynamo.address(table), env);
      const dropIndex = async (): Promise<void> => {
        const Delete = { IndexName: "errors" };
        const update = new UpdateTableCommand({ TableName: table, GlobalSecondaryIndexUpdates: [{ Delete }] });
        // An index that is being created cannot be deleted.
        await until("the index may be deleted", () =>
          dynamo
            .client()
            .send(update)
            .then(
              () => true,
              (error: Error) => {
                if (error.name === "ResourceInUseException") return false;
                throw error;
              },
            ),
        );
        await until("the index is deleted", async () => {
          const { Table } = await dynamo.client().send(new DescribeTableCommand({ TableName: table }));
          return Table?.GlobalSecondaryIndexes?.every(({ IndexName }) => IndexName !== "errors") === true;
        });
      };
      expect((await spawn("migrate")).code).toBe(0);
      await dropIndex();
      expect(await check({ run: spawn })).toEqual({ code: 0, current: true, pending: [] });
      expect((await spawn("migrate")).stdout).toMatch(/^Applied:\n  the index errors\nThe table has no stream\./);
      expect((await spawn("migrate")).stdout).toMatch(/^Schema is up to date\.\nThe table has no stream\./);
      await dropIndex();
      const { stdout } = await spawn("migrate", "--json");
      expect(JSON.parse(stdout)).toMatchObject({ migrated: true, applied: ["the index errors"] });
    });
  },
);
