import { LIMITS } from "../../../defaults.js";
import { isFinished, isLeased, isWaiting, STATE_NAMES } from "../../../job/state.js";
import { COMMON } from "../schema/schema.js";
import { rowsOf, type Sql } from "../connection/sql.js";
import type { Reading } from "./columns.js";
import type { Table } from "./table.js";

/** The staging table for the jobs, which are then moved in chunks. Dropped at the end of the transaction. */
export const STAGED = "pg_temp.holdfast_legacy";

const list = (states: readonly string[]): string => `(${states.map((state) => `'${state}'`).join(", ")})`;
const FINISHED = list(STATE_NAMES.filter(isFinished));
const LEASED = list(STATE_NAMES.filter(isLeased));
const WAITING = list(STATE_NAMES.filter(isWaiting));

const UUID = "'^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$'";

export function stagingTable({ s }: Sql): string {
  return `CREATE TEMP TABLE holdfast_legacy (LIKE ${s}.archive, due_at bigint) ON COMMIT DROP`;
}

/** The placeholders of the values. */
export const PLACEHOLDERS = {
  now: "$1",
  words: "$2",
  states: "$3",
  type: "$4",
  queue: "$5",
  priority: "$6",
  max: "$7",
  tags: "$8",
};

/**
 * Writes the old rows as jobs, oldest first. Missing values are derived: a job was created at its earliest known time,
 * last updated at its latest, and has as many attempts as its state requires.
 */
export function stageRows(sql: Sql, table: Table, { sql: read }: Reading): string {
  const raw = Object.entries(read).map(([field, part]) => `${part} AS "${field}"`);
  const { now, words, states, type, queue, priority, max, tags } = PLACEHOLDERS;
  const used = `CASE WHEN r."retries" IS NULL THEN r."attempt"
      WHEN m.state IN ${WAITING} OR m.state = 'cancelled' THEN r."retries" ELSE r."retries" + 1 END`;
  const atLeast = `CASE WHEN m.state = 'pending' THEN 0 WHEN m.state = 'cancelled' THEN (r."startedAt" IS NOT NULL)::integer ELSE 1 END`;
  const values: Partial<Record<string, string>> = {
    id: "o.id",
    seq: `pg_catalog.nextval('${sql.s}.job_seq')`,
    type: `${type}::text`,
    queue: "o.queue",
    priority: "o.priority",
    state: "o.state",
    user_id: `o."user"`,
    input: "o.input",
    input_bytes: "pg_catalog.octet_length(o.input::text)",
    attempt: "least(o.attempt, o.max_attempts)",
    max_attempts: "o.max_attempts",
    losses: "0",
    releases: "0",
    // One claim per attempt.
    fence: "least(o.attempt, o.max_attempts)",
    run_at: "o.run_at",
    expires_at: `o."expiresAt"`,
    created_at: "o.created_at",
    updated_at: "o.updated_at",
    claimed_at: `o."claimedAt"`,
    started_at: `o."startedAt"`,
    tags: "o.tags",
    error: "o.error",
    error_at:
      "CASE WHEN o.error IS NOT NULL OR o.state = 'failed' THEN coalesce(o.finished_at, o.updated_at, o.created_at) END",
  };
  return `INSERT INTO ${STAGED} (${COMMON.join(", ")}, output, finished_at, due_at)
    SELECT ${COMMON.map((column) => values[column] ?? "NULL").join(", ")},
      CASE WHEN o.state = 'completed' THEN o."output" END, o.finished_at,
      -- An expired lease: the next claim treats it as lost.
      CASE WHEN o.state IN ${LEASED} THEN ${now}::bigint ELSE o.run_at END
    FROM (
      SELECT r."user", r."output", r."error", r."expiresAt", r."claimedAt", r."startedAt",
        CASE WHEN r."id" ~ ${UUID} THEN r."id"::uuid ELSE made.id END AS id,
        m.state, CASE WHEN r."queue" <> '' THEN r."queue" ELSE ${queue}::text END AS queue, coalesce(r."priority", ${priority}::integer) AS priority,
        coalesce(r."input", '{}') AS input, a.attempt, ended.finished_at, u.updated_at, c.created_at,
        coalesce(r."runAt", c.created_at) AS run_at,
        least(${LIMITS.maxAttempts}, greatest(1, coalesce(r."maxAttempts", r."maxRetries" + 1,
          greatest(${max}::integer, a.attempt + (m.state NOT IN ${FINISHED})::integer)))) AS max_attempts,
        CASE WHEN r."id" ~ ${UUID} THEN CASE WHEN ${tags}::text[] <> '{}' THEN ${tags}::text[] END ELSE ${tags}::text[] || ('legacy:' || r."id") END AS tags
      FROM (SELECT ${raw.join(", ")} FROM ${table.quoted} l) r
      JOIN ${rowsOf(`${words}::text[], ${states}::text[]`)} AS m (word, state) ON m.word = pg_catalog.lower(pg_catalog.btrim(r."status"))
      CROSS JOIN LATERAL (SELECT ${idOf(table, `r."id"`)} AS id) made
      CROSS JOIN LATERAL (SELECT least(${LIMITS.maxAttempts}, greatest(${atLeast}, coalesce(${used}, 0))) AS attempt) a
      CROSS JOIN LATERAL (SELECT coalesce(r."createdAt", least(r."runAt", r."claimedAt", r."startedAt", r."finishedAt",
        r."updatedAt"), ${now}::bigint) AS created_at) c
      CROSS JOIN LATERAL (SELECT coalesce(r."updatedAt", greatest(c.created_at, r."claimedAt", r."startedAt",
        r."finishedAt")) AS updated_at) u
      CROSS JOIN LATERAL (SELECT coalesce(r."finishedAt", u.updated_at) AS finished_at) ended
      ORDER BY c.created_at, r."id"
    ) o`;
}

