import Database from "better-sqlite3";
import { NOOP, orderedId, payload } from "./jobs.js";
import type { Raw } from "./raw.js";

export interface RawLease {
  seq: number;
  fence: number;
}

/** A due job as an array of values: the driver creates arrays at half the cost of objects. */
type DueRow = [id: string, fence: number, type: string, ...unknown[]];
const COLUMNS = `id, fence, type, queue, priority, user, input, attempt, max_attempts, losses, releases, run_at,
  expires_at, created_at, cancel_at, error, error_code, error_at, tags, state, seq`;
const [INPUT, ATTEMPT, SEQ] = [6, 7, 20];

const LEASE_MS = 30_000;
const WORKER = "raw:1:000000000000";

/** A connection with the settings that Holdfast uses: the same durability, cache and checkpoints. */
export function connectSqlite(file: string): Database.Database {
  const db = new Database(file, { timeout: 5_000 });
  db.pragma("journal_mode = WAL");
  db.pragma("synchronous = FULL");
  db.pragma("journal_size_limit = 67108864");
  db.pragma("wal_autocheckpoint = 4000");
  db.pragma("cache_size = -32000");
  return db;
}

/**
 * The writes of the SQLite store without Holdfast: one thread, no checks, no results, nothing between the loop and the
 * driver. Uses a file that Holdfast's migration has created, so that tables and indexes are the same.
 */
export function openRawSqlite(file: string): Raw<RawLease> {
  const db = connectSqlite(file);
  const insertRow = db.prepare(
    `INSERT INTO holdfast_jobs (id, type, queue, priority, state, user, input, attempt, max_attempts, losses, releases,
       fence, run_at, due_at, expires_at, created_at, updated_at, key, key_scope, tags)
     VALUES (?, ?, 'default', 0, 'pending', NULL, ?, 0, 4, 0, 0, 0, ?, ?, NULL, ?, ?, NULL, NULL, NULL)`,
  );
  const nextPriority = db
    .prepare(
      `SELECT priority FROM holdfast_jobs
       WHERE due_at IS NOT NULL AND queue = 'default' AND priority < ? ORDER BY priority DESC LIMIT 1`,
    )
    .pluck();
  const dueRows = db
    .prepare(
      `SELECT ${COLUMNS} FROM holdfast_jobs
       WHERE queue = 'default' AND priority = ? AND due_at <= ? ORDER BY due_at, seq LIMIT ?`,
    )
    .raw();
  const largeInput = db.prepare("SELECT input FROM holdfast_inputs WHERE job = ?").pluck();
  const lease = db.prepare(
    `UPDATE holdfast_jobs SET state = 'claimed', fence = ?, attempt = ?, losses = 0, due_at = ?, claimed_at = ?,
       started_at = NULL, worker = ?, updated_at = ? WHERE seq = ?`,
  );
  const complete = db.prepare(
    `UPDATE holdfast_jobs SET state = 'completed', output = '{}', due_at = NULL, finished_at = ?, updated_at = ?,
       started_at = ? WHERE seq = ? AND fence = ?`,
  );
  const count = db.prepare(
    "INSERT INTO holdfast_counts (queue, type, state, n) VALUES ('default', ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
  );
  const pace = db.prepare(
    "INSERT INTO holdfast_pace (second, state, n) VALUES (?, 'completed', ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
  );
  const input = JSON.stringify(payload());

  function insert(jobs: number): void {
    const now = Date.now();
    for (let index = 0; index < jobs; index++) insertRow.run(orderedId(now), NOOP, input, now, now, now, now);
    count.run(NOOP, "pending", jobs);
  }

  function claim(limit: number): RawLease[] {
    const now = Date.now();
    const leases: RawLease[] = [];
    const below = (priority: number): number | undefined => nextPriority.get(priority) as number | undefined;
    for (let priority = below(Infinity); priority !== undefined; priority = below(priority)) {
      for (const row of dueRows.all(priority, now, limit - leases.length) as DueRow[]) {
        const seq = row[SEQ] as number;
        const fence = row[1] + 1;
        // A worker passes the input to its handler, so it is read here too.
        if (row[INPUT] === null) largeInput.get(seq);
        lease.run(fence, (row[ATTEMPT] as number) + 1, now + LEASE_MS, now, WORKER, now, seq);
        leases.push({ seq, fence });
      }
      if (leases.length >= limit) break;
    }
    if (leases.length === 0) return leases;
    count.run(NOOP, "pending", -leases.length);
    count.run(NOOP, "claimed", leases.length);
    return leases;
  }

  function settle(leases: readonly RawLease[]): void {
    const now = Date.now();
    for (const { seq, fence } of leases) complete.run(now, now, now, seq, fence);
    count.run(NOOP, "claimed", -leases.length);
    count.run(NOOP, "completed", leases.length);
    pace.run(Math.floor(now / 1000), leases.length);
  }

  const [inserting, claiming, settling] = [db.transaction(insert), db.transaction(claim), db.transaction(settle)];
  return {
    insert: (jobs) => inserting.immediate(jobs),
    claim: (limit) => claiming.immediate(limit),
    settle: (leases) => settling.immediate(leases),
    close: () => void db.close(),
  };
}
