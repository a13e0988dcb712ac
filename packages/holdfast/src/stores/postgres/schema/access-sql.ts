import { signatures } from "./functions.js";
import { TABLE_NAMES, type Access, type SchemaSettings } from "./schema.js";
import { part, type Step } from "./migration-steps.js";
import { VIEW_NAMES } from "./views.js";

/** Tables with rows that belong to users. On the others nothing is granted to those. */
const GUARDED = ["live", "archive", "inputs", "tags", "keys", "attempts", "log", "schedules", "slots"] as const;

/** All that workers, the scheduler and maintenance change; lanes have their own line. */
const WORKED_ON = [...GUARDED, "deltas", "counts", "ages", "workers", "turns"];

/** Of an entry of the audit log: its time is over. */
const OVER = "keep_until <= (SELECT extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)";

/** Roles, what they may do, and who sees which rows. */
export function accessSteps(settings: SchemaSettings): Step[] {
  const { access } = settings;
  if (access === null) return [];
  const body = [roles(access), grants(settings, access), security(settings), policies(settings, access)].join("\n");
  return part(settings, "access", [{ title: "roles and row-level security", body }]);
}

function roles({ enqueue, work, admin }: Access): string {
  // Roles belong to all databases of a server; somebody may make the same at this moment.
  const make = (
    role: string,
  ): string => `IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '${role.slice(1, -1)}') THEN
  BEGIN CREATE ROLE ${role} NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
END IF;`;
  return [enqueue, work, admin].map(make).join("\n");
}

function grants(settings: SchemaSettings, { enqueue, work, admin, userRoles }: Access): string {
  const { schema: s } = settings;
  const tables = (names: readonly string[]): string => names.map((name) => `${s}.${name}`).join(", ");
  const programs = `${enqueue}, ${work}, ${admin}`;
  const everyone = [programs, ...userRoles].join(", ");
  const functions = signatures(settings);
  const lines = [
    `REVOKE ALL ON ${tables([...VIEW_NAMES, "migrations", ...TABLE_NAMES])} FROM PUBLIC, ${everyone}`,
    `REVOKE ALL ON SEQUENCE ${s}.job_seq FROM PUBLIC, ${everyone}`,
    `REVOKE ALL ON FUNCTION ${Object.values(functions).join(", ")} FROM PUBLIC, ${everyone}`,
    `GRANT USAGE ON SCHEMA ${s} TO ${everyone}`,
    `GRANT SELECT ON ${tables(["migrations", "settings", "lanes"])} TO ${programs}`,
    // By these alone jobs come in from those who may do nothing but enqueue: they have no rights on the tables of jobs.
    `GRANT EXECUTE ON FUNCTION ${functions.enqueue}, ${functions.inserts}, ${functions.lanes} TO ${programs}`,

    `GRANT USAGE ON SEQUENCE ${s}.job_seq TO ${work}, ${admin}`,
    `GRANT EXECUTE ON FUNCTION ${functions.refuseFinished} TO ${work}, ${admin}`,
    `GRANT SELECT, INSERT, UPDATE, DELETE ON ${tables(WORKED_ON)} TO ${work}, ${admin}`,
    `GRANT SELECT ON ${tables(VIEW_NAMES)} TO ${work}, ${admin}`,
    `GRANT INSERT, UPDATE (used_at), DELETE ON ${s}.lanes TO ${work}, ${admin}`,
    `GRANT EXECUTE ON FUNCTION ${functions.reapExpiredLeases} TO ${work}, ${admin}`,
    `GRANT UPDATE (paused) ON ${s}.lanes TO ${admin}`,
    // Nobody rewrites what is in these. A worker may clear away old entries of the audit log, and read nothing in them.
    `GRANT SELECT, INSERT, DELETE ON ${tables(["audit", "tokens"])} TO ${admin}`,
    `GRANT SELECT (id, at), DELETE ON ${s}.audit TO ${work}`,
    // A view reads with its reader's privileges.
    ...userRoles.map((role) => `GRANT SELECT ON ${tables([...VIEW_NAMES, "live", "archive", "inputs"])} TO ${role}`),
  ];
  return lines.map((line) => `${line};`).join("\n");
}

