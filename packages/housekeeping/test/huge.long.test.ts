import { holdfast } from "holdfast";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import { describeDatabases, type PackDatabase } from "../../holdfast/test/pack/scene.js";
import { housekeeping } from "../dist/index.js";

const ROWS = 1_000_000;
const MEGABYTE = 1_048_576;

describeDatabases((open) => {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  it("C-14 deletes 1,000,000 rows in chunks of 500, in bounded memory", { timeout: 180_000 }, async () => {
    const [time, past, future, series] =
      given.dialect === "sqlite"
        ? [
            "INTEGER",
            "n",
            "9999999999999",
            "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < ?)",
          ]
        : [
            "timestamptz",
            "now() - n * interval '1 s'",
            "'infinity'",
            "WITH s(n) AS (SELECT generate_series(1, ?::int))",
          ];
    await given.query(`CREATE TABLE sessions (id integer PRIMARY KEY, expires_at ${time})`);
    await given.query(`CREATE INDEX sessions_expires_at ON sessions (expires_at)`);
    await given.query(`${series} INSERT INTO sessions SELECT n, ${past} FROM s`, ROWS);
    await given.query(`INSERT INTO sessions VALUES (0, ${future})`);
    const pack = housekeeping({ db: given.db, presets: { sessions: true } });
    const hf = await holdfast({ store: "sqlite::memory:", jobs: pack.jobs, logger: false });
    onTestFinished(() => hf.close());

    let deleted = 0;
    let largest = 0;
    const before = process.memoryUsage().rss;
    let peak = before;
    hf.on("progress", ({ data }) => {
      const { sessions } = data as { sessions: number };
      largest = Math.max(largest, sessions - deleted);
      deleted = sessions;
      peak = Math.max(peak, process.memoryUsage().rss);
    });
    const { id } = await hf.enqueueNamed("stale_session_cleanup");
    await hf.drain();
    expect((await hf.get(id))?.output).toEqual({ deleted: { sessions: ROWS } });
    expect(await given.query("SELECT id FROM sessions")).toEqual([{ id: 0 }]);
    expect(largest).toBe(500);
    expect((peak - before) / MEGABYTE).toBeLessThan(150);
  });
});
