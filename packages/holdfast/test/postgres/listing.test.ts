import fc from "fast-check";
import { postgres } from "holdfast/postgres";
import { fakeClock } from "holdfast/testing";
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callersRunner, type Runner } from "#src/stores/postgres/connection/db.js";
import { pageFinder } from "#src/stores/postgres/jobs/listing.js";
import { sqlFor } from "#src/stores/postgres/connection/sql.js";
import { BLOCK } from "#src/stores/list-plan.js";
import {
  anyFilter,
  anyPage,
  withIds,
  LIST_LIMITS,
  fill,
  matching,
  START,
  throughout,
  type Listed,
} from "../listing/listed.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
let client: pg.Client;
let runner: Runner;
let schema: string;
let jobs: Listed[];
let now: number;

beforeAll(async () => {
  schema = server.newSchema();
  const clock = fakeClock(START);
  const store = postgres(`${server.url()}?schema=${schema}`, { clock, notify: false });
  await store.migrate();
  client = await server.client();
  const fetch = callersRunner(client, "here");
  // In the same snapshot mode as the store.
  runner = {
    run: async (statement, values) =>
      (await fetch.run(statement, values)).map((row) =>
        row.map((value) => (typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value)),
      ),
  };
  let batch = 0;
  await fill(store, clock, async () => {
    await client.query(
      `SELECT setval('${schema}.job_seq', (nextval('${schema}.job_seq') / ${BLOCK} + 1) * ${BLOCK} + 100)`,
    );
    // Some changes are rolled up, some are not.
    if (++batch < 3) await store.maintain();
  });
  now = clock.now();
  await store.close();
  const columns = "seq::float8, id, priority, parent, type, queue, state, user_id, tags, schedule, created_at::float8";
  const { rows } = await client.query<unknown[]>({
    text: `SELECT ${columns} FROM ${schema}.live UNION ALL SELECT ${columns} FROM ${schema}.archive`,
    rowMode: "array",
  });
  jobs = rows.map(([seq, id, priority, parent, type, queue, state, user, tags, schedule, createdAt]) => ({
    ...({ seq, id, priority, parent, type, queue, state, user, schedule, createdAt } as Omit<Listed, "tags">),
    tags: (tags as string[] | null) ?? [],
  }));
}, 60_000);
afterAll(async () => {
  await client.query(`DROP SCHEMA ${schema} CASCADE`);
  await client.end();
}, 60_000);

describe("on PostgreSQL", () => {
  it("the listed jobs cover every state and several blocks", async () => {
    expect(jobs).toHaveLength(240);
    expect(new Set(jobs.map(({ state }) => state)).size).toBe(7);
    expect(new Set(jobs.map(({ seq }) => Math.floor(seq / BLOCK))).size).toBe(3);
    const { rows } = await client.query(`SELECT count(DISTINCT block)::integer AS n FROM ${schema}.ages`);
    expect((rows[0] as { n: number }).n).toBe(2);
  });

  it.each(LIST_LIMITS)(
    "whatever is asked for, all pages together have each job that fits, once and in order, by %j",
    async (bounds) => {
      const find = pageFinder(sqlFor(schema, "text"), bounds);
      await fc.assert(
        fc.asyncProperty(anyFilter, anyPage, async (given, { every, ...page }) => {
          const filter = withIds(given, jobs, every);
          const found = await throughout((each) => find(runner, filter, each, now), page);
          expect(found).toEqual(matching(jobs, filter, page.order));
        }),
        { numRuns: 60 },
      );
    },
    120_000,
  );
});
