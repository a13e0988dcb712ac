import { describe, expect, it } from "vitest";
import { auditOperations } from "#src/stores/postgres/audit.js";
import { changeOperations } from "#src/stores/postgres/jobs/changes.js";
import { claimOperation } from "#src/stores/postgres/jobs/claim.js";
import type { Db, Row, Runner } from "#src/stores/postgres/connection/db.js";
import { eventOperations } from "#src/stores/postgres/jobs/events.js";
import { insertOperations } from "#src/stores/postgres/jobs/insert.js";
import { stepOperations } from "#src/stores/postgres/jobs/steps.js";
import { wakeOperations } from "#src/stores/postgres/jobs/wakes.js";
import { errorGroupOperations } from "#src/stores/postgres/error-groups.js";
import { historyOperations } from "#src/stores/postgres/history-records.js";
import { queueOperations } from "#src/stores/postgres/jobs/queues.js";
import { Recorder } from "#src/stores/postgres/jobs/recorder.js";
import { transitionOperations } from "#src/stores/postgres/jobs/transitions.js";
import { laneKeeper } from "#src/stores/postgres/jobs/lanes.js";
import { leaseOperations } from "#src/stores/postgres/jobs/leases.js";
import { qualify, type Qualified } from "#src/stores/postgres/connection/qualify.js";
import { queryOperations } from "#src/stores/postgres/jobs/queries.js";
import { scheduleOperations } from "#src/stores/postgres/schedules.js";
import type { Sql } from "#src/stores/postgres/connection/sql.js";
import { tokenOperations } from "#src/stores/postgres/tokens.js";
import { maintenanceOperations } from "#src/stores/postgres/jobs/maintenance.js";
import type { JobFilter } from "#src/store.js";
import { openScene } from "./scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();
const op = (name: string): string => `OPERATOR(pg_catalog.${name})`;

describe("qualify handles", () => {
  it.each([
    ["SELECT count(*), a.* FROM x.t a", "SELECT pg_catalog.count(*), a.* FROM x.t a"],
    ["SELECT pg_catalog.min(n), coalesce(a, b)", "SELECT pg_catalog.min(n), coalesce(a, b)"],
    ["FROM unnest($1::uuid[]) AS u (id)", "FROM pg_catalog.unnest($1::pg_catalog.uuid[]) AS u (id)"],
    ["SELECT left(a, 1) FROM x LEFT JOIN y", "SELECT pg_catalog.left(a, 1) FROM x LEFT JOIN y"],
    ["FROM pg_class c", "FROM pg_catalog.pg_class c"],
    ['ORDER BY a COLLATE "C" DESC', 'ORDER BY a COLLATE pg_catalog."C" DESC'],
    [
      "SELECT a::bigint, b::float8, c::text::json",
      "SELECT a::bigint, b::pg_catalog.float8, c::pg_catalog.text::pg_catalog.json",
    ],
  ])("names: %s", (text, qualified) => {
    expect(qualify(text)).toBe(qualified);
  });

  it.each([
    ["WHERE a = b AND NOT c < d", `WHERE a ${op("=")} b AND NOT c ${op("<")} d`],
    ["SELECT a + b * c = d", `SELECT (a ${op("+")} (b ${op("*")} c)) ${op("=")} d`],
    ["SELECT a - b - c || d", `SELECT ((a ${op("-")} b) ${op("-")} c) ${op("||")} d`],
    ["SELECT -1, -n, a - 1", `SELECT -1, (${op("-")} n), a ${op("-")} 1`],
    ["SELECT (a, b) >= ($1, $2)", `SELECT (a, b) ${op(">=")} ($1, $2)`],
    ["WHERE a = ANY ($1) AND b <> ALL (c)", `WHERE a ${op("=")} ANY ($1) AND b ${op("<>")} ALL (c)`],
    ["WHERE a IN ('x', 'y')", `WHERE a ${op("=")} ANY (ARRAY['x', 'y'])`],
    ["WHERE a NOT IN (SELECT b FROM c)", `WHERE a ${op("<>")} ALL (SELECT b FROM c)`],
    [
      "UPDATE x.t SET a = b + 1, c = d = e WHERE f = g",
      `UPDATE x.t SET a = b ${op("+")} 1, c = d ${op("=")} e WHERE f ${op("=")} g`,
    ],
    ["SELECT 1 / CASE WHEN a = b THEN 0 END", `SELECT 1 ${op("/")} CASE WHEN a ${op("=")} b THEN 0 END`],
    ["SELECT a OPERATOR(pg_catalog.||) '' = b", `SELECT (a ${op("||")} '') ${op("=")} b`],
    ["SELECT 'a = b', \"c = d\" -- e = f\n", "SELECT 'a = b', \"c = d\" -- e = f\n"],
  ])("operators: %s", (text, qualified) => {
    expect(qualify(text)).toBe(qualified);
  });

  it.each([
    "a BETWEEN 1 AND 2",
    "a LIKE 'b'",
    "SELECT nullif(a, b)",
    "a IS DISTINCT FROM b",
    "a IS NOT DISTINCT FROM b",
    "CASE a WHEN b THEN c END",
    "FROM a JOIN b USING (c)",
    "FROM a NATURAL JOIN b",
    "SELECT CAST(a AS b)",
  ])("implied operators are rejected: %s", (text) => {
    expect(() => qualify(text)).toThrow(SyntaxError);
  });

  it("statements without changing their plan", async () => {
    const { schema } = await openScene(server, { isNew: true });
    const client = await server.client();
    const plan = async (text: string): Promise<string> =>
      JSON.stringify((await client.query(`EXPLAIN (GENERIC_PLAN, VERBOSE) ${text}`)).rows);
    const texts = await plainTexts(`"${schema}"`);
    expect(texts.length).toBeGreaterThan(80);
    for (const text of texts) expect(await plan(qualify(text))).toBe(await plan(text));
    await client.end();
  });
});

