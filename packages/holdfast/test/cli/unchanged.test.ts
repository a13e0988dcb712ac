import { ListTablesCommand } from "@aws-sdk/client-dynamodb";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, it, onTestFinished } from "vitest";
import { rootOf, type Command } from "#src/cli/parse/command.js";
import { program } from "#src/cli/program.js";
import { dynamoServer, NO_SERVER } from "../dynamodb/server.js";
import { addressOf, ownSchema } from "../postgres/scene.js";
import { postgresServer } from "../postgres/server.js";
import { bare, SLOW, type Place } from "./place.js";

const server = postgresServer();
const dynamo = dynamoServer({ forSome: true });

interface Check {
  code: number | null;
  current: boolean;
  pending: string[];
}
async function check({ run }: Pick<Place, "run">): Promise<Check> {
  const { code, stdout, stderr } = await run("migrate", "--check", "--json");
  expect(stderr).toBe("");
  return { code, ...(JSON.parse(stdout) as Omit<Check, "code">) };
}
/** Exit code 1, and a problem with the schema among what it says. */
async function doctorSees({ run }: Pick<Place, "run">, found: RegExp): Promise<void> {
  const { code, stdout } = await run("doctor");
  expect({ code, stdout }).toEqual({ code: 1, stdout: expect.stringMatching(found) as string });
}

