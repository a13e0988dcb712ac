import { postgres, type Finding, type PostgresOptions, type PostgresStore } from "holdfast/postgres";
import { fakeClock } from "holdfast/testing";
import type pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { add, newJobs, workerRecord } from "#src/testing/exercise-store/builders.js";
import { schemaPool } from "./schema-pool.js";
import { postgresServer } from "./server.js";

// It reads and changes the state of the whole server: transaction ids, settings, connections.
const server = postgresServer({ own: true });

interface Ward {
  store: PostgresStore;
  schema: string;
  address: string;
  /** The findings of one check. */
  findings: (check: Finding["check"]) => Promise<Finding[]>;
  /** Runs SQL; `S.` is replaced by the schema. */
  run: (text: string) => Promise<pg.QueryResult>;
}

async function ward(options: Omit<PostgresOptions, "pool"> = {}, query = ""): Promise<Ward> {
  const schemas = schemaPool(server);
  const schema = await schemas.acquire();
  const address = `${server.url()}?schema=${schema}${query}`;
  const store = postgres(address, options);
  onTestFinished(async () => {
    await store.close();
    await schemas.release(schema);
  });
  return {
    store,
    schema,
    address,
    findings: async (check) => (await store.doctor()).filter((finding) => finding.check === check),
    run: (text) => server.query(text.replaceAll("S.", `${schema}.`)),
  };
}

/** A pool whose sessions wait for a lock a tenth of the time that they would. It is ended after the test. */
function impatientPool(): pg.Pool {
  const pool = server.pool();
  onTestFinished(() => pool.end());
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (config: pg.QueryConfig) => Promise<pg.QueryResult>;
    const impatient = (config: pg.QueryConfig): Promise<pg.QueryResult> =>
      query({ ...config, text: config.text.replaceAll("lock_timeout = '2s'", "lock_timeout = '200ms'") });
    client.query = impatient as typeof client.query;
  });
  return pool;
}

const levels = (findings: readonly Finding[]): string[] => findings.map(({ level }) => level);

describe("doctor finds no problems", () => {
  it("in a new schema", async () => {
    const { store } = await ward();
    const findings = await store.doctor();
    // Test servers run with fsync off.
    const wrong = findings.filter(({ level, check }) => level !== "ok" && check !== "durability");
    expect(wrong).toEqual([]);
    expect(findings.map(({ check }) => check)).toEqual([
      "connection",
      "server version",
      "durability",
      "clock",
      "connections",
      "rights",
      "open transactions",
      "prepared transactions",
      "replication slots",
      "schema version",
      "schema shape",
      "invalid indexes",
      "autovacuum",
      "dead rows",
      "counts",
      "lanes",
      "paused queues",
      "overdue jobs",
    ]);
    for (const { level, advice } of findings) expect(advice === null).toBe(level === "ok");
  });

  it("and leaves no objects behind", async () => {
    const { store } = await ward();
    const schemas = "SELECT count(*)::int AS n FROM pg_namespace WHERE nspname LIKE 'holdfast_shape%'";
    await store.doctor();
    expect((await server.query(schemas)).rows).toEqual([{ n: 0 }]);
  });
});

