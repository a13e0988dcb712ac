import { job } from "holdfast";
import { postgres } from "holdfast/postgres";
import { fakeClock } from "holdfast/testing";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { listenAt } from "#src/stores/postgres/connection/connections.js";
import { Db, unnamed } from "#src/stores/postgres/connection/db.js";
import { Listener } from "#src/stores/postgres/notify/listener.js";
import { claim, finish, key, newJob, newJobs } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { BOUNCER, startBouncer } from "./bouncer.js";
import { addressOf, openClient, openStore, ownSchema } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const add = job({ type: "add", input: z.object({ n: z.number() }), run: ({ input: { n } }) => n + 1 });
const tick = job({ type: "tick", run() {} });

const NONE = BOUNCER === null ? "there is no PgBouncer here" : null;
const KEEPS_NONE =
  BOUNCER?.keepsPrepared === false ? `PgBouncer ${BOUNCER.version} keeps no prepared statements` : null;

describe.each([
  ["has no prepared statements", 0, NONE],
  ["has prepared statements", 200, NONE ?? KEEPS_NONE],
])("through a PgBouncer in transaction mode that %s", (_how, prepared, missing) => {
  it("all operations work", async ({ skip }) => {
    if (missing !== null) return skip(missing);
    const by = await startBouncer(server.url(), { prepared });
    const { store } = await openStore(server, { by, listenUrl: server.url() });
    const hf = await openClient(store, add, tick);
    await hf.schedule("tick", { job: tick, every: "1s" });
    const worker = hf.work({ concurrency: 24, lease: "300ms" });
    const plain = await Promise.all(Array.from({ length: 100 }, async (_, n) => hf.enqueue(add, { n })));
    const results = await Promise.all(plain.map(({ id }) => hf.result(add, id, { timeout: "20s" })));
    expect(results).toEqual(Array.from({ length: 100 }, (_, n) => n + 1));
    await until(
      "the schedule to have run",
      async () => (await hf.list({ type: "tick", state: "completed" })).jobs.length,
    );

    const first = await hf.enqueue(add, { n: 1 }, { unique: "one", delay: "1h" });
    expect(await hf.enqueue(add, { n: 2 }, { unique: "one" })).toMatchObject({ id: first.id, duplicate: true });
    expect(
      await hf.enqueue(add, { n: 3 }, { unique: { key: "one", onConflict: "replace" }, delay: "1h" }),
    ).toMatchObject({ id: first.id, replaced: true });
    expect(await hf.cancel(first.id)).toBe("cancelled");
    expect(await hf.retry(first.id)).toBe("retried");
    expect(await hf.result(add, first.id, { timeout: "20s" })).toBe(4);

    const tx = new pg.Client({ connectionString: by });
    await tx.connect();
    onTestFinished(() => tx.end());
    await tx.query("BEGIN");
    const undone = await hf.enqueue(add, { n: 5 }, { tx, queue: "other" });
    await tx.query("ROLLBACK");
    await tx.query("BEGIN");
    const done = await hf.enqueue(add, { n: 6 }, { tx, queue: "other", unique: "six" });
    await tx.query("COMMIT");
    expect(await hf.result(add, done.id, { timeout: "20s" })).toBe(7);
    expect(await hf.get(undone.id)).toBeNull();
    await worker.stop();
    expect((await hf.stats()).states).toMatchObject({ running: 0, dead: 0 });
  });

  it("prepared statements of other connections cause no errors", async ({ skip }) => {
    if (missing !== null) return skip(missing);
    const by = await startBouncer(server.url(), { prepared });
    const schema = ownSchema(server);
    const stores = Array.from({ length: 3 }, () => postgres(addressOf(by, schema), { notify: false }));
    onTestFinished(async () => void (await Promise.all(stores.map((store) => store.close()))));
    await Promise.all(stores.map((store) => store.migrate()));
    await Promise.all(
      stores.flatMap((store) =>
        Array.from({ length: 20 }, async (_, n) => {
          await store.insert([newJob(), newJob({ unique: key(`k${n}`) }), ...newJobs(2)]);
          const jobs = await claim(store, { limit: 3 });
          expect(new Set(await store.extend(jobs, 60_000))).toEqual(new Set(jobs.length === 0 ? [] : ["kept"]));
          for (const each of jobs) await finish(store, each);
          await store.stats();
        }),
      ),
    );
  });
});

it("a listener behind PgBouncer detects missing notifications", async ({ skip }) => {
  if (NONE !== null) return skip(NONE);
  const by = await startBouncer(server.url());
  const pool = new pg.Pool({ connectionString: by, max: 2 });
  const db = new Db(pool, "PgBouncer");
  const clock = fakeClock();
  const channel = server.newSchema();
  let said = 0;
  let deaf = false;
  const listener = new Listener({
    connect: () => listenAt(by),
    notify: async (payload) => {
      await db.run(unnamed("SELECT pg_notify($1, $2)::text"), [channel, payload]);
      said++;
    },
    channel,
    self: "us",
    clock,
    onHints: () => {},
    onSilence: () => (deaf = true),
  });
  listener.start();
  onTestFinished(async () => {
    await listener.stop();
    await db.end();
  });
  await until("it to have said something", () => said > 0);
  await clock.advance("5s");
  expect(deaf).toBe(true);
});
