import type { Database } from "better-sqlite3";
import { LIMITS } from "../../defaults.js";
import { NEVER, slotResult } from "../../schedule/slots.js";
import type {
  DueSchedules,
  FireResult,
  FiredSlot,
  Firing,
  InsertResult,
  StoredSlot,
  NewJob,
  PutResult,
  ScheduleFilter,
  SchedulePage,
  ScheduleRecord,
  SlotReason,
  StoredSchedule,
} from "../../store.js";
import { readTagText, tagText } from "./jobs/insert.js";
import { readReason } from "../stored-values.js";

interface ScheduleRow {
  name: string;
  version: string;
  origin: ScheduleRecord["origin"];
  type: string;
  queue: string;
  priority: number;
  user: string | null;
  input: string;
  max_attempts: number;
  expires_after_ms: number | null;
  tags: string | null;
  cron: string | null;
  timezone: string | null;
  every_ms: number | null;
  start_at: number | null;
  end_at: number | null;
  jitter_ms: number;
  catch_up: string;
  overlap: ScheduleRecord["overlap"];
  enabled: number;
  defined: string | null;
  changes: string | null;
  next_run_at: number | null;
  last_slot: number | null;
  created_at: number;
  updated_at: number;
}

type SlotRow = Omit<StoredSlot, "reason"> & { reason: string | null };

export interface ScheduleOperations {
  put(schedule: ScheduleRecord, version: string | null, now: number): PutResult;
  get(name: string): StoredSchedule | null;
  list(filter: ScheduleFilter, page: { limit: number; cursor: string | null }): SchedulePage;
  remove(name: string): boolean;
  due(limit: number, now: number): DueSchedules;
  fire(firings: readonly Firing[], now: number): FireResult[];
  /** When the next schedule runs. */
  nextAt(): number | null;
}

const COLUMNS: readonly (keyof ScheduleRow)[] = [
  "name",
  "version",
  "origin",
  "type",
  "queue",
  "priority",
  "user",
  "input",
  "max_attempts",
  "expires_after_ms",
  "tags",
  "cron",
  "timezone",
  "every_ms",
  "start_at",
  "end_at",
  "jitter_ms",
  "catch_up",
  "overlap",
  "enabled",
  "defined",
  "changes",
  "next_run_at",
];

