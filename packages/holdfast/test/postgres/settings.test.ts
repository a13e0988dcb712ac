import { job } from "holdfast";
import { postgres, type PostgresStore } from "holdfast/postgres";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import {
  addAll,
  claim,
  claimOne,
  failureOf,
  finish,
  insertAll,
  key,
  newJob,
  newJobs,
  recordOf,
  settleOne,
} from "#src/testing/exercise-store/builders.js";
import { addSchedule, fireAll, firingFor } from "#src/testing/exercise-store/schedule-builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { openClient, openStore } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const ODD = 'naïve Ω 漢字 🧑‍🚀 it\'s \\ "quoted"';

let names = 0;
/** Creates a database with these options, and returns its address. */
async function newDatabase(clauses = "", settings: readonly string[] = []): Promise<string> {
  const name = `${server.newSchema()}_${++names}`;
  await server.query(`CREATE DATABASE ${name} ${clauses}`);
  for (const setting of settings) await server.query(`ALTER DATABASE ${name} SET ${setting}`);
  onTestFinished(async () => void (await server.query(`DROP DATABASE ${name} WITH (FORCE)`)));
  return withParts({ pathname: `/${name}` });
}

/** Creates a role with all privileges on the database, and returns the address. */
async function newUser(settings: string): Promise<string> {
  const name = `${server.newSchema()}_${++names}`;
  await server.query(`CREATE ROLE ${name} LOGIN PASSWORD 'p' IN ROLE pg_write_all_data, pg_read_all_data`);
  await server.query(`ALTER ROLE ${name} ${settings}`);
  onTestFinished(async () => void (await server.query(`DROP OWNED BY ${name}; DROP ROLE ${name}`)));
  return withParts({ username: name, password: "p" });
}

function withParts(parts: Partial<URL>): string {
  return Object.assign(new URL(server.url()), parts).href;
}

function opened(store: PostgresStore): PostgresStore {
  onTestFinished(() => store.close());
  return store;
}

/** Uses many operations with values that are easily corrupted. */
async function liveThrough(store: PostgresStore): Promise<void> {
  await store.migrate();
  const input = JSON.stringify({ text: ODD, n: 12_345_678_901_234 });
  const expiresAt = 4_102_444_800_123;
  const given = newJob({
    type: "odd",
    input,
    tags: [ODD],
    user: ODD,
    expiresAt,
    unique: key(ODD),
    runAt: 1_234_567_890_123,
  });
  const large = newJob({ input: JSON.stringify(ODD.repeat(100)), priority: -1 });
  await addAll(store, [given, large]);
  const first = await claimOne(store);
  expect(first).toMatchObject({ input, tags: [ODD], user: ODD, expiresAt, runAt: 1_234_567_890_123, attempt: 1 });
  expect(await store.start([{ ...first, startedAt: 1 }])).toEqual(["kept"]);
  expect(await store.extend([first], 60_000)).toEqual(["kept"]);
  await store.note([
    { ...first, progress: { fraction: 0.25, note: ODD, data: JSON.stringify([ODD]) }, log: [{ at: 5, line: ODD }] },
  ]);
  expect(await settleOne(store, failureOf(first, ODD))).toBe("applied");
  expect(await recordOf(store, given.id)).toMatchObject({
    state: "failed",
    error: { message: ODD },
    attempts: [{ error: { message: ODD } }],
    log: [{ at: 5, line: ODD }],
    progress: { fraction: 0.25, note: ODD, data: JSON.stringify([ODD]) },
    key: ODD,
    cancelRequestedAt: null,
  });
  const second = await claimOne(store);
  await finish(store, second, "completed", { output: JSON.stringify(ODD) });
  expect(await recordOf(store, given.id)).toMatchObject({
    state: "completed",
    output: JSON.stringify(ODD),
    attempt: 2,
  });
  await finish(store, await claimOne(store), "dead");
  expect(await store.retry([large.id])).toEqual(["retried"]);
  expect(await store.cancel([large.id])).toEqual(["cancelled"]);

  const schedule = await addSchedule(store, { name: ODD, cron: "0 8 * * *", timezone: "Europe/Berlin", everyMs: null });
  await fireAll(store, firingFor(schedule, [1_700_000_000_000]));
  expect((await store.dueSchedules(10)).at).toBeGreaterThan(1_700_000_000_000);
  expect((await store.list({ schedule: ODD }, { limit: 10, cursor: null })).jobs).toHaveLength(1);
  expect((await store.list({ tag: ODD, user: ODD }, { limit: 10, cursor: null })).jobs).toHaveLength(1);
  expect((await store.stats()).counts.map(({ state, count }) => [state, count])).toEqual([
    ["cancelled", 1],
    ["pending", 1],
    ["completed", 1],
  ]);
  await store.pause("default");
  expect(await store.queues()).toMatchObject([{ queue: "default", paused: true, priorities: [0, -1] }]);
}

