import { postgres, type PostgresOptions } from "holdfast/postgres";
import { describe, expect, it } from "vitest";
import { newId } from "#src/job/uuid.js";
import { add, claimOne, failureOf, finish, key, settleOne } from "#src/testing/exercise-store/builders.js";
import { forgetRolesOf, login, memberOf, newRole, type Login } from "./roles.js";
import { openScene, type Scene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

interface UserScene extends Scene {
  /** A session for users' queries. */
  user: Login;
}

/** A store with a role for users' queries. */
async function userScene(options: Omit<PostgresOptions, "pool"> = {}): Promise<UserScene> {
  const role = await newRole(server, "site");
  const scene = await openScene(server, { access: { userRoles: [role] }, ...options });
  forgetRolesOf(server, scene.schema);
  return { ...scene, user: await login(server, scene, role) };
}

/** For each user a waiting, a completed and a dead job, with large inputs and a log. */
async function fill({ store }: Scene, users: readonly (string | null)[]): Promise<void> {
  for (const user of users) {
    const input = JSON.stringify(`${user} ${"x".repeat(600)}`);
    await add(store, { user, input, tags: ["t"], unique: key(`${user} done`) });
    const done = await claimOne(store);
    await store.note([{ id: done.id, fence: done.fence, progress: null, log: [{ at: 1, line: `of ${user}` }] }]);
    await finish(store, done);
    await add(store, { user, input });
    await settleOne(store, failureOf(await claimOne(store), "broke", { to: "dead" }));
    await add(store, { user, input, delayMs: 3_600_000 });
  }
}

const become = (user: string): string => `SET holdfast.user_id = '${user}'`;
const seen =
  "SELECT user_id AS who, count(*)::int AS n, count(input)::int AS inputs FROM $s.jobs GROUP BY 1 ORDER BY 1";

describe("A-01 row-level security", () => {
  it("A-01 shows users only their own jobs", async () => {
    const scene = await userScene();
    await fill(scene, ["ada", "bob", null]);
    const { sql } = scene.user;
    for (const who of ["ada", "bob"]) {
      await sql(become(who));
      expect(await sql(seen)).toEqual([{ who, n: 3, inputs: 3 }]);
      for (const [table, n] of [
        ["live", 1],
        ["archive", 2],
      ] as const) {
        expect(await sql(`SELECT DISTINCT user_id AS who, count(*) OVER ()::int AS n FROM $s.${table}`)).toEqual([
          { who, n },
        ]);
      }
      expect(await sql("SELECT DISTINCT left(input #>> '{}', 3) AS who FROM $s.inputs")).toEqual([{ who }]);
    }
    expect(await scene.sql(seen)).toHaveLength(3);
  });

  it("A-01 shows nothing without a user or to another user", async () => {
    const scene = await userScene();
    await fill(scene, ["ada", null]);
    const { sql } = scene.user;
    expect(await sql(seen)).toEqual([]);
    for (const who of ["eve", ""]) {
      await sql(become(who));
      expect(await sql(seen)).toEqual([]);
      expect(await sql("SELECT * FROM $s.inputs")).toEqual([]);
    }
  });

  it("A-01 does not pass other users' rows to a leaky function", async () => {
    const scene = await userScene();
    await fill(scene, ["ada", "bob"]);
    const { sql } = scene.user;
    await sql(`CREATE FUNCTION pg_temp.peek(who text, what text) RETURNS boolean COST 0.0000001 LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'saw % of %', what, who; END $$`);
    await sql(become("eve"));
    for (const from of ["jobs", "job_records", "live", "archive"]) {
      expect(await sql(`SELECT 1 FROM $s.${from} WHERE pg_temp.peek(user_id, type)`)).toEqual([]);
    }
    expect(await sql("SELECT 1 FROM $s.inputs WHERE pg_temp.peek(job::text, input::text)")).toEqual([]);
    await sql(become("ada"));
    for (const view of ["jobs", "job_records"]) {
      await expect(sql(`SELECT 1 FROM $s.${view} WHERE pg_temp.peek(user_id, type)`)).rejects.toThrow(
        "saw mail of ada",
      );
    }
  });

  it("lets users change, call and read nothing else", async () => {
    const scene = await userScene();
    await fill(scene, ["ada"]);
    const { sql } = scene.user;
    await sql(become("ada"));
    const before = await scene.sql("SELECT * FROM $s.jobs ORDER BY id");
    const tables = await scene.sql<{ name: string }>(
      "SELECT relname AS name FROM pg_class WHERE relnamespace = '$s'::regnamespace AND relkind IN ('r', 'v')",
    );
    expect(tables.length).toBeGreaterThan(15);
    const readable = ["jobs", "job_records", "live", "archive", "inputs"];
    for (const { name } of tables) {
      const refused = [
        `DELETE FROM $s.${name}`,
        `TRUNCATE $s.${name}`,
        `INSERT INTO $s.${name} DEFAULT VALUES`,
        ...(readable.includes(name) ? [] : [`SELECT 1 FROM $s.${name}`]),
      ];
      // A view with UNION ALL cannot be updated.
      const code = name.startsWith("job") ? expect.stringMatching(/42501|55000|42809/) : "42501";
      for (const text of refused) await expect(sql(text)).rejects.toMatchObject({ code });
    }
    for (const text of [
      "UPDATE $s.live SET state = 'pending'",
      "UPDATE $s.inputs SET input = '{}'",
      "SELECT 1 FROM $s.live FOR UPDATE",
      "SELECT $s.enqueue('a')",
      "SELECT $s.expire_stale_jobs()",
      "SELECT nextval('$s.job_seq')",
      "CREATE TABLE $s.mine (n integer)",
      "ALTER TABLE $s.live DISABLE ROW LEVEL SECURITY",
    ]) {
      await expect(sql(text)).rejects.toMatchObject({ code: "42501" });
    }
    expect(await scene.sql("SELECT * FROM $s.jobs ORDER BY id")).toEqual(before);
  });

  it("shows attempts and log of own jobs after a grant", async () => {
    const scene = await userScene();
    await fill(scene, ["ada", "bob"]);
    await scene.sql(`GRANT SELECT ON $s.log, $s.attempts TO ${scene.user.role}`);
    await scene.user.sql(become("ada"));
    expect(await scene.user.sql("SELECT line FROM $s.log")).toEqual([{ line: "of ada" }]);
    expect(await scene.user.sql("SELECT 1 FROM $s.attempts")).toHaveLength(1);
  });

  it("identifies the user by Supabase's claims", async () => {
    await server.query(`CREATE SCHEMA IF NOT EXISTS auth; GRANT USAGE ON SCHEMA auth TO PUBLIC;
      CREATE OR REPLACE FUNCTION auth.uid() RETURNS uuid LANGUAGE sql STABLE AS
      $$ SELECT nullif(current_setting('request.jwt.claims', true)::json ->> 'sub', '')::uuid $$`);
    const role = await newRole(server, "authenticated");
    const access = { userRoles: [role], identity: "supabase" } as const;
    const scene = await openScene(server, { access, userType: "uuid" });
    forgetRolesOf(server, scene.schema);
    const [ada, bob] = [newId(Date.now()), newId(Date.now())];
    await fill(scene, [ada, bob]);
    const { sql } = await login(server, scene, role);
    await sql(`SELECT set_config('request.jwt.claims', '{"sub": "${ada}", "role": "authenticated"}', false)`);
    expect(await sql(seen)).toEqual([{ who: ada, n: 3, inputs: 3 }]);
    await sql("SELECT set_config('request.jwt.claims', '{}', false)");
    expect(await sql(seen)).toEqual([]);
  });

  it.each([
    ["bigint", "1", "2"],
    ["uuid", newId(1), newId(2)],
  ] as const)("knows users of type %s", async (userType, one, other) => {
    const scene = await userScene({ userType });
    await fill(scene, [one, other]);
    await scene.user.sql(become(one));
    expect(await scene.user.sql(seen)).toEqual([{ who: one, n: 3, inputs: 3 }]);
  });
});

describe("the option access", () => {
  it("is applied when it changes", async () => {
    const first = await newRole(server, "first");
    const second = await newRole(server, "second");
    const scene = await openScene(server, { access: { userRoles: [first] } });
    forgetRolesOf(server, scene.schema);
    await fill(scene, ["ada"]);
    const stamp = async (): Promise<unknown> =>
      (await scene.sql("SELECT xmin, value FROM $s.settings WHERE name = 'access'"))[0];
    const taken = await stamp();
    await scene.store.migrate();
    await scene.sql(scene.store.migrations());
    const silent = postgres(scene.address);
    await silent.migrate();
    expect(await stamp()).toEqual(taken);

    const changed = postgres(scene.address, { access: { userRoles: [second], identity: { setting: "app.who" } } });
    await changed.migrate();
    for (const [role, n] of [
      [first, 0],
      [second, 3],
    ] as const) {
      const { sql } = await login(server, scene, role);
      await sql("SET holdfast.user_id = 'ada'");
      await sql("SET app.who = 'ada'");
      expect(await sql("SELECT 1 FROM $s.jobs")).toHaveLength(n);
    }
    await silent.close();
    await changed.close();
  });

  it("is applied again after migrations were undone", async () => {
    const scene = await userScene();
    await scene.store.undoMigrations({ to: 1, loseData: true });
    await scene.store.migrate();
    await fill(scene, ["ada"]);
    await scene.user.sql(become("ada"));
    expect(await scene.user.sql(seen)).toHaveLength(1);
    await expect(scene.user.sql("SELECT $s.enqueue('a')")).rejects.toMatchObject({ code: "42501" });
    const web = await memberOf(server, scene, "enqueue");
    expect(await web.sql("SELECT $s.enqueue('a')")).toHaveLength(1);
  });

  it("is rejected if it is invalid", async () => {
    const bad: [object, string][] = [
      [{ userRole: ["a"] }, "access.userRole"],
      [{ userRoles: "a" }, "access.userRoles"],
      [{ userRoles: ['a"; DROP TABLE b'] }, "access.userRoles"],
      [{ identity: { setting: "user" } }, "access.identity.setting"],
      [{ roles: { worker: "a" } }, "access.roles.worker"],
      [{ roles: { work: "" } }, "access.roles.work"],
    ];
    for (const [access, field] of bad) {
      expect(() => postgres("postgres://x/y", { access })).toThrow(expect.objectContaining({ field }));
    }
    const scene = await openScene(server);
    const missing = postgres(scene.address, { access: { userRoles: ["missing_role"] } });
    await expect(missing.migrate()).rejects.toMatchObject({
      field: "access.userRoles",
      message: expect.stringMatching(/role "missing_role" does not exist/),
    });
    await missing.close();
  });

  it("works without CREATEROLE if the roles exist", async () => {
    const scene = await userScene();
    const access = { userRoles: [scene.user.role] };
    const worker = await login(server, scene, await newRole(server, "worker"));
    await scene.sql(`GRANT $s_work TO ${worker.role}`);
    const store = postgres(worker.address, { access });
    await store.migrate();
    await store.close();
    const other = postgres(worker.address, { access: { userRoles: [] } });
    await expect(other.migrate()).rejects.toMatchObject({
      code: "STORE_UNREADABLE",
      message: expect.stringMatching(/permission denied/),
    });
    await other.close();
  });
});
