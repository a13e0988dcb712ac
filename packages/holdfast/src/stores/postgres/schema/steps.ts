import { PARKED_AT } from "../../../job/stored-step.js";
import { emitSignature } from "./event-functions.js";
import { functions, functionsBefore15, signatures } from "./functions.js";
import { preallocateTable } from "./preallocate.js";
import type { Migration } from "./schema.js";
import { forgetJobBefore } from "./users.js";

/**
 * Steps of jobs, events that they wait for, and notes of waits that have ended. Columns without a default are added at once,
 * whatever the size of the table. Processes of the previous version leave `ties` as it is, and lose it when they finish a job. The
 * functions are created again because their statements have changed. Roles get the privileges on the new tables that they have
 * on similar ones.
 */
export const STEPS: Migration = {
  version: 15,
  name: "steps and events",
  up: (settings) => {
    const { schema: s } = settings;
    const step = "job, name, member, place, kind, state, fence, tries, wake, started_at, failure";
    return `
-- 1: it has steps, 2: another job waits for its end, 4 for each wait that ended while it was leased. NULL for all other jobs.
ALTER TABLE ${s}.live ADD COLUMN IF NOT EXISTS ties integer;
ALTER TABLE ${s}.archive ADD COLUMN IF NOT EXISTS ties integer;
CREATE TABLE IF NOT EXISTS ${s}.steps (
  job uuid NOT NULL,
  name text COLLATE "C" NOT NULL,
  -- Of a set of children, else 0.
  member integer NOT NULL,
  -- In the order in which the handler began them.
  place integer NOT NULL,
  kind text NOT NULL,
  state text NOT NULL,
  fence integer NOT NULL,
  tries integer NOT NULL,
  -- What it waits for: event:<name> or job:<id>.
  topic text COLLATE "C",
  -- When the job is woken: at the end of the last member, or also at the first failure.
  wake text NOT NULL,
  started_at bigint NOT NULL,
  ended_at bigint,
  until bigint,
  failure json,
  value json,
  PRIMARY KEY (job, name, member)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
${preallocateTable(settings, "steps", step, "pg_catalog.gen_random_uuid(), '', 0, 0, '', '', 0, 0, '', 0, pg_catalog.to_json(filler)")}
CREATE INDEX IF NOT EXISTS steps_topic ON ${s}.steps (topic) WHERE state = 'waiting' AND topic IS NOT NULL;
CREATE INDEX IF NOT EXISTS steps_waiting ON ${s}.steps (job, name) WHERE state = 'waiting';
CREATE TABLE IF NOT EXISTS ${s}.events (name text COLLATE "C" PRIMARY KEY, payload json NOT NULL, at bigint NOT NULL, keep_until bigint NOT NULL);
${preallocateTable(settings, "events", "name, payload, at, keep_until", "n || filler, '{}', 0, 0")}
CREATE INDEX IF NOT EXISTS events_until ON ${s}.events (keep_until);
-- Notes of what follows from a commit: a topic whose waits have ended, and how, or a set of steps that may wake its job.
CREATE TABLE IF NOT EXISTS ${s}.wakes (
  n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  topic text COLLATE "C", value json, failure json,
  job uuid, name text COLLATE "C", failed boolean
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000);
${preallocateTable(settings, "wakes", "topic", "filler")}
${functions(settings)}
DECLARE given record;
BEGIN
  FOR given IN SELECT a.privilege_type AS what, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
    FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = '${s}.deltas'::regclass AND a.grantee <> c.relowner
    AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  LOOP
    EXECUTE format('GRANT %s ON ${s}.steps, ${s}.events, ${s}.wakes TO %s', given.what, given.role);
  END LOOP;
  -- Roles that may enqueue by the function may emit by one.
  FOR given IN SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role FROM pg_proc p, aclexplode(p.proacl) a
    WHERE p.oid = '${signatures(settings).enqueue}'::regprocedure AND a.privilege_type = 'EXECUTE' AND a.grantee <> p.proowner
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION ${emitSignature(settings)} TO %s', given.role);
  END LOOP;
END;`;
  },
  down: (settings) => {
    const { schema: s } = settings;
    return `
DROP TABLE ${s}.steps, ${s}.events, ${s}.wakes;
ALTER TABLE ${s}.live DROP COLUMN ties;
ALTER TABLE ${s}.archive DROP COLUMN ties;
-- Nothing would wake parked jobs any more.
UPDATE ${s}.live SET due_at = run_at WHERE due_at = ${PARKED_AT};
${functionsBefore15(settings)}
${forgetJobBefore(settings, 15)}`;
  },
};
