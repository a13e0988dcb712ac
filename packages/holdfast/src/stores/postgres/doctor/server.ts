import { type Runner, unnamed } from "../connection/db.js";
import { foreignPart } from "../schema/owners.js";
import { count, countOf, ok, problem, time, warning, type Finding, type Target } from "./finding.js";

const OLDEST_VERSION = 150_000;
const CLOCK_MS = 1_000;
const FEW_CONNECTIONS = 5;

export async function checkVersion(runner: Runner): Promise<Finding[]> {
  const text =
    "SELECT pg_catalog.current_setting('server_version_num')::integer, pg_catalog.current_setting('server_version')";
  const [row] = await runner.run(unnamed(text), []);
  return [judgeVersion(row?.[0] as number, row?.[1] as string)];
}

export function judgeVersion(number: number, name: string): Finding {
  if (number >= OLDEST_VERSION) return ok("server version", `PostgreSQL ${name}`);
  return problem(
    "server version",
    `PostgreSQL ${name} is too old: Holdfast needs 15 or later`,
    "Upgrade the server to PostgreSQL 15 or later.",
  );
}

export async function checkDurability(runner: Runner): Promise<Finding[]> {
  const settings = ["fsync", "full_page_writes", "synchronous_commit"];
  const text = "SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.unnest($1::text[]) AS s (name)";
  const rows = await runner.run(unnamed(text), [settings]);
  const off = new Set(rows.filter(([, value]) => value === "off").map(([name]) => name as string));
  const findings: Finding[] = [];
  for (const name of ["fsync", "full_page_writes"]) {
    if (!off.has(name)) continue;
    findings.push(
      problem(
        "durability",
        `${name} is off: if the server's machine fails, the whole database may be damaged`,
        `Set ${name} = on in postgresql.conf and reload.`,
      ),
    );
  }
  if (off.has("synchronous_commit")) {
    findings.push(
      warning(
        "durability",
        "synchronous_commit is off: jobs that were acknowledged just before a crash of the server are lost",
        "Set synchronous_commit = on for this database or role, unless that loss is acceptable.",
      ),
    );
  }
  return findings.length > 0 ? findings : [ok("durability", "acknowledged writes are on disk")];
}

export async function checkClock(runner: Runner, { clock }: Target): Promise<Finding[]> {
  const before = clock.now();
  const text = "SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::float8";
  const [row] = await runner.run(unnamed(text), []);
  const after = clock.now();
  // The server read its clock at some time in between.
  const slack = (after - before) / 2;
  const apart = (row?.[0] as number) - (before + slack);
  const found = `this process's clock is ${time(Math.abs(apart))} ${apart > 0 ? "behind" : "ahead of"} the server's`;
  if (Math.abs(apart) - slack <= CLOCK_MS) return [ok("clock", found)];
  return [
    warning(
      "clock",
      found,
      "Synchronise the clocks (NTP): times that this process passes, such as runAt, are off by as much.",
    ),
  ];
}

export async function checkConnections(runner: Runner, { connections }: Target): Promise<Finding[]> {
  const text = `SELECT pg_catalog.current_setting('max_connections')::integer, pg_catalog.current_setting('superuser_reserved_connections')::integer
      + coalesce(pg_catalog.current_setting('reserved_connections', true)::integer, 0),
    pg_catalog.count(*)::integer, pg_catalog.count(*) FILTER (WHERE pg_catalog.starts_with(application_name, 'holdfast'))::integer
    FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend' OR (backend_type IS NULL AND datid IS NOT NULL)`;
  const [row] = await runner.run(unnamed(text), []);
  const [max, reserved, used, ours] = row as [number, number, number, number];
  return [judgeConnections({ max: max - reserved, used, ours, wanted: connections })];
}

/** `max`: connections that ordinary roles may use; `ours`: how many of `used` are Holdfast's. */
export function judgeConnections(seen: { max: number; used: number; ours: number; wanted: number | null }): Finding {
  const { max, used, ours, wanted } = seen;
  const left = Math.max(0, max - used);
  const needs = wanted === null ? "" : `; a process with these options uses up to ${count(wanted)}`;
  const found = `${count(used)} of ${countOf(max, "connection")} ${used === 1 ? "is" : "are"} in use, ${count(ours)} of them by Holdfast${needs}`;
  const advice =
    "Lower `connections` in each process, use PgBouncer, or raise max_connections: the next process may get none.";
  if (left === 0) return problem("connections", found, advice);
  return left < (wanted ?? FEW_CONNECTIONS) ? warning("connections", found, advice) : ok("connections", found);
}

export async function checkRights(runner: Runner, target: Target): Promise<Finding[]> {
  return [...(await checkSessions(runner)), ...(await checkOwners(runner, target))];
}

/** Only for a role that may create objects in the schema: others do not migrate, so the tables belong to another role. */
async function checkOwners(runner: Runner, { settings, schema }: Target): Promise<Finding[]> {
  const text = "SELECT pg_catalog.has_schema_privilege(pg_catalog.to_regnamespace($1)::oid, 'CREATE')";
  const [row] = await runner.run(unnamed(text), [settings.schema]);
  const foreign = row?.[0] === true ? await foreignPart(runner, settings) : null;
  if (foreign === null) return [];
  return [
    problem(
      "rights",
      `${foreign.what} belongs to the role ${foreign.owner}, which can run code with the privileges of every role that uses the schema ${schema}`,
      "Let a superuser change the owner to the role that migrates (ALTER … OWNER TO …), or use another schema.",
    ),
  ];
}

/** Without a privilege, the age and the query of other roles' sessions are hidden. */
async function checkSessions(runner: Runner): Promise<Finding[]> {
  const text = `SELECT pg_catalog.count(*)::integer, pg_catalog.count(*) FILTER (WHERE query = '<insufficient privilege>')::integer, current_user::text
    FROM pg_catalog.pg_stat_activity WHERE datname = pg_catalog.current_database()`;
  const [row] = await runner.run(unnamed(text), []);
  const [all, hidden, role] = row as [number, number, string];
  if (hidden === 0) return [ok("rights", "all sessions of this database are visible")];
  return [
    warning(
      "rights",
      `${count(hidden)} of ${countOf(all, "session")} of this database ${hidden === 1 ? "is" : "are"} hidden from the role ${role}: the age of their transactions is unknown`,
      `Run as a superuser: GRANT pg_read_all_stats TO "${role}".`,
    ),
  ];
}
