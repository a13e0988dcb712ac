import type { QueueResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, may } from "../app/api.js";
import { coarse, clock, duration, number, plural } from "../app/format.js";
import { jobsHref } from "../app/links.js";
import { stats } from "../app/live.js";
import { now } from "../app/now.js";
import { useResource, type Resource } from "../app/resource.js";
import { act } from "../app/toasts.js";
import { Button } from "../ui/button.js";
import { Confirm } from "../ui/confirm.js";
import { Icon } from "../ui/icon.js";
import { Meter } from "../ui/meter.js";
import { Empty, Pending } from "../ui/page-states.js";
import { Spark } from "../ui/spark.js";
import { queueRows, type QueueRow } from "./queues/queue-rows.js";

const EVERY_MS = 10_000;
const HISTORY_MS = 60_000;

interface Loaded {
  queues: QueueResult[];
  paused: boolean;
}

export default function Queues(): JSX.Element {
  const list = useResource<Loaded>("queues", () => api.queues.list(), { every: EVERY_MS });
  const workers = useResource("workers", () => api.workers.list(), { every: EVERY_MS });
  const history = useResource("history by queue", () => api.history.get({ by: "queue" }), { every: HISTORY_MS });
  // The event stream has counts once a second; until it is open, these.
  const first = useResource("stats", () => api.jobs.stats());
  const { value: data } = list.data;
  if (data === undefined) return <Pending of={list} />;
  const rows = queueRows({
    queues: data.queues,
    stats: stats.value ?? first.data.value ?? null,
    history: history.data.value,
    workers: workers.data.value?.workers ?? [],
    now: now.value,
  });
  return (
    <>
      <Paused rows={rows} isAll={data.paused} list={list} />
      {rows.length === 0 ? (
        <section class="card">
          <Empty icon="queues" title="No queues yet">
            <p>A queue is created with its first job.</p>
          </Empty>
        </section>
      ) : (
        <Table rows={rows} isAll={data.paused} list={list} hasWorkers={workers.data.value !== undefined} />
      )}
    </>
  );
}

function setPaused(queue: string, paused: boolean, list: Resource<Loaded>, isUndo = false): Promise<boolean> {
  return act(
    async () => {
      await (paused ? api.queues.pause({ queue }) : api.queues.resume({ queue }));
      await list.reload();
    },
    paused ? `Paused ${queue}. Running jobs continue.` : `Resumed ${queue}.`,
    isUndo ? undefined : () => void setPaused(queue, !paused, list, true),
  );
}

/** Sentences about what is paused, before everything else. */
function Paused({
  rows,
  isAll,
  list,
}: {
  rows: readonly QueueRow[];
  isAll: boolean;
  list: Resource<Loaded>;
}): JSX.Element {
  return (
    <>
      {isAll && (
        <div class="note big s-failed">
          <Icon name="pause" />
          <span class="grow">
            <b class="strong">All queues are paused.</b> Running jobs continue. No job starts until all are resumed.
          </span>
        </div>
      )}
      {rows
        .filter(({ paused }) => paused)
        .slice(0, 3)
        .map(({ queue, pausedAt, pausedBy, waiting }) => (
          <div key={queue} class="note big s-failed">
            <Icon name="pause" />
            <span class="grow">
              <b class="strong" dir="auto">
                {queue}
              </b>{" "}
              <b class="strong">is paused</b>
              {pausedAt !== null && (
                <>
                  {" "}
                  by <bdi>{pausedBy ?? "a program"}</bdi> since {clock(Date.parse(pausedAt))},{" "}
                  {coarse(now.value - Date.parse(pausedAt))} ago
                </>
              )}
              . {waiting === 1 ? "1 job waits." : `${number(waiting)} jobs wait.`} Running jobs were not stopped.
            </span>
            {may("operator") && (
              <Button small icon="play" onClick={() => setPaused(queue, false, list)}>
                Resume
              </Button>
            )}
          </div>
        ))}
    </>
  );
}

interface TableProps {
  rows: readonly QueueRow[];
  isAll: boolean;
  list: Resource<Loaded>;
  hasWorkers: boolean;
}

function Table({ rows, isAll, list, hasWorkers }: TableProps): JSX.Element {
  return (
    <section class="card">
      <header class="card-h">
        <h2>{plural(rows.length, "queue")}</h2>
        {may("operator") && <PauseAll isAll={isAll} list={list} />}
      </header>
      <div class="table-wrap">
        <table class="table roomy queues-t">
          <thead class="hide-narrow">
            <tr>
              <th>Queue</th>
              <th class="p3">Finished, last hour</th>
              <th class="p2">Capacity in use</th>
              <th class="num wide-only">Waiting</th>
              <th class="num p2">Retrying</th>
              <th class="num">Dead</th>
              <th class="num p2">Per s</th>
              <th class="num p3 p4">Wait p95</th>
              <th class="num p2">Oldest due</th>
              <th class="num p3 p4">Priorities</th>
              {may("operator") && (
                <th class="act">
                  <span class="sr">Actions</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <Row key={row.queue} row={row} list={list} hasWorkers={hasWorkers} isAll={isAll} />
            ))}
          </tbody>
        </table>
      </div>
      {rows.some(({ isShared, capacity }) => isShared && capacity > 0) && (
        <footer class="card-f">* These workers take other queues too.</footer>
      )}
    </section>
  );
}

