import type { HistoryResult, QueueResult, StatsResult } from "holdfast/admin";
import type { JSX } from "preact";
import { coarse, duration, number } from "../../app/format.js";
import { jobsHref } from "../../app/links.js";
import { now } from "../../app/now.js";
import { hrefOf } from "../../app/router.js";
import { Icon } from "../../ui/icon.js";
import { Spark } from "../../ui/spark.js";
import { completePoints, RANGES, recentRate, type Point, type RangeName } from "./range.js";

const SHOWN = 8;
const LATE_MS = 60_000;
const VERY_LATE_MS = 5 * 60_000;

interface QueuesProps {
  stats: StatsResult;
  queues: readonly QueueResult[] | undefined;
  /** The last hour by queue. */
  byQueue: HistoryResult | undefined;
  /** The range by queue, unless it is the last hour. */
  depth: HistoryResult | undefined;
  range: RangeName;
}

interface Row {
  queue: string;
  points: readonly Point[];
  rate: number;
  waiting: number;
  running: number;
  retrying: number;
  dead: number;
  dueMs: number | undefined;
  isPaused: boolean;
}

/** The queues with the most completed jobs, then those with the most waiting ones. */
function rowsOf({ stats, queues = [], byQueue, depth, range }: QueuesProps): Row[] {
  const series = new Map(byQueue?.series.map(({ name, points }) => [name, points]));
  const inRange = new Map(depth?.series.map(({ name, points }) => [name, points]));
  const due = new Map(stats.oldestDue.map(({ queue, dueMs }) => [queue, dueMs]));
  const paused = new Set(queues.filter((queue) => queue.paused).map(({ queue }) => queue));
  const names = new Set([...Object.keys(stats.queues), ...paused]);
  const rows = [...names].map((queue): Row => {
    const counts = stats.queues[queue];
    const points = completePoints(series.get(queue) ?? [], "minute", now.peek());
    return {
      queue,
      points: range === "1h" ? points : (inRange.get(queue) ?? []),
      rate: recentRate(points),
      waiting: counts?.pending ?? 0,
      running: (counts?.running ?? 0) + (counts?.claimed ?? 0),
      retrying: counts?.failed ?? 0,
      dead: counts?.dead ?? 0,
      dueMs: due.get(queue),
      isPaused: paused.has(queue),
    };
  });
  // By whole tenths: rows must not change places all the time.
  const order = (row: Row): number => Math.round(row.rate * 10) * 1e9 + row.waiting + row.running;
  return rows.toSorted((one, other) => order(other) - order(one) || (one.queue < other.queue ? -1 : 1));
}

export function QueuesCard(props: QueuesProps): JSX.Element {
  const rows = rowsOf(props);
  const shown = rows.slice(0, SHOWN);
  return (
    <section class="card">
      <div class="card-h">
        <h2>Queues</h2>
        <span class="meta">
          {rows.length > SHOWN ? `${SHOWN} of ${number(rows.length)}` : rows.length}, by throughput
        </span>
        <a class="btn ghost sm push" href={hrefOf("/queues")}>
          All queues
        </a>
      </div>
      {rows.length === 0 ? (
        <p class="none">A queue appears with its first job.</p>
      ) : (
        <div class="table-wrap">
          <table class="table">
            <thead class="hide-narrow">
              <tr>
                <th scope="col">Queue</th>
                <th scope="col" class="p3">
                  Depth, {RANGES[props.range].words.slice(4)}
                </th>
                <th scope="col" class="num">
                  Waiting
                </th>
                <th scope="col" class="num">
                  Running
                </th>
                <th scope="col" class="num p2">
                  Retrying
                </th>
                <th scope="col" class="num">
                  Dead
                </th>
                <th scope="col" class="num" title="Completed per second, over five minutes">
                  Per s
                </th>
                <th scope="col" class="num">
                  Oldest due
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((row) => (
                <QueueRow key={row.queue} row={row} isAllPaused={props.stats.paused} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function QueueRow({ row, isAllPaused }: { row: Row; isAllPaused: boolean }): JSX.Element {
  const { queue, points, rate, waiting, running, retrying, dead, dueMs, isPaused } = row;
  const state = dueMs !== undefined && dueMs >= LATE_MS ? "failed" : "pending";
  const due =
    isPaused || isAllPaused ? "paused" : dueMs === undefined ? "–" : dueMs < LATE_MS ? duration(dueMs) : coarse(dueMs);
  const tone = dueMs === undefined || isPaused || dueMs < LATE_MS ? "t2" : dueMs < VERY_LATE_MS ? "warn" : "bad strong";
  const count = (value: number, filter: string, extra = ""): JSX.Element => (
    <td class={`num ${value === 0 ? "zero" : ""} ${extra}`}>
      {value === 0 ? 0 : <a href={jobsHref({ queue, state: filter })}>{number(value)}</a>}
    </td>
  );
  return (
    <tr>
      <td class="two-n">
        <a class="strong q-name" href={jobsHref({ queue })} title={queue}>
          <bdi>{queue}</bdi>
        </a>
        {isPaused && (
          <span class="pill s-failed">
            <Icon name="pause" />
            paused
          </span>
        )}
        <span class="sub-n narrow-only">
          {number(waiting)} waiting · {number(running)} running · oldest {due}
        </span>
      </td>
      <td class="p3">
        <Spark values={points.map((point) => point.waiting ?? 0)} state={state} />
      </td>
      {count(waiting, "pending", "wide-only")}
      {count(running, "claimed,running", "wide-only")}
      {count(retrying, "failed", "wide-only p2")}
      {count(dead, "dead", dead > 0 ? "dead-n" : "")}
      <td class={`num wide-only ${rate === 0 ? "zero" : ""}`}>{rate.toFixed(1)}</td>
      <td class={`num wide-only ${tone}`}>{due}</td>
    </tr>
  );
}
