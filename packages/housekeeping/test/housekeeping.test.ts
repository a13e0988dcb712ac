import { holdfast, type Holdfast } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { describeDatabases, type PackDatabase } from "../../holdfast/test/pack/scene.js";
import { housekeeping, type Housekeeping, type HousekeepingOptions } from "../dist/index.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const PRESETS = { sessions: true, webhookDeliveries: true, oauth: true, auth: true } as const;

describeDatabases((open) => {
  let given: PackDatabase;
  beforeEach(async () => (given = await open()));

  /** The present of the database. */
  async function now(): Promise<number> {
    if (given.dialect === "sqlite") return Date.now();
    const [{ now: found } = {}] = await given.query("SELECT now() AS now");
    return (found as Date).getTime();
  }

  /** A time for a column. */
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

  it("C-14 deletes expired sessions, and only those", async () => {
    await createTables();
    const { hf } = await start({ presets: PRESETS });
    const present = await now();
    const ages = { expired: -1, long: -90 * DAY, valid: HOUR, later: DAY };
    for (const [id, age] of Object.entries(ages)) {
      await given.query("INSERT INTO sessions VALUES (?, ?)", id, at(present + age));
    }
    expect(await run(hf, "stale_session_cleanup")).toEqual({ deleted: { sessions: 2 } });
    expect(await ids("sessions")).toEqual(["later", "valid"]);
  });

  it("C-14 deletes webhook deliveries older than 168 hours, or as its input says", async () => {
    await createTables();
    const { hf } = await start({ presets: PRESETS });
    const present = await now();
    for (const hours of [1, 23, 25, 167, 169, 1_000]) {
      await given.query("INSERT INTO webhook_deliveries VALUES (?, ?)", `h${hours}`, at(present - hours * HOUR));
    }
    expect(await run(hf, "webhook_delivery_prune")).toEqual({ deleted: { webhook_deliveries: 2 } });
    expect(await ids("webhook_deliveries")).toEqual(["h1", "h167", "h23", "h25"]);
    expect(await run(hf, "webhook_delivery_prune", { retention_hours: 24 })).toEqual({
      deleted: { webhook_deliveries: 2 },
    });
    expect(await ids("webhook_deliveries")).toEqual(["h1", "h23"]);
    await expect(hf.enqueueNamed("webhook_delivery_prune", { retention_hours: 0 })).rejects.toThrow("retention_hours");
  });

  it("C-14 deletes OAuth tokens and codes by their four rules", async () => {
    await createTables();
    const { hf } = await start({ presets: PRESETS });
    const present = await now();
    const tokens = {
      expired: [-2 * DAY, null],
      revoked: [DAY, -2 * DAY],
      justExpired: [-HOUR, null],
      justRevoked: [DAY, -HOUR],
      valid: [DAY, null],
    } as const;
    for (const [id, [expires, revoked]] of Object.entries(tokens)) {
      const revokedAt = revoked === null ? null : at(present + revoked);
      await given.query("INSERT INTO oauth_tokens VALUES (?, ?, ?)", id, at(present + expires), revokedAt);
    }
    const codes = { expired: [-1, null], used: [DAY, -2 * DAY], justUsed: [DAY, -HOUR], valid: [DAY, null] } as const;
    for (const [id, [expires, used]] of Object.entries(codes)) {
      const usedAt = used === null ? null : at(present + used);
      await given.query("INSERT INTO oauth_authorization_codes VALUES (?, ?, ?)", id, at(present + expires), usedAt);
    }
    expect(await run(hf, "expired_oauth_cleanup")).toEqual({
      deleted: { oauth_tokens: 2, oauth_authorization_codes: 2 },
    });
    expect(await ids("oauth_tokens")).toEqual(["justExpired", "justRevoked", "valid"]);
    expect(await ids("oauth_authorization_codes")).toEqual(["justUsed", "valid"]);
  });

  it("C-14 deletes expired magic links and password resets", async () => {
    await createTables("_ayb_");
    const { hf } = await start({ presets: { auth: true }, tablePrefix: "_ayb_" });
    const present = await now();
    for (const table of ["_ayb_magic_links", "_ayb_password_resets"]) {
      await given.query(`INSERT INTO ${table} VALUES ('old', ?), ('new', ?)`, at(present - 1_000), at(present + HOUR));
    }
    expect(await run(hf, "expired_auth_cleanup")).toEqual({
      deleted: { _ayb_magic_links: 1, _ayb_password_resets: 1 },
    });
    expect([await ids("_ayb_magic_links"), await ids("_ayb_password_resets")]).toEqual([["new"], ["new"]]);
  });

  it("C-14 deletes 2,345 rows in chunks, and stops when its signal aborts", async () => {
    await createTables();
    const { hf } = await start({ presets: PRESETS });
    const rows =
      given.dialect === "sqlite"
        ? "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2345) SELECT"
        : "SELECT";
    const from = given.dialect === "sqlite" ? "n" : "generate_series(1, 2345) AS n(i)";
    const time = given.dialect === "sqlite" ? "i" : "'2020-01-01'::timestamptz";
    await given.query(`INSERT INTO sessions ${rows} 's' || i, ${time} FROM ${from}`);
    const { id } = await hf.enqueueNamed("stale_session_cleanup");
    const notes: unknown[] = [];
    hf.on("progress", ({ data }) => notes.push(data));
    await hf.drain();
    expect((await hf.get(id))?.output).toEqual({ deleted: { sessions: 2_345 } });
    expect(notes.slice(0, 2)).toEqual([{ sessions: 500 }, { sessions: 1_000 }]);
  });

  it("leaves rows at the limit, and those without a time", async () => {
    const clock = fakeClock();
    const time = given.dialect === "sqlite" ? "INTEGER" : "bigint";
    await given.query(`CREATE TABLE carts (id text PRIMARY KEY, touched_at ${time})`);
    const where = [{ column: "touched_at", olderThan: "30d" }];
    const { hf } = await start({
      clock,
      rules: [{ type: "cart_cleanup", table: "carts", where, times: "milliseconds" }],
    });
    // The clock of PostgreSQL cannot be stopped: there the limit is a minute away.
    const [present, margin] = given.dialect === "sqlite" ? [clock.now(), 0] : [await now(), 60_000];
    const limit = Math.round(present) - 30 * DAY;
    await given.query("INSERT INTO carts VALUES ('at', ?), ('before', ?), ('none', NULL)", limit + margin, limit - 1);
    expect(await run(hf, "cart_cleanup")).toEqual({ deleted: { carts: 1 } });
    expect(await ids("carts")).toEqual(["at", "none"]);
  });

  it("quotes names, and takes conditions as data", async () => {
    const time = given.dialect === "sqlite" ? "INTEGER" : "timestamptz";
    await given.query(`CREATE TABLE "my ""carts""; DROP TABLE x" (id text, "touched at" ${time}, note text)`);
    const table = 'my "carts"; DROP TABLE x';
    const { hf } = await start({
      rules: [
        {
          type: "cart_cleanup",
          table,
          where: [{ column: "touched at", olderThan: "1h", and: { column: "note", notNull: true } }],
        },
      ],
    });
    const old = at((await now()) - 2 * HOUR);
    await given.query(`INSERT INTO "my ""carts""; DROP TABLE x" VALUES ('a', ?, 'x'), ('b', ?, NULL)`, old, old);
    expect(await run(hf, "cart_cleanup")).toEqual({ deleted: { [table]: 1 } });
  });

  it("names a missing table or column, without a retry", async () => {
    const { hf } = await start({ presets: { sessions: true } });
    const { id } = await hf.enqueueNamed("stale_session_cleanup");
    await hf.drain();
    expect(await hf.get(id)).toMatchObject({ state: "dead", attempts: [{ attempt: 1 }] });
    expect(await run(hf, "stale_session_cleanup")).toMatch(/the table .*"sessions" does not exist/);
    await given.query("CREATE TABLE sessions (id text, valid_until text)");
    expect(await run(hf, "stale_session_cleanup")).toMatch(/the column "expires_at" of .*"sessions" does not exist/);
  });

  it("C-15 creates the default schedules once, in UTC", async () => {
    const { hf, pack } = await start({ presets: PRESETS });
    await Promise.all([pack.install(hf), pack.install(hf)]);
    const schedules = (await hf.schedules.list()).schedules.map(({ name, type, cron, timezone, enabled }) => [
      name,
      type,
      cron,
      timezone,
      enabled,
    ]);
    expect(schedules).toEqual([
      ["expired_auth_cleanup_daily", "expired_auth_cleanup", "0 5 * * *", "UTC", true],
      ["expired_oauth_cleanup_daily", "expired_oauth_cleanup", "0 4 * * *", "UTC", true],
      ["session_cleanup_hourly", "stale_session_cleanup", "0 * * * *", "UTC", true],
      ["webhook_delivery_prune_daily", "webhook_delivery_prune", "0 3 * * *", "UTC", true],
    ]);
  });

  it("C-15 never overwrites what an operator changed", async () => {
    const { hf, pack } = await start({ presets: PRESETS });
    await pack.install(hf);
    await hf.schedules.update("session_cleanup_hourly", { cron: "30 * * * *" });
    await hf.schedules.disable("webhook_delivery_prune_daily");
    await pack.install(hf);
    await pack.install(await client(pack));
    expect(await hf.schedules.get("session_cleanup_hourly")).toMatchObject({ cron: "30 * * * *", enabled: true });
    expect(await hf.schedules.get("webhook_delivery_prune_daily")).toMatchObject({ enabled: false });
  });

  it("C-16 the legacy pruner deletes only while the queue is disabled", async () => {
    await createTables();
    const clock = fakeClock();
    const pack = housekeeping({ db: given.db, presets: PRESETS, clock });
    const present = given.dialect === "sqlite" ? clock.now() : await now();
    const insert = (id: string): Promise<unknown> =>
      given.query("INSERT INTO webhook_deliveries VALUES (?, ?)", id, at(present - 200 * HOUR));
    await insert("a");
    let queueEnabled = false;
    const pruner = pack.legacyPruner({ queueEnabled: async () => queueEnabled, every: "1h" });
    pruner.start();
    pruner.start();
    await clock.advance(0);
    expect(await ids("webhook_deliveries")).toEqual([]);
    queueEnabled = true;
    await insert("b");
    await clock.advance("3h");
    expect(await ids("webhook_deliveries")).toEqual(["b"]);
    queueEnabled = false;
    await clock.advance("1h");
    expect(await ids("webhook_deliveries")).toEqual([]);
    await pruner.stop();
    await insert("c");
    await clock.advance("5h");
    expect(await ids("webhook_deliveries")).toEqual(["c"]);
  });

  it("an error of the legacy pruner reaches its callback, and the next run follows", async () => {
    const clock = fakeClock();
    const pack = housekeeping({ db: given.db, presets: PRESETS, clock });
    const errors: unknown[] = [];
    const pruner = pack.legacyPruner({
      queueEnabled: false,
      onError(error) {
        errors.push(error);
        throw new Error("a callback that throws");
      },
    });
    pruner.start();
    await clock.advance("2h");
    await pruner.stop();
    expect(errors).toHaveLength(3);
  });
});

