import type { HistoryResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { clientWithin, may } from "../app/api.js";
import { stats } from "../app/live.js";
import { now, serverNow } from "../app/now.js";
import { useResource } from "../app/resource.js";
import { loadSchedules } from "../app/schedules.js";
import { route } from "../app/router.js";
import { Skeleton } from "../ui/page-states.js";
import { FinishedCard, TimesCard, usePoints } from "./overview/charts.js";
import { useDeadCounts } from "./overview/dead-counts.js";
import { Figures } from "./overview/figures.js";
import { FirstJob } from "./overview/first-job.js";
import { ChangesCard, FailuresCard, SchedulesCard, WorkersCard } from "./overview/lists.js";
import { QueuesCard } from "./overview/queues-card.js";
import { completePoints, RANGES, readRange, sumOf } from "./overview/range.js";
import { WarningList } from "./overview/warning-list.js";
import { findWarnings } from "./overview/warnings.js";

// Counts come from the event stream. All of these together are less than a call of the store in two seconds.
const EVERY_MS = 15_000;
const SCHEDULES_MS = 30_000;
const AUDIT_MS = 30_000;
/** The event stream has newer counts at once. */
const COUNTED_S = 10;
/** Processes write their counts once a minute. */
const HISTORY_MS = 60_000;
const MINUTE_MS = 60_000;
/** A queue falls behind if its oldest job has been due for longer than so many minutes ago. */
const BEFORE_POINTS = 10;

export default function Overview(): JSX.Element {
  const range = readRange(route.value.query);
  const { ms, resolution, everyMs } = RANGES[range];
  const history = useResource(
    `overview history ${range}`,
    // Whole minutes, so that all open pages ask for the same.
    ({ history: past }) => past.get({ from: startOfMinute(serverNow() - ms), resolution }),
    { every: everyMs },
  );
  const byQueue = useResource("overview history by queue", (client) => client.history.get({ by: "queue" }), {
    every: HISTORY_MS,
  });
  // The last hour is there already.
  const depth = useResource(
    `overview depth ${range}`,
    async ({ history: past }) =>
      range === "1h" ? undefined : past.get({ from: startOfMinute(serverNow() - ms), resolution, by: "queue" }),
    { every: everyMs },
  );
  const queues = useResource("overview queues", (client) => client.queues.list({}), { every: EVERY_MS });
  const workers = useResource("overview workers", (client) => client.workers.list({}), { every: EVERY_MS });
  const groups = useResource("overview errors", (client) => client.errors.list({ limit: 100 }), { every: EVERY_MS });
  const schedules = useResource("overview schedules", loadSchedules, { every: SCHEDULES_MS });
  const counted = useResource("overview stats", () => clientWithin(COUNTED_S).jobs.stats({}));
  const dead = useDeadCounts(groups.data.value?.groups);
  const points = usePoints({ history, range });
  const hourBefore = useMemo(() => beforeOf(byQueue.data.value), [byQueue.data.value]);
  const current = stats.value ?? counted.data.value;

  const isKnown =
    workers.data.value !== undefined && queues.data.value !== undefined && groups.data.value !== undefined;
  const warnings =
    current === undefined || !isKnown
      ? undefined
      : findWarnings({
          now: now.value,
          stats: current,
          workers: workers.data.value?.workers,
          queues: queues.data.value?.queues,
          groups: groups.data.value?.groups,
          dead,
          schedules: schedules.data.value?.schedules,
          before: hourBefore.dueMs,
        });
  const isEmpty = current !== undefined && current.counts.length === 0 && schedules.data.value?.schedules.length === 0;
  if (isEmpty && warnings?.length === 0) return <FirstJob workers={workers.data.value?.workers ?? []} />;
  return (
    <>
      <WarningList warnings={warnings} onChanged={() => queues.reload()} />
      {current === undefined ? (
        <div class="card">
          <Skeleton rows={4} />
        </div>
      ) : (
        <Figures
          stats={current}
          points={history.data.value === undefined ? undefined : points}
          range={range}
          workers={workers.data.value?.workers}
          diedInHour={hourBefore.died}
        />
      )}
      <div class="cols cols-21 stretch">
        <FinishedCard history={history} range={range} />
        <TimesCard history={history} range={range} />
      </div>
      <div class="cols cols-21 stretch">
        {current === undefined ? (
          <div class="card">
            <Skeleton rows={8} />
          </div>
        ) : (
          <QueuesCard
            stats={current}
            queues={queues.data.value?.queues}
            byQueue={byQueue.data.value}
            depth={depth.data.value}
            range={range}
          />
        )}
        <FailuresCard groups={groups} />
      </div>
      <div class={`cols stretch ${may("admin") ? "cols-111" : "cols-2"}`}>
        <SchedulesCard schedules={schedules} />
        <WorkersCard workers={workers} />
        {may("admin") && <Changes />}
      </div>
    </>
  );
}

function Changes(): JSX.Element {
  const audit = useResource("overview audit", (client) => client.audit.list({ limit: 6 }), { every: AUDIT_MS });
  return <ChangesCard audit={audit} />;
}

/** From the last hour: how long jobs were due some minutes ago, and how many died. */
function beforeOf(byQueue: HistoryResult | undefined): {
  dueMs: ReadonlyMap<string, number>;
  died: number | undefined;
} {
  const dueMs = new Map<string, number>();
  for (const { name, points } of byQueue?.series ?? []) {
    const before = completePoints(points, "minute", now.peek()).at(-BEFORE_POINTS)?.oldestDueMs;
    if (name !== null && before != null) dueMs.set(name, before);
  }
  const died = byQueue?.series.reduce((sum, { points }) => sum + sumOf(points, "dead"), 0);
  return { dueMs, died };
}

function startOfMinute(at: number): string {
  return new Date(Math.floor(at / MINUTE_MS) * MINUTE_MS).toISOString();
}
