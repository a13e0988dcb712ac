import { postgres, type PostgresStore } from "holdfast/postgres";
import { describe, expect, it, onTestFinished } from "vitest";
import { add, claim } from "#src/testing/exercise-store/builders.js";
import { forgetRolesOf, login, memberOf, newRole, type Login } from "./roles.js";
import { openScene, ownSchema } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

/** Two logins that may create schemas, a schema name, and a store of the first login. */
async function twoMakers(): Promise<{ app: Login; mallory: Login; store: PostgresStore; schema: string }> {
  const schema = ownSchema(server);
  const [app, mallory] = [await newRole(server, "app"), await newRole(server, "mallory")];
  await server.query(`GRANT CREATE ON DATABASE ${new URL(server.url()).pathname.slice(1)} TO ${app}, ${mallory}`);
  const scene = { schema } as Parameters<typeof login>[1];
  const logins = { app: await login(server, scene, app), mallory: await login(server, scene, mallory) };
  const store = postgres(logins.app.address);
  onTestFinished(() => store.close());
  return { ...logins, store, schema };
}

const untrusted = { code: "SCHEMA_UNTRUSTED", message: expect.stringContaining("mallory") as string };
const TRAP = `CREATE TABLE $s.seen (who text); GRANT ALL ON $s.seen TO PUBLIC;
  CREATE TABLE $s.migrations (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
  GRANT ALL ON $s.migrations TO PUBLIC;
  CREATE FUNCTION $s.trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO $s.seen VALUES (current_user); RETURN NEW; END $$;
  CREATE TRIGGER trap BEFORE INSERT ON $s.migrations FOR EACH ROW EXECUTE FUNCTION $s.trap()`;

describe("a schema that another role created", () => {
  it("is not migrated, and its code does not run", async () => {
    const { mallory, store } = await twoMakers();
    await mallory.sql(`CREATE SCHEMA $s; GRANT ALL ON SCHEMA $s TO PUBLIC; ${TRAP}`);
    await expect(store.migrate()).rejects.toMatchObject(untrusted);
    expect(await mallory.sql("SELECT who FROM $s.seen")).toEqual([]);
    const rights = (await store.doctor()).filter(({ check, level }) => check === "rights" && level === "problem");
    expect(rights).toMatchObject([{ found: expect.stringContaining("mallory") as string }]);
  });

  it("is not migrated by a superuser either", async () => {
    const { mallory, schema } = await twoMakers();
    await mallory.sql("CREATE SCHEMA $s");
    const store = postgres(server.url(), { schema });
    onTestFinished(() => store.close());
    await expect(store.migrate()).rejects.toMatchObject(untrusted);
  });

  it("is not migrated if only a table is theirs", async () => {
    const { app, mallory, store } = await twoMakers();
    await app.sql("CREATE SCHEMA $s; GRANT ALL ON SCHEMA $s TO PUBLIC");
    await mallory.sql("CREATE TABLE $s.others (n integer)");
    await store.migrate();
    await store.undoMigrations({ to: 0, loseData: true });
    await app.sql("DROP TABLE $s.migrations");
    await mallory.sql(TRAP);
    await expect(store.migrate()).rejects.toMatchObject(untrusted);
  });

  it("is migrated by a member of that role", async () => {
    const { app, mallory, store } = await twoMakers();
    await mallory.sql(`CREATE SCHEMA $s; GRANT ALL ON SCHEMA $s TO ${app.role}`);
    await server.query(`GRANT ${mallory.role} TO ${app.role}`);
    await store.migrate();
    expect((await store.doctor()).filter(({ check, level }) => check === "rights" && level === "problem")).toEqual([]);
  });
});

describe("a role that does not migrate", () => {
  it("works in a schema of another role", async () => {
    const { app, store, schema } = await twoMakers();
    await server.query(`ALTER ROLE ${app.role} CREATEROLE`);
    const owner = postgres(app.address, { access: {} });
    onTestFinished(() => owner.close());
    forgetRolesOf(server, schema);
    await owner.migrate();
    const scene = { ...(await openScene(server)), schema };
    const worker = await memberOf(server, scene, "work");
    const work = postgres(worker.address, { access: {} });
    onTestFinished(() => work.close());
    await work.migrate();
    await add(work);
    expect(await claim(work)).toHaveLength(1);
    const rights = (await work.doctor()).filter(({ check, level }) => check === "rights" && level === "problem");
    expect(rights).toEqual([]);
    await store.migrate();
  });
});