describe("the store works with database settings", () => {
  it.each([
    [
      "time zone and styles",
      ["timezone = 'Pacific/Chatham'", "datestyle = 'SQL, DMY'", "intervalstyle = 'sql_standard'"],
    ],
    ["output formats", ["bytea_output = 'escape'", "extra_float_digits = 0", "xmlbinary = 'hex'"]],
    ["search path", ["search_path = 'nowhere'"]],
    ["timeouts", ["lock_timeout = '10ms'", "statement_timeout = '20s'"]],
    ["isolation: repeatable read", ["default_transaction_isolation = 'repeatable read'"]],
    ["isolation: serializable", ["default_transaction_isolation = 'serializable'"]],
    ["deferred commits and generic plans", ["synchronous_commit = 'off'", "plan_cache_mode = 'force_generic_plan'"]],
  ])("%s", async (_what, settings) => {
    await liveThrough(opened(postgres(await newDatabase("", settings))));
  });

  it("encoding: SQL_ASCII", async () => {
    await liveThrough(
      opened(postgres(await newDatabase("TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"))),
    );
  });

  it("encoding: UTF8 with another collation", async () => {
    const clauses =
      "TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR' LC_COLLATE 'C' LC_CTYPE 'C'";
    await liveThrough(opened(postgres(await newDatabase(clauses))));
  });

  it("encoding: LATIN1 is rejected", async () => {
    const url = await newDatabase("TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'");
    await expect(opened(postgres(url)).migrate()).rejects.toMatchObject({ code: "STORE_UNREADABLE" });
  });
});

it("type parsers of the application do not affect the store", async () => {
  const { INT8, INT4, INT2, BOOL, TEXT, JSON: JSON_TYPE, FLOAT8, UUID } = pg.types.builtins;
  const types = [INT8, INT4, INT2, BOOL, TEXT, JSON_TYPE, FLOAT8, UUID];
  const before = types.map((type) => pg.types.getTypeParser(type));
  onTestFinished(() => {
    for (const [at, type] of types.entries()) pg.types.setTypeParser(type, before[at] as (text: string) => unknown);
  });
  for (const type of types) pg.types.setTypeParser(type, (text) => ({ odd: text }));
  const pool = new pg.Pool({ connectionString: await newDatabase() });
  onTestFinished(() => pool.end());
  await liveThrough(opened(postgres({ pool })));
});

describe.each(["repeatable read", "serializable"])("with default isolation %s", (isolation) => {
  it("concurrent claims, enqueues and outcomes lose nothing", async () => {
    const url = await newDatabase("", [`default_transaction_isolation = '${isolation}'`]);
    const stores = Array.from({ length: 4 }, () => opened(postgres(url, { notify: false })));
    await Promise.all(stores.map((store) => store.migrate()));
    const claimed: string[] = [];
    await Promise.all(
      stores.map(async (store, n) => {
        for (let round = 0; round < 10; round++) {
          const jobs = [...newJobs(10), newJob({ unique: key(`k${round}`, { scope: "forever" }) })];
          const results = await insertAll(store, n % 2 === 0 ? jobs : jobs.toReversed());
          expect(results.filter(({ status }) => status === "refused")).toEqual([]);
          const taken = await claim(store, { limit: 12 });
          claimed.push(...taken.map(({ id }) => id));
          for (const each of taken) await finish(store, each);
        }
      }),
    );
    const [store] = stores;
    for (const each of await claim(store as PostgresStore)) claimed.push(each.id);
    expect(claimed).toHaveLength(4 * 10 * 10 + 10);
    expect(new Set(claimed).size).toBe(claimed.length);
  });
});

describe("a read-only server", () => {
  it("is reported, and used again when writable", async () => {
    const url = await newDatabase("", ["default_transaction_read_only = on"]);
    const store = opened(postgres(url, { connections: 1, notify: false }));
    const refusal = { code: "STORE_UNAVAILABLE", message: expect.stringMatching(/is read-only.*the primary/) };
    await expect(store.migrate()).rejects.toMatchObject(refusal);
    await server.query(`ALTER DATABASE ${new URL(url).pathname.slice(1)} RESET default_transaction_read_only`);
    // On a new connection: the old one may lead to a standby.
    await store.migrate();
    await addAll(store, newJobs(1));
  });
});

describe("statement_timeout", () => {
  it("is reported as an outage", async () => {
    const { schema } = await openStore(server);
    const url = await newUser("SET statement_timeout = '200ms'");
    const store = opened(postgres(url, { schema, notify: false }));
    const operator = await server.client();
    await operator.query("BEGIN");
    await operator.query(`LOCK TABLE ${schema}.live`);
    const refusal = { code: "STORE_UNAVAILABLE", message: expect.stringMatching(/statement timeout/) };
    await expect(store.insert(newJobs(1))).rejects.toMatchObject(refusal);
    await operator.query("ROLLBACK");
    await operator.end();
    await addAll(store, newJobs(1));
  });
});

describe("a limit on connections", () => {
  it("is reported at the start, and retried later", async () => {
    const { schema } = await openStore(server);
    const url = await newUser("CONNECTION LIMIT 1");
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    const store = opened(postgres(url, { schema }));
    const refusal = { code: "STORE_UNAVAILABLE", message: expect.stringMatching(/too many connections/) };
    await expect(store.migrate()).rejects.toMatchObject(refusal);
    await other.end();
    await until("the other to be gone", () =>
      store.migrate().then(
        () => true,
        () => false,
      ),
    );
  });

  it("delays calls, but fails none", async () => {
    const { schema } = await openStore(server);
    const store = opened(postgres(await newUser("CONNECTION LIMIT 3"), { schema, connections: 8 }));
    const double = job({ type: "double", input: z.object({ n: z.number() }), run: ({ input: { n } }) => 2 * n });
    const hf = await openClient(store, double);
    hf.work({ concurrency: 24 });
    const results = Array.from({ length: 100 }, async (_, n) => {
      const { id } = await hf.enqueue(double, { n });
      await hf.get(id);
      return hf.result(double, id, { timeout: "20s" });
    });
    expect(await Promise.all(results)).toEqual(Array.from({ length: 100 }, (_, n) => 2 * n));
  });
});