/** Schedules: rows that are replaced if their version matches, and `fire`, which turns slots into jobs. */
export function scheduleOperations(
  db: Database,
  insert: (jobs: readonly NewJob[], now: number) => InsertResult[],
): ScheduleOperations {
  const create = db.prepare(
    `INSERT INTO holdfast_schedules (${COLUMNS.join(", ")}, created_at, updated_at)
     VALUES (${COLUMNS.map((column) => `@${column}`).join(", ")}, @now, @now) ON CONFLICT DO NOTHING`,
  );
  const change = db.prepare(
    `UPDATE holdfast_schedules SET ${COLUMNS.map((column) => `${column} = @${column}`).join(", ")}, updated_at = @now
     WHERE name = @name AND version = @expected`,
  );
  const byName = db.prepare("SELECT * FROM holdfast_schedules WHERE name = ?");
  const removeRow = db.prepare("DELETE FROM holdfast_schedules WHERE name = ?");
  const removeSlots = db.prepare("DELETE FROM holdfast_slots WHERE schedule = ?");
  // Two statements on one index: for an OR of both the planner would sort.
  const unknown = db.prepare(
    "SELECT * FROM holdfast_schedules WHERE enabled = 1 AND next_run_at IS NULL ORDER BY next_run_at LIMIT ?",
  );
  const due = db.prepare(
    "SELECT * FROM holdfast_schedules WHERE enabled = 1 AND next_run_at <= ? ORDER BY next_run_at LIMIT ?",
  );
  const nextAfter = db
    .prepare(
      `SELECT next_run_at FROM holdfast_schedules WHERE enabled = 1 AND next_run_at > ? ORDER BY next_run_at LIMIT 1`,
    )
    .pluck();
  const earliest = db
    .prepare("SELECT next_run_at FROM holdfast_schedules WHERE enabled = 1 ORDER BY next_run_at LIMIT 1")
    .pluck();
  const advance = db.prepare(
    `UPDATE holdfast_schedules SET version = ?, next_run_at = ?, last_slot = ?, updated_at = ?
     WHERE name = ? AND version = ? AND (last_slot IS NULL OR last_slot <= ?)`,
  );
  const newestSlot = db
    .prepare("SELECT coalesce(max(n), 0) FROM holdfast_slots WHERE schedule = ? AND fired = ?")
    .pluck();
  const insertSlot = db.prepare(
    "INSERT INTO holdfast_slots (schedule, fired, n, slot, through, job, reason, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const dropSlots = db.prepare(
    `DELETE FROM holdfast_slots WHERE schedule = @name AND fired = @fired AND n <= (
       SELECT n FROM holdfast_slots WHERE schedule = @name AND fired = @fired ORDER BY n DESC LIMIT 1 OFFSET ${LIMITS.slots})`,
  );
  const slotsOf = db.prepare(
    "SELECT slot, through, job, reason, at FROM holdfast_slots WHERE schedule = ? ORDER BY n DESC",
  );

  function recordSlot(name: string, slot: FiredSlot, job: string | null, reason: SlotReason | null, now: number): void {
    const fired = job === null ? 0 : 1;
    // Numbered across both kinds, so that they can be listed in order.
    const n = Math.max(newestSlot.get(name, 0) as number, newestSlot.get(name, 1) as number) + 1;
    insertSlot.run(name, fired, n, slot.slot, slot.through, job, reason, now);
    dropSlots.run({ name, fired });
  }

  function fireOne({ name, version, newVersion, nextRunAt, lastSlot, slots }: Firing, now: number): FireResult {
    const moved = advance.run(newVersion, nextRunAt, lastSlot, now, name, version, lastSlot ?? Number.MIN_SAFE_INTEGER);
    if (moved.changes === 0) return { status: "changed" };
    return { status: "fired", slots: slots.map((slot) => fireSlot(name, slot, now)) };
  }

  function fireSlot(name: string, slot: FiredSlot, now: number): { job: string | null; heldBy: string | null } {
    const [inserted] = slot.job === null ? [] : insert([slot.job], now);
    const { job, heldBy, reason } =
      slot.job === null || inserted === undefined
        ? { job: null, heldBy: null, reason: slot.reason }
        : slotResult(slot.job.id, inserted, slot.reason);
    recordSlot(name, slot, job, reason, now);
    return { job, heldBy };
  }

  return {
    put(schedule, version, now) {
      const row = writeRow(schedule);
      const written = version === null ? create.run({ ...row, now }) : change.run({ ...row, now, expected: version });
      return written.changes === 0 ? "changed" : "put";
    },
    get(name) {
      const row = byName.get(name) as ScheduleRow | undefined;
      return row === undefined
        ? null
        : readRow(
            row,
            (slotsOf.all(name) as SlotRow[]).map((slot) => ({ ...slot, reason: readReason(slot.reason) })),
          );
    },
    list(filter, { limit, cursor }) {
      const terms: string[] = [];
      const values: (string | number)[] = [];
      const equal = (column: string, value: string | number | undefined): void => {
        if (value === undefined) return;
        terms.push(`${column} = ?`);
        values.push(value);
      };
      // As a literal: with a placeholder SQLite could not use the partial index on `origin = 'code'`.
      if (filter.origin !== undefined) terms.push(filter.origin === "code" ? "origin = 'code'" : "origin = 'runtime'");
      equal("enabled", filter.enabled === undefined ? undefined : Number(filter.enabled));
      equal("type", filter.type);
      equal("user", filter.user);
      if (cursor !== null) {
        terms.push("name > ?");
        values.push(cursor);
      }
      const where = terms.length === 0 ? "" : `WHERE ${terms.join(" AND ")}`;
      const rows = db
        .prepare(`SELECT * FROM holdfast_schedules ${where} ORDER BY name LIMIT ?`)
        .all(...values, limit + 1) as ScheduleRow[];
      const schedules = rows.slice(0, limit).map((row) => readRow(row, []));
      return { schedules, cursor: rows.length > limit ? (schedules.at(-1)?.name ?? null) : null };
    },
    remove(name) {
      removeSlots.run(name);
      return removeRow.run(name).changes > 0;
    },
    due(limit, now) {
      const rows = unknown.all(limit) as ScheduleRow[];
      if (rows.length < limit) rows.push(...(due.all(now, limit - rows.length) as ScheduleRow[]));
      const next = (nextAfter.get(now) as number | undefined) ?? NEVER;
      return { at: now, schedules: rows.map((row) => readRow(row, [])), nextRunAt: next === NEVER ? null : next };
    },
    fire: (firings, now) => firings.map((firing) => fireOne(firing, now)),
    nextAt() {
      const next = earliest.get() as number | null | undefined;
      // NULL sorts first: a schedule whose next run is unknown is due.
      return next === undefined ? null : (next ?? 0);
    },
  };
}

function writeRow(schedule: ScheduleRecord): Record<string, string | number | null> {
  return {
    name: schedule.name,
    version: schedule.version,
    origin: schedule.origin,
    type: schedule.type,
    queue: schedule.queue,
    priority: schedule.priority,
    user: schedule.user,
    input: schedule.input,
    max_attempts: schedule.maxAttempts,
    expires_after_ms: schedule.expiresAfterMs,
    tags: tagText(schedule.tags),
    cron: schedule.cron,
    timezone: schedule.timezone,
    every_ms: schedule.everyMs,
    start_at: schedule.startAt,
    end_at: schedule.endAt,
    jitter_ms: schedule.jitterMs,
    catch_up: typeof schedule.catchUp === "string" ? schedule.catchUp : String(schedule.catchUp.all),
    overlap: schedule.overlap,
    enabled: schedule.enabled ? 1 : 0,
    defined: schedule.defined,
    changes: schedule.changes,
    next_run_at: schedule.nextRunAt,
  };
}

function readRow(row: ScheduleRow, slots: readonly StoredSlot[]): StoredSchedule {
  const { catch_up: catchUp } = row;
  return {
    name: row.name,
    version: row.version,
    origin: row.origin,
    type: row.type,
    queue: row.queue,
    priority: row.priority,
    user: row.user,
    input: row.input,
    maxAttempts: row.max_attempts,
    expiresAfterMs: row.expires_after_ms,
    tags: readTagText(row.tags),
    cron: row.cron,
    timezone: row.timezone,
    everyMs: row.every_ms,
    startAt: row.start_at,
    endAt: row.end_at,
    jitterMs: row.jitter_ms,
    catchUp: catchUp === "skip" || catchUp === "latest" ? catchUp : { all: Number(catchUp) },
    overlap: row.overlap,
    enabled: row.enabled === 1,
    defined: row.defined,
    changes: row.changes,
    nextRunAt: row.next_run_at,
    lastSlot: row.last_slot,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    slots,
  };
}
