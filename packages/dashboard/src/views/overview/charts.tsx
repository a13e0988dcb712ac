import type { HistoryResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { clock, duration, number, short, shortDate } from "../../app/format.js";
import { now } from "../../app/now.js";
import type { Resource } from "../../app/resource.js";
import { setQuery } from "../../app/router.js";
import { Pending } from "../../ui/page-states.js";
import { TimeChart } from "../../ui/time-chart.js";
import {
  completePoints,
  finishedPerMinute,
  inGroups,
  newest,
  RANGES,
  sumOf,
  type Point,
  type RangeName,
} from "./range.js";

export interface ChartProps {
  history: Resource<HistoryResult>;
  range: RangeName;
}

const LAYERS = [
  { state: "completed", label: "completed" },
  { state: "failed", label: "failed attempts" },
  { state: "dead", label: "dead" },
] as const;

/** A time on an axis: the day if there are many of them. */
function axisTime(range: RangeName): (seconds: number) => string {
  return (seconds) => (range === "30d" ? shortDate(seconds * 1_000) : clock(seconds * 1_000));
}

/** The time of a point: "14:08", "18 Nov 14:00". */
function pointTime(range: RangeName, seconds: number): string {
  return range === "1h" ? clock(seconds * 1_000) : `${shortDate(seconds * 1_000)} ${clock(seconds * 1_000)}`;
}

/** The points of the range; the same array as long as nothing was loaded. */
export function usePoints({ history, range }: ChartProps): Point[] {
  const { value: data } = history.data;
  return useMemo(
    () => completePoints(data?.series[0]?.points ?? [], RANGES[range].resolution, now.peek()),
    [data, range],
  );
}

/** The length of what a group of points covers, in seconds. */
function periodOf(groups: readonly Point[][], resolution: "minute" | "hour"): number {
  return (groups[0]?.length ?? 1) * (resolution === "minute" ? 60 : 3_600);
}

export function FinishedCard({ history, range }: ChartProps): JSX.Element {
  const points = usePoints({ history, range });
  const { resolution, words } = RANGES[range];
  const { finished, period } = useMemo(() => {
    const groups = inGroups(points);
    return { finished: finishedPerMinute(groups, resolution, now.peek()), period: periodOf(groups, resolution) };
  }, [points]);
  const totals = LAYERS.map(({ state, label }) => `${number(sumOf(points, state))} ${label}`).join(", ");
  return (
    <section class="card">
      <div class="card-h">
        <h2>Finished per minute</h2>
        <ul class="legend">
          {LAYERS.map(({ state, label }) => (
            <li key={state} class={`s-${state}`}>
              <span class="sq" />
              {label}
            </li>
          ))}
        </ul>
        <div class="seg push" role="group" aria-label="Range">
          {Object.entries(RANGES).map(([name, { label }]) => (
            <button
              key={name}
              type="button"
              aria-pressed={name === range}
              onClick={() => setQuery({ range: name === "1h" ? null : name }, { replace: true })}
            >
              {label}
            </button>
          ))}
        </div>
      </div>
      <div class="card-b">
        {history.data.value === undefined ? (
          <Pending of={history} rows={6} />
        ) : (
          <>
            <TimeChart
              at={finished.at}
              layers={LAYERS.map(({ state }) => ({ state, values: finished[state], kind: "bars" }))}
              period={period}
              class="plot-l"
              label={`Jobs finished per minute in ${words}. In all: ${totals}.`}
              steps={4}
              showValue={(value) => (value < 10 ? String(Math.round(value * 100) / 100) : short(value))}
              showTime={axisTime(range)}
              tip={(index) => (
                <>
                  <b class="strong">{pointTime(range, finished.at[index] ?? 0)}</b>{" "}
                  <span class="t3">
                    {period === 60
                      ? "minute"
                      : `per minute in ${period === 3_600 ? "this hour" : duration(period * 1_000)}`}
                  </span>
                  <dl>
                    {LAYERS.map(({ state, label }) => [
                      <dt key={label} class={`s-${state}`}>
                        <span class="sq" />
                        {label}
                      </dt>,
                      <dd key={state}>{rate(finished[state][index] ?? 0)}</dd>,
                    ])}
                  </dl>
                </>
              )}
            />
            <AsTable
              caption={`Jobs finished per minute in ${words}`}
              head={["Time", ...LAYERS.map(({ label }) => label)]}
            >
              {() =>
                finished.at.map((seconds, at) => [
                  pointTime(range, seconds),
                  ...LAYERS.map(({ state }) => rate(finished[state][at] ?? 0)),
                ])
              }
            </AsTable>
          </>
        )}
      </div>
    </section>
  );
}

function rate(value: number): string {
  return number(value < 10 ? Math.round(value * 10) / 10 : Math.round(value));
}

const TIMES = [
  { field: "wait", name: "Wait", state: "pending" },
  { field: "run", name: "Run", state: "running" },
] as const;

export function TimesCard({ history, range }: ChartProps): JSX.Element {
  const points = usePoints({ history, range });
  const { resolution, words } = RANGES[range];
  const { at, period, times } = useMemo(() => {
    const groups = inGroups(points);
    return {
      at: groups.map(([first]) => Date.parse(first?.at ?? "") / 1_000),
      period: periodOf(groups, resolution),
      times: TIMES.map(({ field }) => ({
        p50: groups.map((group) => largest(group, (point) => point[field]?.p50)),
        p95: groups.map((group) => largest(group, (point) => point[field]?.p95)),
      })),
    };
  }, [points]);
  return (
    <section class="card">
      <div class="card-h">
        <h2>Wait and run time</h2>
        <span class="meta push">solid p95 · dashed p50</span>
      </div>
      {history.data.value === undefined ? (
        <Pending of={history} rows={6} />
      ) : (
        <div class="minis">
          {TIMES.map(({ field, name, state }, nth) => {
            const { p50 = [], p95 = [] } = times[nth] ?? {};
            const last = newest(points, (point) => point[field]);
            return (
              <div key={field}>
                <p>
                  {name}
                  {last !== null && <b>p95 {duration(last.p95)}</b>}
                  <span>{last === null ? "No job ran." : `p50 ${duration(last.p50)}`}</span>
                </p>
                <TimeChart
                  at={at}
                  layers={[
                    { state, kind: "line", values: p95 },
                    { state, kind: "dashed", values: p50 },
                  ]}
                  period={period}
                  class="plot-s"
                  label={`${name} time in ${words}${last === null ? ": no job ran" : `. Now p95 ${duration(last.p95)}, p50 ${duration(last.p50)}`}.`}
                  steps={2}
                  showValue={(value) => (value === 0 ? "0" : value < 1 ? "" : duration(value))}
                  showTime={axisTime(range)}
                  tip={(index) => (
                    <>
                      <b class="strong">{pointTime(range, at[index] ?? 0)}</b>
                      <dl>
                        <dt>p95</dt>
                        <dd>{shown(p95[index])}</dd>
                        <dt>p50</dt>
                        <dd>{shown(p50[index])}</dd>
                      </dl>
                    </>
                  )}
                />
              </div>
            );
          })}
          <AsTable
            caption={`Wait and run time in ${words}`}
            head={["Time", ...TIMES.flatMap(({ name }) => [`${name} p50`, `${name} p95`])]}
          >
            {() =>
              at.map((seconds, index) => [
                pointTime(range, seconds),
                ...times.flatMap(({ p50, p95 }) => [shown(p50[index]), shown(p95[index])]),
              ])
            }
          </AsTable>
        </div>
      )}
    </section>
  );
}

/** Of a group of points; null: it has none. */
function largest(group: readonly Point[], read: (point: Point) => number | undefined): number | null {
  const values = group.flatMap((point) => read(point) ?? []);
  return values.length === 0 ? null : Math.max(...values);
}

function shown(ms: number | null | undefined): string {
  return ms == null ? "–" : duration(ms);
}

interface AsTableProps {
  caption: string;
  head: readonly string[];
  children: () => readonly (readonly string[])[];
}

/** The same numbers as text. Its rows exist only while it is open. */
function AsTable({ caption, head, children: rows }: AsTableProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="as-table" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Show as a table</summary>
      {isOpen && (
        <div class="table-wrap" tabIndex={0} role="region" aria-label={caption}>
          <table class="table in">
            <thead>
              <tr>
                {head.map((name, at) => (
                  <th key={name} scope="col" class={at === 0 ? "" : "num"}>
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows()
                .toReversed()
                .map(([first, ...others]) => (
                  <tr key={first}>
                    <th scope="row">{first}</th>
                    {others.map((text, at) => (
                      <td key={at} class="num">
                        {text}
                      </td>
                    ))}
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
