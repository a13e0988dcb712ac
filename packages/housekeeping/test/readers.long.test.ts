import Sqlite from "better-sqlite3";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { describeDatabases } from "../../holdfast/test/pack/scene.js";
import { cleanUpScene, HOUR } from "./scene.js";

const ROWS = 100_000;
const LIVE = 50;

describeDatabases((open) => {
  const scene = cleanUpScene(open);
  const { createTables, insertSessions, start, now, at } = scene;

  it("C-14 readers go on while 100,000 rows are deleted in chunks", { timeout: 120_000 }, async () => {
    await createTables();
    await insertSessions(ROWS);
    await scene.given.query("CREATE INDEX sessions_expires_at ON sessions (expires_at)");
    const later = at((await now()) + HOUR);
    for (let n = 0; n < LIVE; n++) await scene.given.query("INSERT INTO sessions VALUES (?, ?)", `live${n}`, later);
    const { hf } = await start({ presets: { sessions: true } });
    const chunks: number[] = [];
    let deleted = 0;
    hf.on("progress", ({ data }) => {
      const { sessions } = data as { sessions: number };
      chunks.push(sessions - deleted);
      deleted = sessions;
    });
    const { id } = await hf.enqueueNamed("stale_session_cleanup");
    let hasEnded = false;
    const running = hf.drain().then(() => (hasEnded = true));
    /** How many rows were left at each read. */
    const left: number[] = [];
    const read = readerOf();
    while (!hasEnded) {
      const { live, all } = await read();
      expect(live).toBe(LIVE);
      left.push(all);
      await nextTurn();
    }
    await running;
    expect((await hf.get(id))?.output).toEqual({ deleted: { sessions: ROWS } });
    expect(await read()).toEqual({ live: LIVE, all: LIVE });
    expect(Math.max(...chunks)).toBe(500);
    // Reads in between see fewer and fewer rows: none waited for the end.
    expect(left).toEqual(left.toSorted((a, b) => b - a));
    expect(new Set(left).size).toBeGreaterThan(20);
  });

  /** Reads on a connection of its own. */
  function readerOf(): () => Promise<{ live: number; all: number }> {
    const sql = "SELECT count(*) AS n, count(CASE WHEN id LIKE 'live%' THEN 1 END) AS live FROM sessions";
    const { given } = scene;
    const rowOf = (row: Record<string, unknown> | undefined) => ({
      live: Number(row?.["live"]),
      all: Number(row?.["n"]),
    });
    if (given.dialect === "postgres") return async () => rowOf((await given.query(sql))[0]);
    const reader = new Sqlite((given.db as Sqlite.Database).name, { readonly: true });
    onTestFinished(() => void reader.close());
    const statement = reader.prepare<[], Record<string, unknown>>(sql);
    return async () => rowOf(statement.get());
  }
});
