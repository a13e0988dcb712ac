import type { HistoryResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { clock, duration, number, short } from "../../app/format.js";
import { now } from "../../app/now.js";
import type { Resource } from "../../app/resource.js";
import { setQuery } from "../../app/router.js";
import { Pending } from "../../ui/page-states.js";
import { Chart } from "./chart.js";
import { completePoints, finishedPerMinute, newest, RANGES, sumOf, type Point, type RangeName } from "./range.js";

export interface ChartProps {
  history: Resource<HistoryResult>;
  range: RangeName;
}

const LAYERS = [
  { state: "completed", label: "completed" },
  { state: "failed", label: "failed attempts" },
  { state: "dead", label: "dead" },
] as const;

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** A time on an axis: the day if there are many of them. */
function axisTime(range: RangeName): (seconds: number) => string {
  return (seconds) => (range === "30d" ? DAY.format(seconds * 1_000) : clock(seconds * 1_000));
}

/** The time of a point: "14:08", "18 Nov 14:00". */
function pointTime(range: RangeName, seconds: number): string {
  return range === "1h" ? clock(seconds * 1_000) : `${DAY.format(seconds * 1_000)} ${clock(seconds * 1_000)}`;
}

/** The points of the range; the same array as long as nothing was loaded. */
export function usePoints({ history, range }: ChartProps): Point[] {
  const { value: data } = history.data;
  return useMemo(
    () => completePoints(data?.series[0]?.points ?? [], RANGES[range].resolution, now.peek()),
    [data, range],
  );
}

export function FinishedCard({ history, range }: ChartProps): JSX.Element {
  const points = usePoints({ history, range });
  const { resolution, words } = RANGES[range];
  const finished = useMemo(() => finishedPerMinute(points, resolution, now.peek()), [points]);
  const data = useMemo(
    () => ({
      at: finished.at,
      layers: LAYERS.map(({ state }) => ({ state, values: finished[state], kind: "bars" as const })),
    }),
    [finished],
  );
  const totals = LAYERS.map(({ state, label }) => `${number(sumOf(points, state))} ${label}`).join(", ");
  return (
    <section class="card">
      <div class="card-h">
        <h2>Finished per minute</h2>
        <ul class="legend s">
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
            <Chart
              data={data}
              kind={range}
              class="plot-l"
              label={`Jobs finished per minute in ${words}. In all: ${totals}.`}
              stacked
              steps={4}
              stepSeconds={resolution === "minute" ? 60 : 3_600}
              showValue={(value) => (value < 10 ? String(Math.round(value * 100) / 100) : short(value))}
              showTime={axisTime(range)}
              tip={(at) => (
                <>
                  <b class="strong">{pointTime(range, finished.at[at] ?? 0)}</b>{" "}
                  <span class="t3">{resolution === "minute" ? "minute" : "per minute in this hour"}</span>
                  <dl>
                    {LAYERS.map(({ state, label }) => [
                      <dt key={label} class={`s-${state}`}>
                        <span class="sq" />
                        {label}
                      </dt>,
                      <dd key={state}>{rate(finished[state][at] ?? 0)}</dd>,
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

export function TimesCard({ history, range }: ChartProps): JSX.Element {
  const points = usePoints({ history, range });
  const { words } = RANGES[range];
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
          <TimeChart points={points} range={range} field="wait" name="Wait" state="pending" />
          <TimeChart points={points} range={range} field="run" name="Run" state="running" />
          <AsTable
            caption={`Wait and run time in ${words}`}
            head={["Time", "Wait p50", "Wait p95", "Run p50", "Run p95"]}
          >
            {() =>
              points.map(({ at, wait, run }) => [
                pointTime(range, Date.parse(at) / 1_000),
                ...[wait?.p50, wait?.p95, run?.p50, run?.p95].map((ms) => (ms === undefined ? "–" : duration(ms))),
              ])
            }
          </AsTable>
        </div>
      )}
    </section>
  );
}

interface TimeChartProps {
  points: Point[];
  range: RangeName;
  field: "wait" | "run";
  name: string;
  state: string;
}

function TimeChart({ points, range, field, name, state }: TimeChartProps): JSX.Element {
  const data = useMemo(
    () => ({
      at: points.map(({ at }) => Date.parse(at) / 1_000),
      layers: [
        { state, kind: "line" as const, values: points.map((point) => point[field]?.p95 ?? null) },
        { state, kind: "dashed" as const, values: points.map((point) => point[field]?.p50 ?? null) },
      ],
    }),
    [points],
  );
  const last = newest(points, (point) => point[field]);
  return (
    <div>
      <p class="mini-h">
        {name}
        {last === null ? (
          <span>No job ran.</span>
        ) : (
          <>
            <b>p95 {duration(last.p95)}</b>
            <span>p50 {duration(last.p50)}</span>
          </>
        )}
      </p>
      <Chart
        data={data}
        kind={range}
        class="plot-s"
        label={`${name} time in ${RANGES[range].words}${last === null ? ": no job ran" : `. Now p95 ${duration(last.p95)}, p50 ${duration(last.p50)}`}.`}
        stacked={false}
        steps={2}
        stepSeconds={RANGES[range].resolution === "minute" ? 60 : 3_600}
        showValue={(value) => (value === 0 ? "0" : duration(value))}
        showTime={axisTime(range)}
        tip={(at) => (
          <>
            <b class="strong">{pointTime(range, data.at[at] ?? 0)}</b>
            <dl>
              <dt>p95</dt>
              <dd>{shown(points[at]?.[field]?.p95)}</dd>
              <dt>p50</dt>
              <dd>{shown(points[at]?.[field]?.p50)}</dd>
            </dl>
          </>
        )}
      />
    </div>
  );
}

function shown(ms: number | undefined): string {
  return ms === undefined ? "–" : duration(ms);
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
