import { holdfast } from "holdfast";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import { describeDatabases, type PackDatabase } from "../../holdfast/test/pack/scene.js";
import { housekeeping, type Rule } from "../dist/index.js";

const HOUR = 3_600_000;
const NAMES = [
  'x"; DROP TABLE safe; --',
  "it's",
  "?",
  "$1",
  "a.b",
  "line\nbreak",
  "Ünï😀",
  "order",
  "t",
  "id",
  "row_time",
  "found",
  "deleted",
  "constructor",
];
const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

describeDatabases((open) => {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  /** Runs SQL as it is: a question mark stays one. */
  async function execute(sql: string): Promise<void> {
    await ("exec" in given.db ? given.db.exec(sql) : given.db.query(sql));
  }

  /** Runs rules, and returns the output of each job, or its error. */
  async function run(rules: readonly Omit<Rule, "type">[]): Promise<unknown[]> {
    const pack = housekeeping({ db: given.db, rules: rules.map((rule, at) => ({ type: `rule_${at}`, ...rule })) });
    const hf = await holdfast({ store: "sqlite::memory:", jobs: pack.jobs, logger: false });
    onTestFinished(() => hf.close());
    const ids: string[] = [];
    for (const at of rules.keys()) ids.push((await hf.enqueueNamed(`rule_${at}`)).id);
    await hf.drain();
    const jobs = await Promise.all(ids.map((id) => hf.get(id)));
    return jobs.map((job) => (job?.state === "completed" ? job.output : [job?.state, job?.error?.message]));
  }

  it("any name of a table or column is only a name", async () => {
    const type = given.dialect === "sqlite" ? "INTEGER" : "bigint";
    await execute("CREATE TABLE safe (x integer)");
    for (const name of NAMES) {
      const [old, later] = [Date.now() - HOUR, Date.now() + HOUR];
      await execute(`CREATE TABLE ${quoted(name)} (${quoted(name)} ${type}, note text)`);
      await execute(`INSERT INTO ${quoted(name)} VALUES (${old}, 'x'), (${later}, 'x'), (${old}, NULL)`);
    }
    const and = { column: "note", notNull: true };
    const outputs = await run(
      NAMES.map((name) => ({ table: name, where: [{ column: name, and }], times: "milliseconds" as const })),
    );
    expect(outputs.map((output) => JSON.stringify(output))).toEqual(
      NAMES.map((name) => `{"deleted":{${JSON.stringify(name)}:1}}`),
    );
    expect(await given.query("SELECT * FROM safe")).toEqual([]);
  });

  it("advises an index, but only for more than one chunk", async () => {
    const type = given.dialect === "sqlite" ? "INTEGER" : "bigint";
    for (const [table, rows] of [
      ["few", 499],
      ["many", 500],
      ["indexed", 500],
    ] as const) {
      await execute(`CREATE TABLE ${table} (touched_at ${type})`);
      await execute(
        `INSERT INTO ${table} WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < ${rows}) SELECT n FROM s`,
      );
    }
    await execute("CREATE INDEX by_time ON indexed (touched_at) WHERE touched_at IS NOT NULL");
    const rules = ["few", "many", "indexed"].map((table) => {
      return { type: table, table, where: [{ column: "touched_at" }], times: "milliseconds" } as const;
    });
    const pack = housekeeping({ db: given.db, rules });
    const hf = await holdfast({ store: "sqlite::memory:", jobs: pack.jobs, logger: false });
    onTestFinished(() => hf.close());
    const lines: string[] = [];
    hf.on("log", ({ type: from, line }) => lines.push(`${from}: ${line}`));
    for (const { type: name } of rules) await hf.enqueueNamed(name);
    await hf.drain();
    expect(lines).toEqual([
      expect.stringMatching(
        /^many: Each chunk reads all rows of .*"many"\. Create an index on the column "touched_at"\.$/,
      ),
    ]);
  });

  it("deletes by seconds, and refuses seconds where milliseconds are expected", async () => {
    const present = Math.floor(Date.now() / 1_000);
    for (const table of ["a", "b"]) {
      await given.query(`CREATE TABLE ${table} (expires_at ${given.dialect === "sqlite" ? "INTEGER" : "bigint"})`);
      await given.query(`INSERT INTO ${table} VALUES (0), (?), (?)`, present - 60, present + 60);
    }
    const where = [{ column: "expires_at" }];
    expect(
      await run([
        { table: "a", where, times: "seconds" },
        { table: "b", where, times: "milliseconds" },
      ]),
    ).toEqual([
      { deleted: { a: 2 } },
      ["dead", expect.stringMatching(/"expires_at" of .*"b" holds seconds, not milliseconds: \d{10}; set times/)],
    ]);
    expect(await given.query("SELECT * FROM b")).toHaveLength(3);
  });
});

it("two schedules of the same name are refused", () => {
  const db = { prepare() {}, transaction() {}, exec() {}, inTransaction: false } as never;
  const rule = { type: "session_cleanup_hourly", table: "t", where: [{ column: "c" }], schedule: "0 * * * *" };
  expect(() => housekeeping({ db, presets: { sessions: true }, rules: [rule] })).toThrow(
    /schedule session_cleanup_hourly twice/,
  );
});
