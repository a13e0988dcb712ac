import { holdfast, job } from "holdfast";
import { postgres } from "holdfast/postgres";
import type { Hint } from "holdfast/store";
import { fakeClock } from "holdfast/testing";
import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { listenAt } from "#src/stores/postgres/connection/connections.js";
import { Db } from "#src/stores/postgres/connection/db.js";
import { qualify } from "#src/stores/postgres/connection/qualify.js";
import { Listener, type PgListener } from "#src/stores/postgres/notify/listener.js";
import { Notifier } from "#src/stores/postgres/notify/notifier.js";
import { until } from "#src/testing/exercise-store/until.js";
import { startProxy } from "./proxy.js";
import { addressOf, openClient, openStore, ownSchema } from "./scene.js";
import { freePort } from "../free-port.js";
import { postgresServer } from "./server.js";

const CHECK_MS = 30_000;
const TIMEOUT_MS = 5_000;

const server = postgresServer();
const mail = job({ type: "mail", run: ({ job: { id } }) => ({ id }) });

/** A listener on a fake clock, with its hints and timers. */
function listening(connect: () => Promise<PgListener>) {
  const clock = fakeClock();
  const received: Hint["kind"][] = [];
  const waits: number[] = [];
  const channel = server.newSchema();
  let deaf = 0;
  const said: string[] = [];
  const say = async (payload: string): Promise<void> => {
    await server.query("SELECT pg_notify($1, $2)", [channel, payload]);
    said.push(payload);
  };
  const listener = new Listener({
    connect,
    notify: say,
    channel,
    self: "us",
    clock: {
      ...clock,
      after(ms, callback) {
        waits.push(ms);
        return clock.after(ms, callback);
      },
    },
    onHints: (hints) => received.push(...hints.map(({ kind }) => kind)),
    onSilence: () => deaf++,
  });
  listener.start();
  onTestFinished(() => listener.stop());
  return {
    listener,
    clock,
    received,
    said,
    deaf: () => deaf,
    /** Resolves when the connection has passed its check. */
    content: () => until("the listener to receive its echo", () => waits.at(-1) === CHECK_MS),
    /** Sends a notification as another process, and waits until it is received. */
    receives: async (kind: string): Promise<void> => {
      const from = received.length;
      await say(`them ${kind}`);
      await until(`"${kind}" to be received`, () => received.slice(from).includes(kind as Hint["kind"]));
    },
  };
}

describe("a listener", () => {
  it("receives notifications of other processes only", async () => {
    const { content, receives, received } = listening(() => listenAt(server.url()));
    await content();
    for (const kind of ["work", "finished", "schedules"]) await receives(kind);
    // The first three are emitted at the start, because notifications may have been missed.
    expect(received).toEqual(["work", "finished", "schedules", "work", "finished", "schedules"]);
  });

  it("replaces a silently cut connection at the next check", async () => {
    const proxy = await startProxy(server.url());
    const { content, receives, received, clock } = listening(() => listenAt(proxy.url));
    await content();
    proxy.swallow();
    const before = received.length;
    await clock.advance(CHECK_MS);
    await clock.advance(TIMEOUT_MS - 1);
    expect(received).toHaveLength(before);
    await clock.advance(1);
    await clock.advance("1s");
    await content();
    expect(received.slice(before)).toEqual(["work", "finished", "schedules"]);
    await receives("work");
  });

  it("replaces a connection that the server ended", async () => {
    const pids: unknown[] = [];
    const { content, receives, clock } = listening(async () => {
      const connection = await listenAt(server.url());
      const { rows } = (await connection.query({ text: "SELECT pg_backend_pid() AS pid" })) as pg.QueryResult;
      pids.push((rows[0] as { pid: number }).pid);
      return connection;
    });
    await content();
    await server.query("SELECT pg_terminate_backend($1)", [pids[0]]);
    await until("it to be replaced", async () => {
      await clock.advance("1s");
      return pids.length >= 2;
    });
    await content();
    await receives("work");
  });

  it("without notifications warns once and retries rarely", async () => {
    let connections = 0;
    let ended = 0;
    const { clock, deaf, said } = listening(async () => {
      connections++;
      return { query: async () => {}, on: () => {}, end: () => void ended++ };
    });
    await until("it to have said something", () => said.length === 1);
    await clock.advance(TIMEOUT_MS);
    expect([deaf(), connections, ended]).toEqual([1, 1, 1]);
    await clock.advance(CHECK_MS - 1);
    expect(connections).toBe(1);
    await clock.advance(1);
    await until("it to have said something again", () => said.length === 2);
    await clock.advance(TIMEOUT_MS);
    expect([deaf(), connections, ended]).toEqual([1, 2, 2]);
  });

  it("stops immediately and leaves no connection", async () => {
    const proxy = await startProxy(server.url());
    const cut = listening(() => listenAt(proxy.url));
    await cut.content();
    proxy.swallow();
    await cut.listener.stop();

    let connect = (_: PgListener): void => {};
    let ended = false;
    const early = listening(() => new Promise((resolve) => (connect = resolve)));
    await early.listener.stop();
    connect({ query: async () => {}, on: () => {}, end: () => void (ended = true) });
    await until("the late connection to be ended", () => ended);
  });
});

