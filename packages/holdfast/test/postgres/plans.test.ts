import { postgres } from "holdfast/postgres";
import type { JobFilter, PageRequest, Store } from "holdfast/store";
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { newId } from "#src/job/uuid.js";
import type { PgPool } from "#src/stores/postgres/connection/db.js";
import { BLOCK } from "#src/stores/list-plan.js";
import { claimRequest } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

const ARCHIVED = 1_000_000;
const LIVE = 1_000_000;
const SOMEONE = newId(1);
const PARENT = newId(2);
// Jobs up to this one have their own purge time.
const OWN_TIMES = 200_000;
const idOf = (seq: number): string =>
  seq
    .toString(16)
    .padStart(32, "0")
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");

interface Statement {
  text: string;
  values: unknown[];
}
/** The statements of the store, the last one first. */
const ran: Statement[] = [];
let pool: pg.Pool;
let client: pg.Client;
let store: Store;
let schema: string;

beforeAll(async () => {
  pool = server.pool({ max: 1 });
  // The server may stop before the last connection is closed.
  schema = server.newSchema();
  store = postgres({ pool: recording(pool), schema, userType: "uuid", notify: false });
  await store.migrate();
  client = await server.client();
  await client.query(`SET search_path = ${schema}`);
  // Tables without a log, and indexes that are built after the rows: that takes two thirds of the time.
  const { rows: indexes } = await client.query<{ name: string; text: string }>(
    "SELECT indexname AS name, indexdef AS text FROM pg_indexes WHERE schemaname = $1 AND tablename IN ('archive', 'live') AND indexname NOT LIKE '%_pkey'",
    [schema],
  );
  for (const table of ["archive", "live", "tags"]) await client.query(`ALTER TABLE ${table} SET UNLOGGED`);
  for (const { name } of indexes) await client.query(`DROP INDEX ${name}`);
  const ended = "CASE WHEN i % 50 = 0 THEN 'dead' ELSE 'completed' END";
  const purgeAt = `CASE WHEN i <= ${OWN_TIMES} THEN CASE WHEN i % 10000 = 0 THEN i ELSE 1e15 END END`;
  await client.query(
    fill("archive", ARCHIVED, { seq: "i", state: ended, output: "'{}'", finished_at: "i", purge_at: purgeAt }),
  );
  // Every second one is due in the far future.
  const failed = "i % 50 = 0 AND i % 40000 <> 0";
  const due = "CASE WHEN i % 2 = 0 THEN 1e15::bigint + i ELSE i END";
  await client.query(
    fill("live", LIVE, {
      seq: `i + ${ARCHIVED}`,
      state: `CASE WHEN ${failed} THEN 'failed' ELSE 'pending' END`,
      due_at: due,
      error_at: `CASE WHEN ${failed} THEN i END`,
    }),
  );
  await client.query("SET maintenance_work_mem = '128MB'");
  for (const { text } of indexes) await client.query(text);
  await client.query("INSERT INTO lanes SELECT 'default', p, false, 0 FROM generate_series(-1, 1) AS p");
  // Without statistics it would sort two million rows instead of counting them in a hash table.
  await client.query("SET enable_sort = off");
  const jobs =
    "(SELECT seq, id, type, queue, state, created_at FROM live UNION ALL SELECT seq, id, type, queue, state, created_at FROM archive) j";
  await client.query(`INSERT INTO counts SELECT queue, type, state, count(*) FROM ${jobs} GROUP BY 1, 2, 3`);
  await client.query(
    `INSERT INTO ages SELECT seq / ${BLOCK}, type, min(created_at), max(created_at) FROM ${jobs} GROUP BY 1, 2`,
  );
  await client.query(
    `INSERT INTO tags SELECT CASE WHEN seq % 20000 = 0 THEN 'rare' ELSE 'common' END, seq, id FROM archive WHERE seq % 5 = 0`,
  );
  await client.query(
    `INSERT INTO tags SELECT chr(31) || 'parent ' || parent, seq, id FROM (SELECT parent, seq, id FROM archive
       UNION ALL SELECT parent, seq, id FROM live) j WHERE parent IS NOT NULL`,
  );
  await client.query("RESET enable_sort");
  await client.query("VACUUM ANALYZE archive, live, lanes, tags, counts, ages");
}, 180_000);
afterAll(async () => {
  await store.close();
  await client.query(`DROP SCHEMA ${schema} CASCADE`);
  await client.end();
  await pool.end();
}, 60_000);