/** A UUID (version 8) computed from the table and the old id: always the same. */
function idOf({ title }: Table, id: string): string {
  const name = `'${title.replaceAll("'", "''")}:'`;
  const hash = `pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(${name} || ${id}, 'UTF8')), 'hex')`;
  return `overlay(overlay(pg_catalog.left(${hash}, 32) PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid`;
}

/**
 * Moves staged rows after a position into the tables of live and finished jobs. Returns how many, and the last position.
 */
export function moveRows({ s }: Sql): string {
  const values = COMMON.map((column) =>
    column === "input" ? `CASE WHEN input_bytes <= ${LIMITS.inlineInputBytes} THEN input END` : column,
  );
  return `WITH part AS MATERIALIZED (SELECT * FROM ${STAGED} WHERE seq > $1::bigint ORDER BY seq LIMIT $2),
    alive AS (INSERT INTO ${s}.live (${COMMON.join(", ")}, due_at)
      SELECT ${values.join(", ")}, due_at FROM part WHERE state NOT IN ${FINISHED} ORDER BY seq),
    ended AS (INSERT INTO ${s}.archive (${COMMON.join(", ")}, output, finished_at)
      SELECT ${values.join(", ")}, output, finished_at FROM part WHERE state IN ${FINISHED} ORDER BY seq),
    large AS (INSERT INTO ${s}.inputs (job, input) SELECT id, input FROM part WHERE input_bytes > ${LIMITS.inlineInputBytes}),
    tagged AS (INSERT INTO ${s}.tags (tag, seq, job) SELECT pg_catalog.unnest(tags), seq, id FROM part WHERE tags IS NOT NULL)
    SELECT pg_catalog.count(*)::integer, pg_catalog.max(seq)::text FROM part`;
}

/**
 * Adds the staged rows to the counters. They did not finish just now, so they do not count as throughput of the last
 * minute.
 */
export function countRows({ s }: Sql): string {
  return `WITH deltas AS (
      INSERT INTO ${s}.deltas (at, queue, type, state, n, ended, first_seq, last_seq, oldest, newest)
      SELECT $1::bigint, queue, type, state, pg_catalog.count(*), false, pg_catalog.min(seq), pg_catalog.max(seq), pg_catalog.min(created_at), pg_catalog.max(created_at) FROM ${STAGED} GROUP BY queue, type, state RETURNING state, n
    ) SELECT state, pg_catalog.sum(n)::integer FROM deltas GROUP BY state`;
}
