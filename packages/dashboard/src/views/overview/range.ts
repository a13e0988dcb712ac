// The range of the charts, and sums over their points. Pure.
import type { HistoryResult } from "holdfast/admin";

export type Point = HistoryResult["series"][number]["points"][number];
export type RangeName = "1h" | "24h" | "30d";

interface Range {
  label: string;
  /** After "in". */
  words: string;
  ms: number;
  resolution: "minute" | "hour";
  /** Processes write their counts once a minute. */
  everyMs: number;
}

const HOUR_MS = 3_600_000;
export const RANGES: Readonly<Record<RangeName, Range>> = {
  "1h": { label: "1 h", words: "the last hour", ms: HOUR_MS, resolution: "minute", everyMs: 30_000 },
  // Hours: minutes would be 1,440 records of the store for each reader.
  "24h": { label: "24 h", words: "the last 24 hours", ms: 24 * HOUR_MS, resolution: "hour", everyMs: 60_000 },
  "30d": { label: "30 d", words: "the last 30 days", ms: 30 * 24 * HOUR_MS, resolution: "hour", everyMs: 60_000 },
};

export function readRange(query: URLSearchParams): RangeName {
  const given = query.get("range");
  return given === "24h" || given === "30d" ? given : "1h";
}

/** Without the current minute, which is not counted yet. The current hour is counted up to now. */
export function completePoints(points: readonly Point[], resolution: "minute" | "hour", now: number): Point[] {
  if (resolution === "hour") return [...points];
  return points.filter(({ at }) => Date.parse(at) + 60_000 <= now);
}

/** How many minutes a point covers so far. */
export function minutesOf({ at }: Point, resolution: "minute" | "hour", now: number): number {
  if (resolution === "minute") return 1;
  return Math.min(60, Math.max(1, (now - Date.parse(at)) / 60_000));
}

type Counter = "completed" | "failed" | "dead";

export interface Finished {
  /** When each period began, in seconds. */
  at: number[];
  /** Per minute. */
  completed: number[];
  /** Failed attempts that were retried: the last attempt of a dead job counts as dead. */
  failed: number[];
  dead: number[];
}

/** What charts show at most. */
const MAX_PERIODS = 180;

/** Points side by side, so that there are at most 180 groups. */
export function inGroups(points: readonly Point[]): Point[][] {
  const size = Math.max(1, Math.ceil(points.length / MAX_PERIODS));
  return Array.from({ length: Math.ceil(points.length / size) }, (_, nth) =>
    points.slice(nth * size, (nth + 1) * size),
  );
}

export function finishedPerMinute(
  groups: readonly (readonly Point[])[],
  resolution: "minute" | "hour",
  now: number,
): Finished {
  const rates = (read: (point: Point) => number): number[] =>
    groups.map((group) => {
      const minutes = group.reduce((sum, point) => sum + minutesOf(point, resolution, now), 0);
      return group.reduce((sum, point) => sum + read(point), 0) / minutes;
    });
  return {
    at: groups.map(([first]) => Date.parse(first?.at ?? "") / 1_000),
    completed: rates(({ completed }) => completed),
    failed: rates(({ failed, dead }) => Math.max(0, failed - dead)),
    dead: rates(({ dead }) => dead),
  };
}

export function sumOf(points: readonly Point[], counter: Counter): number {
  return points.reduce((sum, point) => sum + point[counter], 0);
}

/** The newest value that is known. */
export function newest<T>(points: readonly Point[], read: (point: Point) => T | null): T | null {
  for (const point of points.toReversed()) {
    const value = read(point);
    if (value !== null) return value;
  }
  return null;
}

/** Completed jobs per second over five minutes; the newest minute may not be written yet. */
export function recentRate(points: readonly Point[]): number {
  const recent = points.slice(-6, -1);
  return recent.length === 0 ? 0 : sumOf(recent, "completed") / (recent.length * 60);
}
