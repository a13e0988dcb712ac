import type { Database } from "better-sqlite3";
import { SchemaTooNewError } from "../../errors.js";
import { TOKEN_ROLES } from "../../access/roles.js";
import { STATE_NAMES } from "../../job/state.js";
import type { PendingMigration } from "../../store.js";
import { BLOCK } from "../list-plan.js";

// With OR on purpose: for `state IN (…)` SQLite builds a temporary index at every write (1.7 of 4.5 µs).
const STATE_CHECK = STATE_NAMES.map((state) => `state = '${state}'`).join(" OR ");
const ROLE_CHECK = TOKEN_ROLES.map((role) => `role = '${role}'`).join(" OR ");

/**
 * Never changed, only appended to: the position is the version. Tables have a prefix, because the file may also hold the
 * application's tables.
 *
 * Jobs are updated in place (see docs/decisions/0001). Partial indexes keep finished jobs out of the indexes for claims, and
 * live jobs out of those for retention.
 */
const MIGRATIONS: readonly string[] = [
  `
CREATE TABLE holdfast_jobs (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  queue TEXT NOT NULL,
  priority INTEGER NOT NULL CHECK (priority BETWEEN -100 AND 100),
  state TEXT NOT NULL CHECK (${STATE_CHECK}),
  user TEXT,
  -- NULL: the input is large and lives in holdfast_inputs.
  input TEXT,
  output TEXT,
  error TEXT,
  error_code TEXT,
  error_at INTEGER,
  attempt INTEGER NOT NULL CHECK (attempt >= 0),
  max_attempts INTEGER NOT NULL CHECK (max_attempts >= 1),
  losses INTEGER NOT NULL,
  releases INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  run_at INTEGER NOT NULL,
  -- When it may be claimed; the end of the lease while leased; NULL when finished.
  due_at INTEGER,
  expires_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  claimed_at INTEGER,
  started_at INTEGER,
  finished_at INTEGER,
  cancel_at INTEGER,
  worker TEXT,
  key TEXT,
  key_scope TEXT,
  tags TEXT,
  progress REAL,
  progress_note TEXT
) STRICT;
CREATE INDEX holdfast_jobs_due ON holdfast_jobs (queue, priority, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX holdfast_jobs_finished ON holdfast_jobs (state, finished_at) WHERE due_at IS NULL;
CREATE INDEX holdfast_jobs_finished_type ON holdfast_jobs (type, state) WHERE due_at IS NULL;
CREATE INDEX holdfast_jobs_user ON holdfast_jobs (user) WHERE user IS NOT NULL;
CREATE INDEX holdfast_jobs_expiry ON holdfast_jobs (expires_at) WHERE expires_at IS NOT NULL AND due_at IS NOT NULL;
CREATE INDEX holdfast_jobs_cancel ON holdfast_jobs (cancel_at) WHERE cancel_at IS NOT NULL AND due_at IS NOT NULL;

CREATE TABLE holdfast_inputs (job INTEGER PRIMARY KEY, input TEXT NOT NULL) STRICT;
CREATE TABLE holdfast_keys (
  key TEXT PRIMARY KEY,
  job TEXT NOT NULL,
  scope TEXT NOT NULL,
  until INTEGER,
  -- The job's fence when it took the key: a claim since then frees a key of scope waiting.
  fence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_keys_until ON holdfast_keys (until) WHERE until IS NOT NULL;
CREATE TABLE holdfast_tags (
  tag TEXT NOT NULL, job INTEGER NOT NULL, PRIMARY KEY (tag, job)
) STRICT, WITHOUT ROWID;
CREATE TABLE holdfast_attempts (
  job INTEGER NOT NULL, n INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (job, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE holdfast_log (
  job INTEGER NOT NULL, n INTEGER NOT NULL, at INTEGER NOT NULL, line TEXT NOT NULL, PRIMARY KEY (job, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE holdfast_lanes (
  queue TEXT NOT NULL, priority INTEGER NOT NULL, paused INTEGER NOT NULL, PRIMARY KEY (queue, priority)
) STRICT, WITHOUT ROWID;
CREATE TABLE holdfast_counts (
  queue TEXT NOT NULL, type TEXT NOT NULL, state TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (queue, type, state)
) STRICT, WITHOUT ROWID;
CREATE TABLE holdfast_pace (
  second INTEGER NOT NULL, state TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (second, state)
) STRICT, WITHOUT ROWID;
CREATE TABLE holdfast_workers (id TEXT PRIMARY KEY, record TEXT NOT NULL, seen_at INTEGER NOT NULL, gone INTEGER NOT NULL) STRICT;
CREATE TABLE holdfast_turns (name TEXT PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
`,
  `
ALTER TABLE holdfast_jobs ADD COLUMN schedule TEXT;
ALTER TABLE holdfast_jobs ADD COLUMN slot INTEGER;
ALTER TABLE holdfast_jobs ADD COLUMN trace TEXT;
CREATE INDEX holdfast_jobs_schedule ON holdfast_jobs (schedule) WHERE schedule IS NOT NULL;
DROP INDEX holdfast_jobs_finished_type;
-- With due_at, although it is always NULL here: otherwise SQLite reads each row to check it.
CREATE INDEX holdfast_jobs_finished_type ON holdfast_jobs (type, state, queue, due_at) WHERE due_at IS NULL;

CREATE INDEX holdfast_jobs_failed ON holdfast_jobs (state) WHERE state = 'failed';

-- The types and creation times of the jobs in each block of numbers; see list-plan.ts.
CREATE TABLE holdfast_ages (
  block INTEGER NOT NULL, type TEXT NOT NULL, oldest INTEGER NOT NULL, newest INTEGER NOT NULL, PRIMARY KEY (block, type)
) STRICT, WITHOUT ROWID;
INSERT INTO holdfast_ages SELECT seq / ${BLOCK}, type, min(created_at), max(created_at) FROM holdfast_jobs GROUP BY 1, 2;

-- The highest number that a deleted job had.
CREATE TABLE holdfast_numbers (highest INTEGER NOT NULL) STRICT;
INSERT INTO holdfast_numbers VALUES (0);

CREATE TABLE holdfast_schedules (
  name TEXT PRIMARY KEY,
  -- A new one with every change.
  version TEXT NOT NULL,
  origin TEXT NOT NULL CHECK (origin = 'code' OR origin = 'runtime'),
  type TEXT NOT NULL,
  queue TEXT NOT NULL,
  priority INTEGER NOT NULL CHECK (priority BETWEEN -100 AND 100),
  user TEXT,
  input TEXT NOT NULL,
  max_attempts INTEGER NOT NULL CHECK (max_attempts >= 1),
  expires_after_ms INTEGER,
  tags TEXT,
  cron TEXT,
  timezone TEXT,
  every_ms INTEGER CHECK (every_ms >= 1000),
  start_at INTEGER,
  end_at INTEGER,
  jitter_ms INTEGER NOT NULL CHECK (jitter_ms >= 0),
  -- 'skip', 'latest', or the maximum number of slots to catch up.
  catch_up TEXT NOT NULL,
  overlap TEXT NOT NULL CHECK (overlap = 'allow' OR overlap = 'skip'),
  enabled INTEGER NOT NULL CHECK (enabled = 0 OR enabled = 1),
  defined TEXT,
  changes TEXT,
  -- NULL: the scheduler computes it.
  next_run_at INTEGER,
  -- The latest slot that was handled; never moves back.
  last_slot INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  CHECK ((cron IS NULL) <> (every_ms IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_schedules_code ON holdfast_schedules (name) WHERE origin = 'code';
CREATE INDEX holdfast_schedules_user ON holdfast_schedules (user, name) WHERE user IS NOT NULL;
CREATE INDEX holdfast_schedules_updated ON holdfast_schedules (updated_at);
CREATE INDEX holdfast_schedules_due ON holdfast_schedules (next_run_at) WHERE enabled = 1;
CREATE TABLE holdfast_slots (
  schedule TEXT NOT NULL,
  -- 1: it became a job. The newest of each kind are stored.
  fired INTEGER NOT NULL,
  n INTEGER NOT NULL,
  slot INTEGER NOT NULL,
  through INTEGER,
  job TEXT,
  reason TEXT,
  at INTEGER NOT NULL,
  PRIMARY KEY (schedule, fired, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_audit (
  id TEXT PRIMARY KEY,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  target TEXT,
  count INTEGER NOT NULL,
  detail TEXT
) STRICT;
-- One per filter: entries are written rarely, and a rare entry must be found without a scan.
CREATE INDEX holdfast_audit_at ON holdfast_audit (at, id);
CREATE INDEX holdfast_audit_actor ON holdfast_audit (actor, at, id);
CREATE INDEX holdfast_audit_action ON holdfast_audit (action, at, id);
CREATE INDEX holdfast_audit_both ON holdfast_audit (actor, action, at, id);
CREATE TABLE holdfast_tokens (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  hash TEXT NOT NULL,
  role TEXT NOT NULL CHECK (${ROLE_CHECK}),
  user TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  CHECK ((role = 'user') = (user IS NOT NULL))
) STRICT, WITHOUT ROWID;
`,
  `
-- Lanes are now read from the index of live jobs. holdfast_lanes stays for running processes of the previous version.
CREATE TABLE holdfast_paused (queue TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
INSERT INTO holdfast_paused SELECT DISTINCT queue FROM holdfast_lanes WHERE paused = 1;
`,
  `
CREATE TABLE holdfast_settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO holdfast_settings VALUES ('cursorKey', lower(hex(randomblob(32))));
`,
  `
ALTER TABLE holdfast_jobs ADD COLUMN parent TEXT;
-- JSON; NULL: the job sets nothing for itself.
ALTER TABLE holdfast_jobs ADD COLUMN settings TEXT;
ALTER TABLE holdfast_jobs ADD COLUMN progress_data TEXT;
-- When a finished job is deleted, if not by the retention of its state.
ALTER TABLE holdfast_jobs ADD COLUMN purge_at INTEGER;
CREATE INDEX holdfast_jobs_parent ON holdfast_jobs (parent) WHERE parent IS NOT NULL;
-- Finished jobs only: older processes that retry a job leave its purge time.
CREATE INDEX holdfast_jobs_purge ON holdfast_jobs (purge_at) WHERE purge_at IS NOT NULL;
DROP INDEX holdfast_jobs_finished;
-- Without jobs that have a purge time of their own: a purge by state would read past them again and again. With the columns that
-- are always NULL here: otherwise SQLite reads each row to check them when it counts.
CREATE INDEX holdfast_jobs_finished ON holdfast_jobs (state, finished_at, due_at, purge_at) WHERE due_at IS NULL AND purge_at IS NULL;
`,
  `
-- The group of the job's error.
ALTER TABLE holdfast_jobs ADD COLUMN fingerprint TEXT;
CREATE INDEX holdfast_jobs_fingerprint ON holdfast_jobs (fingerprint) WHERE fingerprint IS NOT NULL;
CREATE TABLE holdfast_error_groups (
  fingerprint TEXT PRIMARY KEY,
  type TEXT,
  name TEXT,
  code TEXT,
  message TEXT NOT NULL,
  frame TEXT,
  count INTEGER NOT NULL,
  first_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  job TEXT NOT NULL,
  example TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_error_groups_last ON holdfast_error_groups (last_at, fingerprint);

CREATE TABLE holdfast_history (
  resolution TEXT NOT NULL, at INTEGER NOT NULL, writer TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (resolution, at, writer)
) STRICT, WITHOUT ROWID;

-- Changes of state, recorded only until the time in holdfast_following.
CREATE TABLE holdfast_transitions (
  n INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, job TEXT NOT NULL, type TEXT NOT NULL, queue TEXT NOT NULL, state TEXT NOT NULL
) STRICT;
CREATE TABLE holdfast_following (
  -- Increases if nothing was recorded for a while: cursors from before that have expired.
  epoch INTEGER NOT NULL,
  -- 0: nothing is recorded.
  until INTEGER NOT NULL,
  -- The last number that was deleted.
  deleted INTEGER NOT NULL
) STRICT;
INSERT INTO holdfast_following VALUES (0, 0, 0);

ALTER TABLE holdfast_paused ADD COLUMN paused_at INTEGER;
ALTER TABLE holdfast_paused ADD COLUMN paused_by TEXT;
`,
  `
ALTER TABLE holdfast_workers ADD COLUMN draining INTEGER NOT NULL DEFAULT 0;
-- Changes of many jobs by the admin API. There are at most a few hundred.
CREATE TABLE holdfast_operations (
  id TEXT PRIMARY KEY,
  started_at INTEGER NOT NULL,
  state TEXT NOT NULL,
  ended_at INTEGER,
  stop INTEGER NOT NULL DEFAULT 0,
  -- The process that runs it, and until when. NULL: it has ended.
  owner TEXT NOT NULL,
  lease_until INTEGER,
  summary TEXT NOT NULL,
  -- May be large, so it comes last: the other columns are read without it.
  plan TEXT NOT NULL
) STRICT;
CREATE INDEX holdfast_operations_running ON holdfast_operations (lease_until) WHERE lease_until IS NOT NULL;
`,
  `
-- Bits: it has steps, another job waits for its end, a wait ended while it was leased. NULL for all other jobs.
ALTER TABLE holdfast_jobs ADD COLUMN ties INTEGER;
CREATE TABLE holdfast_steps (
  job INTEGER NOT NULL,
  name TEXT NOT NULL,
  -- Of a set of children, else 0.
  member INTEGER NOT NULL,
  -- In the order in which the handler began them.
  place INTEGER NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL,
  fence INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  -- What it waits for: event:<name> or job:<id>.
  topic TEXT,
  -- When the job is woken: at the end of the last member, or also at the first failure.
  wake TEXT NOT NULL,
  failure TEXT,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  until INTEGER,
  -- May be large, so it comes last.
  value TEXT,
  PRIMARY KEY (job, name, member)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_steps_topic ON holdfast_steps (topic) WHERE state = 'waiting' AND topic IS NOT NULL;
CREATE INDEX holdfast_steps_waiting ON holdfast_steps (job, name) WHERE state = 'waiting';
CREATE TABLE holdfast_events (
  name TEXT PRIMARY KEY, payload TEXT NOT NULL, at INTEGER NOT NULL, keep_until INTEGER NOT NULL
) STRICT;
CREATE INDEX holdfast_events_until ON holdfast_events (keep_until);
`,
];

