import { holdfast, job } from "holdfast";
import { postgres } from "holdfast/postgres";
import type { Store } from "holdfast/store";
import { describe, expect, it, onTestFinished } from "vitest";
import { claim, insertAll, newJob, newJobs, outcomeOf } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

async function open(): Promise<{ store: Store; schema: string; address: string }> {
  const schema = server.newSchema();
  const address = `${server.url()}?schema=${schema}`;
  const store = postgres(address);
  onTestFinished(async () => {
    await store.close();
    await server.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
  });
  await store.migrate();
  return { store, schema, address };
}

describe("a row that another session has locked", () => {
  it("returns busy and blocks no other row of its batch", async () => {
    const { store, schema } = await open();
    await store.insert(newJobs(3));
    const jobs = await claim(store);
    const operator = await server.client();
    await operator.query("BEGIN");
    await operator.query(`SELECT 1 FROM ${schema}.live WHERE id = $1 FOR UPDATE`, [jobs[1]?.id]);

    const refs = jobs.map(({ id, fence }) => ({ id, fence }));
    // Its lease was not extended.
    expect(await store.extend(refs, 60_000)).toEqual(["kept", "busy", "kept"]);
    expect(await store.start(refs.map((ref) => ({ ...ref, startedAt: 1 })))).toEqual(["kept", "busy", "kept"]);
    const outcomes = jobs.map((each) => outcomeOf(each, "completed"));
    expect(await store.settle(outcomes)).toEqual(["applied", "busy", "applied"]);
    // A claim does not wait for it.
    await store.insert([newJob()]);
    expect(await claim(store)).toHaveLength(1);

    await operator.query("ROLLBACK");
    await operator.end();
    expect(await store.settle(outcomes)).toEqual(["applied", "applied", "applied"]);
  });

  it("is settled by the worker after the lock ends", async () => {
    const { address, schema } = await open();
    const operator = await server.client();
    const type = job({
      type: "locked",
      async run({ job: { id } }) {
        await operator.query("BEGIN");
        await operator.query(`SELECT 1 FROM ${schema}.live WHERE id = $1 FOR UPDATE`, [id]);
      },
    });
    const hf = await holdfast({ store: address, jobs: [type], logger: false });
    const worker = hf.work();
    const { id } = await hf.enqueue(type);
    // The outcome waits for the lock without blocking others.
    await expect(hf.result(id, { timeout: "300ms" })).rejects.toMatchObject({ code: "WAIT_TIMEOUT" });
    await operator.query("ROLLBACK");
    await operator.end();
    await hf.result(type, id, { timeout: "10s" });
    await worker.stop();
    await hf.close();
  });
});

describe("a row that another session changes", () => {
  it("is waited for by completeIn", async () => {
    const { store, schema } = await open();
    await store.insert([newJob()]);
    const [job] = await claim(store);
    if (job === undefined) throw new Error("nothing was claimed");
    const [operator, caller] = [await server.client(), await server.client()];
    onTestFinished(async () => void (await Promise.all([operator.end(), caller.end()])));
    await operator.query("BEGIN");
    await operator.query(`UPDATE ${schema}.live SET progress = 0.5 WHERE id = $1`, [job.id]);
    await caller.query("BEGIN");
    const settled = store.settleIn(caller, outcomeOf(job, "completed"), null);
    await until("the caller to wait", async () => {
      const waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'";
      return (await server.query(waiting, [schema])).rows.length > 0;
    });
    await operator.query("COMMIT");
    expect(await settled).toBe("applied");
    await caller.query("COMMIT");
    expect(await store.get(job.id)).toMatchObject({ state: "completed", progress: { fraction: 0.5 } });
  });
});

