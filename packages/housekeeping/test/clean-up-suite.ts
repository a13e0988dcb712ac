import { holdfast, type Holdfast, type Store } from "holdfast";
import { postgres } from "holdfast/postgres";
import { sqlite } from "holdfast/sqlite";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { expect, it, onTestFinished } from "vitest";
import type { PackDatabase } from "../../holdfast/test/pack/scene.js";
import { housekeeping } from "../dist/index.js";
import { cleanUpScene, DAY, HOUR, PRESETS } from "./scene.js";

/** Runs on SQLite with `npm test`, and on PostgreSQL with `npm run test:all`. */
export function cleanUpTests(open: () => Promise<PackDatabase>): void {
  const scene = cleanUpScene(open);
  const { now, at, createTables, insertSessions, client, start, run, ids } = scene;

  it("C-14 deletes expired sessions, and only those", async () => {
    await createTables();
    const { hf } = await start({ presets: PRESETS });
    const present = await now();
    const ages = { expired: -1, long: -90 * DAY, valid: HOUR, later: DAY };
    for (const [id, age] of Object.entries(ages)) {
      await scene.given.query("INSERT INTO sessions VALUES (?, ?)", id, at(present + age));
    }
    expect(await run(hf, "stale_session_cleanup")).toEqual({ deleted: { sessions: 2 } });
    expect(await ids("sessions")).toEqual(["later", "valid"]);
  });

  it("C-14 deletes webhook deliveries older than 168 hours, or as its input says", async () => {
    await createTables();
    const { hf } = await start({ presets: PRESETS });
    const present = await now();
    for (const hours of [1, 23, 25, 167, 169, 1_000]) {
      await scene.given.query("INSERT INTO webhook_deliveries VALUES (?, ?)", `h${hours}`, at(present - hours * HOUR));
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
      await scene.given.query("INSERT INTO oauth_tokens VALUES (?, ?, ?)", id, at(present + expires), revokedAt);
    }
    const codes = { expired: [-1, null], used: [DAY, -2 * DAY], justUsed: [DAY, -HOUR], valid: [DAY, null] } as const;
    for (const [id, [expires, used]] of Object.entries(codes)) {
      const usedAt = used === null ? null : at(present + used);
      await scene.given.query(
        "INSERT INTO oauth_authorization_codes VALUES (?, ?, ?)",
        id,
        at(present + expires),
        usedAt,
      );
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
      await scene.given.query(
        `INSERT INTO ${table} VALUES ('old', ?), ('new', ?)`,
        at(present - 1_000),
        at(present + HOUR),
      );
    }
    expect(await run(hf, "expired_auth_cleanup")).toEqual({
      deleted: { _ayb_magic_links: 1, _ayb_password_resets: 1 },
    });
    expect([await ids("_ayb_magic_links"), await ids("_ayb_password_resets")]).toEqual([["new"], ["new"]]);
  });

  it("C-14 deletes in chunks", async () => {
    await createTables();
    const { hf } = await start({ presets: PRESETS });
    await insertSessions(2_345);
    const notes: unknown[] = [];
    hf.on("progress", ({ data }) => notes.push(data));
    expect(await run(hf, "stale_session_cleanup")).toEqual({ deleted: { sessions: 2_345 } });
    expect(notes.slice(0, 2)).toEqual([{ sessions: 500 }, { sessions: 1_000 }]);
  });

  it("C-14 stops when its signal aborts, with the oldest rows deleted, and continues later", async () => {
    await createTables();
    const { pack } = await start({ presets: PRESETS });
    await insertSessions(1_600);
    const type = pack.jobs.find((each) => each.type === "stale_session_cleanup")!;
    const stopping = new AbortController();
    let chunks = 0;
    const progress = (): void => {
      if (++chunks === 2) stopping.abort(new Error("stopped"));
    };
    const context = { signal: stopping.signal, progress } as unknown as Parameters<typeof type.run>[0];
    await expect((async () => type.run(context))()).rejects.toThrow("stopped");
    const left = (await ids("sessions")).map((id) => Number(String(id).slice(1)));
    expect([left.length, Math.min(...left)]).toEqual([600, 1_001]);
    expect(await run(await client(pack), "stale_session_cleanup")).toEqual({ deleted: { sessions: 600 } });
  });

  it("C-14 deletes 20,000 rows while others read", { timeout: 90_000 }, async () => {
    await createTables();
    await scene.given.query("CREATE INDEX sessions_expiry ON sessions (expires_at)");
    const { hf } = await start({ presets: PRESETS });
    await insertSessions(20_000);
    await scene.given.query("INSERT INTO sessions VALUES ('valid', ?)", at((await now()) + HOUR));
    let isDone = false;
    const reading = (async () => {
      const seen = new Set<unknown>();
      while (!isDone) {
        expect(await scene.given.query("SELECT id FROM sessions WHERE id = 'valid'")).toHaveLength(1);
        seen.add(
          (await scene.given.query("SELECT min(expires_at) AS oldest FROM sessions"))[0]?.["oldest"]?.toString(),
        );
        await new Promise((resolve) => setImmediate(resolve));
      }
      return seen.size;
    })();
    expect(await run(hf, "stale_session_cleanup")).toEqual({ deleted: { sessions: 20_000 } });
    isDone = true;
    // Readers saw the table between many chunks.
    expect(await reading).toBeGreaterThan(5);
    expect(await ids("sessions")).toEqual(["valid"]);
  });

  it("C-14 rows at their limits stay, in every job", async () => {
    await createTables();
    const clock = fakeClock(Date.now());
    const { hf } = await start({ presets: PRESETS, clock });
    // The clock of PostgreSQL cannot be stopped: there the limits are a minute away.
    const [present, margin] = scene.given.dialect === "sqlite" ? [clock.now(), 0] : [await now(), 60_000];
    const insert = async (table: string, times: readonly (number | null)[]): Promise<void> => {
      const values = (shift: number) => times.map((time) => (time === null ? null : at(present + time + shift)));
      const marks = times.map(() => ", ?").join("");
      await scene.given.query(`INSERT INTO ${table} VALUES ('before'${marks})`, ...values(-1 - margin));
      await scene.given.query(`INSERT INTO ${table} VALUES ('at'${marks})`, ...values(margin));
      await scene.given.query(`INSERT INTO ${table} VALUES ('after'${marks})`, ...values(margin + 1));
    };
    const simple = ["sessions", "magic_links", "password_resets"];
    for (const table of simple) await insert(table, [0]);
    await insert("webhook_deliveries", [-168 * HOUR]);
    await insert("oauth_tokens", [-DAY, null]);
    await insert("oauth_authorization_codes", [0, null]);
    for (const type of [
      "stale_session_cleanup",
      "webhook_delivery_prune",
      "expired_oauth_cleanup",
      "expired_auth_cleanup",
    ])
      await run(hf, type);
    for (const table of [...simple, "webhook_deliveries", "oauth_tokens", "oauth_authorization_codes"])
      expect([table, await ids(table)]).toEqual([table, ["after", "at"]]);

    for (const table of ["oauth_tokens", "oauth_authorization_codes"]) {
      await scene.given.query(`DELETE FROM ${table}`);
      const valid = at(present + 10 * DAY);
      for (const [id, ago] of [
        ["before", -1 - margin],
        ["at", margin],
        ["after", margin + 1],
      ] as const)
        await scene.given.query(`INSERT INTO ${table} VALUES (?, ?, ?)`, id, valid, at(present - DAY + ago));
    }
    await run(hf, "expired_oauth_cleanup");
    expect([await ids("oauth_tokens"), await ids("oauth_authorization_codes")]).toEqual(Array(2).fill(["after", "at"]));
  });

  it("C-14 a job whose completion was lost after its last chunk runs again, and deletes nothing more", async () => {
    await createTables();
    await insertSessions(1_200);
    await scene.given.query("INSERT INTO sessions VALUES ('live', ?)", at((await now()) + HOUR));
    const clock = fakeClock();
    const { given } = scene;
    const store = (own: FakeClock): Store =>
      given.dialect === "postgres"
        ? postgres({ pool: given.db as never, clock: own })
        : sqlite((given.db as { name: string }).name, { clock: own });
    const pack = housekeeping({ db: given.db, presets: { sessions: true } });
    const open = async (opened: Store, own: FakeClock): Promise<Holdfast> => {
      const hf = await holdfast({ store: opened, jobs: pack.jobs, clock: own, logger: false });
      onTestFinished(() => hf.close());
      return hf;
    };
    // Its completion is lost, as if the lease had expired just before.
    const lost: string[] = [];
    const settle: Store["settle"] = async (outcomes) =>
      outcomes.map(({ id }) => {
        lost.push(id);
        return "lost";
      });
    const first = await open({ ...store(clock), settle }, clock);
    const { id } = await first.enqueueNamed("stale_session_cleanup");
    await first.runNext();
    expect([lost, await ids("sessions")]).toEqual([[id], ["live"]]);
    // For the second client, the lease of the first one has expired.
    const later = fakeClock(clock.now() + 600_000);
    const second = await open(store(later), later);
    expect(await second.runNext()).toBe(true);
    expect(await second.get(id)).toMatchObject({ state: "completed", output: { deleted: { sessions: 0 } } });
    expect(await ids("sessions")).toEqual(["live"]);
  });

  it("presets take names of tables and columns", async () => {
    const time = scene.given.dialect === "sqlite" ? "INTEGER" : "timestamptz";
    await scene.given.query(`CREATE TABLE user_sessions (id text PRIMARY KEY, valid_until ${time})`);
    const { hf } = await start({ presets: { sessions: { table: "user_sessions", expiresAt: "valid_until" } } });
    const present = await now();
    await scene.given.query(
      "INSERT INTO user_sessions VALUES ('old', ?), ('new', ?)",
      at(present - HOUR),
      at(present + HOUR),
    );
    expect(await run(hf, "stale_session_cleanup")).toEqual({ deleted: { user_sessions: 1 } });
    expect(await ids("user_sessions")).toEqual(["new"]);
  });

  it("leaves rows at the limit, and those without a time", async () => {
    const clock = fakeClock();
    const time = scene.given.dialect === "sqlite" ? "INTEGER" : "bigint";
    await scene.given.query(`CREATE TABLE carts (id text PRIMARY KEY, touched_at ${time})`);
    const where = [{ column: "touched_at", olderThan: "30d" }];
    const { hf } = await start({
      clock,
      rules: [{ type: "cart_cleanup", table: "carts", where, times: "milliseconds" }],
    });
    // The clock of PostgreSQL cannot be stopped: there the limit is a minute away.
    const [present, margin] = scene.given.dialect === "sqlite" ? [clock.now(), 0] : [await now(), 60_000];
    const limit = Math.round(present) - 30 * DAY;
    await scene.given.query(
      "INSERT INTO carts VALUES ('at', ?), ('before', ?), ('none', NULL)",
      limit + margin,
      limit - 1,
    );
    expect(await run(hf, "cart_cleanup")).toEqual({ deleted: { carts: 1 } });
    expect(await ids("carts")).toEqual(["at", "none"]);
  });

  it("quotes names, and takes conditions as data", async () => {
    const time = scene.given.dialect === "sqlite" ? "INTEGER" : "timestamptz";
    await scene.given.query(`CREATE TABLE "my ""carts""; DROP TABLE x" (id text, "touched at" ${time}, note text)`);
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
    await scene.given.query(`INSERT INTO "my ""carts""; DROP TABLE x" VALUES ('a', ?, 'x'), ('b', ?, NULL)`, old, old);
    expect(await run(hf, "cart_cleanup")).toEqual({ deleted: { [table]: 1 } });
  });

  it("names a missing table or column, without a retry", async () => {
    const { hf } = await start({ presets: { sessions: true } });
    const { id } = await hf.enqueueNamed("stale_session_cleanup");
    await hf.drain();
    expect(await hf.get(id)).toMatchObject({ state: "dead", attempts: [{ attempt: 1 }] });
    expect(await run(hf, "stale_session_cleanup")).toMatch(/the table .*"sessions" does not exist/);
    await scene.given.query("CREATE TABLE sessions (id text, valid_until text)");
    expect(await run(hf, "stale_session_cleanup")).toMatch(/the column "expires_at" of .*"sessions" does not exist/);
  });
}
