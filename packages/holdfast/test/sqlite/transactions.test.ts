import type { Database } from "better-sqlite3";
import { job, type EnqueueResult, type EnqueueManyResult, type EnqueueOptions, type Holdfast } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { until } from "#src/testing/exercise-store/until.js";
import { connect, open, tempFile, tempFolder } from "./scene.js";

const mail = job({ type: "mail", input: z.object({ to: z.string() }), run: ({ input }) => input.to });
const asynchronous = job({
  type: "asynchronous",
  input: z.object({ to: z.string().refine(async () => true) }),
  run() {},
});

interface Scene {
  file: string;
  hf: Holdfast;
  db: Database;
  /** Enqueues in the open transaction of `db`. */
  enqueue: (to: string, options?: EnqueueOptions) => Promise<EnqueueResult>;
}

/** A store, and the application's connection to the same file, with a table of the application. */
async function scene(): Promise<Scene> {
  const file = tempFile();
  const hf = await open(file, { jobs: [mail] });
  const db = connect(file);
  db.exec("CREATE TABLE orders (customer TEXT NOT NULL)");
  return { file, hf, db, enqueue: (to, options) => hf.enqueue(mail, { to }, { tx: db, ...options }) };
}

function orders(db: Database): unknown {
  return db.prepare("SELECT count(*) FROM orders").pluck().get();
}

describe("an enqueue inside the caller's own transaction", () => {
  it("runs after the transaction has committed, not before", async () => {
    const { hf, db, enqueue } = await scene();
    db.exec("BEGIN IMMEDIATE");
    db.exec("INSERT INTO orders VALUES ('ada')");
    const { id, duplicate } = await enqueue("ada");
    expect(duplicate).toBe(false);
    expect(await hf.get(id)).toBeNull();
    expect(await hf.drain()).toBe(0);
    db.exec("COMMIT");
    hf.work();
    expect(await hf.result(mail, id, { timeout: "10s" })).toBe("ada");
    expect(orders(db)).toBe(1);
  });

  it("leaves nothing behind when the transaction is rolled back", async () => {
    const { hf, db, enqueue } = await scene();
    db.exec("BEGIN");
    const { id } = await enqueue("a".repeat(2_000), { unique: "k", tags: ["t"], queue: "new", user: "ada" });
    db.exec("ROLLBACK");
    expect(await hf.get(id)).toBeNull();
    expect(await hf.drain()).toBe(0);
    expect(await hf.queues()).toEqual([]);
    expect((await hf.stats()).states.pending).toBe(0);
    const rows = ["jobs", "inputs", "keys", "tags", "counts"].map((table) =>
      db.prepare(`SELECT count(*) FROM holdfast_${table}`).pluck().get(),
    );
    expect(rows).toEqual([0, 0, 0, 0, 0]);
    db.exec("BEGIN");
    expect((await enqueue("ada", { unique: "k" })).duplicate).toBe(false);
    db.exec("COMMIT");
  });

  it("is undone with a savepoint that is rolled back", async () => {
    const { hf, db, enqueue } = await scene();
    let kept: Promise<EnqueueResult> | undefined;
    db.transaction(() => {
      kept = enqueue("kept");
      expect(() =>
        db.transaction(() => {
          void enqueue("lost");
          throw new Error("changed my mind");
        })(),
      ).toThrow("changed my mind");
    })();
    const { jobs } = await hf.list();
    expect(jobs.map(({ id }) => id)).toEqual([(await kept)?.id]);
    expect((await hf.stats()).states.pending).toBe(1);
  });

  it("throws synchronously if the input is invalid", async () => {
    const { hf, db } = await scene();
    const order = db.transaction((to: unknown) => {
      db.exec("INSERT INTO orders VALUES ('ada')");
      void hf.enqueue(mail, { to: to as string }, { tx: db });
    });
    expect(() => order(5)).toThrow(expect.objectContaining({ code: "INVALID_INPUT" }));
    const orderNamed = db.transaction(() => {
      db.exec("INSERT INTO orders VALUES ('ada')");
      void hf.enqueueNamed("mail", { to: 5 }, { tx: db });
    });
    expect(orderNamed).toThrow(expect.objectContaining({ code: "INVALID_INPUT" }));
    expect(orders(db)).toBe(0);
    expect((await hf.list()).jobs).toEqual([]);
  });

  it("throws synchronously if an option is invalid or a key is held", async () => {
    const { hf, db, enqueue } = await scene();
    const { id } = await hf.enqueue(mail, { to: "first" }, { unique: "k" });
    const order = db.transaction((options: EnqueueOptions) => {
      db.exec("INSERT INTO orders VALUES ('ada')");
      void enqueue("ada", options);
    });
    expect(() => order({ priority: 1_000 })).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
    expect(() => order({ unique: { key: "k", onConflict: "reject" } })).toThrow(
      expect.objectContaining({ code: "DUPLICATE_JOB", holder: id }),
    );
    expect(orders(db)).toBe(0);
  });

  it("checks unique keys against stored jobs and its own", async () => {
    const { hf, db, enqueue } = await scene();
    const { id: stored } = await hf.enqueue(mail, { to: "stored" }, { unique: "stored" });
    db.exec("BEGIN");
    expect(await enqueue("again", { unique: "stored" })).toEqual({ id: stored, duplicate: true, replaced: false });
    const { id: first } = await enqueue("first", { unique: "new" });
    expect(await enqueue("second", { unique: "new" })).toEqual({ id: first, duplicate: true, replaced: false });
    const replace = { unique: { key: "new", onConflict: "replace" } } as const;
    expect(await enqueue("third", replace)).toEqual({ id: first, duplicate: true, replaced: true });
    db.exec("COMMIT");
    expect((await hf.get(first))?.input).toEqual({ to: "third" });
    expect((await hf.stats()).states.pending).toBe(2);
  });

  it("checks every key scope on a connection that returns BigInts", async () => {
    const { db, enqueue } = await scene();
    db.defaultSafeIntegers(true);
    for (const scope of ["waiting", "live", "forever", { period: "1h" }] as const) {
      const unique = { key: JSON.stringify(scope), scope };
      db.exec("BEGIN");
      const { id } = await enqueue("first", { unique });
      expect(await enqueue("second", { unique })).toMatchObject({ id, duplicate: true });
      expect(await enqueue("x".repeat(1_000), { unique: { ...unique, onConflict: "replace" } })).toMatchObject({ id });
      db.exec("COMMIT");
    }
  });

  it("wakes an idle worker when it commits", async () => {
    const { hf, db, enqueue } = await scene();
    const completed: string[] = [];
    hf.on("completed", ({ id }) => completed.push(id));
    hf.work({ poll: "1m" });
    db.exec("BEGIN");
    const { id } = await enqueue("ada");
    db.exec("COMMIT");
    await until("the worker to wake", () => completed.includes(id), 10_000);
  });
});