describe("housekeeping()", () => {
  const db = { prepare() {}, transaction() {}, exec() {}, inTransaction: false } as never;
  const wrong: [options: object, message: RegExp][] = [
    [{}, /needs at least one preset or rule/],
    [{ presets: { session: true } }, /presets.*session.*sessions/s],
    [{ presets: { sessions: { expires: "x" } } }, /expires/],
    [{ rules: [{ type: "a", table: "t", where: [] }] }, /rules.0.where must be a list of 1 to 20/],
    [{ rules: [{ type: "a", table: "", where: [{ column: "c" }] }] }, /rules.0.table/],
    [{ rules: [{ type: "a", table: "__proto__", where: [{ column: "c" }] }] }, /rules.0.table must not be __proto__/],
    [{ rules: [{ type: "a", table: "a\0b", where: [{ column: "c" }] }] }, /rules.0.table must not contain a NUL/],
    [{ rules: [{ type: "a", table: "ü".repeat(32), where: [{ column: "c" }] }] }, /longer than 63 bytes/],
    [{ rules: [{ type: "a", table: "t", where: [{ column: "c", sql: "1=1" }] }] }, /sql/],
    [{ rules: [{ type: "a", table: "t", where: [{ column: "c", olderThan: "soon" }] }] }, /olderThan.*not a duration/],
    [{ rules: [{ type: "a", table: "t", where: [{ column: "c" }], times: "native" }] }, /times.*on SQLite/],
    [{ rules: [{ type: "a", table: "t", where: [{ column: "c" }], times: "utc" }] }, /times.*on SQLite/],
    [{ presets: { webhookDeliveries: { retentionHours: 0 } } }, /retentionHours must be a whole number/],
  ];
  it.each(wrong)("refuses %j", (options, message) => {
    expect(() => housekeeping({ db, ...options })).toThrow(message);
  });

  const wrongPruners: [options: object, message: RegExp][] = [
    [{}, /queueEnabled must be true, false/],
    [{ enabled: false }, /enabled/],
    [{ queueEnabled: false, every: "10ms" }, /every must be a duration from one second to 24 days/],
    [{ queueEnabled: false, every: "30d" }, /every must be a duration from one second to 24 days/],
  ];
  it.each(wrongPruners)("C-16 legacyPruner refuses %j", (options, message) => {
    const pack = housekeeping({ db, presets: { webhookDeliveries: true } });
    expect(() => pack.legacyPruner(options as never)).toThrow(message);
  });
});