describe("doctor reports a server", () => {
  it("that cannot be reached", async () => {
    const store = postgres("postgres://user:secret@127.0.0.1:1/nowhere");
    const findings = await store.doctor();
    expect(findings).toMatchObject([
      { check: "connection", level: "problem", found: expect.not.stringMatching("secret") },
    ]);
    await store.close();
  });

  it("whose commits do not wait for the disk", async () => {
    const { findings } = await ward({}, "&options=-c%20synchronous_commit%3Doff");
    const { rows } = await server.query("SHOW fsync");
    const found = await findings("durability");
    expect(levels(found)).toEqual(rows[0].fsync === "off" ? ["problem", "warning"] : ["warning"]);
    expect(found.at(-1)?.found).toMatch(/synchronous_commit is off/);
  });

  it("whose clock differs", async () => {
    const clock = fakeClock(Date.now() - 5 * 60_000);
    const { findings } = await ward({ clock });
    expect(await findings("clock")).toMatchObject([
      { level: "warning", found: expect.stringMatching(/clock is 5 min behind the server's/) },
    ]);
  });

  it("with fewer connections than a process needs", async () => {
    const { findings } = await ward({ connections: 1_000 });
    expect(await findings("connections")).toMatchObject([
      { level: "warning", found: expect.stringMatching(/uses up to 1,001/) },
    ]);
  });
});

describe("doctor reports a schema", () => {
  it("that is missing", async () => {
    const { store, run, schema } = await ward();
    await run(`DROP SCHEMA ${schema} CASCADE`);
    const findings = await store.doctor();
    expect(findings.at(-1)).toMatchObject({ check: "schema version", level: "problem", advice: "Run migrate first." });
  });

  it.each([
    ["older", "DELETE FROM S.migrations", /Run migrate/],
    [
      "newer",
      "INSERT INTO S.migrations (version, name) VALUES (999, 'from the future')",
      /Upgrade the holdfast package/,
    ],
  ])("that is %s than the code", async (_what, change, advice) => {
    const { findings, run } = await ward();
    await run(change);
    expect(await findings("schema version")).toMatchObject([
      { level: "problem", advice: expect.stringMatching(advice) },
    ]);
  });

  it("with a missing index, and how to create it", async () => {
    const { findings, run, schema } = await ward();
    await run("DROP INDEX S.live_due");
    const [found] = await findings("schema shape");
    expect(found).toMatchObject({ level: "problem", found: "the index live.live_due is missing" });
    const statement = /^Run (?<sql>CREATE INDEX CONCURRENTLY .*?);/.exec(found?.advice ?? "")?.groups?.["sql"] ?? "";
    expect(statement).toContain(`"${schema}".live`);
    await run(statement);
    expect(levels(await findings("schema shape"))).toEqual(["ok"]);
  });

  it("with a missing column", async () => {
    const { findings, run } = await ward();
    await run("ALTER TABLE S.schedules DROP COLUMN changes");
    expect(await findings("schema shape")).toMatchObject([
      { level: "problem", found: "the column schedules.changes is missing" },
    ]);
  });

  it("with a missing table, once", async () => {
    const { findings, run } = await ward();
    await run("DROP TABLE S.log");
    expect(await findings("schema shape")).toMatchObject([{ found: "the table log is missing" }]);
  });

  it.each([
    ["", "warning", /not Holdfast's$/],
    [" NOT NULL", "problem", /every insert fails/],
    [" NOT NULL DEFAULT 0", "warning", /not Holdfast's$/],
  ])("with a foreign column%s", async (constraint, level, found) => {
    const { findings, run } = await ward();
    await run(`ALTER TABLE S.live ADD COLUMN mood integer${constraint}`);
    expect(await findings("schema shape")).toMatchObject([{ level, found: expect.stringMatching(found) }]);
  });

  it("with a foreign index", async () => {
    const { findings, run } = await ward();
    await run("CREATE INDEX mine ON S.live (worker)");
    expect(await findings("schema shape")).toMatchObject([
      { level: "warning", found: expect.stringMatching(/index live.mine/) },
    ]);
  });

  it("with another column type", async () => {
    const { findings, run } = await ward();
    await run("ALTER TABLE S.log ALTER COLUMN line TYPE varchar(10)");
    expect(await findings("schema shape")).toMatchObject([
      {
        level: "problem",
        found: expect.stringMatching(/log.line .*character varying\(10\) NOT NULL instead of text NOT NULL/),
      },
    ]);
  });

  it("with an index whose creation failed", async () => {
    const { store, findings, run, schema } = await ward();
    await store.insert(newJobs(2));
    await expect(run("CREATE UNIQUE INDEX CONCURRENTLY broken ON S.live (type)")).rejects.toThrow(/unique/);
    expect(await findings("invalid indexes")).toMatchObject([
      { level: "problem", advice: expect.stringContaining(`DROP INDEX CONCURRENTLY ${schema}.broken`) },
    ]);
    expect(levels(await findings("schema shape"))).toEqual(["ok"]);
  });

  it("with an invalid index, but not as missing", async () => {
    const { findings, run } = await ward();
    await run("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'S.live_due'::regclass");
    const found = await findings("invalid indexes");
    expect(found).toMatchObject([{ level: "problem", found: expect.stringMatching(/live_due on live/) }]);
    expect(levels(await findings("schema shape"))).toEqual(["ok"]);
    await run(/REINDEX INDEX CONCURRENTLY \S+live_due/.exec(found[0]?.advice ?? "")?.[0] ?? "");
    expect(levels(await findings("invalid indexes"))).toEqual(["ok"]);
  });
});

/** Enough transactions to make a snapshot old. */
async function manyTransactions(): Promise<void> {
  await server.query("DO $$ BEGIN FOR n IN 1..10001 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$");
}

async function snapshot(): Promise<pg.Client> {
  const reader = await server.client();
  onTestFinished(() => reader.end());
  await reader.query("SET application_name = 'report'; BEGIN ISOLATION LEVEL REPEATABLE READ");
  await reader.query("SELECT 1 AS a_long_report");
  return reader;
}

describe("doctor reports what holds vacuum back", () => {
  it("an open transaction with an old snapshot", async () => {
    const { findings } = await ward();
    const reader = await snapshot();
    const { rows } = await reader.query("SELECT pg_backend_pid() AS pid");
    expect(await findings("open transactions")).toMatchObject([
      { level: "ok", found: expect.stringMatching(`pid ${rows[0].pid} \\(report, postgres, idle in transaction\\)`) },
    ]);
    await manyTransactions();
    expect(await findings("open transactions")).toMatchObject([
      {
        level: "warning",
        found: expect.stringMatching(/holds vacuum back by 10,\d\d\d transactions: SELECT pg_backend_pid\(\) AS pid/),
        advice: expect.stringContaining(`pg_terminate_backend(${rows[0].pid})`),
      },
    ]);
    await reader.query("COMMIT");
    // Not doctor's own transaction.
    expect(await findings("open transactions")).toMatchObject([
      { level: "ok", found: expect.not.stringMatching(/SELECT pid, usename/) },
    ]);
  });

  it("a replication slot without a consumer", async () => {
    const { findings, schema } = await ward();
    // A logical slot would need wal_level = logical and a restart; doctor handles both alike.
    await server.query("SELECT pg_create_physical_replication_slot($1, true)", [schema]);
    expect(await findings("replication slots")).toMatchObject([
      {
        level: "warning",
        found: expect.stringMatching(`slot ${schema} is not in use, keeps \\d+ [KM]B of WAL`),
        advice: expect.stringContaining(`pg_drop_replication_slot('${schema}')`),
      },
    ]);
    await server.query("SELECT pg_drop_replication_slot($1)", [schema]);
    expect(levels(await findings("replication slots"))).toEqual(["ok"]);
  });
});

describe("doctor reports dead rows", () => {
  it("that outnumber the live ones", async () => {
    const { findings, run } = await ward();
    await snapshot();
    await run(`INSERT INTO S.live (id, type, queue, priority, state, input, input_bytes, attempt, max_attempts, losses, releases,
        fence, run_at, due_at, created_at, updated_at)
      SELECT gen_random_uuid(), 'mail', 'default', 0, 'pending', '{}', 2, 0, 4, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(1, 21000);
      DELETE FROM S.live; SELECT pg_stat_force_next_flush()`);
    expect(await findings("dead rows")).toMatchObject([
      { level: "warning", found: expect.stringMatching(/21,\d{3} dead rows and 0 live ones/) },
    ]);
  });

  it("when autovacuum is off", async () => {
    const { findings, run } = await ward();
    await run("ALTER TABLE S.live SET (autovacuum_enabled = false)");
    const [found] = await findings("autovacuum");
    expect(found).toMatchObject({ level: "problem", found: expect.stringMatching(/autovacuum is off for .*live/) });
    await run(/ALTER TABLE [^.]+\.live RESET \(autovacuum_enabled\)/.exec(found?.advice ?? "")?.[0] ?? "");
    expect(levels(await findings("autovacuum"))).toEqual(["ok"]);
  });
});

describe("doctor reports queues", () => {
  const longAgo = (): number => Date.now() - 10 * 60_000;

  it("with overdue jobs and no worker", async () => {
    const { store, findings } = await ward();
    await add(store, { queue: "mail", runAt: longAgo() });
    expect(await findings("overdue jobs")).toMatchObject([
      {
        level: "problem",
        found: expect.stringMatching(/"mail" has been due for 10 min, and no live worker serves it/),
      },
    ]);
    await store.heartbeat(workerRecord({ queues: ["other"] }));
    expect(levels(await findings("overdue jobs"))).toEqual(["problem"]);
    await store.heartbeat(workerRecord({ queues: null }));
    expect(await findings("overdue jobs")).toMatchObject([
      { level: "warning", found: expect.stringMatching(/1 live worker serves it/) },
    ]);
  });

  it("that are paused with due jobs", async () => {
    const { store, findings } = await ward();
    await add(store, { queue: "mail", runAt: longAgo() });
    await store.pause("mail");
    await store.pause("empty");
    expect(await findings("paused queues")).toMatchObject([
      { level: "warning", advice: expect.stringContaining('hf.resume("mail")') },
    ]);
    expect(levels(await findings("overdue jobs"))).toEqual(["ok"]);
  });

  it("with too many lanes", async () => {
    const { findings, run } = await ward();
    await run("INSERT INTO S.lanes (queue, priority, used_at) SELECT 'q' || n, 0, 0 FROM generate_series(1, 250) n");
    expect(await findings("lanes")).toMatchObject([{ level: "warning", found: expect.stringMatching(/250 lanes/) }]);
  });

  it("whose counters are not rolled up", async () => {
    const { store, findings, run } = await ward();
    await run(`INSERT INTO S.deltas (at, queue, type, state, n, ended)
      SELECT ${longAgo() - 60_000}, 'default', 'mail', 'pending', 1, false FROM generate_series(1, 1500)`);
    expect(await findings("counts")).toMatchObject([
      { level: "warning", found: expect.stringMatching(/1,500 counter changes/) },
    ]);
    await store.maintain();
    expect(levels(await findings("counts"))).toEqual(["ok"]);
  });
});

describe("doctor reports checks without permission", () => {
  async function poorRole(
    grants: (role: string, schema: string) => string,
  ): Promise<{ here: Ward; store: PostgresStore }> {
    const here = await ward();
    const role = `poor_${here.schema}`;
    await here.run(`CREATE ROLE ${role} LOGIN PASSWORD 'p'; ${grants(role, here.schema)}`);
    const url = new URL(here.address);
    url.username = role;
    url.password = "p";
    const store = postgres(url.href);
    onTestFinished(async () => {
      await store.close();
      await here.run(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
    });
    return { here, store };
  }

  it("sessions of other roles and the schema comparison", async () => {
    const { here, store } = await poorRole(
      (role, schema) =>
        `GRANT USAGE ON SCHEMA ${schema} TO ${role}; GRANT SELECT ON ALL TABLES IN SCHEMA ${schema} TO ${role}`,
    );
    await snapshot();
    await here.run("DROP INDEX S.live_due");
    const findings = await store.doctor();
    const of = (check: string): Finding[] => findings.filter((finding) => finding.check === check);
    expect(of("rights")).toMatchObject([{ level: "warning", advice: expect.stringMatching(/pg_read_all_stats/) }]);
    expect(of("open transactions")).toMatchObject([
      {
        level: "ok",
        found: expect.stringMatching(/an unknown time and holds vacuum back by \d+ transactions?:/),
      },
    ]);
    expect(of("schema shape")).toMatchObject([
      { level: "problem", found: "the index live_due is missing" },
      { level: "warning", found: expect.stringMatching(/only names could be compared.*permission denied/) },
    ]);
  });

  it("tables that the role cannot read", async () => {
    const { store } = await poorRole((role, schema) => `GRANT USAGE ON SCHEMA ${schema} TO ${role}`);
    const findings = await store.doctor();
    expect(findings.find(({ check }) => check === "schema version")).toMatchObject({
      level: "warning",
      found: expect.stringMatching(/the check failed: .*permission denied/),
      advice: expect.stringMatching(/role that may read/),
    });
  });

  it("a locked table", async () => {
    const { store, schema } = await ward();
    await add(store);
    const operator = await server.client();
    onTestFinished(() => operator.end());
    await operator.query(`BEGIN; LOCK TABLE ${schema}.live IN ACCESS EXCLUSIVE MODE`);
    const impatient = postgres({ pool: impatientPool(), schema });
    onTestFinished(() => impatient.close());
    const findings = await impatient.doctor();
    expect(findings.find(({ check }) => check === "overdue jobs")).toMatchObject({
      level: "warning",
      found: expect.stringMatching(/the check failed: .*lock timeout/),
      advice: expect.stringMatching(/pg_stat_activity/),
    });
  });
});
