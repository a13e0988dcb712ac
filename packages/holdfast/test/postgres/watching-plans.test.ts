import type pg from "pg";
import { postgres } from "holdfast/postgres";
import type { Store } from "holdfast/store";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PgPool } from "#src/stores/postgres/connection/db.js";
import { newId } from "#src/job/uuid.js";
import { add } from "#src/testing/exercise-store/builders.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const MANY = 50_000;
const RARE = "00000000000000aa";
const COMMON = "00000000000000bb";

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
  for (const [table, own, value] of [
    ["live", "state, due_at, error_at", "'pending', i, i"],
    ["archive", "state, finished_at, error_at", "'dead', i, i"],
  ] as const) {
    // Jobs of the rare group are the oldest, so a scan from the newest one would read all.
    await client.query(`INSERT INTO ${table} (id, seq, type, queue, priority, input, input_bytes, attempt, max_attempts, losses, releases,
        fence, run_at, created_at, updated_at, error, fingerprint, ${own})
      SELECT gen_random_uuid(), 2 * i + ${table === "live" ? 1 : 0}, 'mail', 'default', i % 3, '{}', 2, 1, 4, 0, 0, 1, i, i, i, 'e',
        CASE WHEN i <= 10 THEN '${RARE}' WHEN i % 2 = 0 THEN '${COMMON}' END, ${value} FROM generate_series(1, ${MANY}) AS i`);
  }
  await client.query("INSERT INTO lanes SELECT 'default', p, false, 0 FROM generate_series(0, 2) AS p");
  await client.query(
    `INSERT INTO history SELECT 'minute', 60000 * (i / 10), 'w' || i % 10, '{}' FROM generate_series(1, 20000) AS i`,
  );
  // Recorded by transactions that have ended long ago.
  await client.query(`INSERT INTO transitions (xid, at, queue, type, state, jobs)
    SELECT '3'::xid8, 1, 'default', 'mail', 'pending', ARRAY[gen_random_uuid()] FROM generate_series(1, ${MANY})`);
  await client.query("VACUUM ANALYZE live, archive, lanes, history, transitions");
}, 120_000);
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

interface Node {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  Plans?: Node[];
}

/** The indexes and sequential scans of the statements that read a table, by their custom and their generic plans. */
async function readsOf(table: RegExp): Promise<string[]> {
  const used = new Set<string>();
  const collect = (node: Node): void => {
    if (node["Index Name"] !== undefined) used.add(node["Index Name"]);
    if (node["Node Type"] === "Seq Scan" && table.test(node["Relation Name"] ?? ""))
      used.add(`all of ${node["Relation Name"]}`);
    for (const child of node.Plans ?? []) collect(child);
  };
  for (const { text, values } of ran.filter(({ text: each }) => /^(SELECT|WITH|\()/.test(each) && table.test(each))) {
    for (const [options, given] of [
      ["COSTS OFF", values],
      ["GENERIC_PLAN, COSTS OFF", []],
    ] as const) {
      const { rows } = await client.query(`EXPLAIN (${options}, FORMAT JSON) ${text}`, [...given]);
      const [{ Plan: plan }] = (rows[0] as { "QUERY PLAN": [{ Plan: Node }] })["QUERY PLAN"];
      collect(plan);
    }
  }
  return [...used].toSorted();
}

describe("an index serves", () => {
  it("the jobs of an error group", async () => {
    for (const fingerprint of [RARE, COMMON]) {
      ran.length = 0;
      const { jobs } = await store.list({ fingerprint }, { limit: 20, cursor: null });
      expect(jobs).toHaveLength(20);
      ran.splice(0, ran.length, ...ran.filter(({ text }) => text.includes("j.fingerprint OPERATOR")));
      expect(await readsOf(/live|archive/)).toEqual(["archive_fingerprint", "live_fingerprint"]);
    }
  });

  it("jobs by their ids, in one statement", async () => {
    const { jobs } = await store.list({}, { limit: 3, cursor: null });
    const ids = jobs.map(({ id }) => id);
    ran.length = 0;
    const page = await store.list({ ids: [...ids, "no id"] }, { limit: 4, cursor: null, payloads: false });
    expect(page.jobs.map(({ id }) => id)).toEqual(ids);
    expect(ran).toHaveLength(1);
    expect(await readsOf(/live|archive/)).toEqual(["archive_pkey", "live_pkey"]);
  });

  it("the oldest due jobs of the counts, in one statement", async () => {
    ran.length = 0;
    expect((await store.stats()).oldestDue).toMatchObject([{ queue: "default" }]);
    expect(ran.filter(({ text }) => /live|counts|deltas/.test(text))).toHaveLength(1);
    const reads = await readsOf(/live/);
    expect(reads).toContain("live_due");
    expect(reads).not.toContain("all of live");
  });

  it("a page of history", async () => {
    ran.length = 0;
    const range = { resolution: "minute", from: 6_000_000, to: 12_000_000, limit: 10, after: null } as const;
    expect((await store.history(range)).records).toHaveLength(10);
    expect(await readsOf(/history/)).toEqual(["history_pkey"]);
  });

  it("the jobs ahead of another, as many as are counted", async () => {
    ran.length = 0;
    const before = { id: newId(1), queue: "default", priority: 0, dueAt: MANY };
    expect(await store.countAhead(before, 100)).toBe(100);
    const reads = await readsOf(/live/);
    expect(reads).toContain("live_due");
    expect(reads).not.toContain("all of live");
    const [{ text, values } = { text: "", values: [] }] = ran;
    const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, values);
    const [{ Plan: plan }] = (rows[0] as { "QUERY PLAN": [{ Plan: Record<string, number> }] })["QUERY PLAN"];
    expect((plan["Shared Hit Blocks"] ?? 0) + (plan["Shared Read Blocks"] ?? 0)).toBeLessThan(400);
  });

  it("transitions after a cursor", async () => {
    const cursor = await store.recordTransitions(60_000);
    await add(store);
    ran.length = 0;
    expect((await store.transitions(cursor, 10))?.transitions).toHaveLength(1);
    expect(await readsOf(/transitions/)).toEqual(["transitions_xid"]);
  });

  it("the following pages of a follower that is far behind", async () => {
    const cursor = await store.recordTransitions(60_000);
    await add(store);
    await add(store);
    const first = await store.transitions(cursor, 1);
    ran.length = 0;
    expect((await store.transitions(first?.cursor ?? "", 1))?.transitions).toHaveLength(1);
    expect(await readsOf(/transitions/)).toEqual(["transitions_n"]);
  });

  it("the transitions that are deleted first", async () => {
    ran.length = 0;
    expect(await store.purgeTransitions({ before: 0, limit: 10 })).toBe(0);
    expect(await readsOf(/transitions/)).toContain("transitions_n");
  });
});
