import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import Sqlite from "better-sqlite3";
import { holdfast, job } from "holdfast";
import {
  checkTransactions,
  database,
  migrate,
  readCount,
  readTime,
  type PackSchema,
  type Steps,
  type Transaction,
} from "holdfast/pack";
import pg from "pg";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { z } from "zod";
import { describeDatabases, type PackDatabase } from "./scene.js";

const VERSIONS: PackSchema["versions"] = [
  ({ table, types }) => [
    `CREATE TABLE ${table("orders")} (id ${types.integer} PRIMARY KEY, item ${types.text}, at ${types.time})`,
  ],
  ({ table, types }) => [`ALTER TABLE ${table("orders")} ADD COLUMN note ${types.json}`],
];
const schema = (versions: number): PackSchema => ({ prefix: "shop_", versions: VERSIONS.slice(0, versions) });

describeDatabases((open) => {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  it("creates tables once, in any number of processes", async () => {
    const db = database(given.db);
    await Promise.all(Array.from({ length: 5 }, () => migrate(db, schema(1))));
    await migrate(db, schema(2));
    await db.query(`INSERT INTO ${db.table("shop_orders")} (id, item, at, note) VALUES (?, ?, ?, ?)`, [
      1,
      "tea ? 'or' \"so\"",
      new Date(1_000),
      "{}",
    ]);
    const [row] = await db.query(`SELECT *, '?' AS mark FROM ${db.table("shop_orders")} WHERE id = ?`, [1]);
    expect(row).toMatchObject({ item: "tea ? 'or' \"so\"", mark: "?" });
    expect(readTime(row?.["at"])).toEqual(new Date(1_000));
    await expect(migrate(db, schema(1))).rejects.toMatchObject({ code: "SCHEMA_TOO_NEW" });
  });

  it("commits rows and jobs together, or neither", async () => {
    const db = database(given.db);
    await migrate(db, schema(1));
    const ship = job({ type: "order.ship", input: z.object({ id: z.number() }), run() {} });
    const hf = await holdfast({ store: given.store(), jobs: [ship], logger: false });
    const order = (id: number, fail: boolean): Promise<void> =>
      db.transaction(function* (tx): Steps<void> {
        yield* tx.query(`INSERT INTO ${db.table("shop_orders")} (id) VALUES (?)`, [id]);
        yield* tx.call(() => hf.enqueue(ship, { id }, { tx: tx.handle }));
        if (fail) throw new Error("no");
      });
    await order(1, false);
    await expect(order(2, true)).rejects.toThrow("no");
    await expect(order(1, false)).rejects.toThrow(/unique/i);
    const [row] = await db.query(`SELECT count(*) AS n FROM ${db.table("shop_orders")}`);
    expect([readCount(row?.["n"]), (await hf.stats()).states.pending]).toEqual([1, 1]);
    await hf.close();
  });

  it("refuses a client whose jobs are on another kind of store", async () => {
    const db = database(given.db);
    await migrate(db, schema(1));
    const ship = job({ type: "order.ship", run() {} });
    const own = await holdfast({ store: given.store(), jobs: [ship], logger: false });
    const other = await holdfast({ store: "sqlite::memory:", jobs: [ship], logger: false });
    await checkTransactions(db, own, ship);
    await expect(checkTransactions(db, other, ship)).rejects.toMatchObject({ code: "INVALID_OPTION" });
    expect((await own.stats()).states.pending).toBe(0);
    await own.close();
    await other.close();
  });

  it("rolls back on SQLite what an async function around a client could lose", async () => {
    const db = database(given.db);
    await migrate(db, schema(1));
    const insert = (call: () => Promise<unknown>): Promise<void> =>
      db.transaction(function* (tx): Steps<void> {
        yield* tx.query(`INSERT INTO ${db.table("shop_orders")} (id) VALUES (1)`);
        yield* tx.call(call);
      });
    const late = insert(() => Promise.reject(new Error("late")));
    await expect(late).rejects.toThrow(given.dialect === "sqlite" ? "was not done when it returned" : "late");
    expect(await db.query(`SELECT id FROM ${db.table("shop_orders")}`)).toEqual([]);
  });

  it("leaves no connection in a transaction after an error", async () => {
    const db = database(given.db);
    for (let round = 0; round < 20; round++) {
      const broken = db.transaction(function* (tx): Steps<void> {
        yield* tx.query("SELECT * FROM missing_table");
      });
      await expect(broken).rejects.toThrow("missing_table");
    }
    expect(await db.query("SELECT 1 AS one")).toEqual([{ one: 1 }]);
  });

  it("a connection lost between two statements rejects, and does not end the process", async () => {
    if (given.dialect === "sqlite") return;
    const pool = given.db as pg.Pool;
    const [uncaught, ended] = [[] as unknown[], deferred()];
    const listen = (error: Error): void => void uncaught.push(error);
    process.on("uncaughtException", listen);
    onTestFinished(() => void process.off("uncaughtException", listen));
    const work = database(pool).transaction(function* (tx): Steps<void> {
      const [row] = yield* tx.query("SELECT pg_backend_pid() AS pid");
      (tx.handle as pg.PoolClient).once("end", ended.resolve);
      yield* tx.effect(async () => {
        await pool.query("SELECT pg_terminate_backend($1)", [row?.["pid"]]);
        await ended.promise;
      });
      yield* tx.query("SELECT 1");
    });
    await expect(work).rejects.toThrow(/connection/i);
    expect(uncaught).toEqual([]);
    expect(await database(pool).query("SELECT 1 AS one")).toEqual([{ one: 1 }]);
  });

  it("an idle connection that breaks does not end the process", async () => {
    if (given.dialect === "sqlite") return;
    const helper = given.db as pg.Pool;
    const pool = new pg.Pool({ ...helper.options, max: 1 });
    onTestFinished(() => pool.end());
    const [db] = [database(pool), database(pool)];
    expect(pool.listenerCount("error")).toBe(1);
    const [row] = await db.query("SELECT pg_backend_pid() AS pid");
    // Without a listener, emitting the error throws.
    const broken = new Promise((resolve) => void pool.once("remove", resolve));
    await helper.query("SELECT pg_terminate_backend($1)", [row?.["pid"]]);
    await broken;
    expect(await db.query("SELECT 1 AS one")).toEqual([{ one: 1 }]);
  });

  it("work that does not end after its signal frees its connection and its locks", async () => {
    if (given.dialect === "sqlite") return;
    const db = database(given.db);
    await migrate(db, schema(1));
    await db.query(`INSERT INTO ${db.table("shop_orders")} (id) VALUES (1)`);
    const [stopping, begun, hanging] = [new AbortController(), deferred(), deferred()];
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const work = db.transaction(
      function* (tx): Steps<void> {
        yield* tx.query(`UPDATE ${db.table("shop_orders")} SET item = 'tea'`);
        begun.resolve();
        yield* tx.effect(() => hanging.promise);
        yield* tx.query(`UPDATE ${db.table("shop_orders")} SET item = 'late'`);
      },
      { signal: stopping.signal },
    );
    const failure = work.catch((error: unknown) => error);
    await begun.promise;
    stopping.abort();
    await vi.advanceTimersByTimeAsync(29_999);
    expect((given.db as pg.Pool).idleCount).toBe((given.db as pg.Pool).totalCount - 1);
    await vi.advanceTimersByTimeAsync(1);
    expect(String(await failure)).toContain("did not end after its signal was aborted");
    vi.useRealTimers();
    await db.query(`UPDATE ${db.table("shop_orders")} SET item = 'coffee' WHERE item IS NULL`);
    hanging.resolve();
    await nextTurn();
    expect(await db.query(`SELECT item FROM ${db.table("shop_orders")}`)).toEqual([{ item: "coffee" }]);
  });

  it("refuses a transaction whose failed statement was ignored", async () => {
    const db = database(given.db);
    await migrate(db, schema(1));
    const work = db.transaction(function* (tx): Steps<string> {
      yield* tx.query(`INSERT INTO ${db.table("shop_orders")} (id) VALUES (1)`);
      try {
        yield* tx.query(`INSERT INTO ${db.table("shop_orders")} (id) VALUES (1)`);
      } catch {}
      return "done";
    });
    if (given.dialect === "postgres") await expect(work).rejects.toThrow("was rolled back");
    else expect(await work).toBe("done");
  });

  it("awaits functions of the user where it can", async () => {
    const db = database(given.db);
    const effect = (work: () => unknown): Promise<unknown> =>
      db.transaction(function* (tx) {
        return yield* tx.effect(work);
      });
    expect(await effect(() => 1)).toBe(1);
    const later = effect(() => Promise.resolve(2));
    if (given.dialect === "postgres") expect(await later).toBe(2);
    else await expect(later).rejects.toThrow("must be synchronous");
    await expect(effect(() => Promise.reject(new Error("late")))).rejects.toThrow(
      given.dialect === "postgres" ? "late" : "must be synchronous",
    );
  });
});

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}

