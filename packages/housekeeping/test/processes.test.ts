import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type Sqlite from "better-sqlite3";
import { holdfast, type Holdfast } from "holdfast";
import type pg from "pg";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import { describeDatabases, type PackDatabase } from "../../holdfast/test/pack/scene.js";
import { housekeeping } from "../dist/index.js";

const FIXTURE = join(import.meta.dirname, "fixtures/backend.mjs");
const ROWS = 20_000;

describeDatabases((open) => {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  const address = (): string =>
    given.dialect === "sqlite" ? (given.db as Sqlite.Database).name : (given.db as pg.Pool).options.connectionString!;

  /** Starts a process that waits for its input before it does anything. */
  async function start(mode: "install" | "work"): Promise<{ child: ChildProcess; lines: AsyncIterator<string> }> {
    const child = spawn(process.execPath, [FIXTURE], {
      env: { ...process.env, DIALECT: given.dialect, ADDRESS: address(), MODE: mode },
      stdio: ["pipe", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
    expect(await lines.next()).toEqual({ done: false, value: "ready" });
    return { child, lines };
  }

  async function client(): Promise<Holdfast> {
    const pack = housekeeping({ db: given.db, presets: { sessions: true } });
    const hf = await holdfast({ store: given.store(), jobs: pack.jobs, logger: false });
    onTestFinished(() => hf.close());
    return hf;
  }

  const count = async (): Promise<number> =>
    Number((await given.query("SELECT count(*) AS n FROM sessions"))[0]?.["n"]);

  it(
    "C-14 a worker that is killed in the middle leaves whole chunks, and the next attempt continues",
    { timeout: 60_000 },
    async () => {
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
      const hf = await client();
      const { id } = await hf.enqueueNamed("stale_session_cleanup");

      const { child, lines } = await start("work");
      child.stdin!.write("go\n");
      expect(await lines.next()).toMatchObject({ value: "deleted 500" });
      await lines.next();
      child.kill("SIGKILL");
      await once(child, "exit");
      const left = await count();
      expect(left).toBeGreaterThan(1);
      expect((left - 1) % 500).toBe(0);

      hf.work({ poll: "100ms" });
      const { deleted } = (await hf.result(id, { timeout: "20s" })) as { deleted: { sessions: number } };
      // PostgreSQL may have committed one more chunk of the process that was killed.
      expect([left - 1, left - 501]).toContain(deleted.sessions);
      const ends = (await hf.get(id))?.attempts.map(({ end }) => end);
      expect(ends?.at(0)).toBe("expired");
      expect(ends?.at(-1)).toBe("completed");
      expect(await given.query("SELECT id FROM sessions")).toEqual([{ id: 0 }]);
    },
  );

  it(
    "C-15 processes that start at once create each schedule once, and keep what an operator changed",
    { timeout: 60_000 },
    async () => {
      const hf = await client();
      const install = async (): Promise<void> => {
        const children = await Promise.all([start("install"), start("install"), start("install")]);
        for (const { child } of children) child.stdin!.write("go\n");
        for (const { child } of children) {
          if (child.exitCode === null) await once(child, "exit");
          expect(child.exitCode).toBe(0);
        }
      };
      await install();
      expect((await hf.schedules.list()).schedules.map(({ name, changed }) => [name, changed])).toEqual([
        ["expired_auth_cleanup_daily", []],
        ["expired_oauth_cleanup_daily", []],
        ["session_cleanup_hourly", []],
        ["webhook_delivery_prune_daily", []],
      ]);
      await hf.schedules.disable("expired_auth_cleanup_daily");
      await hf.schedules.update("session_cleanup_hourly", { cron: "*/5 * * * *", timezone: "Europe/Berlin" });
      await install();
      expect(await hf.schedules.get("expired_auth_cleanup_daily")).toMatchObject({ enabled: false, nextRunAt: null });
      expect(await hf.schedules.get("session_cleanup_hourly")).toMatchObject({
        cron: "*/5 * * * *",
        timezone: "Europe/Berlin",
        enabled: true,
      });
    },
  );
});
