import { setImmediate } from "node:timers/promises";
import { instantMs } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import { Counts, COUNTERS, newCounted, OTHERS, type Counted, type Depth } from "../../history/counted.js";
import type { Histogram } from "../../history/histogram.js";
import { LIMITS } from "../../defaults.js";
import { optionKeys, readName, readQueue, refuseUnknown, show } from "../../options.js";
import type { HistoryRecord, HistoryResolution } from "../../store.js";
import type { EngineContext } from "../context.js";
import { HOUR_MS, MINUTE_MS, recordsOf, startOf, STEP_MS } from "./records.js";

/** What `hf.history` takes. */
export interface HistoryOptions {
  /** Default: an hour before `to`. At most 30 days ago. */
  from?: Date | number | string;
  /** Default: now. */
  to?: Date | number | string;
  /** One series per queue or per type. Default: one series of all jobs. */
  by?: "queue" | "type";
  /** Only jobs of this queue. */
  queue?: string;
  /** Only jobs of this type. */
  type?: string;
  /** Default: minutes for ranges of up to a day within the last day, else hours. */
  resolution?: HistoryResolution;
}

/** Milliseconds that half, 95 % and 99 % of the jobs did not exceed, within about a fifth. */
export interface Percentiles {
  p50: number;
  p95: number;
  p99: number;
}

/** What happened in one minute or hour. */
export interface HistoryPoint {
  at: Date;
  enqueued: number;
  completed: number;
  /** Failed attempts, including those that were retried, and expired leases. */
  failed: number;
  dead: number;
  cancelled: number;
  /** From the due time until the handler started; null if no handler ended. */
  wait: Percentiles | null;
  /** How long handlers ran; null if none ended. */
  run: Percentiles | null;
  /** Jobs that waited, at the last sample; null without one. Only for all jobs and by queue. */
  waiting: number | null;
  /** Jobs that workers had claimed, at the last sample. */
  leased: number | null;
  /** How long the oldest due job had been due, at the last sample; null if none was due. */
  oldestDueMs: number | null;
}

export interface HistorySeries {
  /** The queue or type; null for all jobs. `…` stands for those beyond the 20 with the most jobs. */
  name: string | null;
  /** One for each minute or hour of the range, oldest first. */
  points: HistoryPoint[];
}

export interface History {
  resolution: HistoryResolution;
  from: Date;
  to: Date;
  series: HistorySeries[];
}

const OPTION_KEYS: ReadonlySet<string> = optionKeys<HistoryOptions>({
  from: true,
  to: true,
  by: true,
  queue: true,
  type: true,
  resolution: true,
});
const DAY_MS = 24 * HOUR_MS;
const MAX_AGE_MS = 30 * DAY_MS;
const MAX_SERIES = 20;

// A day may have megabytes of counts. Handlers and leases of this process must not wait until all are added up.
const MAX_BUSY_MS = 10;

/** Returns a function that lets other work of the process run, if enough time has passed since the last time. */
function pauses(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < MAX_BUSY_MS) return undefined;
    return setImmediate().then(() => void (since = performance.now()));
  };
}

/** What is added up for a minute or hour. */
interface Period {
  /** By queue or type, or one of all jobs, whose name is empty. */
  sums: Map<string, Counted>;
  depths: readonly Depth[] | null;
}

interface Range {
  resolution: HistoryResolution;
  from: number;
  to: number;
}

/** Reads stored counts: a bounded number of records, however many jobs there are. */
export async function readHistory(engine: EngineContext, options: HistoryOptions): Promise<History> {
  refuseUnknown(options, OPTION_KEYS, "history");
  const range = readRange(options, engine.clock.now());
  const matches = readMatcher(options);
  const by = readBy(options.by);
  const periods = new Map<number, Period>();
  const pause = pauses();
  for await (const record of recordsToAdd(engine, range)) {
    const at = startOf(range.resolution, record.at);
    const period = periods.get(at) ?? { sums: new Map(), depths: null };
    addRecord(period, Counts.parse(record.data), by, matches);
    periods.set(at, period);
    await pause();
  }
  const series: HistorySeries[] = [];
  for (const name of names(periods.values(), by)) {
    series.push({ name: name?.shown ?? null, points: await pointsOf(range, periods, name, pause) });
  }
  return { resolution: range.resolution, from: new Date(range.from), to: new Date(range.to), series };
}

/** The hours of a trend, with the current one. */
const TREND_HOURS = 24;

