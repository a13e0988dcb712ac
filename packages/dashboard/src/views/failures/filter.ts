// Which groups are shown, from the URL. Pure.
import type { ErrorGroupResult } from "holdfast/admin";

const HOUR_MS = 3_600_000;
export const RANGES = {
  "1h": { label: "1 h", ms: HOUR_MS },
  "24h": { label: "24 h", ms: 24 * HOUR_MS },
  "7d": { label: "7 d", ms: 7 * 24 * HOUR_MS },
  "30d": { label: "30 d", ms: 30 * 24 * HOUR_MS },
} as const;

export type RangeName = keyof typeof RANGES;
export type Order = "last" | "attempts";

export interface FailuresFilter {
  type: string | null;
  /** Groups whose last attempt failed in it. */
  range: RangeName;
  order: Order;
  /** The fingerprint of the open group. */
  open: string | null;
  /** A dialog that a link asks for. */
  wants: "retry" | null;
}

export function readFilter(query: URLSearchParams): FailuresFilter {
  const range = query.get("range") ?? "";
  return {
    type: query.get("type") || null,
    range: Object.hasOwn(RANGES, range) ? (range as RangeName) : "30d",
    order: query.get("order") === "attempts" ? "attempts" : "last",
    open: query.get("open") || null,
    wants: query.get("do") === "retry" ? "retry" : null,
  };
}

export function inRange(groups: readonly ErrorGroupResult[], range: RangeName, now: number): ErrorGroupResult[] {
  return groups.filter(({ lastAt }) => now - Date.parse(lastAt) <= RANGES[range].ms);
}

export function orderOf(groups: readonly ErrorGroupResult[], order: Order): ErrorGroupResult[] {
  if (order === "attempts") return groups.toSorted((one, other) => other.count - one.count);
  return groups.toSorted((one, other) => Date.parse(other.lastAt) - Date.parse(one.lastAt));
}
