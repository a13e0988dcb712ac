import type { Clock } from "../../../clock.js";
import type { SchemaSettings } from "../schema/schema.js";

/** The checks of `doctor`. */
export type DoctorCheck =
  | "connection"
  | "server version"
  | "durability"
  | "clock"
  | "connections"
  | "rights"
  | "schema version"
  | "schema shape"
  | "invalid indexes"
  | "open transactions"
  | "prepared transactions"
  | "replication slots"
  | "autovacuum"
  | "dead rows"
  | "counts"
  | "lanes"
  | "paused queues"
  | "overdue jobs";

/** The result of one check of `doctor`. */
export interface Finding {
  check: DoctorCheck;
  /** `problem`: jobs are delayed or in danger. `warning`: they may be soon. */
  level: "ok" | "warning" | "problem";
  /** What was found, in one sentence. */
  found: string;
  /** What to do about it; null if there is nothing to do. */
  advice: string | null;
}

/** The store that doctor checks. */
export interface Target {
  settings: SchemaSettings;
  /** The schema's name, not quoted. */
  schema: string;
  /** Maximum connections of this store, including the listener; null with the caller's pool. */
  connections: number | null;
  /** The clock of this process. */
  clock: Clock;
  /** The store's time, or null for the server's clock. */
  time: () => number | null;
}

export function ok(check: DoctorCheck, found: string): Finding {
  return { check, level: "ok", found, advice: null };
}
export function warning(check: DoctorCheck, found: string, advice: string): Finding {
  return { check, level: "warning", found, advice };
}
export function problem(check: DoctorCheck, found: string, advice: string): Finding {
  return { check, level: "problem", found, advice };
}

/** The level of a value: a warning or a problem from these bounds. */
export function levelOf(value: number, bounds: { warning: number; problem: number }): Finding["level"] {
  if (value >= bounds.problem) return "problem";
  return value >= bounds.warning ? "warning" : "ok";
}

const LEVELS = ["ok", "warning", "problem"] as const;
export function worstOf(...levels: Finding["level"][]): Finding["level"] {
  return LEVELS[Math.max(0, ...levels.map((level) => LEVELS.indexOf(level)))] ?? "ok";
}

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

/** `1 row`, `2,000 rows`. */
export function countOf(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A duration in the largest unit that fits at least twice. */
export function time(ms: number): string {
  const units = [
    ["days", 86_400_000],
    ["h", 3_600_000],
    ["min", 60_000],
    ["s", 1_000],
  ] as const;
  const [unit, size] = units.find(([, length]) => Math.abs(ms) >= 2 * length) ?? (["ms", 1] as const);
  return `${count(Math.round(ms / size))} ${unit}`;
}

export function bytes(value: number): string {
  if (value >= 1_073_741_824) return `${(value / 1_073_741_824).toFixed(1)} GB`;
  return value >= 1_048_576 ? `${Math.round(value / 1_048_576)} MB` : `${Math.round(value / 1024)} KB`;
}
