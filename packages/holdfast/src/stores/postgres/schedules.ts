import { LIMITS } from "../../defaults.js";
import { NEVER, slotResult } from "../../schedule/slots.js";
import type {
  DueSchedules,
  FireResult,
  FiredSlot,
  Firing,
  StoredSlot,
  PutResult,
  ScheduleFilter,
  SchedulePage,
  ScheduleRecord,
  StoredSchedule,
} from "../../store.js";
import type { Row, Runner } from "./connection/db.js";
import { isLockTimeout } from "./connection/errors.js";
import type { InsertRunner } from "./jobs/insert-direct.js";
import type { InsertOperations } from "./jobs/insert.js";
import { Conditions, NOW, ofUser, rowsOf, type Sql } from "./connection/sql.js";
import { columnPositions } from "../column-positions.js";
import { readReason } from "../stored-values.js";

export interface ScheduleOperations {
  put(runner: Runner, schedule: ScheduleRecord, version: string | null, now: number | null): Promise<PutResult>;
  get(runner: Runner, name: string): Promise<StoredSchedule | null>;
  list(runner: Runner, filter: ScheduleFilter, page: { limit: number; cursor: string | null }): Promise<SchedulePage>;
  remove(runner: Runner, name: string): Promise<boolean>;
  due(runner: Runner, limit: number, now: number | null): Promise<DueSchedules>;
  /** Fires different schedules in one transaction, or in several if another transaction has locked some of them. */
  fire(begin: Begin, firings: readonly Firing[], now: number | null): Promise<FireResult[]>;
}

/** Runs work in a new transaction. */
type Begin = <Result>(work: (runner: InsertRunner) => Promise<Result>) => Promise<Result>;

// How long a batch waits for a lock on a key or a user, and then each part of it. Longer is not necessary: the
// scheduler retries.
const LOCK_MS = 30;
const PART_LOCK_MS = 10;
const BUSY: FireResult = { status: "busy" };

type Column = [name: string, type: string, value: (schedule: ScheduleRecord) => unknown];

const COLUMNS: readonly Column[] = [
  ["name", "text", ({ name }) => name],
  ["version", "text", ({ version }) => version],
  ["origin", "text", ({ origin }) => origin],
  ["type", "text", ({ type }) => type],
  ["queue", "text", ({ queue }) => queue],
  ["priority", "smallint", ({ priority }) => priority],
  ["user_id", "USER", ({ user }) => user],
  ["input", "json", ({ input }) => input],
  ["max_attempts", "smallint", ({ maxAttempts }) => maxAttempts],
  ["expires_after_ms", "bigint", ({ expiresAfterMs }) => expiresAfterMs],
  ["tags", "text[]", ({ tags }) => (tags.length === 0 ? null : tags)],
  ["cron", "text", ({ cron }) => cron],
  ["timezone", "text", ({ timezone }) => timezone],
  ["every_ms", "bigint", ({ everyMs }) => everyMs],
  ["start_at", "bigint", ({ startAt }) => startAt],
  ["end_at", "bigint", ({ endAt }) => endAt],
  ["jitter_ms", "bigint", ({ jitterMs }) => jitterMs],
  ["catch_up", "text", ({ catchUp }) => (typeof catchUp === "string" ? catchUp : String(catchUp.all))],
  ["overlap", "text", ({ overlap }) => overlap],
  ["enabled", "boolean", ({ enabled }) => enabled],
  ["defined", "text", ({ defined }) => defined],
  ["changes", "text", ({ changes }) => changes],
  ["next_run_at", "bigint", ({ nextRunAt }) => nextRunAt],
];

/** The columns of a schedule as it is read, in order, with the SQL of each. */
const SELECTED = {
  name: "name",
  version: "version",
  origin: "origin",
  type: "type",
  queue: "queue",
  priority: "priority",
  user: "user_id::text",
  input: "input::text",
  maxAttempts: "max_attempts",
  expiresAfterMs: "expires_after_ms::float8",
  tags: "pg_catalog.array_to_json(tags)::text",
  cron: "cron",
  timezone: "timezone",
  everyMs: "every_ms::float8",
  startAt: "start_at::float8",
  endAt: "end_at::float8",
  jitterMs: "jitter_ms::float8",
  catchUp: "catch_up",
  overlap: "overlap",
  enabled: "enabled",
  defined: "defined",
  changes: "changes",
  nextRunAt: "next_run_at::float8",
  lastSlot: "last_slot::float8",
  createdAt: "created_at::float8",
  updatedAt: "updated_at::float8",
} as const;
const COLUMN = columnPositions(SELECTED);

