import { preallocate } from "./preallocate.js";
import { TOKEN_ROLES } from "../../../access/roles.js";
import { STATE_NAMES, isFinished } from "../../../job/state.js";
import { firstView } from "./views.js";

/** The settings that the SQL of an installation depends on. */
export interface SchemaSettings {
  /** Quoted. */
  schema: string;
  /** The channel of notifications. */
  channel: string;
  /** Type of the column with a job's user: the type of your users' key, if jobs refer to them. */
  userType: "text" | "uuid" | "bigint";
  /** The users' table, if jobs refer to it. */
  users: UsersTable | null;
  /** Roles and row-level security, if they are enabled. */
  access: Access | null;
}

export interface UsersTable {
  /** Quoted, with its schema. */
  table: string;
  /** Quoted. */
  column: string;
}

/** Names are quoted. */
export interface Access {
  enqueue: string;
  work: string;
  admin: string;
  userRoles: readonly string[];
  /** The setting with the current user; `null` for Supabase's `auth.uid()`. */
  setting: string | null;
}

export interface Migration {
  version: number;
  name: string;
  up: (settings: SchemaSettings) => string;
  down: (settings: SchemaSettings) => string;
}

const list = (states: readonly string[]): string => states.map((state) => `'${state}'`).join(", ");
const LIVE = list(STATE_NAMES.filter((state) => !isFinished(state)));
/** The names of finished states, as a list in SQL. */
export const FINISHED: string = list(STATE_NAMES.filter(isFinished));

/**
 * The columns that the tables of live and of finished jobs share. Migration 8 adds four of the last six, migration 10 the last but
 * one, migration 15 the last.
 */
export const COMMON: readonly string[] = [
  "id",
  "seq",
  "type",
  "queue",
  "priority",
  "state",
  "user_id",
  "input",
  "input_bytes",
  "attempt",
  "max_attempts",
  "losses",
  "releases",
  "fence",
  "run_at",
  "expires_at",
  "created_at",
  "updated_at",
  "claimed_at",
  "started_at",
  "cancel_at",
  "key",
  "key_scope",
  "tags",
  "schedule",
  "slot",
  "trace",
  "error",
  "error_code",
  "error_at",
  "progress",
  "progress_note",
  "progress_data",
  "parent",
  "settings",
  "worker",
  "fingerprint",
  "ties",
];
/** Those that were shared before migration 8. */
export const COMMON_BEFORE_8: readonly string[] = COMMON.slice(0, -6);
/** Those that were shared before migration 10. */
export const COMMON_BEFORE_10: readonly string[] = COMMON.slice(0, -2);
/** Those that were shared before migration 15. */
export const COMMON_BEFORE_15: readonly string[] = COMMON.slice(0, -1);

const common = ({ userType }: SchemaSettings): string => `
  id uuid NOT NULL,
  -- The order in which jobs were enqueued.
  seq bigint NOT NULL,
  type text NOT NULL,
  queue text NOT NULL,
  priority smallint NOT NULL CHECK (priority BETWEEN -100 AND 100),
  state text NOT NULL,
  user_id ${userType},
  -- NULL: the input is large and stored in the table inputs.
  input json,
  input_bytes integer NOT NULL,
  attempt smallint NOT NULL CHECK (attempt >= 0),
  max_attempts smallint NOT NULL CHECK (max_attempts >= 1),
  losses smallint NOT NULL,
  releases smallint NOT NULL,
  -- Increases with every claim.
  fence integer NOT NULL,
  -- Times are milliseconds since 1970; the views show them as timestamps.
  run_at bigint NOT NULL,
  expires_at bigint,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  claimed_at bigint,
  started_at bigint,
  cancel_at bigint,
  key text,
  key_scope text,
  tags text[],
  schedule text,
  slot bigint,
  -- The trace context of the enqueue, as JSON text.
  trace text,
  error text,
  error_code text,
  error_at bigint,
  progress double precision,
  progress_note text`;

/**
 * Live jobs are in `live`, which stays small. The statement that settles a job moves it to `archive`.
 */
export const TABLES: Migration = {
  version: 1,
  name: "jobs, schedules, audit log and tokens",
  up: (settings) => create(settings),
  // By name and without CASCADE: the schema may be shared, and other programs' views may read our tables.
  down: ({ schema: s }) => `DROP VIEW ${s}.jobs;
DROP TABLE ${FIRST_TABLES.map((name) => `${s}.${name}`).join(", ")};
DROP FUNCTION IF EXISTS ${s}.forget_job(), ${s}.forget_schedule(), ${s}.forget_user() CASCADE;`,
};

