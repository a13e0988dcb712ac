import { randomBytes } from "node:crypto";
import { holdfast, job } from "holdfast";
import { postgres } from "holdfast/postgres";
import pg from "pg";
import { afterAll, beforeAll } from "vitest";
import { NOT_OURS, postgresServer } from "../../packages/holdfast/test/postgres/server.js";

/** Databases on one PostgreSQL for all documents, each made for one block. */
export interface Databases {
  /** Nothing is in it. Gives its address. */
  empty(): Promise<string>;
  /** With Holdfast's tables, a few jobs in them, a table of users, and the roles of the guides. */
  withJobs(use: (client: pg.Client) => Promise<unknown>): Promise<void>;
}

/** The role of the guides that users' queries run as. */
const USER_ROLE = "shop_user";
/** Roles belong to the whole server, and not to a database that goes. These are all that blocks make. */
const ROLES = [USER_ROLE, "holdfast_enqueue", "holdfast_work", "holdfast_admin", "shop_web", "shop_worker"];

export function databases(): Databases {
  // The guides create roles by fixed names, and roles belong to the whole server.
  const server = postgresServer({ own: true });
  const own = `docs_${randomBytes(4).toString("hex")}`;
  const template = `${own}_0`;
  let made = 0;

  const rolesThere = async (): Promise<string[]> =>
    (await server.query("SELECT rolname FROM pg_roles WHERE rolname = ANY ($1)", [ROLES])).rows.map(
      ({ rolname }: { rolname: string }) => rolname,
    );
  let before: string[] = [];

  beforeAll(async () => {
    before = await rolesThere();
    if (!before.includes(USER_ROLE)) await server.query(`CREATE ROLE ${USER_ROLE} NOLOGIN`);
    await server.query(`CREATE DATABASE ${template}`);
    await fill(addressOf(template));
  }, 60_000);
  afterAll(async () => {
    // Ours goes as a whole. To drop a database takes longer than most blocks.
    if (NOT_OURS === null) return;
    for (let at = 0; at <= made; at++) await server.query(`DROP DATABASE IF EXISTS ${own}_${at} WITH (FORCE)`);
    for (const role of await rolesThere()) if (!before.includes(role)) await server.query(`DROP ROLE ${role}`);
  }, 120_000);

  function addressOf(database: string): string {
    return Object.assign(new URL(server.url()), { pathname: `/${database}` }).href;
  }

  async function create(clauses = ""): Promise<string> {
    const name = `${own}_${++made}`;
    await server.query(`CREATE DATABASE ${name} ${clauses}`);
    return addressOf(name);
  }
  return {
    empty: () => create(),
    async withJobs(use) {
      const client = new pg.Client({ connectionString: await create(`TEMPLATE ${template}`) });
      await client.connect();
      try {
        await use(client);
      } finally {
        await client.end();
      }
    },
  };
}

/** Brings a database to where the guides' programs leave it. */
async function fill(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("CREATE TABLE users (id uuid PRIMARY KEY, email text)");
  await client.end();
  const store = postgres(url, {
    userType: "uuid",
    users: { table: "public.users" },
    access: { userRoles: [USER_ROLE] },
    notify: false,
  });
  const noop = job({ type: "noop", run() {} });
  const hf = await holdfast({ store, jobs: [noop] });
  await hf.enqueue(noop);
  await hf.drain();
  await hf.enqueue(noop, {}, { delay: "1h" });
  await hf.schedule("hourly", { job: noop, every: "1h" });
  await hf.close();
}
