import type pg from "pg";
import { postgres } from "holdfast/postgres";
import type { AuditFilter, Store } from "holdfast/store";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PgPool } from "#src/stores/postgres/connection/db.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const MANY = 100_000;

let pool: pg.Pool;
let client: pg.Client;
let store: Store;
let schema: string;
/** The statements of the store, the last one first. */
const ran: { text: string; values: unknown[] }[] = [];

beforeAll(async () => {
  pool = server.pool({ max: 1 });
  schema = server.newSchema();
  store = postgres({ pool: recording(pool), schema, notify: false });
  await store.migrate();
  client = await server.client();
  await client.query(`SET search_path = ${schema}`);
  // The rare ones are the oldest, so a scan of all entries would read every one.
  await client.query(`INSERT INTO audit (id, at, actor, action, count)
    SELECT lpad(to_hex(i), 32, '0')::uuid, i, CASE WHEN i <= 20 THEN 'rare' ELSE 'common' END,
      CASE WHEN i <= 20 THEN 'rare' ELSE 'common' END, 1 FROM generate_series(1, ${MANY}) AS i`);
  await client.query("VACUUM ANALYZE audit");
}, 60_000);
afterAll(async () => {
  await store.close();
  await client.query(`DROP SCHEMA ${schema} CASCADE`);
  await client.end();
  await pool.end();
}, 60_000);

/** A pool that records its statements. */
function recording(real: pg.Pool): PgPool {
  const pooled = real as unknown as PgPool;
  return {
    query: (config) => pooled.query(config),
    end: () => Promise.resolve(),
    async connect() {
      const made = await pooled.connect();
      return {
        query(config) {
          ran.unshift({ text: config.text, values: [...(config.values ?? [])] });
          return made.query(config);
        },
        release: (destroy) => made.release(destroy),
      };
    },
  };
}

/** The custom and the generic plan of the last statement. */
async function plans(): Promise<string[]> {
  const { text, values } = ran[0]!;
  const explain = async (options: string, given: unknown[]): Promise<string> => {
    const { rows } = await client.query(`EXPLAIN (${options}) ${text}`, given);
    return (rows as { "QUERY PLAN": string }[]).map((row) => row["QUERY PLAN"]).join("\n");
  };
  return [await explain("COSTS OFF", values), await explain("GENERIC_PLAN, COSTS OFF", [])];
}

describe("with 100,000 entries, an index serves", () => {
  it.each<[string, AuditFilter, string]>([
    ["the list of all", {}, "audit_at"],
    ["the list of a common actor", { actor: "common" }, "audit_actor"],
    ["the list of a rare actor", { actor: "rare" }, "audit_actor"],
    ["the list of a rare action", { action: "rare" }, "audit_action"],
    ["the list of a rare actor's common action", { actor: "rare", action: "common" }, "audit_both"],
    ["the list of a common actor's rare action", { actor: "common", action: "rare" }, "audit_both"],
    ["the list of a time range", { after: 10, before: 500 }, "audit_at"],
    ["the list of an actor in a time range", { actor: "common", after: 10, before: 90_000 }, "audit_actor"],
  ])("%s", async (_name, filter, index) => {
    await store.listAudit(filter, { limit: 50, cursor: null });
    for (const plan of await plans()) {
      expect(plan).toMatch(new RegExp(`Index (Only )?Scan (Backward )?using ${index} on audit`));
      expect(plan).toMatch(/Index Cond: .*ROW\(at, id\) < ROW/);
      expect(plan).not.toMatch(/Sort|Seq Scan|Filter/);
    }
  });

  it("the purge of the oldest", async () => {
    expect(await store.purgeAudit({ before: 6, limit: 3 })).toBe(3);
    for (const plan of await plans()) {
      expect(plan).toMatch(/using audit_at on audit/);
      expect(plan).not.toMatch(/Sort|Seq Scan/);
    }
    expect(await store.purgeAudit({ before: 6, limit: 3 })).toBe(2);
  });
});