/** Rows of ten common types and a rare one; half of them have one of 5,000 users, a few have SOMEONE. */
function fill(table: string, count: number, own: { seq: string } & Record<string, string>): string {
  return `INSERT INTO ${table} (id, type, queue, priority, user_id, input, input_bytes, attempt, max_attempts, losses,
      releases, fence, run_at, created_at, updated_at, parent, ${Object.keys(own).join(", ")})
    SELECT lpad(to_hex(${own.seq}), 32, '0')::uuid, CASE WHEN i % 20000 = 0 THEN 'rare' ELSE 't' || i % 10 END, 'default', i % 3 - 1,
      CASE WHEN i % 20000 = 0 THEN '${SOMEONE}'::uuid WHEN i % 2 = 0 THEN md5((i % 5000)::text)::uuid END,
      '{}', 2, 1, 4, 0, 0, 1, i, i, i, CASE WHEN i % 20000 = 0 THEN '${PARENT}' WHEN i % 40 = 0 THEN md5((i % 1000)::text)
      END::uuid, ${Object.values(own).join(", ")}
    FROM generate_series(1, ${count}) AS i`;
}

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

/** How many pages a statement reads with an index. It runs in a transaction that is rolled back. */
async function pagesReadBy({ text, values }: Statement, index: string): Promise<number> {
  await client.query("BEGIN");
  const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, values);
  await client.query("ROLLBACK");
  const [{ Plan: plan }] = (rows[0] as { "QUERY PLAN": [{ Plan: Node }] })["QUERY PLAN"];
  const all = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(all)];
  const scan = all(plan).find((node) => node["Index Name"] === index);
  return (scan?.["Shared Hit Blocks"] ?? Infinity) + (scan?.["Shared Read Blocks"] ?? 0);
}

interface Node {
  "Node Type": string;
  "Shared Hit Blocks"?: number;
  "Shared Read Blocks"?: number;
  "Relation Name"?: string;
  "Index Name"?: string;
  Plans?: Node[];
}

/** How a statement reads the tables of jobs, by its custom and its generic plan. */
async function readsOf({ text, values }: Statement): Promise<{ custom: string[]; generic: string[] }> {
  const explain = async (options: string, given: unknown[]): Promise<string[]> => {
    const { rows } = await client.query(`EXPLAIN (${options}, FORMAT JSON) ${text}`, given);
    const [{ Plan: plan }] = (rows[0] as { "QUERY PLAN": [{ Plan: Node }] })["QUERY PLAN"];
    return [...new Set(reads(plan))].toSorted((a, b) => a.localeCompare(b));
  };
  return { custom: await explain("COSTS OFF", values), generic: await explain("GENERIC_PLAN, COSTS OFF", []) };
}

function reads(node: Node): string[] {
  const { "Node Type": type, "Relation Name": table, "Index Name": index } = node;
  const below = (node.Plans ?? []).flatMap(reads);
  // A bitmap heap scan follows a bitmap index scan, which is listed separately.
  const isRead = /Scan/.test(type) && !/Bitmap Heap/.test(type);
  if (isRead && index !== undefined) return [index, ...below];
  return isRead && (table === "live" || table === "archive") ? [`${type} of ${table}`, ...below] : below;
}

const both = (reads: string[]): object => ({ custom: reads, generic: reads });
interface Reads {
  custom: string[];
  generic: string[];
}
const ours = ({ custom, generic }: Reads): Reads => {
  const jobs = (names: string[]): string[] => names.filter((name) => /live|archive|tags/.test(name));
  return { custom: jobs(custom), generic: jobs(generic) };
};

