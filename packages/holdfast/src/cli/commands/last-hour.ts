import type { HistoryResult } from "../../admin/contract/api-types.js";
import type { AdminClient } from "../../admin/contract/client.js";
import { countOf, lengthOf } from "../ui/format.js";
import type { Finding } from "./doctor.js";

type Point = HistoryResult["series"][number]["points"][number];

/** The history that `checkLastHour` compares: the minutes of the last hour, and the hours of the day before. */
export interface LastDay {
  hour: readonly Point[];
  before: readonly Point[];
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
// Fewer failures may be chance.
const MIN_FAILED = 10;
// The share of failed attempts and the wait are reported if they are this many times those of the day before, and not small.
const FACTOR = 3;
const MIN_SHARE = 0.05;
const MIN_WAIT_MS = 10_000;

export async function lastDay(client: AdminClient, now: number): Promise<LastDay> {
  const from = new Date(now - HOUR_MS).toISOString();
  const dayBefore = new Date(now - HOUR_MS - DAY_MS).toISOString();
  const [hour, before] = await Promise.all([
    client.history.get({ from, resolution: "minute" }),
    client.history.get({ from: dayBefore, to: from, resolution: "hour" }),
  ]);
  return { hour: hour.series[0]?.points ?? [], before: before.series[0]?.points ?? [] };
}

/** Compares the attempts and waits of the last hour with those of the day before. Nothing if there were no attempts. */
export function checkLastHour({ hour, before }: LastDay, on: string): Finding[] {
  const [now, earlier] = [attemptsIn(hour), attemptsIn(before)];
  if (now.all === 0) return [];
  const isFailing =
    now.failed >= MIN_FAILED && now.share >= MIN_SHARE && (earlier.all === 0 || now.share >= FACTOR * earlier.share);
  const [wait, earlierWait] = [usualWait(hour), usualWait(before)];
  const isWaiting = wait !== null && earlierWait !== null && wait >= MIN_WAIT_MS && wait >= FACTOR * earlierWait;
  const dayBefore = (text: string | null): string => (text === null ? "" : ` (${text} on the day before)`);
  const share = `${percent(now.share)} failed${dayBefore(earlier.all === 0 ? null : percent(earlier.share))}`;
  const waits =
    wait === null
      ? ""
      : ` 95 % of the jobs typically waited at most ${lengthOf(wait)}${dayBefore(earlierWait === null ? null : lengthOf(earlierWait))}.`;
  const advice = [
    ...(isFailing ? [`To list the groups of errors, run: holdfast errors${on}`] : []),
    ...(isWaiting ? ["Raise jobs.concurrency, or start more workers."] : []),
  ];
  return [
    {
      check: "last hour",
      level: advice.length > 0 ? "warning" : "ok",
      found: `${countOf(now.all)} ${now.all === 1 ? "attempt" : "attempts"}, ${share}.${waits}`,
      advice: advice.length > 0 ? advice.join(" ") : null,
    },
  ];
}

function attemptsIn(points: readonly Point[]): { all: number; failed: number; share: number } {
  const failed = points.reduce((sum, point) => sum + point.failed, 0);
  const all = points.reduce((sum, point) => sum + point.completed, failed);
  return { all, failed, share: all === 0 ? 0 : failed / all };
}

/** What 95 % of the jobs waited at most, in the middle one of the minutes or hours. */
function usualWait(points: readonly Point[]): number | null {
  const waits = points.flatMap(({ wait }) => (wait === null ? [] : [wait.p95])).toSorted((a, b) => a - b);
  return waits[Math.floor(waits.length / 2)] ?? null;
}

function percent(share: number): string {
  return `${share > 0 && share < 0.01 ? "less than 1" : Math.round(share * 100)} %`;
}
