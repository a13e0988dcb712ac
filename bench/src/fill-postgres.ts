import pg from "pg";
import type { Filling } from "./bed.js";
import { listedColumns } from "./listed.js";
import { NOOP, OTHER, payload } from "./jobs.js";
import { schedulesOf } from "./schedules.js";

const HOUR_MS = 3_600_000;
// Larger inputs are in a separate table; see Holdfast's limits.
const INLINE_BYTES = 512;

/** Writes jobs directly into the tables that Holdfast's migration has created. */
export async function fillPostgres(url: string, fillings: readonly Filling[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (const [nth, filling] of fillings.entries()) {
    if (filling.kind === "listed") await fillListed(client, filling);
    else if (filling.kind.endsWith("schedules")) await fillSchedules(client, filling);
    else await fillJobs(client, filling, nth);
  }
  await client.query("VACUUM ANALYZE");
  await client.end();
}

async function fillJobs(client: pg.Client, { kind, count, inputBytes }: Filling, nth: number): Promise<void> {
  const text = JSON.stringify(payload(inputBytes));
  const large = text.length > INLINE_BYTES;
  const now = Date.now();
  // Due jobs are the newest: all other due jobs come before them.
  const at = kind === "due" ? now - 1_000 : now - HOUR_MS;
  const finished = kind === "finished";
  const type = kind === "other" ? OTHER : NOOP;
  const priority = kind === "future" ? 10 : 0;
  const [state, attempt] = finished ? ["completed", 1] : ["pending", 0];
  const dueAt = kind === "future" ? now + HOUR_MS : at;
  const expiresAt = kind === "expired" ? now - 1 : null;
  // Like Holdfast's ids: ordered by time, then by number.
  const id = `(lpad(to_hex(${at}::bigint), 12, '0') || '7' || lpad(to_hex(n & 4095), 3, '0') || '8' || lpad('${nth}', 3, '0') || lpad(to_hex(n), 12, '0'))::uuid`;
  const common =
    "id, seq, type, queue, priority, state, input, input_bytes, attempt, max_attempts, losses, releases, fence, run_at, expires_at, created_at, updated_at";
  const values = `${id}, nextval('holdfast.job_seq'), $1, 'default', $2::smallint, $3, $4::json, $5::integer, $6::smallint, 4, 0, 0, $6::integer, $7::bigint, $8::bigint, $7::bigint, $7::bigint`;
  const given = [type, priority, state, large ? null : text, text.length, attempt, at, expiresAt];
  const rows = `FROM generate_series(1, ${count}) AS n`;
  await client.query(
    "INSERT INTO holdfast.lanes (queue, priority, paused, used_at) VALUES ('default', $1, false, $2) ON CONFLICT DO NOTHING",
    [priority, now],
  );
  if (finished) {
    // Finish times are spread over the hour, as in a real index of finished jobs.
    const ended = `$7::bigint + (n::bigint * ${HOUR_MS} / ${count})`;
    await client.query(
      `INSERT INTO holdfast.archive (${common}, claimed_at, started_at, output, finished_at) SELECT ${values}, ${ended}, ${ended}, '{}', ${ended} ${rows}`,
      given,
    );
  } else {
    await client.query(`INSERT INTO holdfast.live (${common}, due_at) SELECT ${values}, $9::bigint ${rows}`, [
      ...given,
      dueAt,
    ]);
    if (large)
      await client.query(
        "INSERT INTO holdfast.inputs (job, input) SELECT id, $1::json FROM holdfast.live WHERE input IS NULL",
        [text],
      );
  }
  await client.query(
    "INSERT INTO holdfast.counts (queue, type, state, n) VALUES ('default', $1, $2, $3) ON CONFLICT (queue, type, state) DO UPDATE SET n = counts.n + excluded.n",
    [type, state, count],
  );
}

/** Including the tables that the store uses to find jobs. */
async function fillListed(client: pg.Client, { count }: Filling): Promise<void> {
  const of = listedColumns(count, Date.now());
  await client.query(`CREATE TEMP TABLE listed AS SELECT i, ${of.type} AS type, ${of.queue} AS queue, ${of.state} AS state,
      ${of.user} AS user_id, ${of.schedule} AS schedule, ${of.tag} AS tag, ${of.createdAt} AS created_at, ${of.dueAt} AS due_at,
      (lpad(to_hex(i), 8, '0') || '00007000' || lpad(to_hex(i), 16, '0'))::uuid AS id
    FROM generate_series(1::bigint, ${count}) AS i`);
  const columns =
    "id, seq, type, queue, priority, state, user_id, input, input_bytes, attempt, max_attempts, losses, releases, fence, run_at, created_at, updated_at, tags, schedule, slot";
  const values =
    "id, i, type, queue, 0, state, user_id, '{}', 2, 1, 4, 0, 0, 1, created_at, created_at, created_at, ARRAY[tag], schedule, i";
  await client.query(`
    INSERT INTO holdfast.live (${columns}, due_at, error_at)
    SELECT ${values}, due_at, CASE WHEN state = 'failed' THEN created_at END FROM listed WHERE due_at IS NOT NULL;
    INSERT INTO holdfast.archive (${columns}, finished_at) SELECT ${values}, created_at FROM listed WHERE due_at IS NULL;
    INSERT INTO holdfast.tags (tag, seq, job) SELECT tag, i, id FROM listed;
    INSERT INTO holdfast.lanes (queue, priority, used_at) SELECT DISTINCT queue, 0, ${Date.now()} FROM listed;
    INSERT INTO holdfast.counts (queue, type, state, n) SELECT queue, type, state, count(*) FROM listed GROUP BY 1, 2, 3;
    INSERT INTO holdfast.ages (block, type, oldest, newest)
    SELECT i / 8192, type, min(created_at), max(created_at) FROM listed GROUP BY 1, 2;
    SELECT setval('holdfast.job_seq', ${count});
    DROP TABLE listed`);
}

async function fillSchedules(client: pg.Client, filling: Filling): Promise<void> {
  const now = Date.now();
  const schedules = schedulesOf(filling, now);
  await client.query(
    `INSERT INTO holdfast.schedules (name, version, origin, type, queue, priority, input, max_attempts, cron, timezone,
       jitter_ms, catch_up, overlap, enabled, next_run_at, created_at, updated_at)
     SELECT s.name, s.version, 'runtime', '${NOOP}', 'default', 0, $6::json, 4, s.cron, s.timezone,
       0, 'latest', 'allow', true, s.next_run_at, $7::bigint, $7::bigint
     FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) AS s (name, version, cron, timezone, next_run_at)`,
    [
      schedules.map(({ name }) => name),
      schedules.map(({ version }) => version),
      schedules.map(({ cron }) => cron),
      schedules.map(({ timezone }) => timezone),
      schedules.map(({ nextRunAt }) => nextRunAt),
      JSON.stringify(payload()),
      now,
    ],
  );
}