function PauseAll({ isAll, list }: { isAll: boolean; list: Resource<Loaded> }): JSX.Element {
  const [isAsking, setAsking] = useState(false);
  const verb = isAll ? "Resume" : "Pause";
  return (
    <>
      <Button
        class="push"
        small
        kind={isAll ? "primary" : "ghost"}
        icon={isAll ? "play" : "pause"}
        onClick={() => setAsking(true)}
      >
        {verb} all…
      </Button>
      {isAsking && (
        <Confirm
          title={`${verb} all queues`}
          action={`${verb} all queues`}
          onClose={() => setAsking(false)}
          onConfirm={() =>
            act(
              async () => {
                await (isAll ? api.queues.resumeAll({}) : api.queues.pauseAll({}));
                await list.reload();
              },
              isAll ? "Resumed all queues." : "Paused all queues. Running jobs continue.",
            )
          }
        >
          <p>
            {isAll
              ? "Workers claim jobs again, except from queues that were paused one by one."
              : "No worker claims a job from any queue until all are resumed. Running jobs continue, and jobs can still be enqueued."}
          </p>
        </Confirm>
      )}
    </>
  );
}

const OLD_MS = 10 * 60_000;
const SLOW_MS = 60_000;

interface RowProps {
  row: QueueRow;
  list: Resource<Loaded>;
  hasWorkers: boolean;
  isAll: boolean;
}

function Row({ row, list, hasWorkers, isAll }: RowProps): JSX.Element {
  const { queue, paused, types, waiting, running, claimed, retrying, dead, capacity, isShared, oldestDueMs } = row;
  const isIdle = hasWorkers && capacity === 0;
  const due = paused || isAll ? "paused" : oldestDueMs === null ? "–" : duration(oldestDueMs);
  const dueClass =
    paused || oldestDueMs === null ? "t2" : oldestDueMs > OLD_MS ? "bad strong" : oldestDueMs > SLOW_MS ? "warn" : "t2";
  return (
    <tr>
      <td class="two two-n name">
        <span class="row">
          <a class="strong cut" dir="auto" title={queue} href={jobsHref({ queue })}>
            {queue}
          </a>
          {paused && (
            <span class="pill s-failed">
              <Icon name="pause" />
              paused
            </span>
          )}
        </span>
        <small dir="auto" title={types.join(", ")}>
          {types.join(", ")}
        </small>
        <span class="sub-n narrow-only">
          {number(waiting)} waiting · {number(running)} running{isIdle && waiting > 0 ? " · no worker" : ""}
          {due === "–" ? "" : ` · ${paused ? "paused" : `oldest ${due}`}`}
        </span>
      </td>
      <td class="p3">
        <Spark
          values={row.finished}
          state={row.finished.some((value) => value > 0) ? "completed" : "cancelled"}
          label={`Finished in the last hour: ${number(row.finished.reduce((sum, value) => sum + value, 0))}`}
        />
      </td>
      <td class="p2">
        {isIdle ? (
          <span class={waiting > 0 ? "bad strong" : "t3"}>no worker</span>
        ) : (
          <span class="util">
            <Meter
              max={capacity}
              parts={[{ state: "running", value: running }]}
              label={`${running} of ${capacity} in use`}
            />
            <a
              class="t2 num"
              title={`${number(running)} running, ${number(claimed)} claimed`}
              href={jobsHref({ queue, state: "running,claimed" })}
            >
              {number(running)} of {number(capacity)}
              {isShared && "*"}
            </a>
          </span>
        )}
      </td>
      <Count count={waiting} href={jobsHref({ queue, state: "pending" })} class="wide-only" />
      <Count count={retrying} href={jobsHref({ queue, state: "failed" })} class="p2" />
      <Count count={dead} href={jobsHref({ queue, state: "dead" })} isBad word="dead" />
      <td class={`num p2 ${(row.perSecond ?? 0) === 0 ? "zero" : ""}`}>
        {row.perSecond === null ? "–" : row.perSecond.toFixed(1)}
      </td>
      <td class="num p3 p4 t2">{row.waitP95 === null ? "–" : duration(row.waitP95)}</td>
      <td class={`num p2 ${dueClass}`}>{due}</td>
      <td class="num p3 p4 t2" title={row.priorities.join(", ")}>
        {row.priorities.slice(0, 4).join(", ")}
        {row.priorities.length > 4 && "…"}
      </td>
      {may("operator") && (
        <td class="act">
          <Button
            small
            {...(!paused && { kind: "ghost" as const })}
            icon={paused ? "play" : "pause"}
            label={`${paused ? "Resume" : "Pause"} ${queue}`}
            onClick={() => setPaused(queue, !paused, list)}
          >
            {paused ? "Resume" : "Pause"}
          </Button>
        </td>
      )}
    </tr>
  );
}

function Count({
  count,
  href,
  class: extra = "",
  isBad = false,
  word,
}: {
  count: number;
  href: string;
  class?: string;
  isBad?: boolean;
  /** Beside the number where the table has no head. */
  word?: string;
}): JSX.Element {
  return (
    <td class={`num ${extra} ${count === 0 ? "zero" : isBad ? "bad strong" : ""}`}>
      {count === 0 ? <span class="wide-only">0</span> : <a href={href}>{number(count)}</a>}
      {count > 0 && word !== undefined && <span class="narrow-only"> {word}</span>}
    </td>
  );
}