describe("a look changes nothing: on SQLite", () => {
  it("neither migrate --check nor doctor makes the file, or a folder for it", SLOW, async () => {
    const there = bare((cwd) => `sqlite:${join(cwd, "deep/er/jobs.db")}`);
    const made = await check(there);
    expect(made).toMatchObject({ code: 1, current: false });
    expect(made.pending[0]).toBe("schema version 1");
    await doctorSees(there, /^problem +schema: There is no database deep\/er\/jobs\.db\./m);
    expect(existsSync(join(there.cwd, "deep"))).toBe(false);
    expect((await there.run("migrate", "--check")).stdout).toMatch(
      /^The schema is not this version's\. Pending:\n {2}schema version 1\n/,
    );
    expect((await there.json<{ applied: string[] }>("migrate")).applied).toEqual(made.pending);
    expect(await check(there)).toEqual({ code: 0, current: true, pending: [] });
    expect(readdirSync(join(there.cwd, "deep/er"))).toEqual(["jobs.db"]);
  });

  it("a file of somebody else's, or of an older version, stays as it is", SLOW, async () => {
    const there = bare((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
    const db = new Database(join(there.cwd, "jobs.db"));
    onTestFinished(() => void db.close());
    db.exec("CREATE TABLE theirs (a)");
    const tables = (): unknown => db.prepare("SELECT name FROM sqlite_schema").pluck().all();
    expect((await check(there)).pending.length).toBeGreaterThan(0);
    expect(tables()).toEqual(["theirs"]);
    expect(db.pragma("journal_mode", { simple: true })).toBe("delete");
    await there.json("migrate");
    db.exec("DELETE FROM holdfast_migrations WHERE version = (SELECT max(version) FROM holdfast_migrations)");
    const [last] = db.prepare("SELECT coalesce(max(version), 0) + 1 FROM holdfast_migrations").pluck().all();
    expect(await check(there)).toEqual({ code: 1, current: false, pending: [`schema version ${String(last)}`] });
  });

  it("a database of a newer version is refused with what to do", SLOW, async () => {
    const there = bare((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
    await there.json("migrate");
    const db = new Database(join(there.cwd, "jobs.db"));
    onTestFinished(() => void db.close());
    db.exec("INSERT INTO holdfast_migrations VALUES (999, 0)");
    const { code, stdout, stderr } = await there.run("migrate", "--check");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^error: the database is at schema version 999.+upgrade the holdfast package\n$/);
  });

  it("what is no database is told, and a folder too", SLOW, async () => {
    const there = bare((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
    writeFileSync(join(there.cwd, "jobs.db"), "no database at all".repeat(100));
    expect((await there.run("migrate", "--check")).stderr).toMatch(/^error: .+jobs\.db is not a SQLite database/);
    const folder = bare((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
    mkdirSync(join(folder.cwd, "jobs.db"));
    expect((await folder.run("migrate", "--check")).stderr).toMatch(/^error: .+jobs\.db is a folder/);
  });
});

/** Commands that may be the first on a store. */
const MAKERS = ["dev", "worker", "serve", "process", "enqueue", "schedules create", "tokens create", "migrate"];
/** What some of the others need to come as far as the store. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  "jobs purge": ["--state", "dead", "--before", "1h", "--yes"],
  "jobs purge-completed": ["--before", "1h", "--yes"],
  "jobs retry": ["01a1e34e-6d36-7000-b10f-84e97ddde2d2"],
  "jobs cancel": ["01a1e34e-6d36-7000-b10f-84e97ddde2d2"],
  "jobs delete": ["01a1e34e-6d36-7000-b10f-84e97ddde2d2", "--yes"],
  "schedules update": ["--cron", "0 8 * * *"],
  "schedules delete": ["--yes"],
  "schedules preview": ["--cron", "0 8 * * *"],
  "tokens revoke": ["--yes"],
  import: ["--yes"],
};

/** Every command that takes a store, with the words that lead to it. */
function commandsOnStores(of: Command, path: readonly string[] = []): [name: string, command: Command][] {
  const own: [string, Command][] = of.run !== null && "store" in of.flags ? [[path.join(" "), of]] : [];
  return [...own, ...of.commands.flatMap((each) => commandsOnStores(each, [...path, each.name]))];
}

describe("a mistyped path of a SQLite file", () => {
  const others = commandsOnStores(rootOf(program())).filter(([name]) => !MAKERS.includes(name));

  it.each(others)("is not made by holdfast %s", SLOW, async (name, { arguments: taken }) => {
    const there = bare((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
    const before = readdirSync(there.cwd);
    const needed = Object.values(taken).filter((argument) => argument.optional !== true);
    const words = [...name.split(" "), ...needed.map(() => "jobs.ts"), ...(WORDS[name] ?? [])];
    const { code, stderr } = await there.run(...words, "--store", "sqlite:typo/jobs.db");
    expect({ stderr, isUsage: code === 2 }).toEqual({ stderr, isUsage: false });
    expect(readdirSync(there.cwd)).toEqual(before);
  });

  it("is named, with where it comes from and what makes a file", SLOW, async () => {
    const there = bare((cwd) => `sqlite:${join(cwd, "jobs.db")}`);
    const { code, stderr } = await there.run("jobs", "list", "--store", "sqlite:typo.db");
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^error: there is no database typo\.db\nhint: its address comes from --store; holdfast migrate makes it/,
    );
  });
});

describe("a look changes nothing: on PostgreSQL", () => {
  it("migrate --check, doctor and a dry run of import make no schema", SLOW, async () => {
    const schema = ownSchema(server);
    const there = bare(() => addressOf(server.url(), schema));
    const isThere = async (): Promise<unknown> =>
      (await server.query(`SELECT count(*)::int AS n FROM pg_namespace WHERE nspname = '${schema}'`)).rows;
    const made = await check(there);
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
    ]);
    await doctorSees(there, /problem +schema version: the tables of Holdfast are missing/);
    expect((await there.run("jobs", "list")).stderr).toMatch(
      /^error: there are no tables of Holdfast in postgres.+\nhint: its address comes from .+; holdfast migrate makes new tables\n$/,
    );
    writeFileSync(join(there.cwd, "import.json"), JSON.stringify({ table: "t", type: "mail", map: { id: "id" } }));
    const dry = await there.run("import", "import.json");
    expect(dry).toMatchObject({ code: 1, stdout: "" });
    expect(dry.stderr).toBe(
      "error: the schema is not this version's, and a dry run does not change it\n" +
        "hint: holdfast migrate does; or add --yes, which migrates and imports\n",
    );
    expect(await isThere()).toEqual([{ n: 0 }]);
    expect((await there.json<{ applied: string[] }>("migrate")).applied).toEqual(made.pending);
    expect(await check(there)).toEqual({ code: 0, current: true, pending: [] });
    await server.query(
      `DELETE FROM ${schema}.migrations WHERE version = (SELECT max(version) FROM ${schema}.migrations)`,
    );
    expect(await check(there)).toEqual({ code: 1, current: false, pending: made.pending.slice(-1) });
  });

  it("a server that cannot be reached is an error, not a schema that is missing", SLOW, async () => {
    const there = bare(() => "postgres://nobody@127.0.0.1:1/nowhere");
    const { code, stdout, stderr } = await there.run("migrate", "--check");
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^error: PostgreSQL at .+ cannot be reached: /);
  });
});

describe.skipIf(NO_SERVER !== null)(
  `a look changes nothing: on DynamoDB${NO_SERVER === null ? "" : ` (${NO_SERVER})`}`,
  () => {
    it("migrate --check and doctor make no table", SLOW, async () => {
      const table = dynamo.newTable();
      onTestFinished(() => dynamo.drop(table));
      // The AWS SDK has something to say of old versions of Node.
      const env = { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test", NODE_NO_WARNINGS: "1" };
      const there = bare(() => dynamo.address(table), env);
      const made = await check(there);
      expect(made).toMatchObject({ code: 1, current: false });
      expect(made.pending).toEqual([expect.stringContaining(`table ${table}`)]);
      await doctorSees(there, /^problem +schema: The schema of the store is not this version's; pending: table/m);
      const { TableNames = [] } = await dynamo.client().send(new ListTablesCommand({}));
      expect(TableNames).not.toContain(table);
      await there.json("migrate");
      expect(await check(there)).toEqual({ code: 0, current: true, pending: [] });
    });
  },
);