describe("jobs are found by polling", () => {
  it.each<[string, () => Promise<object>]>([
    ["with notify: false", async () => ({ notify: false })],
    [
      "where the listener's address leads nowhere",
      async () => ({ listenUrl: `postgres://127.0.0.1:${await freePort()}/x` }),
    ],
  ])("%s", async (_where, options) => {
    const { store, address } = await openStore(server, await options());
    const worker = await openClient(store, mail);
    const client = await openClient(address, mail);
    worker.work({ poll: "50ms" });
    const { id } = await client.enqueue(mail);
    expect(await client.result(mail, id, { timeout: "10s" })).toEqual({ id });
  });
});

describe("jobs are found without polling", () => {
  it("through a listener at its own address", async () => {
    const proxy = await startProxy(server.url());
    const { store, schema } = await openStore(server, { by: proxy.url, listenUrl: server.url(), connections: 1 });
    const worker = await openClient(store, mail);
    worker.work({ poll: "1h" });
    const client = await openClient(addressOf(server.url(), schema), mail);
    const { id } = await client.enqueue(mail);
    await until("the job to run", async () => (await client.get(id))?.state === "completed");
    expect(proxy.connections()).toBe(1);
  });
});

it("hints are sent immediately, then limited, and the last at close", async () => {
  const said: unknown[] = [];
  const notifier = new Notifier(
    { run: async (_: unknown, values: unknown[]) => said.push(values[1]) } as never,
    "c",
    "us",
  );
  for (let n = 0; n < 3; n++) notifier.send({ kind: "work", inMs: 0 });
  notifier.send({ kind: "finished" });
  notifier.send({ kind: "work", inMs: 1_000 });
  await notifier.stop();
  expect(said).toEqual(["us work", "us finished", "us work"]);
});

describe("a silently cut connection of the pool", () => {
  it("is replaced after the timeout", async () => {
    const proxy = await startProxy(server.url());
    const pool = new pg.Pool({ connectionString: proxy.url, max: 1 });
    const db = new Db(pool, "the proxy", { timeoutMs: 200 });
    onTestFinished(() => db.end());
    const ask = { name: "one", text: qualify("SELECT 1") };
    expect(await db.run(ask, [])).toEqual([[1]]);
    proxy.swallow();
    await expect(db.run(ask, [])).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(await db.run(ask, [])).toEqual([[1]]);
    proxy.swallow();
    await expect(db.transaction((tx) => tx.run(ask, []))).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(await db.transaction((tx) => tx.run(ask, []))).toEqual([[1]]);
  });
});

it("stores on the caller's pool leave one error listener", async () => {
  const pool = server.pool({ max: 2 });
  onTestFinished(() => pool.end());
  const guards = pool.listenerCount("error");
  const schema = ownSchema(server);
  for (let n = 0; n < 3; n++) {
    const hf = await holdfast({ store: postgres({ pool, schema }), jobs: [mail], logger: false });
    const worker = hf.work();
    const { id } = await hf.enqueue(mail);
    await hf.result(id);
    await worker.stop();
    await hf.close();
  }
  expect(pool.listenerCount("error")).toBe(guards + 1);
  await until("every connection to be back", () => pool.totalCount === pool.idleCount);
  expect(await pool.query(`SELECT count(*)::int AS n FROM ${schema}.jobs WHERE state = 'completed'`)).toMatchObject({
    rows: [{ n: 3 }],
  });
});