/** Applies pending migrations in one transaction, under the write lock: any number of processes may start together. */
export function migrate(db: Database, now: number): void {
  // Checked first, so that opening an up-to-date file does not take the write lock.
  if (versionOf(db) === MIGRATIONS.length) return;
  db.transaction(() => {
    db.exec(
      "CREATE TABLE IF NOT EXISTS holdfast_migrations (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT",
    );
    const from = versionOf(db);
    refuseNewer(from);
    const record = db.prepare("INSERT INTO holdfast_migrations (version, applied_at) VALUES (?, ?)");
    for (const [index, sql] of MIGRATIONS.slice(from).entries()) {
      db.exec(sql);
      record.run(from + index + 1, now);
    }
  }).immediate();
}

/** The migrations that `migrate` would apply. Null: the file does not exist yet. */
export function pendingMigrations(db: Database | null): PendingMigration[] {
  const from = db === null ? 0 : versionOf(db);
  refuseNewer(from);
  return MIGRATIONS.slice(from).map((_, index) => ({
    title: `schema version ${from + index + 1}`,
    createsTables: from === 0,
  }));
}

function refuseNewer(version: number): void {
  if (version <= MIGRATIONS.length) return;
  throw new SchemaTooNewError(
    `the database is at schema version ${version}, this version of Holdfast supports ${MIGRATIONS.length}; upgrade the holdfast package`,
  );
}

function versionOf(db: Database): number {
  const exists = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'holdfast_migrations'").get() !== undefined;
  if (!exists) return 0;
  return db.prepare("SELECT coalesce(max(version), 0) FROM holdfast_migrations").pluck().get() as number;
}