export const CURSOR_KEY: Migration = {
  version: 5,
  name: "a key for cursors",
  // Two random UUIDs have 244 random bits.
  up: ({ schema: s }) => `INSERT INTO ${s}.settings (name, value)
VALUES ('cursorKey', pg_catalog.concat(pg_catalog.gen_random_uuid(), pg_catalog.gen_random_uuid()))
ON CONFLICT (name) DO NOTHING;`,
  down: ({ schema: s }) => `DELETE FROM ${s}.settings WHERE name = 'cursorKey';`,
};

const FIRST_TABLES: readonly string[] = [
  "settings",
  "live",
  "archive",
  "inputs",
  "tags",
  "keys",
  "attempts",
  "log",
  "lanes",
  "deltas",
  "counts",
  "ages",
  "workers",
  "turns",
  "schedules",
  "slots",
  "audit",
  "tokens",
];
/** All tables except `migrations`. */
export const TABLE_NAMES: readonly string[] = [
  ...FIRST_TABLES,
  "error_groups",
  "history",
  "transitions",
  "following",
  "pauses",
  "operations",
  "steps",
  "events",
  "wakes",
];
/** All sequences except those of identity columns. */
export const SEQUENCE_NAMES: readonly string[] = ["job_seq", "followed_until"];

function create(settings: SchemaSettings): string {
  const { schema: s, userType } = settings;
  return `
-- The settings of this installation.
CREATE TABLE ${s}.settings (name text PRIMARY KEY, value text NOT NULL);
INSERT INTO ${s}.settings (name, value) VALUES ('userType', '${userType}');
CREATE SEQUENCE ${s}.job_seq AS bigint CACHE 1;
CREATE TABLE ${s}.live (${common(settings)},
  -- When the job may be claimed; while leased, the end of the lease.
  due_at bigint NOT NULL,
  worker text,
  -- The values before the last claim.
  prev_state text,
  prev_attempt smallint,
  prev_due_at bigint,
  -- Every claim writes a new entry into each index: half of each page is free for those.
  PRIMARY KEY (id) WITH (fillfactor = 50),
  CHECK (state IN (${LIVE})),
  -- The index live_failed relies on it.
  CHECK (state <> 'failed' OR error_at IS NOT NULL)
) WITH (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
  autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE ${s}.live ALTER COLUMN seq SET DEFAULT pg_catalog.nextval('${s}.job_seq');
ALTER SEQUENCE ${s}.job_seq OWNED BY ${s}.live.seq;
CREATE INDEX live_due ON ${s}.live (queue, priority, due_at, seq);
CREATE INDEX live_seq ON ${s}.live (seq) WITH (fillfactor = 50);
-- Indexes for filtered lists have their own order: see listing.ts.
CREATE INDEX live_user ON ${s}.live (user_id, seq DESC NULLS LAST) WHERE user_id IS NOT NULL;
-- Failed jobs. Not by state: an update of an indexed column writes to all indexes.
CREATE INDEX live_failed ON ${s}.live (seq DESC NULLS LAST) WHERE error_at IS NOT NULL;
CREATE INDEX live_expiry ON ${s}.live (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX live_schedule ON ${s}.live (schedule, seq DESC NULLS LAST) WHERE schedule IS NOT NULL;

CREATE TABLE ${s}.archive (${common(settings)},
  output json,
  finished_at bigint NOT NULL,
  PRIMARY KEY (id),
  CHECK (state IN (${FINISHED}))
) WITH (autovacuum_vacuum_insert_scale_factor = 0.1);
CREATE INDEX archive_seq ON ${s}.archive (seq);
CREATE INDEX archive_ended ON ${s}.archive (state, finished_at);
CREATE INDEX archive_type ON ${s}.archive (type, state, queue, seq DESC NULLS LAST);
CREATE INDEX archive_user ON ${s}.archive (user_id, seq DESC NULLS LAST) WHERE user_id IS NOT NULL;
CREATE INDEX archive_schedule ON ${s}.archive (schedule, seq DESC NULLS LAST) WHERE schedule IS NOT NULL;

CREATE TABLE ${s}.inputs (job uuid PRIMARY KEY, input json NOT NULL);
ALTER TABLE ${s}.inputs ALTER COLUMN input SET STORAGE EXTERNAL;
CREATE TABLE ${s}.tags (tag text NOT NULL, seq bigint NOT NULL, job uuid NOT NULL, PRIMARY KEY (tag, seq));
CREATE INDEX tags_job ON ${s}.tags (job);
CREATE TABLE ${s}.keys (key text PRIMARY KEY, job uuid NOT NULL, scope text NOT NULL, until bigint);
CREATE INDEX keys_until ON ${s}.keys (until) WHERE until IS NOT NULL;
CREATE TABLE ${s}.attempts (job uuid NOT NULL, n bigint GENERATED ALWAYS AS IDENTITY, record json NOT NULL, PRIMARY KEY (job, n));
CREATE TABLE ${s}.log (job uuid NOT NULL, n bigint GENERATED ALWAYS AS IDENTITY, at bigint NOT NULL, line text NOT NULL, PRIMARY KEY (job, n));
CREATE TABLE ${s}.lanes (
  queue text NOT NULL, priority smallint NOT NULL, paused boolean NOT NULL DEFAULT false, used_at bigint NOT NULL,
  PRIMARY KEY (queue, priority)
);
-- The counter changes of each write; maintenance rolls them up into counts. Rows of new jobs also have their range of
-- seq, and when they were created if not just then; maintenance rolls that up into ages.
CREATE TABLE ${s}.deltas (at bigint NOT NULL, queue text NOT NULL, type text NOT NULL, state text NOT NULL, n integer NOT NULL, ended boolean NOT NULL,
  first_seq bigint, last_seq bigint, oldest bigint, newest bigint)
  WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);
CREATE INDEX deltas_at ON ${s}.deltas (at);
CREATE TABLE ${s}.counts (queue text NOT NULL, type text NOT NULL, state text NOT NULL, n bigint NOT NULL, PRIMARY KEY (queue, type, state));
-- For each block of seq: the types of its jobs, and the range of their creation times; see list-plan.ts.
CREATE TABLE ${s}.ages (block bigint NOT NULL, type text NOT NULL, oldest bigint NOT NULL, newest bigint NOT NULL, PRIMARY KEY (block, type));
CREATE TABLE ${s}.workers (id text PRIMARY KEY, record json NOT NULL, seen_at bigint NOT NULL, gone boolean NOT NULL);
CREATE TABLE ${s}.turns (name text PRIMARY KEY, at bigint NOT NULL);

CREATE TABLE ${s}.schedules (
  name text PRIMARY KEY,
  version text NOT NULL,
  origin text NOT NULL CHECK (origin IN ('code', 'runtime')),
  type text NOT NULL,
  queue text NOT NULL,
  priority smallint NOT NULL CHECK (priority BETWEEN -100 AND 100),
  user_id ${userType},
  input json NOT NULL,
  max_attempts smallint NOT NULL CHECK (max_attempts >= 1),
  expires_after_ms bigint,
  tags text[],
  cron text,
  timezone text,
  every_ms bigint CHECK (every_ms >= 1000),
  start_at bigint,
  end_at bigint,
  jitter_ms bigint NOT NULL CHECK (jitter_ms >= 0),
  catch_up text NOT NULL,
  overlap text NOT NULL CHECK (overlap IN ('allow', 'skip')),
  enabled boolean NOT NULL,
  defined text,
  changes text,
  -- NULL: the scheduler computes it.
  next_run_at bigint,
  last_slot bigint,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  CHECK ((cron IS NULL) <> (every_ms IS NULL))
);
CREATE INDEX schedules_due ON ${s}.schedules (next_run_at NULLS FIRST) WHERE enabled;
CREATE INDEX schedules_code ON ${s}.schedules (name) WHERE origin = 'code';
CREATE INDEX schedules_user ON ${s}.schedules (user_id, name) WHERE user_id IS NOT NULL;
CREATE TABLE ${s}.slots (
  schedule text NOT NULL, fired boolean NOT NULL, n bigint GENERATED ALWAYS AS IDENTITY,
  slot bigint NOT NULL, through bigint, job text, reason text, at bigint NOT NULL,
  PRIMARY KEY (schedule, fired, n)
);

CREATE TABLE ${s}.audit (
  id uuid PRIMARY KEY,
  at bigint NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  target text,
  count bigint NOT NULL,
  detail text,
  -- NULL: stored until an administrator deletes it.
  keep_until bigint
);
CREATE INDEX audit_at ON ${s}.audit (at, id);
-- As with jobs, filtered lists have their own order: see listing.ts.
CREATE INDEX audit_actor ON ${s}.audit (actor, at DESC NULLS LAST, id DESC NULLS LAST);
CREATE INDEX audit_action ON ${s}.audit (action, at DESC NULLS LAST, id DESC NULLS LAST);
CREATE INDEX audit_both ON ${s}.audit (actor, action, at DESC NULLS LAST, id DESC NULLS LAST);
CREATE TABLE ${s}.tokens (
  id text PRIMARY KEY,
  name text NOT NULL,
  hash text NOT NULL,
  role text NOT NULL CHECK (role IN (${list(TOKEN_ROLES)})),
  user_id text,
  created_at bigint NOT NULL,
  expires_at bigint,
  CHECK ((role = 'user') = (user_id IS NOT NULL))
);
${firstView(settings)}
${preallocate(settings)}`;
}