export function scheduleOperations(sql: Sql, { insertInside }: InsertOperations): ScheduleOperations {
  const { s, user } = sql;
  const cast = (type: string): string => (type === "USER" ? `text::${user}` : type);
  const names = COLUMNS.map(([name]) => name);
  const placeholders = COLUMNS.map(([, type], at) => `$${at + 2}::${cast(type)}`);
  const expected = `$${COLUMNS.length + 2}::text`;
  const create = sql.statement(
    "schedule_create",
    `WITH ${NOW} INSERT INTO ${s}.schedules (${names.join(", ")}, created_at, updated_at)
     SELECT ${placeholders.join(", ")}, now, now FROM t ON CONFLICT (name) DO NOTHING RETURNING 1`,
  );
  const change = sql.statement(
    "schedule_change",
    `WITH ${NOW} UPDATE ${s}.schedules SET ${names.map((name, at) => `${name} = ${placeholders[at]}`).join(", ")}, updated_at = (SELECT now FROM t)
     WHERE name = $2 AND version = ${expected} RETURNING 1`,
  );
  const row = Object.values(SELECTED).join(", ");
  const byName = sql.statement("schedule_get", `SELECT ${row} FROM ${s}.schedules WHERE name = $1`);
  const slotsOf = sql.statement(
    "schedule_slots",
    `SELECT slot::float8, through::float8, job, reason, at::float8 FROM ${s}.slots WHERE schedule = $1 ORDER BY n DESC`,
  );
  const remove = sql.statement(
    "schedule_remove",
    `WITH off AS (DELETE FROM ${s}.slots WHERE schedule = $1) DELETE FROM ${s}.schedules WHERE name = $1 RETURNING 1`,
  );
  const due = sql.statement(
    "schedules_due",
    `WITH ${NOW} SELECT (SELECT now FROM t)::float8, (SELECT n.next_run_at::float8 FROM ${s}.schedules n
         WHERE n.enabled AND n.next_run_at > (SELECT now FROM t) ORDER BY n.next_run_at NULLS FIRST LIMIT 1), d.*
     FROM (SELECT 1) AS one LEFT JOIN (
       (SELECT ${row} FROM ${s}.schedules WHERE enabled AND next_run_at IS NULL LIMIT $2)
       UNION ALL (SELECT ${row} FROM ${s}.schedules c WHERE enabled AND next_run_at <= (SELECT now FROM t) ORDER BY c.next_run_at NULLS FIRST LIMIT $2)
     ) d ON true LIMIT greatest(1, $2)`,
  );
  const isAsRead = "c.name = f.name AND c.version = f.version AND (c.last_slot IS NULL OR c.last_slot <= f.last_slot)";
  // A locked schedule is skipped: another session fires, changes or deletes it. Sets the lock timeout of the
  // transaction to value 7, in milliseconds.
  const advance = sql.statement(
    "schedule_advance",
    `WITH ${NOW}, lock_wait AS MATERIALIZED (SELECT pg_catalog.set_config('lock_timeout', $7::text, true)), f AS MATERIALIZED (
       SELECT * FROM ${rowsOf("$2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[]")}
         AS f (name, version, new_version, next_run_at, last_slot) ORDER BY name
     ), target AS MATERIALIZED (
       SELECT l.* FROM f CROSS JOIN lock_wait CROSS JOIN LATERAL (
         SELECT c.ctid AS address FROM ${s}.schedules c WHERE ${isAsRead} FOR UPDATE SKIP LOCKED) l
     ), advanced AS (
       UPDATE ${s}.schedules c SET version = f.new_version, next_run_at = f.next_run_at, last_slot = f.last_slot, updated_at = (SELECT now FROM t)
       FROM f WHERE c.ctid = ANY (ARRAY(SELECT address FROM target)) AND f.name = c.name RETURNING c.name
     )
     SELECT f.name, CASE WHEN f.name = ANY (ARRAY(SELECT name FROM advanced)) THEN 'fired'
       WHEN EXISTS (SELECT 1 FROM ${s}.schedules c WHERE ${isAsRead}) THEN 'busy' ELSE 'changed' END FROM f`,
  );
  const keep = sql.statement(
    "slots_keep",
    `WITH ${NOW} INSERT INTO ${s}.slots (schedule, fired, slot, through, job, reason, at)
     SELECT k.schedule, k.job IS NOT NULL, k.slot, k.through, k.job, k.reason, now
     FROM t, ${rowsOf("$2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[]")}
       WITH ORDINALITY AS k (schedule, slot, through, job, reason, ordinal) ORDER BY k.ordinal`,
  );
  const trim = sql.statement(
    "slots_trim",
    `DELETE FROM ${s}.slots WHERE ctid = ANY (ARRAY(
       SELECT d.address FROM pg_catalog.unnest($1::text[]) AS o (schedule) CROSS JOIN (VALUES (true), (false)) AS v (fired) CROSS JOIN LATERAL (
         SELECT ctid AS address FROM ${s}.slots k WHERE k.schedule = o.schedule AND k.fired = v.fired ORDER BY n DESC OFFSET ${LIMITS.slots}) d))`,
  );

  /** Inserts the jobs of the slots, and stores the slots with their results. */
  async function fireSlots(
    runner: InsertRunner,
    fired: readonly { schedule: string; slot: FiredSlot }[],
    now: number | null,
  ): Promise<{ job: string | null; heldBy: string | null }[]> {
    const jobs = fired.flatMap(({ slot }) => (slot.job === null ? [] : [slot.job]));
    const inserted = (jobs.length === 0 ? [] : await insertInside(runner, jobs, now)).values();
    const results = fired.map(({ slot }) => {
      const result = slot.job === null ? undefined : inserted.next().value;
      if (slot.job === null || result === undefined) return { job: null, heldBy: null, reason: slot.reason };
      return slotResult(slot.job.id, result, slot.reason);
    });
    const schedules = fired.map(({ schedule }) => schedule);
    await runner.run(keep, [
      now,
      schedules,
      fired.map(({ slot }) => slot.slot),
      fired.map(({ slot }) => slot.through),
      results.map(({ job }) => job),
      results.map(({ reason }) => reason),
    ]);
    await runner.run(trim, [[...new Set(schedules)]]);
    return results.map(({ job, heldBy }) => ({ job, heldBy }));
  }

  /** Fires all schedules in one transaction. */
  async function fireTogether(
    runner: InsertRunner,
    firings: readonly Firing[],
    now: number | null,
    lockMs: number,
  ): Promise<FireResult[]> {
    const rows = await runner.run(advance, [
      now,
      firings.map(({ name }) => name),
      firings.map(({ version }) => version),
      firings.map(({ newVersion }) => newVersion),
      firings.map(({ nextRunAt }) => nextRunAt),
      firings.map(({ lastSlot }) => lastSlot),
      lockMs,
    ]);
    const statuses = new Map(rows as unknown as [string, FireResult["status"]][]);
    const fired = firings
      .filter(({ name }) => statuses.get(name) === "fired")
      .flatMap(({ name, slots }) => slots.map((slot) => ({ schedule: name, slot })));
    const results = fired.length === 0 ? [] : await fireSlots(runner, fired, now);
    return firings.map(({ name, slots }) => {
      const status = statuses.get(name) ?? "changed";
      return status === "fired" ? { status, slots: results.splice(0, slots.length) } : { status };
    });
  }

  return {
    async put(runner, schedule, version, now) {
      const values = [now, ...COLUMNS.map(([, , value]) => value(schedule))];
      const rows = version === null ? await runner.run(create, values) : await runner.run(change, [...values, version]);
      return rows.length === 0 ? "changed" : "put";
    },
    async get(runner, name) {
      const [found] = await runner.run(byName, [name]);
      if (found === undefined) return null;
      const slots = (await runner.run(slotsOf, [name])).map(
        ([slot, through, job, reason, at]) =>
          ({ slot, through, job, reason: readReason(reason as string | null), at }) as StoredSlot,
      );
      return readRow(found, slots);
    },
    async list(runner, filter, { limit, cursor }) {
      // The limit is a bound value: each different text would be another prepared statement.
      const terms = new Conditions([limit + 1]);
      // Literal values, so that the partial index can be used.
      if (filter.origin !== undefined)
        terms.always(filter.origin === "code" ? "origin = 'code'" : "origin = 'runtime'");
      terms.add((v) => `enabled = ${v}`, filter.enabled);
      terms.add((v) => `type = ${v}`, filter.type);
      terms.add((v) => ofUser(sql, "user_id", v), filter.user);
      terms.add((v) => `name COLLATE "C" > ${v}`, cursor);
      const text = `SELECT ${row} FROM ${s}.schedules ${terms.where} ORDER BY name COLLATE "C" LIMIT $1::bigint`;
      const rows = await runner.run(sql.statement("schedules_list", text), terms.values);
      const schedules = rows.slice(0, limit).map((found) => readRow(found, []));
      return { schedules, cursor: rows.length > limit ? (schedules.at(-1)?.name ?? null) : null };
    },
    remove: async (runner, name) => (await runner.run(remove, [name])).length > 0,
    async due(runner, limit, now) {
      const rows = await runner.run(due, [now, limit]);
      const [at, next] = rows[0] ?? [];
      return {
        at: at as number,
        schedules: rows.filter((found) => found[2] !== null).map((found) => readRow(found.slice(2), [])),
        nextRunAt: next === null || next === undefined || (next as number) >= NEVER ? null : (next as number),
      };
    },
    async fire(begin, firings, now) {
      const results = new Map<string, FireResult>();
      const lockedUsers = new Set<string>();
      const attempt = async (some: readonly Firing[], lockMs: number): Promise<void> => {
        const part = some.filter((firing) => {
          const user = plainUserOf(firing);
          return user === null || !lockedUsers.has(user);
        });
        if (part.length === 0) return;
        try {
          const fired = await begin((runner) => fireTogether(runner, part, now, lockMs));
          for (const [at, { name }] of part.entries()) results.set(name, fired[at] as FireResult);
          return;
        } catch (error) {
          if (!isLockTimeout(error)) throw error;
        }
        if (part.length === 1) {
          // A job without a key can only wait for its user's row. Do not wait for it again.
          const user = plainUserOf(part[0] as Firing);
          if (user !== null) lockedUsers.add(user);
          return;
        }
        const middle = Math.ceil(part.length / 2);
        await attempt(part.slice(0, middle), PART_LOCK_MS);
        await attempt(part.slice(middle), PART_LOCK_MS);
      };
      await attempt(firings, LOCK_MS);
      return firings.map(({ name }) => results.get(name) ?? BUSY);
    },
  };
}