describe("the tx option", () => {
  it.each([
    ["a number", 5],
    ["null", null],
    ["an object that is not a connection", { prepare: "no" }],
    ["a pool with query()", { query() {} }],
  ])("refuses %s and says what to pass", async (_, tx) => {
    const { hf } = await scene();
    expect(() => hf.enqueue(mail, { to: "ada" }, { tx })).toThrow(
      expect.objectContaining({
        code: "INVALID_OPTION",
        field: "tx",
        message: "tx is not a better-sqlite3 connection; pass the Database with the open transaction",
      }),
    );
  });

  it("refuses a connection without a transaction, open or closed", async () => {
    const { hf, db } = await scene();
    const message = "tx is not inside a transaction; call it within db.transaction(() => …)()";
    expect(() => hf.enqueue(mail, { to: "ada" }, { tx: db })).toThrow(message);
    db.close();
    expect(() => hf.enqueue(mail, { to: "ada" }, { tx: db })).toThrow(message);
  });

  it("refuses a connection to another file and names both", async () => {
    const { hf, file } = await scene();
    for (const name of [`${tempFolder()}/other.db`, ":memory:"]) {
      const other = connect(name);
      other.exec("BEGIN");
      expect(() => hf.enqueue(mail, { to: "ada" }, { tx: other })).toThrow(
        `tx is a connection to ${name}, but the store's file is ${file}`,
      );
      other.exec("ROLLBACK");
    }
  });

  it("refuses a job type with an asynchronous schema", async () => {
    const { hf, db } = await scene();
    db.exec("BEGIN");
    expect(() => hf.enqueue(asynchronous, { to: "ada" }, { tx: db })).toThrow(
      "tx: the schema of asynchronous is asynchronous and cannot be used inside a transaction",
    );
    db.exec("ROLLBACK");
  });

  it("is refused by a store in memory", async () => {
    const hf = await open(":memory:", { jobs: [mail] });
    const db = connect(":memory:");
    db.exec("BEGIN");
    expect(() => hf.enqueue(mail, { to: "ada" }, { tx: db })).toThrow(
      "tx is not supported by this store; enqueue without it",
    );
  });

  it("maps errors of the connection to Holdfast errors", async () => {
    const { file, hf } = await scene();
    const readOnly = connect(file, { readonly: true });
    readOnly.exec("BEGIN");
    const refused = (): unknown => hf.enqueue(mail, { to: "ada" }, { tx: readOnly });
    expect(refused).toThrow(expect.objectContaining({ code: "STORE_READ_ONLY" }) as Error);
    // Thrown, not one of the results: the caller's transaction must not commit without its jobs.
    const manyRefused = (): unknown => hf.enqueueMany(mail, [{ to: "ada" }], { tx: readOnly });
    expect(manyRefused).toThrow(expect.objectContaining({ code: "STORE_READ_ONLY" }) as Error);
    readOnly.exec("ROLLBACK");
    expect((await hf.list()).jobs).toEqual([]);
  });

  it("enqueues many jobs with the transaction, each with its own result", async () => {
    const { hf, db } = await scene();
    const inputs = [{ to: "ada" }, { to: 5 as unknown as string }, { to: "grace" }];
    const results: Promise<EnqueueManyResult[]>[] = [];
    db.transaction(() => void results.push(hf.enqueueMany(mail, inputs, { tx: db })))();
    expect((await Promise.all(results)).flat().map(({ error }) => error?.code ?? null)).toEqual([
      null,
      "INVALID_INPUT",
      null,
    ]);
    expect(() =>
      db.transaction(() => {
        void hf.enqueueMany(mail, [{ to: "bob" }], { tx: db });
        throw new Error("changed my mind");
      })(),
    ).toThrow("changed my mind");
    expect((await hf.list()).jobs.map(({ input }) => input)).toEqual([{ to: "grace" }, { to: "ada" }]);
  });
});
