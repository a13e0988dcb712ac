import { holdfast, type Holdfast } from "holdfast";
import type pg from "pg";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { postgresServer } from "../../holdfast/test/postgres/server.js";
import { housekeeping, type Deletion } from "../dist/index.js";

const server = postgresServer();

describe("on PostgreSQL", () => {
  let schema: string;
  let pool: pg.Pool;
  beforeEach(async () => {
    schema = server.newSchema();
    await server.query(`CREATE SCHEMA ${schema}`);
    pool = server.pool({ options: `-c search_path=${schema}` });
    onTestFinished(() => pool.end());
  });

  const where = [{ column: "expires_at" }];

  async function client(deletion: Partial<Deletion> = {}, db = pool): Promise<Holdfast> {
    const pack = housekeeping({ db, schema, rules: [{ type: "rule", table: "sessions", where, ...deletion }] });
    const hf = await holdfast({ store: "sqlite::memory:", jobs: pack.jobs, logger: false });
    onTestFinished(() => hf.close());
    return hf;
  }

  /** Runs the clean-up job, and returns its output, or its state and error. */
  async function run(deletion: Partial<Deletion> = {}, db = pool): Promise<unknown> {
    const hf = await client(deletion, db);
    const { id } = await hf.enqueueNamed("rule");
    await hf.drain();
    const job = await hf.get(id);
    return job?.state === "completed" ? job.output : [job?.state, job?.error?.message];
  }

  async function ids(table = "sessions"): Promise<unknown[]> {
    return (await pool.query<{ id: unknown }>(`SELECT id FROM ${table} ORDER BY id`)).rows.map((row) => row.id);
  }

  const createSessions = (rows: number): Promise<unknown> =>
    pool.query(`CREATE TABLE sessions (id integer PRIMARY KEY, expires_at timestamptz);
      INSERT INTO sessions SELECT n, now() - interval '1 day' + n * interval '1 second' FROM generate_series(1, ${rows}) n;
      INSERT INTO sessions VALUES (0, now() + interval '1 hour');
      CREATE INDEX ON sessions (expires_at)`);

  it("leaves rows that another session has locked, and waits for none", async () => {
    await createSessions(700);
    const other = await pool.connect();
    await other.query("BEGIN; UPDATE sessions SET expires_at = now() + interval '1 hour' WHERE id <= 2");
    expect(await run()).toEqual({ deleted: { sessions: 698 } });
    await other.query("COMMIT");
    other.release();
    expect(await ids()).toEqual([0, 1, 2]);
  });

  it("a table that is locked fails the attempt after two seconds", async () => {
    await createSessions(3);
    const other = await pool.connect();
    await other.query("BEGIN; LOCK TABLE sessions");
    const outcome = await run();
    expect(outcome).toEqual([
      "failed",
      expect.stringMatching(/"sessions" cannot be cleaned now: another session holds/),
    ]);
    await other.query("ROLLBACK");
    other.release();
    expect(await run()).toEqual({ deleted: { sessions: 3 } });
  });

  it("what others refer to is an error that names the constraint; with a cascade it is deleted", async () => {
    await createSessions(1_200);
    await pool.query(`CREATE TABLE notes (session_id integer CONSTRAINT of_session REFERENCES sessions);
      INSERT INTO notes VALUES (900)`);
    expect(await run()).toEqual(["failed", expect.stringContaining("of_session")]);
    expect(await ids()).toHaveLength(701);
    await pool.query(`ALTER TABLE notes DROP CONSTRAINT of_session, ADD FOREIGN KEY (session_id)
      REFERENCES sessions ON DELETE CASCADE`);
    expect(await run()).toEqual({ deleted: { sessions: 700 } });
    expect((await pool.query("SELECT * FROM notes")).rows).toEqual([]);
  });

  it.each([
    ["a few of them", "OLD.id % 100 = 0", 12],
    ["more than a chunk", "OLD.id <= 600", 600],
  ])("a trigger that keeps rows does not end the run: %s", async (_name, condition, kept) => {
    await createSessions(1_200);
    await pool.query(`CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF ${condition} AND OLD.id > 0 THEN RETURN NULL; END IF; RETURN OLD; END $$;
      CREATE TRIGGER keep BEFORE DELETE ON sessions FOR EACH ROW EXECUTE FUNCTION ${schema}.keep()`);
    expect(await run()).toEqual({ deleted: { sessions: 1_200 - kept } });
    expect(await ids()).toHaveLength(kept + 1);
  });

  it("reads each old index entry about once while an old snapshot exists", async () => {
    await createSessions(6_000);
    const backup = await pool.connect();
    await backup.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM sessions LIMIT 1");
    const one = server.pool({ max: 1 });
    onTestFinished(() => one.end());
    await pool.query("ANALYZE sessions");
    expect(await run({}, one)).toEqual({ deleted: { sessions: 6_000 } });
    await one.query("SELECT pg_stat_force_next_flush()");
    const { rows } = await one.query<{ read: string }>(
      "SELECT sum(idx_tup_read) AS read FROM pg_stat_user_indexes WHERE schemaname = $1 AND indexrelname LIKE '%expires%'",
      [schema],
    );
    await backup.query("ROLLBACK");
    backup.release();
    expect(Number(rows[0]?.read)).toBeGreaterThanOrEqual(6_000);
    expect(Number(rows[0]?.read)).toBeLessThan(7_000);
  });

  it("cleans partitions of all levels, and tables that inherit", async () => {
    await pool.query(`CREATE TABLE sessions (id integer, expires_at timestamptz) PARTITION BY RANGE (id);
      CREATE TABLE low PARTITION OF sessions FOR VALUES FROM (0) TO (10);
      CREATE TABLE high PARTITION OF sessions FOR VALUES FROM (10) TO (100) PARTITION BY RANGE (id);
      CREATE TABLE "High 1" PARTITION OF high FOR VALUES FROM (10) TO (50);
      CREATE TABLE parent (id integer, expires_at timestamptz);
      CREATE TABLE child () INHERITS (parent)`);
    for (const [table, id] of [
      ["sessions", 1],
      ["sessions", 20],
      ["parent", 30],
      ["child", 40],
    ] as const) {
      await pool.query(
        `INSERT INTO ${table} VALUES (${id}, now() - interval '1 s'), (${id + 1}, now() + interval '1 h')`,
      );
    }
    expect(await run()).toEqual({ deleted: { sessions: 2 } });
    expect(await run({ table: "parent" })).toEqual({ deleted: { parent: 2 } });
    expect([await ids(), await ids("parent")]).toEqual([
      [2, 21],
      [31, 41],
    ]);
  });

  it.each([
    ["text", "native", /"expires_at" of .* has the type text; with times: "native" it must be one of: timestamp with/],
    ["time", "native", /has the type time without time zone/],
    ["timestamptz", "utc", /has the type timestamp with time zone; with times: "utc"/],
    ["integer", "milliseconds", /has the type integer; with times: "milliseconds"/],
    ["timestamptz", "seconds", /has the type timestamp with time zone; with times: "seconds"/],
  ] as const)("a column of type %s is refused with times: %s", async (type, times, message) => {
    await pool.query(`CREATE TABLE sessions (id integer, expires_at ${type})`);
    expect(await run({ times })).toEqual(["dead", expect.stringMatching(message)]);
  });

  it.each([
    ["timestamptz", "native", "now()"],
    ["date", "native", "now()"],
    ["timestamp", "native", "localtimestamp"],
    ["timestamp", "utc", "now() AT TIME ZONE 'UTC'"],
    ["timestamptz_of_ours", "native", "now()"],
  ] as const)("a column of type %s, read as %s, loses the old rows only", async (type, times, now) => {
    await pool.query(`CREATE DOMAIN timestamptz_of_ours AS timestamptz;
      SET TIME ZONE 'Pacific/Auckland';
      CREATE TABLE sessions (id integer, expires_at ${type});
      INSERT INTO sessions SELECT -n, ${now} - interval '2 days' - n * interval '1 minute' FROM generate_series(1, 1200) n;
      INSERT INTO sessions VALUES (1, ${now} + interval '1 day'), (2, 'infinity')`);
    const one = server.pool({ max: 1, options: "-c TimeZone=Pacific/Auckland -c DateStyle=SQL,DMY" });
    onTestFinished(() => one.end());
    expect(await run({ times }, one)).toEqual({ deleted: { sessions: 1_200 } });
    expect(await ids()).toEqual([1, 2]);
  });

  it("a timestamp in UTC is not read in the zone of the session", async () => {
    await pool.query(`CREATE TABLE sessions (id integer, expires_at timestamp);
      INSERT INTO sessions VALUES (1, now() AT TIME ZONE 'UTC' - interval '1 minute'),
        (2, now() AT TIME ZONE 'UTC' + interval '1 minute')`);
    const one = server.pool({ max: 1, options: "-c TimeZone=Pacific/Auckland" });
    onTestFinished(() => one.end());
    expect(await run({ times: "utc" }, one)).toEqual({ deleted: { sessions: 1 } });
  });

  it("a view is refused", async () => {
    await pool.query(
      `CREATE TABLE kept (id integer, expires_at timestamptz); CREATE VIEW sessions AS SELECT * FROM kept`,
    );
    expect(await run()).toEqual(["dead", expect.stringMatching(/"sessions" is not a table/)]);
  });

  it("uses the clock of the server, whatever the pool makes of times", async () => {
    await createSessions(1);
    const texts = server.pool({ types: { getTypeParser: () => (text: string) => text } });
    onTestFinished(() => texts.end());
    expect(await run({}, texts)).toEqual({ deleted: { sessions: 1 } });
  });

  it("two workers at once delete each row once", async () => {
    await createSessions(5_000);
    const outputs = await Promise.all([run(), run()]);
    const counts = outputs.map((output) => (output as { deleted: { sessions: number } }).deleted.sessions);
    expect(counts[0]! + counts[1]!).toBe(5_000);
    expect(await ids()).toEqual([0]);
  });
});