/** The user of its jobs, if they have one and no keys. */
function plainUserOf({ slots }: Firing): string | null {
  const job = slots.find((slot) => slot.job !== null)?.job ?? null;
  return job === null || job.unique !== null ? null : job.user;
}

function readRow(row: Row, slots: readonly StoredSlot[]): StoredSchedule {
  const tags = row[COLUMN.tags] as string | null;
  const catchUp = row[COLUMN.catchUp] as string;
  return {
    name: row[COLUMN.name] as string,
    version: row[COLUMN.version] as string,
    origin: row[COLUMN.origin] as ScheduleRecord["origin"],
    type: row[COLUMN.type] as string,
    queue: row[COLUMN.queue] as string,
    priority: row[COLUMN.priority] as number,
    user: row[COLUMN.user] as string | null,
    input: row[COLUMN.input] as string,
    maxAttempts: row[COLUMN.maxAttempts] as number,
    expiresAfterMs: row[COLUMN.expiresAfterMs] as number | null,
    tags: tags === null ? [] : (JSON.parse(tags) as string[]),
    cron: row[COLUMN.cron] as string | null,
    timezone: row[COLUMN.timezone] as string | null,
    everyMs: row[COLUMN.everyMs] as number | null,
    startAt: row[COLUMN.startAt] as number | null,
    endAt: row[COLUMN.endAt] as number | null,
    jitterMs: row[COLUMN.jitterMs] as number,
    catchUp: catchUp === "skip" || catchUp === "latest" ? catchUp : { all: Number(catchUp) },
    overlap: row[COLUMN.overlap] as ScheduleRecord["overlap"],
    enabled: row[COLUMN.enabled] as boolean,
    defined: row[COLUMN.defined] as string | null,
    changes: row[COLUMN.changes] as string | null,
    nextRunAt: row[COLUMN.nextRunAt] as number | null,
    lastSlot: row[COLUMN.lastSlot] as number | null,
    createdAt: row[COLUMN.createdAt] as number,
    updatedAt: row[COLUMN.updatedAt] as number,
    slots,
  };
}
