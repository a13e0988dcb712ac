import type { Clock } from "holdfast/pack";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { describeDatabases } from "../../holdfast/test/pack/scene.js";
import { housekeeping } from "../dist/index.js";
import { cleanUpScene, HOUR, PRESETS } from "./scene.js";

describeDatabases((open) => {
  const scene = cleanUpScene(open);
  const { now, at, createTables, client, start, ids } = scene;

  it("C-15 creates the default schedules once, in UTC", async () => {
    const { hf, pack } = await start({ presets: PRESETS });
    const other = await client(pack);
    await Promise.all([pack.install(hf), pack.install(other), pack.install(hf)]);
    const { schedules: created } = await hf.schedules.list();
    expect(created.map(({ maxAttempts }) => maxAttempts)).toEqual([3, 3, 3, 3]);
    const schedules = created.map(({ name, type, cron, timezone, enabled }) => [name, type, cron, timezone, enabled]);
    expect(schedules).toEqual([
      ["expired_auth_cleanup_daily", "expired_auth_cleanup", "0 5 * * *", "UTC", true],
      ["expired_oauth_cleanup_daily", "expired_oauth_cleanup", "0 4 * * *", "UTC", true],
      ["session_cleanup_hourly", "stale_session_cleanup", "0 * * * *", "UTC", true],
      ["webhook_delivery_prune_daily", "webhook_delivery_prune", "0 3 * * *", "UTC", true],
    ]);
  });

  it("prefixes types and schedules, for several packs on one store", async () => {
    const rule = { type: "cart_cleanup", table: "carts", where: [{ column: "at" }], schedule: "0 2 * * *" };
    const { hf, pack } = await start({ presets: { sessions: true }, rules: [rule], prefix: "shop." });
    expect(pack.jobs.map(({ type }) => type)).toEqual(["shop.stale_session_cleanup", "shop.cart_cleanup"]);
    await pack.install(hf);
    expect((await hf.schedules.list()).schedules.map(({ name, type }) => [name, type])).toEqual([
      ["shop.cart_cleanup", "shop.cart_cleanup"],
      ["shop.session_cleanup_hourly", "shop.stale_session_cleanup"],
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
    // One that was deleted comes back: the guide says to disable it instead.
    await hf.schedules.remove("expired_auth_cleanup_daily");
    await pack.install(hf);
    expect(await hf.schedules.get("expired_auth_cleanup_daily")).toMatchObject({ cron: "0 5 * * *", enabled: true });
  });

  it("C-16 the legacy pruner deletes only while the queue is disabled", async () => {
    await createTables();
    const clock = fakeClock();
    const pack = housekeeping({ db: scene.given.db, presets: PRESETS, clock });
    const present = scene.given.dialect === "sqlite" ? clock.now() : await now();
    const insert = (id: string): Promise<unknown> =>
      scene.given.query("INSERT INTO webhook_deliveries VALUES (?, ?)", id, at(present - 200 * HOUR));
    await insert("a");
    let queueEnabled = false;
    const pruner = pack.legacyPruner({ queueEnabled: async () => queueEnabled, every: "1h" });
    pruner.start();
    pruner.start();
    await clock.advance("59s");
    expect(await ids("webhook_deliveries")).toEqual(["a"]);
    await clock.advance("1s");
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

  it("C-16 a queue that is neither enabled nor disabled is an error, and nothing is deleted", async () => {
    await createTables();
    const clock = fakeClock();
    const pack = housekeeping({ db: scene.given.db, presets: PRESETS, clock });
    await scene.given.query("INSERT INTO webhook_deliveries VALUES ('a', ?)", at(0));
    const errors: unknown[] = [];
    const pruner = pack.legacyPruner({
      queueEnabled: () => undefined as never,
      onError: (error) => errors.push(error),
    });
    pruner.start();
    await clock.advance("1m");
    await pruner.stop();
    expect(errors).toMatchObject([{ code: "INVALID_OPTION", field: "queueEnabled" }]);
    expect(await ids("webhook_deliveries")).toEqual(["a"]);
  });

  it("C-16 the legacy pruner starts no timer while the queue is enabled for good", async () => {
    const clock = fakeClock();
    const timers: number[] = [];
    const counting = { ...boundClock(clock), after: (ms: number) => (timers.push(ms), { cancel() {} }) };
    const pack = housekeeping({ db: scene.given.db, presets: PRESETS, clock: counting });
    const pruner = pack.legacyPruner({ queueEnabled: true });
    pruner.start();
    await pruner.stop();
    expect(timers).toEqual([]);
    pack.legacyPruner({ queueEnabled: false }).start();
    expect(timers).toEqual([60_000]);
  });

  it("C-16 a setting that does not respond is an error, and does not hold up a stop", async () => {
    const clock = fakeClock();
    const pack = housekeeping({ db: scene.given.db, presets: PRESETS, clock });
    const errors: unknown[] = [];
    let asked = 0;
    const queueEnabled = (): Promise<boolean> => (asked++, new Promise(() => {}));
    const pruner = pack.legacyPruner({ queueEnabled, onError: (error) => errors.push(error) });
    pruner.start();
    await clock.advance("1m");
    expect([asked, errors]).toEqual([1, []]);
    await clock.advance("30s");
    expect(errors.map(String)).toEqual(["Error: queueEnabled did not respond within 30 s"]);
    await clock.advance("1h");
    expect(asked).toBe(2);
    await pruner.stop();
    expect(errors).toHaveLength(1);
  });

  it.each(["throws", "rejects"])("an error of the legacy pruner reaches a callback that %s", async (how) => {
    const uncaught: unknown[] = [];
    const listen = (error: unknown): void => void uncaught.push(error);
    process.on("unhandledRejection", listen);
    onTestFinished(() => void process.off("unhandledRejection", listen));
    const clock = fakeClock();
    const pack = housekeeping({ db: scene.given.db, presets: PRESETS, clock });
    const errors: unknown[] = [];
    const pruner = pack.legacyPruner({
      queueEnabled: false,
      onError(error) {
        errors.push(error);
        const failure = new Error("a callback that fails");
        if (how === "throws") throw failure;
        return Promise.reject(failure) as never;
      },
    });
    pruner.start();
    await clock.advance("2h");
    await pruner.stop();
    await new Promise((resolve) => setImmediate(resolve));
    expect(errors).toHaveLength(2);
    expect(uncaught).toEqual([]);
  });
});

function boundClock(clock: FakeClock): Clock {
  return { now: () => clock.now(), monotonic: () => clock.monotonic(), after: (...given) => clock.after(...given) };
}

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
    // Without these, the first rule would delete every row of the past.
    [{ rules: [{ type: "a", table: "t", where: [{ column: "c", olderThan: undefined }] }] }, /olderThan is undefined/],
    [{ rules: [{ type: "a", table: "t", where: [{ column: "c", olderThan: null }] }] }, /where.0.olderThan is null/],
    [{ rules: [{ type: "a", table: "t", where: [{ column: "c", and: undefined }] }] }, /where.0.and is undefined/],
    [
      { rules: [{ type: "a", table: "t", where: [{ column: "c", and: { column: "d", notNull: true, not: 1 } }] }] },
      /and.not/,
    ],
    [{ presets: { sessions: { table: undefined } } }, /presets.sessions.table is undefined/],
    [{ presets: { oauth: { tokens: { expiresAt: null } } } }, /presets.oauth.tokens.expiresAt is null/],
    [{ presets: { auth: { magicLinks: { table: undefined } } } }, /presets.auth.magicLinks.table is undefined/],
    [{ rules: [{ table: "t", where: [{ column: "c" }] }] }, /rules.0.type must be a non-empty string/],
    [{ rules: [null] }, /rules.0: null is not an options object/],
    [{ rules: {} }, /rules: an object is not a list/],
    [{ presets: { sessions: true }, prefix: null }, /prefix must be a non-empty string/],
    [{ presets: { sessions: true }, tablePrefix: null }, /tablePrefix must be a string/],
  ];
  it.each(wrong)("refuses %j", (options, message) => {
    expect(() => housekeeping({ db, ...options })).toThrow(message);
  });

  const wrongPruners: [options: object, message: RegExp][] = [
    [{}, /queueEnabled must be true, false/],
    [{ enabled: false }, /enabled/],
    [{ queueEnabled: false, every: "10ms" }, /every must be a duration from one second to 24 days/],
    [{ queueEnabled: false, onError: true }, /onError must be a function/],
    [{ queueEnabled: false, every: "30d" }, /every must be a duration from one second to 24 days/],
  ];
  it.each(wrongPruners)("C-16 legacyPruner refuses %j", (options, message) => {
    const pack = housekeeping({ db, presets: { webhookDeliveries: true } });
    expect(() => pack.legacyPruner(options as never)).toThrow(message);
  });
});