/** The statements of the store before they are qualified. */
async function plainTexts(s: string): Promise<string[]> {
  const texts: string[] = [];
  const sql: Sql = {
    s,
    user: "text",
    hasJobSettings: true,
    hasFollowing: true,
    hasSteps: true,
    statement: (name, text) => {
      texts.push(text);
      return { name, text: text as Qualified };
    },
  };
  const recorder = new Recorder(sql);
  const inserts = insertOperations(sql, recorder);
  claimOperation(sql, { exists: true }, recorder);
  const leases = leaseOperations(sql, recorder);
  stepOperations(sql, leases, inserts);
  laneKeeper(sql, {} as Db);
  for (const operations of [
    maintenanceOperations,
    changeOperations,
    errorGroupOperations,
    historyOperations,
    queueOperations,
    transitionOperations,
    auditOperations,
    tokenOperations,
    eventOperations,
    wakeOperations,
  ]) {
    operations(sql);
  }
  const queries = queryOperations(sql);
  const schedules = scheduleOperations(sql, inserts);
  // Lists build a statement for each filter; these results make them use every branch.
  const results: Partial<Record<string, Row[]>> = { kinds_of_types: [["q", "t", "completed"]], ends: [[1, 100]] };
  const runner: Runner = { run: async ({ name }) => results[name] ?? [[100]] };
  const created = { createdAfter: 1, createdBefore: 2 };
  const filters: JobFilter[] = [
    { states: ["completed"], types: ["t"], queues: ["q"] },
    { states: ["pending"], queues: ["q"], ...created },
    { states: ["failed"] },
    { user: "u", tag: "t", schedule: "s" },
    { tag: "t", states: ["pending"] },
    { schedule: "s" },
    { fingerprint: "f" },
    { tag: "t", fingerprint: "f" },
  ];
  const page = { limit: 5, cursor: null };
  for (const filter of filters) await queries.skip(runner, filter, page, null);
  await schedules.list(
    { run: async () => [] },
    { origin: "code", enabled: true, type: "t", user: "u" },
    { ...page, cursor: "a" },
  );
  return texts;
}