describe("a job that PostgreSQL cannot store", () => {
  it.each([
    ["no attempts", { maxAttempts: 0 }, /max_attempts/],
    ["an input that is not JSON", { input: "{oops" }, /json/],
    ["a NUL in its input", { input: `{"a":"x\\u0000"}` }, /contains \\u0000/],
  ])("because of %s is rejected; its batch is stored", async (_what, bad, reason) => {
    const { store } = await open();
    const results = await insertAll(store, [newJob(), newJob(bad), newJob()]);
    expect(results.map(({ status }) => status)).toEqual(["inserted", "refused", "inserted"]);
    expect(results[1]).toMatchObject({ reason: "not-stored", error: expect.stringMatching(reason) });
  });
});

describe("a job that the application's trigger rejects", () => {
  it("is rejected with its message; its batch is stored", async () => {
    const { store, schema } = await open();
    await server.query(`CREATE FUNCTION ${schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.type = 'bad' THEN RAISE EXCEPTION 'no bad jobs here'; END IF; RETURN NEW; END $$;
      CREATE TRIGGER refuse BEFORE INSERT ON ${schema}.live FOR EACH ROW EXECUTE FUNCTION ${schema}.refuse();`);
    const results = await insertAll(store, [newJob(), newJob({ type: "bad" }), newJob()]);
    expect(results.map(({ status }) => status)).toEqual(["inserted", "refused", "inserted"]);
    expect(results[1]).toMatchObject({ reason: "not-stored", error: "no bad jobs here" });
  });
});

describe("a database that cannot be used is reported", () => {
  const withParts = (change: (url: URL) => void): string => {
    const url = new URL(server.url());
    change(url);
    return url.href;
  };
  it.each<[string, () => string, string, RegExp]>([
    ["a wrong password", () => withParts((url) => (url.password = "wrong")), "STORE_UNREADABLE", /user or password/],
    [
      "a missing database",
      () => withParts((url) => (url.pathname = "/nowhere")),
      "STORE_UNREADABLE",
      /does not exist.*create it first/,
    ],
    ["no server at the port", () => withParts((url) => (url.port = "1")), "STORE_UNAVAILABLE", /cannot be reached/],
  ])("%s", async (_what, url, code, message) => {
    const failed = await holdfast({ store: url() }).catch((error: unknown) => error as Error);
    expect(failed).toMatchObject({ code, message: expect.stringMatching(message) });
    expect((failed as Error).message).not.toContain("postgres:postgres");
  });

  it("no privilege to create the schema", async () => {
    const role = `poor_${Math.random().toString(36).slice(2, 8)}`;
    await server.query(`CREATE ROLE ${role} LOGIN PASSWORD 'p'`);
    const url = withParts((each) => {
      each.username = role;
      each.password = "p";
    });
    const failed = await holdfast({ store: `${url}?schema=${server.newSchema()}` }).catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: "STORE_UNREADABLE", message: expect.stringMatching(/permission denied/) });
    await server.query(`DROP ROLE ${role}`);
  });
});

describe("an invalid option is rejected by name", () => {
  it.each<[string, object]>([
    ["schema", { schema: "Robert'); DROP TABLE" }],
    ["userType", { userType: "text; DROP TABLE" }],
    ["connections", { connections: 0 }],
    ["pool", { pool: { query() {} } }],
    ["notifies", { notifies: false }],
  ])("%s", (field, options) => {
    expect(() => postgres("postgres://localhost/x", options)).toThrow(expect.objectContaining({ field }));
  });

  it("tx, before anything is written", async () => {
    const { store } = await open();
    await expect(Promise.resolve(store.insertIn({}, [newJob()]))).rejects.toMatchObject({ field: "tx" });
    expect(await store.queues()).toEqual([]);
  });
});

describe("the caller's own pool", () => {
  it("is used, and left open", async () => {
    const pool = server.pool({ max: 2 });
    const schema = server.newSchema();
    const type = job({ type: "pooled", run: () => ({ done: true }) });
    const hf = await holdfast({ store: postgres({ pool, schema }), jobs: [type], logger: false });
    hf.work();
    const { id } = await hf.enqueue(type);
    expect(await hf.result(type, id, { timeout: "10s" })).toEqual({ done: true });
    await hf.close();
    expect((await pool.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    await pool.query(`DROP SCHEMA ${schema} CASCADE`);
    await pool.end();
  });
});
