import Database from "better-sqlite3";
import type { Filling } from "./bed.js";
import { listedColumns } from "./listed.js";
import { NOOP, orderedId, OTHER, payload } from "./jobs.js";
import { schedulesOf } from "./schedules.js";

const HOUR_MS = 3_600_000;
// Larger inputs are in a separate table; see Holdfast's limits.
const INLINE_BYTES = 512;

/** Writes jobs directly into a file that Holdfast's migration has created: fast, and durable only at the end. */
export function fillSqlite(file: string, fillings: readonly Filling[]): void {
  const db = new Database(file);
  db.pragma("synchronous = OFF");
  db.pragma("cache_size = -200000");
  const insertRow = db.prepare(
    `INSERT INTO holdfast_jobs (id, type, queue, priority, state, input, output, attempt, max_attempts, losses, releases,
       fence, run_at, due_at, expires_at, created_at, updated_at, claimed_at, started_at, finished_at, worker)
     VALUES (@id, @type, 'default', @priority, @state, @input, @output, @attempt, 4, 0, 0,
       @attempt, @at, @dueAt, @expiresAt, @at, @at, @endedAt, @endedAt, @endedAt, @worker)`,
  );
  const insertInput = db.prepare("INSERT INTO holdfast_inputs (job, input) VALUES (?, ?)");
  const count = db.prepare(
    "INSERT INTO holdfast_counts (queue, type, state, n) VALUES ('default', ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
  );

  function fill(filling: Filling): void {
    const { kind, count: jobs } = filling;
    const text = JSON.stringify(payload(filling.inputBytes));
    const large = text.length > INLINE_BYTES;
    const now = Date.now();
    // Due jobs are the newest: all other due jobs come before them.
    const at = kind === "due" ? now - 1_000 : now - HOUR_MS;
    const finished = kind === "finished";
    const row = {
      type: kind === "other" ? OTHER : NOOP,
      priority: kind === "future" ? 10 : 0,
      state: finished ? "completed" : "pending",
      input: large ? null : text,
      output: finished ? "{}" : null,
      attempt: finished ? 1 : 0,
      at,
      dueAt: finished ? null : kind === "future" ? now + HOUR_MS : at,
      expiresAt: kind === "expired" ? now - 1 : null,
      worker: finished ? "bench:1:000000000000" : null,
    };
    for (let index = 0; index < jobs; index++) {
      // Finish times are spread over the hour, as in a real index of finished jobs.
      const endedAt = finished ? at + Math.floor((index / jobs) * HOUR_MS) : null;
      const { lastInsertRowid } = insertRow.run({ ...row, id: orderedId(at), endedAt });
      if (large) insertInput.run(lastInsertRowid, text);
    }
    count.run(row.type, row.state, jobs);
  }

  const insertSchedule = db.prepare(
    `INSERT INTO holdfast_schedules (name, version, origin, type, queue, priority, input, max_attempts, cron, timezone,
       jitter_ms, catch_up, overlap, enabled, next_run_at, created_at, updated_at)
     VALUES (@name, @version, 'runtime', '${NOOP}', 'default', 0, @input, 4, @cron, @timezone,
       0, 'latest', 'allow', 1, @nextRunAt, @now, @now)`,
  );

  function fillSchedules(filling: Filling): void {
    const now = Date.now();
    const input = JSON.stringify(payload());
    for (const each of schedulesOf(filling, now)) insertSchedule.run({ ...each, input, now });
  }

  /** Including the tables that the store uses to find jobs. */
  function fillListed({ count: jobs }: Filling): void {
    const now = Date.now();
    const of = listedColumns(jobs, now);
    db.exec(`
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${jobs})
      INSERT INTO holdfast_jobs (id, type, queue, priority, state, user, input, attempt, max_attempts, losses, releases, fence,
        run_at, due_at, created_at, updated_at, finished_at, tags, schedule, slot)
      SELECT printf('%08x-0000-7000-8000-%012x', i, i), ${of.type}, ${of.queue}, 0, ${of.state}, ${of.user}, '{}', 1, 4, 0, 0, 1,
        ${of.createdAt}, ${of.dueAt}, ${of.createdAt}, ${of.createdAt},
        CASE WHEN (${of.dueAt}) IS NULL THEN ${of.createdAt} END, json_array(${of.tag}), ${of.schedule}, i
      FROM n;
      INSERT INTO holdfast_tags (tag, job) SELECT value, seq FROM holdfast_jobs, json_each(tags);
      INSERT INTO holdfast_counts (queue, type, state, n) SELECT queue, type, state, count(*) FROM holdfast_jobs GROUP BY 1, 2, 3;
      INSERT INTO holdfast_ages (block, type, oldest, newest)
      SELECT seq / 8192, type, min(created_at), max(created_at) FROM holdfast_jobs GROUP BY 1, 2`);
  }

  for (const filling of fillings) {
    const { kind } = filling;
    db.transaction(kind === "listed" ? fillListed : kind.endsWith("schedules") ? fillSchedules : fill)(filling);
  }
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.close();
}
