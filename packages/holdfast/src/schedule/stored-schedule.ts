import type { NewJob } from "../job/stored-job.js";
/** A schedule as the engine writes it. The engine interprets the fields; a store only stores them. */
export interface ScheduleRecord {
  name: string;
  /** A unique string that every write replaces. `putSchedule` and `fire` compare it to detect concurrent changes. */
  version: string;
  origin: "code" | "runtime";
  /** The job that each slot creates. */
  type: string;
  queue: string;
  priority: number;
  user: string | null;
  /** JSON. */
  input: string;
  maxAttempts: number;
  expiresAfterMs: number | null;
  tags: readonly string[];
  /** Either `cron` with `timezone` is set, or `everyMs`. */
  cron: string | null;
  timezone: string | null;
  everyMs: number | null;
  startAt: number | null;
  endAt: number | null;
  jitterMs: number;
  catchUp: "skip" | "latest" | { all: number };
  overlap: "allow" | "skip";
  enabled: boolean;
  /** JSON: the definition in code. */
  defined: string | null;
  /** JSON: changes made at run time, which override the definition in code. */
  changes: string | null;
  /** Null: not computed yet. `NEVER`: no slot follows. */
  nextRunAt: number | null;
}

export interface StoredSchedule extends ScheduleRecord {
  /** The latest slot that was processed. It never moves back, except when `maintain` corrects the effect of a wrong clock. */
  lastSlot: number | null;
  createdAt: number;
  updatedAt: number;
  /** Newest first: the last `LIMITS.slots` that became jobs and as many that did not. Empty in lists. */
  slots: readonly StoredSlot[];
}

/** `changed`: the stored version is another one, the schedule exists although none was expected, or it is gone. */
export type PutResult = "put" | "changed";

export interface ScheduleFilter {
  origin?: "code" | "runtime" | undefined;
  enabled?: boolean | undefined;
  type?: string | undefined;
  user?: string | undefined;
}
export interface SchedulePage {
  schedules: StoredSchedule[];
  /** Where the next page begins; null at the end of the list. */
  cursor: string | null;
}

export interface DueSchedules {
  /** The store's time. */
  at: number;
  schedules: StoredSchedule[];
  /** The earliest next run in the future, in milliseconds since 1970; null if there is none. */
  nextRunAt: number | null;
}

/**
 * Why a slot was not fired on time. It became a job `late`, or by a `manual` trigger. Or it became no job: it was `missed`, an
 * earlier job of the schedule had not finished (`overlap`), or the store refused the job.
 */
export type SlotReason = "late" | "manual" | "missed" | "overlap" | `refused: ${string}`;

/** A slot, or a range of consecutive slots, as stored. */
export interface StoredSlot {
  slot: number;
  /** The last slot of a range; null for a single slot. */
  through: number | null;
  /** The id of its job; null if the slot was skipped. */
  job: string | null;
  reason: SlotReason | null;
  /** When it was processed. */
  at: number;
}

/** Slots of one schedule to turn into jobs, and the schedule's new values. */
export interface Firing {
  name: string;
  /** The version that was read. */
  version: string;
  newVersion: string;
  nextRunAt: number | null;
  lastSlot: number | null;
  slots: readonly FiredSlot[];
}

/** A slot, or a range of slots, to store. */
export interface FiredSlot extends Omit<StoredSlot, "job" | "at"> {
  /** The job to insert; null if the slot is skipped. */
  job: NewJob | null;
}

/**
 * The result for one schedule.
 *
 * - `fired`: one entry per slot, in order. If a job's unique key is held, the slot is stored without a job and with the reason
 *   `overlap`, and `heldBy` is the holder. If a job cannot be stored, the slot is stored without a job and the reason has the error.
 * - `changed`: the stored version is another one, or the schedule is gone. Nothing was written.
 * - `busy`: another open transaction has locked the schedule or something its jobs need. Nothing was written; try again.
 */
export type FireResult =
  | { status: "fired"; slots: { job: string | null; heldBy: string | null }[] }
  | { status: "changed" | "busy" };