function security({ schema: s }: SchemaSettings): string {
  const lines = [...GUARDED, "lanes", "audit", "settings"].map(
    (table) => `IF NOT (SELECT relrowsecurity FROM pg_catalog.pg_class WHERE oid = '${s}.${table}'::regclass) THEN
  ALTER TABLE ${s}.${table} ENABLE ROW LEVEL SECURITY;
END IF;`,
  );
  return lines.join("\n");
}

function policies(settings: SchemaSettings, access: Access): string {
  const { schema: s } = settings;
  const { enqueue, work, admin, userRoles } = access;
  const policy = (table: string, name: string, rule: string): string =>
    `DROP POLICY IF EXISTS holdfast_${name} ON ${s}.${table};\n${rule === "" ? "" : `CREATE POLICY holdfast_${name} ON ${s}.${table} ${rule};`}`;
  const toUsers = userRoles.length === 0 ? null : `FOR SELECT TO ${userRoles.join(", ")}`;
  const own = (condition: string): string => (toUsers === null ? "" : `${toUsers} USING (${condition})`);
  // Asked as the same user, to whom other users' jobs are not there.
  const ofOwnJob = (table: string): string =>
    own(
      `EXISTS (SELECT FROM ${s}.live l WHERE l.id = ${table}.job) OR EXISTS (SELECT FROM ${s}.archive a WHERE a.id = ${table}.job)`,
    );
  const mine = own(`user_id = ${userNow(settings, access)}`);
  // Those who may only enqueue had rights on the tables once.
  const formerly = ["reads", "adds", "replaces", "removes"].flatMap((does) =>
    ["live", "archive", "inputs", "tags", "keys"].map((table) => policy(table, `enqueue_${does}`, "")),
  );
  return [
    ...GUARDED.map((table) => policy(table, "works", `TO ${work}, ${admin} USING (true) WITH CHECK (true)`)),
    ...formerly,
    ...["live", "archive", "schedules"].map((table) => policy(table, "own", mine)),
    // A queue is paused if any of its lanes is: so only admin adds one that is, or takes one away.
    policy("lanes", "admin", `TO ${admin} USING (true) WITH CHECK (true)`),
    policy("lanes", "reads", `FOR SELECT TO ${enqueue}, ${work} USING (true)`),
    policy("lanes", "adds", `FOR INSERT TO ${work} WITH CHECK (NOT paused)`),
    policy("lanes", "uses", `FOR UPDATE TO ${work} USING (true)`),
    policy("lanes", "removes", `FOR DELETE TO ${work} USING (NOT paused)`),
    // Who knows the key of cursors can make some of their own.
    policy("settings", "reads", `FOR SELECT USING (name <> 'cursorKey')`),
    policy("settings", "works", `FOR SELECT TO ${work}, ${admin} USING (true)`),
    policy("audit", "admin", `TO ${admin} USING (true) WITH CHECK (true)`),
    policy("audit", "work_reads", `FOR SELECT TO ${work} USING (${OVER})`),
    policy("audit", "work_removes", `FOR DELETE TO ${work} USING (${OVER})`),
    // Of these three only inputs are granted; the others are ready for whoever grants them.
    ...["inputs", "attempts", "log"].map((table) => policy(table, "own", ofOwnJob(table))),
  ].join("\n");
}

/** Who asks. In a query of its own, so that it is found out once and not for each row. */
function userNow({ userType }: SchemaSettings, { setting }: Access): string {
  return setting === null
    ? `(SELECT auth.uid()::${userType})`
    : `(SELECT nullif(pg_catalog.current_setting('${setting}', true), '')::${userType})`;
}