/** The indexes that find the jobs of a page, over all statements of the call, and plans with a sequential scan. */
async function listing(filter: JobFilter, page: PageRequest = { limit: 50, cursor: null }): Promise<Reads> {
  ran.length = 0;
  const { jobs } = await store.list(filter, page);
  expect(jobs.length).toBeGreaterThan(0);
  const used = { custom: new Set<string>(), generic: new Set<string>() };
  for (const statement of ran.filter(({ text }) => /^(SELECT|WITH|\()/.test(text) && !isFetch(text))) {
    const { custom, generic } = ours(await readsOf(statement));
    for (const each of custom) used.custom.add(each);
    for (const each of generic) used.generic.add(each);
  }
  return { custom: [...used.custom].toSorted(), generic: [...used.generic].toSorted() };
}
/** Indexes that read found jobs by seq, and the first and last seq. */
const isFetch = (text: string): boolean => /WHERE seq \S+ ANY|SELECT least\(/.test(text);

describe("with a million finished and a million live jobs, an index serves", () => {
  it("A-02 a claim", async () => {
    const { jobs } = await store.claim(claimRequest({ limit: 500 }));
    expect(jobs).toHaveLength(500);
    // Rows are updated by the address that the index scan found.
    expect(ours(await readsOf(ran[0]!))).toEqual(both(["live_due", "Tid Scan of live"]));
  });

  it("A-02 the list of a user's jobs", async () => {
    expect(await listing({ user: SOMEONE })).toEqual(both(["archive_user", "live_user"]));
  });

  it("A-02 the list of jobs of a type and a state", async () => {
    for (const types of [["rare"], ["t1"], ["t1", "rare"]]) {
      const states = types[0] === "t1" ? (["completed"] as const) : (["dead"] as const);
      expect(await listing({ types, states })).toEqual(both(["archive_type"]));
    }
  });

  it("A-02 the list of live jobs of a type, with the types index", async () => {
    // The first claim for types creates the index in the background.
    await until("the index", async () => {
      await store.claim(claimRequest({ types: ["t9"], limit: 1 }));
      const { rows } = await client.query(
        "SELECT indisvalid AS is FROM pg_index WHERE indexrelid = to_regclass('live_types')",
      );
      return (rows as { is: boolean }[])[0]?.is === true;
    });
    await client.query("ANALYZE live");
    for (const filter of [
      { types: ["rare"], states: ["pending"] },
      { types: ["rare"], states: ["pending", "claimed", "running"], queues: ["default"] },
    ] satisfies JobFilter[]) {
      const { custom, generic } = await listing(filter);
      expect(generic).toContain("live_types");
      expect(["live_due", "live_seq", "live_types"]).toEqual(expect.arrayContaining([...custom, ...generic]));
      expect((await store.list(filter, { limit: 50, cursor: null })).cursor).toBeNull();
    }
    // The page of a common type is among the newest jobs.
    expect((await store.list({ types: ["t1"], states: ["pending"] }, { limit: 50, cursor: null })).jobs).toHaveLength(
      50,
    );
    await client.query("DROP INDEX live_types");
  });

  it("the list of jobs of a state or of a type", async () => {
    expect(await listing({ states: ["dead"] })).toEqual(both(["archive_type"]));
    expect(await listing({ types: ["rare"], states: ["completed", "dead", "cancelled"] })).toEqual(
      both(["archive_type"]),
    );
  });

  it("the list of a job's children, in both orders", async () => {
    for (const order of ["newest", "oldest"] as const) {
      const page = { limit: 50, cursor: null, order };
      const indexes = both(["archive_seq", "live_seq", "tags_pkey"]);
      expect(await listing({ parent: PARENT }, page)).toEqual(indexes);
      expect(await listing({ parent: PARENT, states: ["dead"] }, page)).toEqual(indexes);
    }
  });

  it("the list of jobs by id", async () => {
    const ids = [1, ARCHIVED, ARCHIVED + 7, 5 * ARCHIVED].map((seq) => idOf(seq));
    expect(await listing({ ids })).toEqual(both(["archive_pkey", "live_pkey"]));
  });

  it("lists from the oldest job on", async () => {
    const oldest = { limit: 50, cursor: null, order: "oldest" as const };
    expect(await listing({}, oldest)).toEqual(both(["archive_seq", "live_seq"]));
    expect(await listing({ user: SOMEONE }, oldest)).toEqual(both(["archive_user", "live_user"]));
    expect(await listing({ states: ["dead"] }, oldest)).toEqual(both(["archive_type"]));
    expect(await listing({ tag: "rare" }, oldest)).toEqual(both(["tags_pkey"]));
  });

  it("a purge by state, and one by the jobs' own times", async () => {
    // The oldest dead jobs have their own times: a purge does not read past them.
    await store.purge({ state: "dead", before: OWN_TIMES + 100, keep: null, limit: 10 });
    expect(ours(await readsOf(ran[0]!))).toEqual(both(["archive_finished", "tags_pkey", "Tid Scan of archive"]));
    expect(await pagesReadBy(ran[0]!, "archive_finished")).toBeLessThan(40);
    await store.purge({ state: "dead", before: null, keep: 5, limit: 10 });
    expect(await pagesReadBy(ran[0]!, "archive_finished")).toBeLessThan(40);
    expect(await store.purgeDue(10)).toBe(10);
    expect(ours(await readsOf(ran[0]!))).toEqual(both(["archive_finished", "tags_pkey", "Tid Scan of archive"]));
  });

  it("the list of all jobs", async () => {
    expect(await listing({})).toEqual(both(["archive_seq", "live_seq"]));
  });
});

describe("with as many jobs, an index finds a page of", () => {
  it.each<[string, JobFilter, string[]]>([
    ["live jobs of a state", { states: ["failed"] }, ["live_failed"]],
    ["a type", { types: ["t3"] }, ["archive_type", "live_seq"]],
    ["a rare type, live", { types: ["rare"], states: ["pending", "failed"] }, ["live_due", "live_seq"]],
    ["a queue", { queues: ["default"] }, ["archive_type", "live_due", "live_seq"]],
    ["a tag", { tag: "rare" }, ["tags_pkey"]],
    ["a tag and a type", { tag: "rare", types: ["rare"] }, ["archive_seq", "live_seq", "tags_pkey"]],
    ["a user and a state", { user: SOMEONE, states: ["dead"] }, ["archive_user", "live_user"]],
    ["a common tag and a user", { user: SOMEONE, tag: "rare" }, ["archive_user", "live_user", "tags_pkey"]],
    ["a time range", { createdBefore: 5_000 }, ["archive_seq", "live_seq"]],
    ["a time range and a state", { createdBefore: 5_000, states: ["dead"] }, ["archive_type"]],
    ["a late time", { createdAfter: ARCHIVED - 100 }, ["archive_seq", "live_seq"]],
  ])("%s", async (_, filter, indexes) => {
    const { custom, generic } = await listing(filter);
    expect(generic).toEqual(indexes);
    // For few jobs any order is fine.
    expect([...indexes, "archive_seq", "live_seq"]).toEqual(expect.arrayContaining(custom));
  });

  it("the middle of the list", async () => {
    expect(await listing({ states: ["dead"] }, { limit: 50, cursor: String(ARCHIVED / 2) })).toEqual(
      both(["archive_type"]),
    );
    expect(await listing({}, { limit: 50, cursor: String(ARCHIVED / 2) })).toEqual(both(["archive_seq", "live_seq"]));
  });

  it("a filter without matches", async () => {
    for (const filter of [
      { types: ["nothing"] },
      { queues: ["nowhere"] },
      { states: ["running"] as const },
      { createdAfter: 1e15 },
    ]) {
      ran.length = 0;
      expect(await store.list(filter, { limit: 50, cursor: null })).toEqual({ jobs: [], cursors: [], cursor: null });
      expect(ran.length).toBeLessThan(8);
    }
  });
});

describe("with as many jobs, lists of some", () => {
  it("return each job once, newest first, page by page", async () => {
    const filter: JobFilter = { types: ["rare", "t0", "rare"], states: ["dead"] };
    const seen: number[] = [];
    let cursor: string | null = null;
    for (let page = 0; page < 20; page++) {
      const { jobs, cursor: next } = await store.list(filter, { limit: 7, cursor });
      seen.push(...jobs.map(({ createdAt }) => createdAt));
      cursor = next;
    }
    const { rows } = await client.query(
      "SELECT created_at::float8 AS at FROM archive WHERE state = 'dead' AND type IN ('rare', 't0') ORDER BY seq DESC LIMIT 140",
    );
    expect(seen).toEqual(rows.map(({ at }: { at: number }) => at));
  });
});
