import { functions, functionsBefore10 } from "./functions.js";
import { preallocateTable } from "./preallocate.js";
import type { Migration } from "./schema.js";
import { jobsView, thirdView } from "./views.js";

/**
 * Columns without a default are added at once, whatever the size of the table. Processes of the previous version leave them NULL
 * and record no transitions. The functions are created again because their statements have changed. Roles get the privileges on
 * the new tables that they have on similar ones.
 */
export const FOLLOWING: Migration = {
  version: 10,
  name: "error groups, history and transitions",
  up: (settings) => {
    const { schema: s } = settings;
    return `
-- The group of the job's error.
ALTER TABLE ${s}.live ADD COLUMN IF NOT EXISTS fingerprint text;
ALTER TABLE ${s}.archive ADD COLUMN IF NOT EXISTS fingerprint text;
-- At most about a thousand rows: without an index of times.
CREATE TABLE IF NOT EXISTS ${s}.error_groups (
  fingerprint text COLLATE "C" PRIMARY KEY, type text, name text, code text, message text NOT NULL, frame text,
  count bigint NOT NULL, first_at bigint NOT NULL, last_at bigint NOT NULL, job text NOT NULL, example text NOT NULL
);
CREATE TABLE IF NOT EXISTS ${s}.history (
  resolution text NOT NULL, at bigint NOT NULL, writer text COLLATE "C" NOT NULL, data text NOT NULL, PRIMARY KEY (resolution, at, writer)
);
-- Changes of states, recorded while jobs are followed: see recording.ts. A row has the jobs of one statement that changed to the
-- same state. Rows are in the order of n if they have jobs in common.
CREATE TABLE IF NOT EXISTS ${s}.transitions (
  n bigint GENERATED ALWAYS AS IDENTITY, xid xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(), at bigint NOT NULL,
  queue text NOT NULL, type text NOT NULL, state text NOT NULL, jobs uuid[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
CREATE INDEX IF NOT EXISTS transitions_xid ON ${s}.transitions (xid);
CREATE INDEX IF NOT EXISTS transitions_n ON ${s}.transitions (n);
${preallocateTable(settings, "transitions", "at, queue, type, state, jobs", "0, '', filler, '', '{}'")}
CREATE SEQUENCE IF NOT EXISTS ${s}.followed_until AS bigint MINVALUE 0 START 0;
CREATE TABLE IF NOT EXISTS ${s}.following (
  id smallint PRIMARY KEY CHECK (id = 1),
  -- Increases if nothing was recorded for a while: cursors from before that have expired.
  epoch bigint NOT NULL,
  until bigint NOT NULL,
  -- Whether every statement that began before the epoch has ended.
  settled boolean NOT NULL,
  -- A snapshot that contains every transition that was deleted; and earlier ones of purges, the oldest first.
  deleted text,
  snapshots text[] NOT NULL,
  snapshot_at bigint NOT NULL
);
INSERT INTO ${s}.following (id, epoch, until, settled, snapshots, snapshot_at) VALUES (1, 0, 0, false, '{}', 0) ON CONFLICT (id) DO NOTHING;
-- Since when a queue is paused. Whether it is paused is in lanes.
CREATE TABLE IF NOT EXISTS ${s}.pauses (queue text PRIMARY KEY, paused_at bigint NOT NULL, paused_by text);
${jobsView(settings)}
${functions(settings)}
DECLARE given record;
BEGIN
  FOR given IN SELECT a.privilege_type AS what, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
    FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = '${s}.deltas'::regclass AND a.grantee <> c.relowner
    AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  LOOP
    EXECUTE format('GRANT %s ON ${s}.error_groups, ${s}.history, ${s}.transitions, ${s}.following TO %s', given.what, given.role);
    IF given.what = 'INSERT' THEN EXECUTE format('GRANT USAGE ON SEQUENCE ${s}.followed_until TO %s', given.role); END IF;
    IF given.what = 'UPDATE' THEN EXECUTE format('GRANT UPDATE ON SEQUENCE ${s}.followed_until TO %s', given.role); END IF;
  END LOOP;
  FOR given IN SELECT a.privilege_type AS what, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
    FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = '${s}.lanes'::regclass AND a.grantee <> c.relowner
    AND a.privilege_type IN ('SELECT', 'UPDATE')
  LOOP
    EXECUTE format('GRANT %s ON ${s}.pauses TO %s', CASE WHEN given.what = 'SELECT' THEN 'SELECT' ELSE 'INSERT, UPDATE, DELETE' END, given.role);
  END LOOP;
END;`;
  },
  down: (settings) => {
    const { schema: s } = settings;
    return `
DROP TABLE ${s}.error_groups, ${s}.history, ${s}.transitions, ${s}.following, ${s}.pauses;
DROP SEQUENCE ${s}.followed_until;
DROP VIEW ${s}.jobs;
${thirdView(settings)}
ALTER TABLE ${s}.live DROP COLUMN fingerprint;
ALTER TABLE ${s}.archive DROP COLUMN fingerprint;
${functionsBefore10(settings)}`;
  },
};

/**
 * In a migration of its own, so that it locks the tables against writes only. No job has a fingerprint yet, so nothing is sorted:
 * it reads each table once, less than a second for each million jobs.
 */
export const FINGERPRINT_INDEXES: Migration = {
  version: 11,
  name: "indexes of error groups",
  up: ({ schema: s }) => `
CREATE INDEX IF NOT EXISTS live_fingerprint ON ${s}.live (fingerprint, seq DESC NULLS LAST) WHERE fingerprint IS NOT NULL;
CREATE INDEX IF NOT EXISTS archive_fingerprint ON ${s}.archive (fingerprint, seq DESC NULLS LAST) WHERE fingerprint IS NOT NULL;`,
  down: ({ schema: s }) => `DROP INDEX ${s}.live_fingerprint, ${s}.archive_fingerprint;`,
};

/**
 * Rows of transitions that are cheap to write and to read. A row of 500 jobs is 8 KB of ids, which PostgreSQL would compress: 2 to 3 ms
 * for each batch of a busy worker, 25 % of its claims, although ids hardly shrink. And to count its jobs would read all of them: a page of
 * a follower took 7 ms.
 */
export const TRANSITION_ROWS: Migration = {
  version: 13,
  name: "transitions with their size, without compression",
  up: ({ schema: s }) => `
ALTER TABLE ${s}.transitions ALTER COLUMN jobs SET STORAGE EXTERNAL;
ALTER TABLE ${s}.transitions ADD COLUMN IF NOT EXISTS size integer GENERATED ALWAYS AS (pg_catalog.cardinality(jobs)) STORED;`,
  down: ({ schema: s }) => `
ALTER TABLE ${s}.transitions DROP COLUMN size;
ALTER TABLE ${s}.transitions ALTER COLUMN jobs SET STORAGE EXTENDED;`,
};
