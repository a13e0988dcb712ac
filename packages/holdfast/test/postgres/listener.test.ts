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
const ANSWER_MS = 5_000;

const server = postgresServer();
const mail = job({ type: "mail", run: ({ job: { id } }) => ({ id }) });

/** A listener on a clock that the test moves, with what it hears and what it waits for. */
function listening(connect: () => Promise<PgListener>) {
  const clock = fakeClock();
  const heard: Hint["kind"][] = [];
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
    onHints: (hints) => heard.push(...hints.map(({ kind }) => kind)),
    onSilence: () => deaf++,
  });
  listener.start();
  onTestFinished(() => listener.stop());
  return {
    listener,
    clock,
    heard,
    said,
    deaf: () => deaf,
    /** Until the connection has proved that it hears, and is left alone for a while. */
    content: () => until("the listener to hear itself", () => waits.at(-1) === CHECK_MS),
    /** Says something, as another process would, and waits until it is heard. */
    hears: async (kind: string): Promise<void> => {
      const from = heard.length;
      await say(`them ${kind}`);
      await until(`"${kind}" to be heard`, () => heard.slice(from).includes(kind as Hint["kind"]));
    },
  };
}

describe("a listener", () => {
  it("hears what others say, and not itself", async () => {
    const { content, hears, heard } = listening(() => listenAt(server.url()));
    await content();
    for (const kind of ["work", "finished", "schedules"]) await hears(kind);
    // The first three are said when it begins: something may have been missed.
    expect(heard).toEqual(["work", "finished", "schedules", "work", "finished", "schedules"]);
  });

  it("whose connection is swallowed without a word notices at the next check, and finds another", async () => {
    const proxy = await startProxy(server.url());
    const { content, hears, heard, clock } = listening(() => listenAt(proxy.url));
    await content();
    proxy.swallow();
    const before = heard.length;
    await clock.advance(CHECK_MS);
    await clock.advance(ANSWER_MS - 1);
    expect(heard).toHaveLength(before);
    await clock.advance(1);
    await clock.advance("1s");
    await content();
    expect(heard.slice(before)).toEqual(["work", "finished", "schedules"]);
    await hears("work");
  });

  it("whose connection is ended by the server finds another", async () => {
    const pids: unknown[] = [];
    const { content, hears, clock } = listening(async () => {
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
    await hears("work");
  });

  it("that is answered and yet hears nothing says so once, and tries again only now and then", async () => {
    let connections = 0;
    let ended = 0;
    const { clock, deaf, said } = listening(async () => {
      connections++;
      return { query: async () => {}, on: () => {}, end: () => void ended++ };
    });
    await until("it to have said something", () => said.length === 1);
    await clock.advance(ANSWER_MS);
    expect([deaf(), connections, ended]).toEqual([1, 1, 1]);
    await clock.advance(CHECK_MS - 1);
    expect(connections).toBe(1);
    await clock.advance(1);
    await until("it to have said something again", () => said.length === 2);
    await clock.advance(ANSWER_MS);
    expect([deaf(), connections, ended]).toEqual([1, 2, 2]);
  });

  it("stops at once, while it connects and while nobody answers any more, and leaves no connection behind", async () => {
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
    ["where nobody is told", async () => ({ notify: false })],
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
  it("through a listener at an address of its own, while the rest goes another way", async () => {
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

it("what a client has to tell others is told at once, the same things now and then, and the rest when it closes", async () => {
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

describe("a connection of the pool that is swallowed without a word", () => {
  it("is given up when its answer does not come, and another takes its place", async () => {
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

it("stores on the caller's pool leave no connection behind, and one guard against broken ones", async () => {
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
