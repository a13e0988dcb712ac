import { holdfast, type Holdfast } from "holdfast";
import { beforeEach, onTestFinished } from "vitest";
import type { PackDatabase } from "../../holdfast/test/pack/scene.js";
import { housekeeping, type Housekeeping, type HousekeepingOptions } from "../dist/index.js";

export const HOUR = 3_600_000;
export const DAY: number = 24 * HOUR;
export const PRESETS = { sessions: true, webhookDeliveries: true, oauth: true, auth: true } as const;

export interface Scene {
  readonly given: PackDatabase;
  /** The present of the database. */
  readonly now: () => Promise<number>;
  /** A time for a column. */
  readonly at: (ms: number) => unknown;
  readonly createTables: (prefix?: string) => Promise<void>;
  /** Expired sessions s1, s2, …, of which the first is the oldest. */
  readonly insertSessions: (count: number) => Promise<void>;
  readonly client: (pack: Housekeeping) => Promise<Holdfast>;
  readonly start: (options: Omit<HousekeepingOptions, "db">) => Promise<{ hf: Holdfast; pack: Housekeeping }>;
  /** The output of a job, or its error. */
  readonly run: (hf: Holdfast, type: string, input?: unknown) => Promise<unknown>;
  readonly ids: (table: string) => Promise<unknown[]>;
}

/** A database for each test, and what tests do with it. */
export function cleanUpScene(open: () => Promise<PackDatabase>): Scene {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  async function now(): Promise<number> {
    if (given.dialect === "sqlite") return Date.now();
    const [{ now: found } = {}] = await given.query("SELECT now() AS now");
    return (found as Date).getTime();
  }

  const at = (ms: number): unknown => (given.dialect === "sqlite" ? Math.round(ms) : new Date(ms));

  async function createTables(prefix = ""): Promise<void> {
    const time = given.dialect === "sqlite" ? "INTEGER" : "timestamptz";
    for (const table of ["sessions", "magic_links", "password_resets"]) {
      await given.query(`CREATE TABLE ${prefix}${table} (id text PRIMARY KEY, expires_at ${time} NOT NULL)`);
    }
    await given.query(`CREATE TABLE ${prefix}webhook_deliveries (id text PRIMARY KEY, created_at ${time} NOT NULL)`);
    await given.query(
      `CREATE TABLE ${prefix}oauth_tokens (id text PRIMARY KEY, expires_at ${time} NOT NULL, revoked_at ${time})`,
    );
    await given.query(
      `CREATE TABLE ${prefix}oauth_authorization_codes (id text PRIMARY KEY, expires_at ${time} NOT NULL, used_at ${time})`,
    );
  }

  async function client(pack: Housekeeping): Promise<Holdfast> {
    const hf = await holdfast({ store: given.store(), jobs: pack.jobs, logger: false });
    onTestFinished(() => hf.close());
    return hf;
  }

  const start = async (options: Omit<HousekeepingOptions, "db">): Promise<{ hf: Holdfast; pack: Housekeeping }> => {
    const pack = housekeeping({ db: given.db, ...options });
    return { pack, hf: await client(pack) };
  };

  async function run(hf: Holdfast, type: string, input?: unknown): Promise<unknown> {
    const { id } = await hf.enqueueNamed(type, input);
    await hf.drain();
    const job = await hf.get(id);
    return job?.state === "completed" ? job.output : (job?.error?.message ?? job?.state);
  }

  const ids = async (table: string): Promise<unknown[]> =>
    (await given.query(`SELECT id FROM ${table} ORDER BY id`)).map((row) => row["id"]);

  async function insertSessions(count: number): Promise<void> {
    const [rows, time] =
      given.dialect === "sqlite"
        ? [`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`, "i"]
        : [
            `WITH n(i) AS (SELECT * FROM generate_series(1, ${count}))`,
            "'2020-01-01'::timestamptz + i * interval '1 s'",
          ];
    await given.query(`INSERT INTO sessions ${rows} SELECT 's' || i, ${time} FROM n`);
  }

  return {
    get given() {
      return given;
    },
    now,
    at,
    createTables,
    insertSessions,
    client,
    start,
    run,
    ids,
  };
}
