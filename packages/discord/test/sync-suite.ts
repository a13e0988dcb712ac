import { holdfast, job, type Holdfast, type Job } from "holdfast";
import { database, type Steps } from "holdfast/pack";
import { postgres } from "holdfast/postgres";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import type { PackDatabase } from "../../holdfast/test/pack/scene.js";
import { discord, type DiscordOptions, type DiscordPack, type SyncOutput } from "../dist/index.js";
import { discordServer, GUILD, json, refuse, TOKEN, type DiscordServer } from "./server.js";

const [SUPPORTER, PATRON, OTHER] = ["101", "102", "999"];
const ADA = "5001";

/** Runs on SQLite with `npm test`, and on PostgreSQL with `npm run test:all`. */
export function syncTests(open: () => Promise<PackDatabase>): void {
  let given: PackDatabase;
  let server: DiscordServer;
  /** What Ada has. */
  let has: string[];
  beforeEach(async () => {
    given = await open();
    server = await discordServer();
    server.members.set(ADA, new Set([OTHER]));
    has = ["supporter"];
  });

  async function start(options: Partial<DiscordOptions> = {}): Promise<{ pack: DiscordPack; hf: Holdfast }> {
    const pack = discord({
      token: TOKEN,
      guild: GUILD,
      roles: { supporter: SUPPORTER, patron: PATRON },
      entitlements: () => has,
      members: (user) => (user === "ada" ? ADA : null),
      api: server.api,
      ...options,
    });
    const hf = await holdfast({ store: given.store(), jobs: pack.jobs, logger: false });
    onTestFinished(() => hf.close());
    await pack.install(hf);
    return { pack, hf };
  }

  type SyncJob = Job<unknown, SyncOutput>;

  /** Syncs a user once. Returns the job after its attempt. */
  async function sync(options: Partial<DiscordOptions> = {}, user = "ada"): Promise<SyncJob> {
    const { pack, hf } = await start(options);
    const { id } = await pack.sync(hf, user, { entitlementIds: ["supporter"] });
    await hf.runNext();
    return (await hf.get(id)) as SyncJob;
  }

  const rolesOf = (member: string): string[] => [...(server.members.get(member) ?? [])].toSorted();
  const calls = (): string[] =>
    server.requests.map(({ method, path }) => `${method} ${path.replace(/^.*members\//, "")}`);

  it("E-07 gives and takes the roles of entitlements, and no others", async () => {
    server.members.set(ADA, new Set([PATRON, OTHER]));
    const synced = await sync();
    expect(synced).toMatchObject({
      type: "discord.sync",
      state: "completed",
      maxAttempts: 10,
      input: { userId: "ada", entitlementIds: ["supporter"] },
      output: { added: [SUPPORTER], removed: [PATRON], unchanged: [] },
    });
    expect(rolesOf(ADA)).toEqual([SUPPORTER, OTHER]);
    expect(calls()).toEqual(
      [ADA, `${ADA}/roles/${SUPPORTER}`, `${ADA}/roles/${PATRON}`].map(
        (path, at) => `${["GET", "PUT", "DELETE"][at]} ${path}`,
      ),
    );
    const { headers } = server.requests[1]!;
    expect(decodeURIComponent(String(headers["x-audit-log-reason"]))).toBe(`entitlement sync ${synced.id}`);
    expect(headers["user-agent"]).toMatch(/^DiscordBot \(.+, \d+\.\d+\.\d+\)$/);
  });

  it("E-07 a repeated sync changes nothing", async () => {
    await sync();
    expect((await sync()).output).toEqual({ added: [], removed: [], unchanged: [SUPPORTER] });
    expect(calls()).toEqual([`GET ${ADA}`, `PUT ${ADA}/roles/${SUPPORTER}`, `GET ${ADA}`]);
  });

  it("E-07 a rate limit is retried when Discord says so, without waiting", async () => {
    server.before = ({ method }, response) => (method === "PUT" ? refuse(response, 1_000.25) : undefined);
    const limited = await sync();
    expect(limited.state).toBe("failed");
    expect(limited.error?.message).toMatch(/limits PUT role 101 \(supporter\) for 1001 s/);
    const [attempt] = limited.attempts;
    const delay = limited.runAt.getTime() - attempt!.endedAt.getTime();
    expect(delay).toBeGreaterThanOrEqual(1_000_000);
    expect(delay).toBeLessThan(1_002_000);
  });

  it("E-07 a limit without a body has its time in a header", async () => {
    server.before = (_request, response) => {
      response.writeHead(429, { "content-type": "text/html", "retry-after": "600" }).end("<html>error 1015</html>");
      return "handled";
    };
    const limited = await sync();
    const delay = limited.runAt.getTime() - limited.attempts[0]!.endedAt.getTime();
    expect(delay).toBeGreaterThanOrEqual(600_000);
    expect(delay).toBeLessThan(602_000);
  });

  it("E-07 a global limit keeps other jobs of the process from calling", async () => {
    server.before = (_request, response) => refuse(response, 100, { global: true });
    const { pack, hf } = await start({ members: (user) => (user === "ada" ? ADA : "5002") });
    for (const user of ["ada", "bob", "eve"]) await pack.sync(hf, user);
    await hf.drain({ concurrency: 1 });
    expect(server.requests).toHaveLength(1);
    const { jobs } = await hf.list({ order: "oldest" });
    expect(jobs.map(({ state }) => state)).toEqual(["failed", "failed", "failed"]);
    const times = jobs.map(({ runAt }) => runAt.getTime());
    // One behind the other.
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(new Set(times).size).toBe(3);
  });

  it("E-07 many syncs at once keep to a limit, and none dies", async () => {
    const users = Array.from({ length: 25 }, (_, at) => String(6_000 + at));
    for (const user of users) server.members.set(user, new Set());
    let [left, opens] = [5, Date.now() + 250];
    server.before = ({ method }, response) => {
      if (method === "GET") return undefined;
      if (Date.now() >= opens) [left, opens] = [5, Date.now() + 250];
      const wait = (opens - Date.now()) / 1_000;
      const headers = { "x-ratelimit-limit": "5", "x-ratelimit-reset-after": String(wait) };
      return left-- > 0 ? undefined : refuse(response, wait, { headers });
    };
    const { pack, hf } = await start({ members: (user) => user });
    for (const user of users) await pack.sync(hf, user);
    const done = new Promise<void>((resolve) => {
      let completed = 0;
      hf.on("completed", () => void (++completed === users.length && resolve()));
      hf.on("dead", ({ id }) => resolve(Promise.reject(new Error(`job ${id} is dead`))));
    });
    hf.work({ concurrency: 4, poll: 20 });
    await done;
    expect(users.filter((user) => !server.members.get(user)?.has(SUPPORTER))).toEqual([]);
  });

  it("E-07 users who are no members are skipped", async () => {
    server.members.delete(ADA);
    expect(await sync()).toMatchObject({ state: "completed", output: { skipped: true, reason: "not a member" } });
    server.before = (_request, response) => (json(response, 404, { message: "Unknown User", code: 10_013 }), "handled");
    expect((await sync()).output).toEqual({ skipped: true, reason: "not a member" });
    server.requests.length = 0;
    expect((await sync({}, "bob")).output).toEqual({ skipped: true, reason: "not linked" });
    expect(server.requests).toEqual([]);
  });

  it("E-07 a member who leaves in between is skipped", async () => {
    server.before = ({ method }) => void (method === "PUT" && server.members.delete(ADA));
    expect((await sync()).output).toEqual({ skipped: true, reason: "not a member" });
  });

  it("E-07 missing permissions name the role, and other roles are changed", async () => {
    has = ["supporter", "patron"];
    const codes = {
      [SUPPORTER]: [403, 50_013, "Missing Permissions"],
      [PATRON]: [404, 10_011, "Unknown Role"],
    } as const;
    for (const [role, [status, code, message]] of Object.entries(codes)) {
      server.members.set(ADA, new Set());
      server.before = ({ path }, response) => {
        if (!path.endsWith(`/roles/${role}`)) return undefined;
        json(response, status, { message, code });
        return "handled";
      };
      const refused = await sync();
      expect(refused).toMatchObject({ state: "dead", attempt: 1 });
      const entitlement = role === SUPPORTER ? "supporter" : "patron";
      expect(refused.error?.message).toMatch(`Discord refused PUT role ${role} (${entitlement}): ${message} (${code})`);
      expect(rolesOf(ADA)).toEqual([role === SUPPORTER ? PATRON : SUPPORTER]);
    }
  });

  it("E-07 calls that cannot succeed make the job dead at once", async () => {
    expect(await sync({ token: "another" })).toMatchObject({
      state: "dead",
      attempt: 1,
      error: { message: "Discord refused GET member: 401: Unauthorized (status 401)" },
    });
    expect(await sync({ guild: "1" })).toMatchObject({
      state: "dead",
      error: { message: expect.stringMatching("10004") as string },
    });
  });

  it("E-07 other failures are retried, whatever Discord's side sends", async () => {
    const responses: [message: RegExp, respond: DiscordServer["before"]][] = [
      [/status 502/, (_request, response) => (response.writeHead(502).end("<html>Bad gateway</html>"), "handled")],
      [/status 429/, (_request, response) => (response.writeHead(429).end(), "handled")],
      [/is not a member/, (_request, response) => (response.writeHead(200).end("<html>Welcome</html>"), "handled")],
      [/is not a member/, (_request, response) => (json(response, 200, { roles: "all" }), "handled")],
      [
        /larger than 262144 bytes/,
        (_request, response) => (response.writeHead(200).end("x".repeat(5_000_000)), "handled"),
      ],
      [
        /status 302/,
        (_request, response) => (response.writeHead(302, { location: "http://127.0.0.1:1/" }).end(), "handled"),
      ],
      [/GET member failed/, (_request, response) => (response.destroy(), "handled")],
    ];
    for (const [message, respond] of responses) {
      server.before = respond;
      const failed = await sync();
      expect(failed.error?.message).toMatch(message);
      expect(failed.state).toBe("failed");
    }
    server.before = () => {};
    expect((await sync()).state).toBe("completed");
  });

  it("several changes before a sync are one job, with what the user has then", async () => {
    const { pack, hf } = await start();
    const first = await pack.sync(hf, "ada", { entitlementIds: ["supporter"] });
    has = ["patron"];
    const second = await pack.sync(hf, "ada", { entitlementIds: ["patron"] });
    expect(second).toMatchObject({ id: first.id, duplicate: true });
    expect(await hf.drain()).toBe(1);
    expect(rolesOf(ADA)).toEqual([PATRON, OTHER]);
    expect((await pack.sync(hf, "ada")).id).not.toBe(first.id);
  });

  it("a change while a sync runs is seen by it, or has its own job", async () => {
    server.before = ({ method }) => void (method === "PUT" && (has = ["patron"]));
    const synced = await sync();
    expect(synced.output).toEqual({ added: [PATRON], removed: [SUPPORTER], unchanged: [] });
    expect(rolesOf(ADA)).toEqual([PATRON, OTHER]);
    const { pack, hf } = await start();
    let running = 0;
    const enqueued: unknown[] = [];
    server.before = ({ method }) => void (method === "GET" && running++ === 0 && enqueued.push(pack.sync(hf, "ada")));
    await pack.sync(hf, "ada");
    const ran = await hf.drain();
    // The drain may end before the second job is stored.
    await Promise.all(enqueued);
    expect(ran + (await hf.drain())).toBe(2);
    expect(enqueued).toHaveLength(1);
  });

  it("two syncs of a user at once end with the latest entitlements", async () => {
    const { pack, hf } = await start();
    // The first sync has read the entitlements, and is held before its first change.
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      server.before = ({ method, path }, response) => {
        if (method !== "PUT" || !path.endsWith(SUPPORTER)) return undefined;
        server.before = () => {};
        release = () => {
          server.members.get(ADA)?.add(SUPPORTER);
          response.writeHead(204).end();
        };
        resolve();
        return "handled";
      };
    });
    await pack.sync(hf, "ada");
    const first = hf.runNext();
    await held;
    has = ["patron"];
    await pack.sync(hf, "ada");
    await hf.runNext();
    expect(rolesOf(ADA)).toEqual([PATRON, OTHER]);
    // The change that was held arrives last, with an old role.
    release();
    await first;
    expect(rolesOf(ADA)).toEqual([PATRON, OTHER]);
  });

  it("E-07 an account that is no longer linked loses the roles", async () => {
    server.members.set(ADA, new Set([SUPPORTER, PATRON, OTHER]));
    const { pack, hf } = await start({ members: () => "5002", users: () => null });
    const { id } = await pack.syncAccount(hf, ADA);
    expect((await pack.syncAccount(hf, ADA)).id).toBe(id);
    await hf.drain();
    expect(await hf.get(id)).toMatchObject({
      type: "discord.sync_account",
      maxAttempts: 10,
      input: { account: ADA },
      output: { added: [], removed: [SUPPORTER, PATRON], unchanged: [] },
    });
    expect(rolesOf(ADA)).toEqual([OTHER]);
  });

  it("E-07 an account that another user has linked since has the roles of that user", async () => {
    server.members.set(ADA, new Set([SUPPORTER]));
    const users = (account: string): string | null => (account === ADA ? "bob" : null);
    const { pack, hf } = await start({ users, entitlements: (user) => (user === "bob" ? ["patron"] : ["supporter"]) });
    await pack.syncAccount(hf, ADA);
    await hf.drain();
    expect(rolesOf(ADA)).toEqual([PATRON]);
  });

  it("E-07 an account that is unlinked during a sync does not keep the role", async () => {
    let account = ADA;
    server.members.set("5002", new Set());
    // Unlinked after the sync has read the account: that job finds nothing to take away.
    server.before = ({ method }) => void (method === "PUT" && (account = "5002"));
    const synced = await sync({ members: () => account, users: () => null });
    expect(rolesOf(ADA)).toEqual([OTHER]);
    expect(synced.output).toEqual({ added: [], removed: [SUPPORTER], unchanged: [] });
    await sync({ members: () => account, users: () => null });
    expect(rolesOf("5002")).toEqual([SUPPORTER]);
  });

  it("E-07 a sync whose completion is lost runs again, and changes only what is left", async () => {
    has = ["supporter", "patron"];
    const clock = fakeClock();
    const { pack } = await start();
    const open = async (at: FakeClock): Promise<Holdfast> => {
      const store = given.dialect === "postgres" ? postgres({ pool: given.db as never, clock: at }) : given.store();
      const hf = await holdfast({ store, jobs: pack.jobs, clock: at, logger: false });
      onTestFinished(() => hf.close());
      return hf;
    };
    // For the second client, the lease of the first one has expired.
    const [first, second] = [await open(clock), await open(fakeClock(clock.now() + 600_000))];
    let release = (): void => {};
    const held = new Promise<void>((resolve) => {
      server.before = ({ method, path }, response) => {
        if (method !== "PUT" || !path.endsWith(PATRON)) return undefined;
        server.before = () => {};
        release = () => void response.writeHead(204).end();
        resolve();
        return "handled";
      };
    });
    const { id } = await pack.sync(first, "ada");
    const running = first.runNext();
    await held;
    expect(rolesOf(ADA)).toEqual([SUPPORTER, OTHER]);
    expect(await second.runNext()).toBe(true);
    release();
    await running;
    expect(await second.get(id)).toMatchObject({
      state: "completed",
      output: { added: [PATRON], removed: [], unchanged: [SUPPORTER] },
    });
    expect(rolesOf(ADA)).toEqual([SUPPORTER, PATRON, OTHER]);
    expect(calls()).toEqual(
      [`GET ${ADA}`, ...[SUPPORTER, PATRON].map((role) => `PUT ${ADA}/roles/${role}`)].concat([
        `GET ${ADA}`,
        `PUT ${ADA}/roles/${PATRON}`,
      ]),
    );
  });

  it("entitlements that never settle fail the attempt", async () => {
    let at = 0;
    const failed = await sync({ entitlements: () => (++at % 2 === 0 ? ["supporter"] : ["patron"]) });
    expect(failed).toMatchObject({
      state: "failed",
      error: { message: expect.stringMatching("kept changing") as string },
    });
    expect(at).toBe(4);
  });

  it("is enqueued in the transaction of the change, or not at all", async () => {
    const { pack, hf } = await start();
    const db = database(given.db);
    const change = (fail: boolean): Promise<void> =>
      db.transaction(function* (tx): Steps<void> {
        yield* tx.call(() => pack.sync(hf, "ada", { entitlementIds: ["supporter"], tx: tx.handle }));
        if (fail) throw new Error("no");
      });
    await expect(change(true)).rejects.toThrow("no");
    expect((await hf.list()).jobs).toEqual([]);
    await change(false);
    expect((await hf.list()).jobs).toHaveLength(1);
  });

  it("refuses wrong options, and then enqueues nothing", async () => {
    const { pack, hf } = await start();
    const refused = { code: "INVALID_OPTION" };
    // @ts-expect-error options are an object
    expect(() => pack.sync(hf, "ada", ["supporter"])).toThrow(expect.objectContaining(refused));
    // @ts-expect-error a misspelled transaction would be no transaction
    expect(() => pack.sync(hf, "ada", { transaction: 1 })).toThrow(expect.objectContaining(refused));
    expect(() => pack.syncAccount(hf, ADA)).toThrow("users is missing");
    const withUsers = (await start({ users: () => null })).pack;
    expect(() => withUsers.syncAccount(hf, "../users")).toThrow("account must be an id of Discord");
    // @ts-expect-error a misspelled transaction would be no transaction
    expect(() => withUsers.syncAccount(hf, ADA, { transaction: 1 })).toThrow(expect.objectContaining(refused));
    expect((await hf.list()).jobs).toEqual([]);
    await pack.sync(hf, "ada");
    expect((await hf.list()).jobs).toMatchObject([{ input: { userId: "ada", entitlementIds: [] } }]);
  });

  it("a waiting sync does not run before a change in a transaction commits", async () => {
    const { pack, hf } = await start();
    await pack.sync(hf, "ada");
    if (given.dialect === "sqlite") return; // Transactions on SQLite are synchronous: nothing can run in between.
    await database(given.db).transaction(function* (tx): Steps<void> {
      yield* tx.call(() => pack.sync(hf, "ada", { tx: tx.handle }));
      expect(yield* tx.call(() => hf.runNext())).toBe(false);
    });
    expect(await hf.runNext()).toBe(true);
  });

  it("a handler enqueues it as its own job's child", async () => {
    const { pack } = await start();
    const grant = job({ type: "grant", run: async ({ hf: own }) => void (await pack.sync(own, "ada")) });
    const hf = await holdfast({ store: given.store(), jobs: [grant, ...pack.jobs], logger: false });
    onTestFinished(() => hf.close());
    const { id } = await hf.enqueue(grant);
    await hf.drain();
    expect((await hf.list({ parent: id })).jobs).toMatchObject([{ type: "discord.sync", state: "completed" }]);
  });

  it("ports that return something else make the job dead", async () => {
    expect(await sync({ members: () => "../../users" })).toMatchObject({ state: "dead" });
    const users = (): string => 5 as never;
    const { pack, hf } = await start({ users });
    await pack.syncAccount(hf, ADA);
    await hf.drain();
    expect((await hf.list({ type: "discord.sync_account" })).jobs).toMatchObject([{ state: "dead" }]);
    expect(await sync({ entitlements: () => "supporter" as never })).toMatchObject({ state: "dead" });
    expect(await sync({ entitlements: () => ["constructor", "__proto__"] })).toMatchObject({ state: "completed" });
  });
}