/** The trend of a group that was not counted. */
export function noFailures(): number[] {
  return Array.from({ length: TREND_HOURS }, () => 0);
}

/** Failed attempts in each of the last 24 hours, oldest first, of the error groups with the most in their hour. */
export async function errorTrends(engine: EngineContext): Promise<Map<string, number[]>> {
  const now = engine.clock.now();
  const from = startOf("hour", now) - (TREND_HOURS - 1) * HOUR_MS;
  const trends = new Map<string, number[]>();
  const pause = pauses();
  for await (const record of recordsToAdd(engine, {
    resolution: "hour",
    from,
    to: startOf("minute", now) + MINUTE_MS,
  })) {
    const hour = Math.floor((record.at - from) / HOUR_MS);
    for (const [fingerprint, count] of Counts.parseErrors(record.data)) {
      let trend = trends.get(fingerprint);
      if (trend === undefined) trends.set(fingerprint, (trend = noFailures()));
      trend[hour] = (trend[hour] ?? 0) + count;
    }
    await pause();
  }
  return trends;
}

function readRange(options: HistoryOptions, now: number): Range {
  // Until the end of the current minute, so that its counts are included.
  const end = startOf("minute", now) + MINUTE_MS;
  const to = options.to === undefined ? end : Math.min(instantMs(options.to, "to"), end);
  const from = options.from === undefined ? to - HOUR_MS : instantMs(options.from, "from");
  if (from >= to || from > now) throw new InvalidOptionError("from", "must be before `to`, and not in the future");
  if (from < now - MAX_AGE_MS - HOUR_MS) {
    throw new InvalidOptionError("from", "is more than 30 days ago; history is stored for 30 days");
  }
  const hasMinutes = from >= now - DAY_MS - MINUTE_MS;
  const { resolution = hasMinutes ? "minute" : "hour" } = options;
  if (resolution !== "minute" && resolution !== "hour") {
    throw new InvalidOptionError("resolution", `${show(resolution)} is neither "minute" nor "hour"`);
  }
  if (resolution === "minute" && !hasMinutes) {
    throw new InvalidOptionError("resolution", 'minutes are stored for one day; use "hour", or a later `from`');
  }
  return { resolution, from: startOf(resolution, from), to };
}

function readBy(by: unknown): HistoryOptions["by"] {
  if (by === undefined || by === "queue" || by === "type") return by;
  throw new InvalidOptionError("by", `${show(by)} is neither "queue" nor "type"`);
}

/** Which queues and types count. */
interface Matcher {
  counted(counted: { queue: string; type: string }): boolean;
  /** Depths are not known by type. */
  depth(queue: string): boolean;
}

function readMatcher(options: HistoryOptions): Matcher {
  const queue = options.queue === undefined ? null : readQueue(options.queue);
  const type = options.type === undefined ? null : readName(options.type, "type", LIMITS.typeLength);
  const isQueue = (name: string): boolean => queue === null || name === queue;
  return {
    counted: (counted) => isQueue(counted.queue) && (type === null || counted.type === type),
    depth: (name) => type === null && options.by !== "type" && isQueue(name),
  };
}

/** Hours that maintenance has not added up, for example because no worker runs, are computed from their minutes. */
async function* recordsToAdd(
  { store, clock }: Pick<EngineContext, "store" | "clock">,
  range: Range,
): AsyncGenerator<HistoryRecord, void> {
  const stored = new Set<number>();
  for await (const record of recordsOf(store, range)) {
    stored.add(record.at);
    yield record;
  }
  if (range.resolution === "minute") return;
  // Earlier minutes may be deleted.
  const from = Math.max(range.from, startOf("hour", clock.now() - DAY_MS));
  for (const part of missingHours(stored, { from, to: range.to })) {
    for await (const minute of recordsOf(store, { resolution: "minute", ...part })) {
      if (!stored.has(startOf("hour", minute.at))) yield minute;
    }
  }
}

// Hours without jobs are not stored either, and each part of the range costs a read.
const MAX_PARTS = 3;

