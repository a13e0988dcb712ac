import Sqlite from "better-sqlite3";
import { holdfast } from "holdfast";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { housekeeping, type Deletion } from "../dist/index.js";

describe("on SQLite", () => {
  let db: Sqlite.Database;
  beforeEach(() => {
    db = new Sqlite(":memory:");
    onTestFinished(() => void db.close());
  });

  async function run(deletion: Omit<Deletion, "table">): Promise<unknown> {
    const pack = housekeeping({ db, rules: [{ type: "rule", table: "rows", ...deletion }] });
    const hf = await holdfast({ store: "sqlite::memory:", jobs: pack.jobs, logger: false });
    onTestFinished(() => hf.close());
    const { id } = await hf.enqueueNamed("rule");
    await hf.drain();
    const job = await hf.get(id);
    return job?.state === "completed" ? job.output : [job?.state, job?.error?.message];
  }
  const left = (): unknown[] => db.prepare("SELECT id FROM rows ORDER BY id").pluck().all();
  const where = [{ column: "expires_at" }];

  it("reads generated columns", async () => {
    db.exec(
      `CREATE TABLE rows (id INTEGER, made INTEGER, expires_at INTEGER GENERATED ALWAYS AS (made + 1000) VIRTUAL)`,
    );
    db.prepare("INSERT INTO rows (id, made) VALUES (1, ?), (2, ?)").run(Date.now() - 2_000, Date.now() + 60_000);
    expect(await run({ where })).toEqual({ deleted: { rows: 1 } });
    expect(left()).toEqual([2]);
  });

  it.each(["2026-01-01 08:00:00", "2026-01-01T08:00:00.000Z", "2026-01-01T10:00+02:00"])("reads %s", async (old) => {
    db.exec("CREATE TABLE rows (id TEXT PRIMARY KEY, expires_at TEXT) WITHOUT ROWID");
    db.prepare("INSERT INTO rows VALUES ('old', ?), ('new', '9999-12-31 23:59:59'), ('no date', 'soon')").run(old);
    expect(await run({ where, times: "text" })).toEqual({ deleted: { rows: 1 } });
    expect(left()).toEqual(["new", "no date"]);
  });

  it.each([
    ["TEXT", "milliseconds", "'2020-01-01 08:00:00'", /"expires_at" of "rows" holds text; set times: "text"/],
    ["DATETIME", "seconds", "'2020-01-01 08:00:00'", /holds text; set times: "text"/],
    ["INTEGER", "text", "1577836800000", /holds numbers; set times: "milliseconds" or "seconds"/],
  ] as const)("C-14 a column of type %s is refused as %s if it holds %s", async (type, times, old, message) => {
    db.exec(`CREATE TABLE rows (id INTEGER PRIMARY KEY, expires_at ${type})`);
    db.exec(`INSERT INTO rows VALUES (1, ${old}), (2, NULL)`);
    expect(await run({ where, times })).toEqual(["dead", expect.stringMatching(message)]);
    expect(left()).toEqual([1, 2]);
  });

  it("reads Julian days", async () => {
    db.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, expires_at REAL)");
    db.exec("INSERT INTO rows VALUES (1, julianday('2020-01-01')), (2, julianday('9999-01-01'))");
    expect(await run({ where, times: "text" })).toEqual({ deleted: { rows: 1 } });
  });

  it("deletes rows of a table whose columns hide the row id", async () => {
    db.exec(
      `CREATE TABLE rows (id INTEGER, rowid TEXT, _rowid_ TEXT, oid TEXT, expires_at INTEGER, PRIMARY KEY (id, oid))`,
    );
    db.exec("INSERT INTO rows VALUES (1, 'x', 'x', 'a', 0), (1, 'x', 'x', 'b', 9999999999999)");
    expect(await run({ where })).toEqual({ deleted: { rows: 1 } });
  });

  it("leaves half of the time to other writers", async () => {
    db.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, expires_at INTEGER)");
    db.exec(`WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 3000)
      INSERT INTO rows SELECT n, n FROM s`);
    const chunks: { began: number; ended: number }[] = [];
    const measured = new Proxy(db, {
      get(target, key) {
        if (key !== "transaction") return Reflect.get(target, key, target) as unknown;
        return (work: () => unknown) => ({
          immediate() {
            const began = performance.now();
            const result = target.transaction(work).immediate();
            // As on a slow disk.
            while (performance.now() - began < 10);
            chunks.push({ began, ended: performance.now() });
            return result;
          },
        });
      },
    });
    const pack = housekeeping({ db: measured, rules: [{ type: "rule", table: "rows", where }] });
    const hf = await holdfast({ store: "sqlite::memory:", jobs: pack.jobs, logger: false });
    onTestFinished(() => hf.close());
    await hf.enqueueNamed("rule");
    await hf.drain();
    expect(left()).toEqual([]);
    expect(chunks).toHaveLength(7);
    const busy = chunks.slice(0, -1).reduce((sum, { began, ended }) => sum + ended - began, 0);
    const pauses = chunks.slice(1).reduce((sum, { began }, at) => sum + began - chunks[at]!.ended, 0);
    // Timers may end a fraction of a millisecond early.
    expect(pauses).toBeGreaterThan(busy * 0.9);
  });

  it("a view, and a row that others refer to, are errors that name them", async () => {
    db.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, expires_at INTEGER)");
    db.exec("CREATE TABLE notes (row_id INTEGER REFERENCES rows (id))");
    db.exec("INSERT INTO rows VALUES (1, 0); INSERT INTO notes VALUES (1)");
    db.exec("CREATE VIEW seen AS SELECT * FROM rows");
    const pack = housekeeping({
      db,
      rules: [
        { type: "rows", table: "rows", where },
        { type: "seen", table: "seen", where },
      ],
    });
    const hf = await holdfast({ store: "sqlite::memory:", jobs: pack.jobs, logger: false });
    onTestFinished(() => hf.close());
    const first = await hf.enqueueNamed("rows");
    const second = await hf.enqueueNamed("seen");
    await hf.drain();
    expect(await hf.get(first.id)).toMatchObject({ state: "failed", error: { message: /FOREIGN KEY/ } });
    expect(await hf.get(second.id)).toMatchObject({ state: "dead", error: { message: /"seen" is not a table/ } });
  });
});
