import { CHILDREN_PREFIX } from "../jobs/tag-entries.js";
import { functions, functionsBefore8 } from "./functions.js";
import { insertSignatures } from "./insert-functions.js";
import type { Migration } from "./schema.js";
import { forgetJobBefore } from "./users.js";
import { secondView, thirdView } from "./views.js";

/**
 * Parents, settings and purge times of jobs. Columns without a default are added at once, whatever the size of the table.
 * Processes of the previous version leave them NULL. The functions are created again because their statements have changed.
 */
export const JOB_SETTINGS: Migration = {
  version: 8,
  name: "parents, settings and purge times",
  up: (settings) => {
    const { schema: s } = settings;
    const [narrow] = insertSignatures(settings, ["narrow"]);
    const wide = insertSignatures(settings, ["wide"]);
    return `ALTER TABLE ${s}.live
  ADD COLUMN IF NOT EXISTS progress_data json,
  -- The job whose handler enqueued it.
  ADD COLUMN IF NOT EXISTS parent uuid,
  -- What the job sets for itself; NULL for most jobs.
  ADD COLUMN IF NOT EXISTS settings json;
ALTER TABLE ${s}.archive
  ADD COLUMN IF NOT EXISTS progress_data json,
  ADD COLUMN IF NOT EXISTS parent uuid,
  ADD COLUMN IF NOT EXISTS settings json,
  -- The worker that held its last lease.
  ADD COLUMN IF NOT EXISTS worker text,
  -- When the job is deleted, if not by the retention of its state.
  ADD COLUMN IF NOT EXISTS purge_at bigint;
-- A view cannot lose columns: migration 10 adds one.
IF NOT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = '${s}.jobs'::regclass AND attname = 'error_fingerprint') THEN
  ${thirdView(settings)}
END IF;
${functions(settings)}
DECLARE writer record;
BEGIN
  -- Roles that may call the functions of earlier versions may call those with settings.
  FOR writer IN SELECT a.grantee FROM pg_proc p, aclexplode(p.proacl) a
    WHERE p.oid = '${narrow}'::regprocedure AND a.privilege_type = 'EXECUTE' AND a.grantee <> p.proowner
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION ${wide.join(", ")} TO %s',
      CASE WHEN writer.grantee = 0 THEN 'PUBLIC' ELSE writer.grantee::regrole::text END);
  END LOOP;
END;`;
  },
  down: (settings) => {
    const { schema: s } = settings;
    return `DROP VIEW ${s}.jobs;
${secondView(settings)}
ALTER TABLE ${s}.live DROP COLUMN progress_data, DROP COLUMN parent, DROP COLUMN settings;
ALTER TABLE ${s}.archive DROP COLUMN progress_data, DROP COLUMN parent, DROP COLUMN settings, DROP COLUMN worker, DROP COLUMN purge_at;
DELETE FROM ${s}.tags WHERE pg_catalog.starts_with(tag, ${CHILDREN_PREFIX});
${functionsBefore8(settings)}
${forgetJobBefore(settings, 8)}`;
  },
};

/**
 * In a migration of its own: the index takes about a second for each million finished jobs. It locks that table against writes
 * only, so meanwhile jobs are enqueued, claimed and run, and their outcomes wait.
 */
export const PURGE_INDEX: Migration = {
  version: 9,
  name: "an index of purge times",
  up: ({ schema: s }) => `
-- By purge time first: a purge by state would otherwise read past jobs with a time of their own again and again. Not a partial
-- index, because queries of all jobs of a state use it too.
CREATE INDEX IF NOT EXISTS archive_finished ON ${s}.archive (state, purge_at, finished_at);
DROP INDEX IF EXISTS ${s}.archive_ended;`,
  down: ({ schema: s }) => `
CREATE INDEX archive_ended ON ${s}.archive (state, finished_at);
DROP INDEX ${s}.archive_finished;`,
};
