import { signatures } from "./functions.js";
import { SEQUENCE_NAMES, TABLE_NAMES, type Access, type SchemaSettings } from "./schema.js";
import { optionSteps, type Step } from "./migration-steps.js";
import { VIEW_NAMES } from "./views.js";

/** Tables with rows that belong to users. User roles have no privileges on the others. */
const GUARDED = [
  "live",
  "archive",
  "inputs",
  "tags",
  "keys",
  "attempts",
  "log",
  "schedules",
  "slots",
  "steps",
] as const;

/** Tables that workers, the scheduler and maintenance change; `lanes` has its own line. */
const WORK_TABLES = [
  ...GUARDED,
  "deltas",
  "counts",
  "ages",
  "workers",
  "turns",
  "error_groups",
  "history",
  "transitions",
  "following",
  "events",
  "wakes",
];

/** The retention of an audit entry has ended. */
const EXPIRED = "keep_until <= (SELECT extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)";

/** Roles, their privileges, and row-level security. */
export function accessSteps(settings: SchemaSettings): Step[] {
  const { access } = settings;
  if (access === null) return [];
  const body = [roles(access), grants(settings, access), security(settings), policies(settings, access)].join("\n");
  return optionSteps(settings, "access", [{ title: "roles and row-level security", body }]);
}

function roles({ enqueue, work, admin }: Access): string {
  // Roles belong to the whole server: another database may create the same one concurrently.
  const create = (
    role: string,
  ): string => `IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '${role.slice(1, -1)}') THEN
  BEGIN CREATE ROLE ${role} NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;
END IF;`;
  return [enqueue, work, admin].map(create).join("\n");
}

function grants(settings: SchemaSettings, { enqueue, work, admin, userRoles }: Access): string {
  const { schema: s } = settings;
  const tables = (names: readonly string[]): string => names.map((name) => `${s}.${name}`).join(", ");
  const programs = `${enqueue}, ${work}, ${admin}`;
  const everyone = [programs, ...userRoles].join(", ");
  const functions = signatures(settings);
  const lines = [
    `REVOKE ALL ON ${tables([...VIEW_NAMES, "migrations", ...TABLE_NAMES])} FROM PUBLIC, ${everyone}`,
    `REVOKE ALL ON SEQUENCE ${tables(SEQUENCE_NAMES)} FROM PUBLIC, ${everyone}`,
    `REVOKE ALL ON FUNCTION ${Object.values(functions).join(", ")} FROM PUBLIC, ${everyone}`,
    `GRANT USAGE ON SCHEMA ${s} TO ${everyone}`,
    `GRANT SELECT ON ${tables(["migrations", "settings", "lanes", "pauses"])} TO ${programs}`,
    // The role enqueue writes jobs only through these: it has no privileges on the tables of jobs.
    `GRANT EXECUTE ON FUNCTION ${functions.enqueue}, ${functions.inserts}, ${functions.lanes}, ${functions.emit} TO ${programs}`,

    `GRANT USAGE ON SEQUENCE ${s}.job_seq TO ${work}, ${admin}`,
    `GRANT USAGE, UPDATE ON SEQUENCE ${s}.followed_until TO ${work}, ${admin}`,
    `GRANT EXECUTE ON FUNCTION ${functions.refuseFinished} TO ${work}, ${admin}`,
    `GRANT SELECT, INSERT, UPDATE, DELETE ON ${tables(WORK_TABLES)} TO ${work}, ${admin}`,
    `GRANT SELECT ON ${tables(VIEW_NAMES)} TO ${work}, ${admin}`,
    `GRANT INSERT, UPDATE (used_at), DELETE ON ${s}.lanes TO ${work}, ${admin}`,
    `GRANT EXECUTE ON FUNCTION ${functions.reapExpiredLeases} TO ${work}, ${admin}`,
    `GRANT UPDATE (paused) ON ${s}.lanes TO ${admin}`,
    `GRANT INSERT, UPDATE, DELETE ON ${s}.pauses TO ${admin}`,
    // No role updates these. A worker may delete old audit entries, and cannot read their content.
    `GRANT SELECT, INSERT, DELETE ON ${tables(["audit", "tokens"])} TO ${admin}`,
    `GRANT SELECT (id, at), DELETE ON ${s}.audit TO ${work}`,
    // What an operation does is recorded as done by its actor, so only admin may write one.
    `GRANT SELECT, INSERT, UPDATE, DELETE ON ${s}.operations TO ${admin}`,
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
  // Evaluated as the same user, to whom other users' jobs are invisible.
  const ofOwnJob = (table: string): string =>
    own(
      `EXISTS (SELECT FROM ${s}.live l WHERE l.id = ${table}.job) OR EXISTS (SELECT FROM ${s}.archive a WHERE a.id = ${table}.job)`,
    );
  const mine = own(`user_id = ${userNow(settings, access)}`);
  // Earlier versions gave the role enqueue privileges on the tables.
  const obsolete = ["reads", "adds", "replaces", "removes"].flatMap((does) =>
    ["live", "archive", "inputs", "tags", "keys"].map((table) => policy(table, `enqueue_${does}`, "")),
  );
  return [
    ...GUARDED.map((table) => policy(table, "works", `TO ${work}, ${admin} USING (true) WITH CHECK (true)`)),
    ...obsolete,
    ...["live", "archive", "schedules"].map((table) => policy(table, "own", mine)),
    // A queue is paused if any of its lanes is, so only admin may add or remove a paused lane.
    policy("lanes", "admin", `TO ${admin} USING (true) WITH CHECK (true)`),
    policy("lanes", "reads", `FOR SELECT TO ${enqueue}, ${work} USING (true)`),
    policy("lanes", "adds", `FOR INSERT TO ${work} WITH CHECK (NOT paused)`),
    policy("lanes", "uses", `FOR UPDATE TO ${work} USING (true)`),
    policy("lanes", "removes", `FOR DELETE TO ${work} USING (NOT paused)`),
    // With the cursor key, a role could forge cursors.
    policy("settings", "reads", `FOR SELECT USING (name <> 'cursorKey')`),
    policy("settings", "works", `FOR SELECT TO ${work}, ${admin} USING (true)`),
    policy("audit", "admin", `TO ${admin} USING (true) WITH CHECK (true)`),
    policy("audit", "work_reads", `FOR SELECT TO ${work} USING (${EXPIRED})`),
    policy("audit", "work_removes", `FOR DELETE TO ${work} USING (${EXPIRED})`),
    // Only `inputs` is granted. The others are prepared for your own grants.
    ...["inputs", "attempts", "log", "steps"].map((table) => policy(table, "own", ofOwnJob(table))),
  ].join("\n");
}

/** The current user. In a subquery, so that it is evaluated once and not for each row. */
function userNow({ userType }: SchemaSettings, { setting }: Access): string {
  return setting === null
    ? `(SELECT auth.uid()::${userType})`
    : `(SELECT nullif(pg_catalog.current_setting('${setting}', true), '')::${userType})`;
}