describe("a transaction on SQLite", () => {
  function twoConnections(timeout: number): { other: Sqlite.Database; own: Sqlite.Database } {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-pack-test-"));
    const [other, own] = [new Sqlite(join(folder, "app.db")), new Sqlite(join(folder, "app.db"), { timeout })];
    other.exec("PRAGMA journal_mode = WAL; CREATE TABLE orders (id)");
    onTestFinished(() => {
      for (const db of [other, own]) db.close();
      rmSync(folder, { recursive: true, force: true });
    });
    return { other, own };
  }
  function* order(tx: Transaction): Steps<void> {
    yield* tx.query("INSERT INTO orders VALUES (1)");
  }

  it("lets other code run while it waits for the lock", async () => {
    const { other, own } = twoConnections(10_000);
    other.exec("BEGIN IMMEDIATE");
    const waiting = database(own).transaction(order);
    await nextTurn();
    expect(own.pragma("busy_timeout", { simple: true })).toBe(10_000);
    other.exec("COMMIT");
    await waiting;
    expect(other.prepare("SELECT id FROM orders").all()).toEqual([{ id: 1 }]);
  });

  it("waits as long as its connection would", async () => {
    const { other, own } = twoConnections(20);
    other.exec("BEGIN IMMEDIATE");
    await expect(database(own).transaction(order)).rejects.toMatchObject({ code: "SQLITE_BUSY" });
    other.exec("COMMIT");
    await database(own).transaction(order);
    expect(own.pragma("busy_timeout", { simple: true })).toBe(20);
  });
});

describe("database()", () => {
  it("names what is not a database", () => {
    expect(() => database({} as never)).toThrow("neither a better-sqlite3 database nor a pool of pg");
    expect(() => database(null as never)).toThrow("db: null is neither");
  });
});