/** The parts of a range that have all hours that are not stored, and as few others as possible. */
function missingHours(
  stored: ReadonlySet<number>,
  { from, to }: { from: number; to: number },
): { from: number; to: number }[] {
  const parts: { from: number; to: number }[] = [];
  for (let at = startOf("hour", from); at < to; at += HOUR_MS) {
    if (stored.has(at)) continue;
    const part = { from: Math.max(at, from), to: Math.min(at + HOUR_MS, to) };
    const last = parts.at(-1);
    if (last?.to === part.from) last.to = part.to;
    else parts.push(part);
  }
  while (parts.length > MAX_PARTS) {
    const gaps = parts.slice(1).map((part, index) => part.from - (parts[index]?.to ?? 0));
    const nearest = gaps.indexOf(Math.min(...gaps));
    const [one, other] = parts.slice(nearest, nearest + 2);
    if (one !== undefined && other !== undefined) parts.splice(nearest, 2, { from: one.from, to: other.to });
  }
  return parts;
}

function addRecord(period: Period, counts: Counts, by: HistoryOptions["by"], matches: Matcher): void {
  for (const counted of counts.values()) {
    if (!matches.counted(counted)) continue;
    const name = by === undefined ? "" : counted[by];
    let sum = period.sums.get(name);
    if (sum === undefined) period.sums.set(name, (sum = newCounted("", "")));
    add(sum, counted);
  }
  // Those of the last record count.
  period.depths = counts.depths?.filter(({ queue }) => matches.depth(queue)) ?? period.depths;
}

/** A series: the names that it adds up. */
interface SeriesName {
  shown: string;
  includes: (name: string) => boolean;
}

/** The names with the most jobs, and the rest as one. Null: all jobs. */
function names(periods: Iterable<Period>, by: HistoryOptions["by"]): (SeriesName | null)[] {
  if (by === undefined) return [null];
  const totals = new Map<string, number>();
  for (const { sums, depths } of periods) {
    for (const [name, counted] of sums) {
      const total = COUNTERS.reduce((sum, counter) => sum + counted[counter], 0);
      totals.set(name, (totals.get(name) ?? 0) + total);
    }
    for (const { queue } of depths ?? []) totals.set(queue, totals.get(queue) ?? 0);
  }
  const busiest = [...totals].filter(([name]) => name !== OTHERS).toSorted(([, a], [, b]) => b - a);
  const shown = busiest.slice(0, MAX_SERIES).map(([name]) => name);
  const series = shown.map((name) => ({ shown: name, includes: (other: string) => other === name }));
  const isShown = new Set(shown);
  const rest = { shown: OTHERS, includes: (other: string) => !isShown.has(other) };
  return totals.size > shown.length ? [...series, rest] : series;
}

async function pointsOf(
  { resolution, from, to }: Range,
  periods: ReadonlyMap<number, Period>,
  name: SeriesName | null,
  pause: () => Promise<void> | undefined,
): Promise<HistoryPoint[]> {
  const points: HistoryPoint[] = [];
  for (let at = from; at < to; at += STEP_MS[resolution]) {
    const period = periods.get(at);
    const sum = newCounted("", "");
    for (const [each, counted] of period?.sums ?? []) {
      if (name === null || name.includes(each)) add(sum, counted);
    }
    const depths = period?.depths?.filter(({ queue }) => name === null || name.includes(queue));
    points.push({ at: new Date(at), ...numbersOf(sum), ...depthOf(depths ?? []) });
    await pause();
  }
  return points;
}

function add(to: Counted, from: Counted): void {
  for (const counter of COUNTERS) to[counter] += from[counter];
  to.wait.merge(from.wait);
  to.run.merge(from.run);
}

function numbersOf({
  enqueued,
  completed,
  failed,
  dead,
  cancelled,
  wait,
  run,
}: Counted): Omit<HistoryPoint, "at" | "waiting" | "leased" | "oldestDueMs"> {
  return { enqueued, completed, failed, dead, cancelled, wait: percentilesOf(wait), run: percentilesOf(run) };
}

function percentilesOf(histogram: Histogram): Percentiles | null {
  const [p50, p95, p99] = [0.5, 0.95, 0.99].map((fraction) => histogram.percentile(fraction));
  return p50 == null || p95 == null || p99 == null ? null : { p50, p95, p99 };
}

function depthOf(depths: readonly Depth[]): Pick<HistoryPoint, "waiting" | "leased" | "oldestDueMs"> {
  if (depths.length === 0) return { waiting: null, leased: null, oldestDueMs: null };
  let [waiting, leased] = [0, 0];
  let oldestDueMs: number | null = null;
  for (const depth of depths) {
    waiting += depth.waiting;
    leased += depth.leased;
    if (depth.oldestDueMs !== null) oldestDueMs = Math.max(oldestDueMs ?? 0, depth.oldestDueMs);
  }
  return { waiting, leased, oldestDueMs };
}
