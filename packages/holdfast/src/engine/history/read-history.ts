import { instantMs } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import { Counts, COUNTERS, newCounted, OTHERS, type Counted, type Depth } from "../../history/counted.js";
import type { Histogram } from "../../history/histogram.js";
import { LIMITS } from "../../defaults.js";
import { optionKeys, readName, readQueue, refuseUnknown, show } from "../../options.js";
import type { HistoryRecord, HistoryResolution } from "../../store.js";
import type { EngineContext } from "../context.js";
import { HOUR_MS, MINUTE_MS, readRecords, startOf, STEP_MS } from "./records.js";

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
  /** Failed attempts, including those that were retried. */
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

interface Range {
  resolution: HistoryResolution;
  from: number;
  to: number;
}

/** Reads stored counts: a bounded number of records, however many jobs there are. */
export async function readHistory({ store, clock }: EngineContext, options: HistoryOptions): Promise<History> {
  refuseUnknown(options, OPTION_KEYS, "history");
  const range = readRange(options, clock.now());
  const matches = readMatcher(options);
  const by = readBy(options.by);
  const periods = new Map<number, Counts>();
  for (const record of await recordsOf(store, range)) {
    const at = startOf(range.resolution, record.at);
    const counts = periods.get(at) ?? new Counts();
    counts.merge(Counts.parse(record.data));
    periods.set(at, counts);
  }
  const series = names(periods.values(), by, matches).map((name): HistorySeries => ({
    name: name?.shown ?? null,
    points: pointsOf(range, periods, by, matches, name),
  }));
  return { resolution: range.resolution, from: new Date(range.from), to: new Date(range.to), series };
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

/** Stored hours are complete. Those that are not stored yet are computed from their minutes. */
async function recordsOf(store: EngineContext["store"], range: Range): Promise<HistoryRecord[]> {
  const records = await readRecords(store, range);
  if (range.resolution === "minute") return records;
  const stored = new Set(records.map(({ at }) => at));
  const from = Math.max(range.from, startOf("hour", range.to) - 2 * HOUR_MS);
  const minutes = await readRecords(store, { resolution: "minute", from, to: range.to });
  return [...records, ...minutes.filter(({ at }) => !stored.has(startOf("hour", at)))];
}

/** A series: the names that it adds up. */
interface SeriesName {
  shown: string;
  includes: (name: string) => boolean;
}

/** The names with the most jobs, and the rest as one. Null: all jobs. */
function names(periods: Iterable<Counts>, by: HistoryOptions["by"], matches: Matcher): (SeriesName | null)[] {
  if (by === undefined) return [null];
  const totals = new Map<string, number>();
  for (const counts of periods) {
    for (const counted of counts.values()) {
      if (!matches.counted(counted)) continue;
      const total = COUNTERS.reduce((sum, counter) => sum + counted[counter], 0);
      totals.set(counted[by], (totals.get(counted[by]) ?? 0) + total);
    }
    if (by !== "queue") continue;
    for (const { queue } of counts.depths ?? []) if (matches.depth(queue)) totals.set(queue, totals.get(queue) ?? 0);
  }
  const busiest = [...totals].filter(([name]) => name !== OTHERS).toSorted(([, a], [, b]) => b - a);
  const shown = busiest.slice(0, MAX_SERIES).map(([name]) => name);
  const series = shown.map((name) => ({ shown: name, includes: (other: string) => other === name }));
  const rest = { shown: OTHERS, includes: (other: string) => !shown.includes(other) };
  return totals.size > shown.length ? [...series, rest] : series;
}

function pointsOf(
  { resolution, from, to }: Range,
  periods: ReadonlyMap<number, Counts>,
  by: HistoryOptions["by"],
  matches: Matcher,
  name: SeriesName | null,
): HistoryPoint[] {
  const points: HistoryPoint[] = [];
  for (let at = from; at < to; at += STEP_MS[resolution]) {
    const counts = periods.get(at);
    const sum = newCounted("", "");
    for (const counted of counts?.values() ?? []) {
      if (matches.counted(counted) && (by === undefined || name === null || name.includes(counted[by])))
        add(sum, counted);
    }
    const depths = counts?.depths?.filter(
      ({ queue }) => matches.depth(queue) && (name === null || name.includes(queue)),
    );
    points.push({ at: new Date(at), ...numbersOf(sum), ...depthOf(depths ?? []) });
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
