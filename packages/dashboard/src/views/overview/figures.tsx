import type { StatsResult, WorkerResult } from "holdfast/admin";
import type { ComponentChildren, JSX } from "preact";
import { coarse, durationParts, number, plural, short } from "../../app/format.js";
import { jobsHref } from "../../app/links.js";
import { now } from "../../app/now.js";
import { isLive } from "../../app/workers.js";
import { hrefOf } from "../../app/router.js";
import { Meter } from "../../ui/meter.js";
import { Spark } from "../../ui/spark.js";
import { newest, RANGES, sumOf, type Point, type RangeName } from "./range.js";
import { missingWorkers } from "./warnings.js";

interface FiguresProps {
  stats: StatsResult;
  /** Undefined: not loaded. */
  points: readonly Point[] | undefined;
  range: RangeName;
  workers: readonly WorkerResult[] | undefined;
  /** Jobs that died in the last hour. */
  diedInHour: number | undefined;
}

const LATE_MS = 5 * 60_000;

export function Figures({ stats, points, range, workers, diedInHour }: FiguresProps): JSX.Element {
  const { words } = RANGES[range];
  const [wait, run] = (["wait", "run"] as const).map((field) => newest(points ?? [], (point) => point[field]));
  const [first, second] = [...stats.oldestDue].toSorted((one, other) => other.dueMs - one.dueMs);
  const isLate = (stats.oldestDueMs ?? 0) >= LATE_MS;
  return (
    <dl class="card kpis">
      <Figure
        name="Completed"
        value={[rateOf(stats.completedPerSecond), "/s"]}
        detail={points !== undefined && `${number(sumOf(points, "completed"))} in ${words}`}
        chart={<Spark values={(points ?? []).map(({ completed }) => completed)} state="completed" />}
      />
      <Figure
        name="Wait, p95"
        value={wait == null ? ["–", ""] : durationParts(wait.p95)}
        detail={points !== undefined && (wait == null ? "No job ran" : `p50 ${joined(wait.p50)}`)}
        chart={<Spark values={(points ?? []).map((point) => point.wait?.p95 ?? 0)} state="pending" />}
      />
      <Figure
        name="Run, p95"
        value={run == null ? ["–", ""] : durationParts(run.p95)}
        detail={points !== undefined && (run == null ? "No job ran" : `p50 ${joined(run.p50)}`)}
        chart={<Spark values={(points ?? []).map((point) => point.run?.p95 ?? 0)} state="running" />}
      />
      <Figure
        name="Oldest due"
        value={stats.oldestDueMs === null ? ["–", ""] : ageParts(stats.oldestDueMs)}
        isBad={isLate}
        detail={
          first === undefined ? (
            "No job is due"
          ) : (
            <>
              <a
                class={isLate ? "bad" : "link"}
                href={jobsHref({ queue: first.queue, state: "pending,failed" })}
                dir="auto"
              >
                {first.queue}
              </a>
              {second !== undefined && ` · then ${ageParts(second.dueMs).join(" ")}`}
            </>
          )
        }
        chart={
          <Spark values={(points ?? []).map((point) => point.oldestDueMs ?? 0)} state={isLate ? "dead" : "pending"} />
        }
      />
      <CapacityFigure stats={stats} workers={workers} />
      <Figure
        name="Dead"
        value={[short(stats.states.dead), ""]}
        detail={
          diedInHour !== undefined &&
          (diedInHour === 0 ? (
            "None died in the last hour"
          ) : (
            <>
              <a class="bad" href={hrefOf("/failures")}>
                +{number(diedInHour)}
              </a>{" "}
              in the last hour
            </>
          ))
        }
        chart={<Spark values={(points ?? []).map(({ dead }) => dead)} state="dead" kind="bars" />}
      />
    </dl>
  );
}

interface FigureProps {
  name: string;
  value: readonly [string, string];
  isBad?: boolean;
  detail: ComponentChildren;
  chart: JSX.Element;
}

function Figure({ name, value: [value, unit], isBad = false, detail, chart }: FigureProps): JSX.Element {
  return (
    <div class="kpi">
      <dt>{name}</dt>
      <dd class="v">
        {isBad ? <span class="bad">{value}</span> : value}
        {unit !== "" && <small>{unit}</small>}
      </dd>
      <dd class="d">{detail === false ? " " : detail}</dd>
      <dd class="c">{chart}</dd>
    </div>
  );
}

function CapacityFigure({ stats, workers }: Pick<FiguresProps, "stats" | "workers">): JSX.Element {
  const live = (workers ?? []).filter((worker) => isLive(worker, now.value));
  const missing = missingWorkers(workers ?? [], now.value).length;
  const capacity = live.reduce((sum, { concurrency }) => sum + concurrency, 0);
  const { running, claimed } = stats.states;
  const free = Math.max(0, capacity - running);
  return (
    <Figure
      name="Capacity in use"
      value={workers === undefined ? ["–", ""] : [number(running), `of ${number(capacity)}`]}
      detail={
        workers !== undefined && (
          <>
            {live.length === 0 ? <span class="bad">No live worker</span> : `${plural(live.length, "worker")} live`}
            {missing > 0 && ` · ${missing} missing`}
          </>
        )
      }
      chart={
        <Meter
          max={capacity}
          parts={[
            { state: "running", value: running },
            { state: "claimed", value: Math.min(claimed, free) },
          ]}
          label={`${running} running, ${claimed} claimed, capacity ${capacity}`}
        />
      }
    />
  );
}

function rateOf(perSecond: number): string {
  return perSecond >= 100 ? number(Math.round(perSecond)) : perSecond.toFixed(1);
}

/** One unit from a minute on. */
function ageParts(ms: number): [string, string] {
  return ms < 60_000 ? durationParts(ms) : (coarse(ms).split(" ") as [string, string]);
}

function joined(ms: number): string {
  return durationParts(ms).join(" ");
}
