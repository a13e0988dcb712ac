import { signal } from "../app/signals.js";
import type { JobSummary, WorkerResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { api, may } from "../app/api.js";
import { coarse, duration, number, plural, seconds, shortId } from "../app/format.js";
import { jobHref, jobsHref } from "../app/links.js";
import { onJobs } from "../app/live.js";
import { now } from "../app/now.js";
import { useResource } from "../app/resource.js";
import { route, setQuery } from "../app/router.js";
import { act } from "../app/toasts.js";
import { Button } from "../ui/button.js";
import { Icon } from "../ui/icon.js";
import { Meter } from "../ui/meter.js";
import { Empty, Pending } from "../ui/page-states.js";
import { StateLabel } from "../ui/state.js";
import { Time } from "../ui/time.js";
import { isActive, jobsByWorker, livenessOf, startOf } from "./workers/liveness.js";

const EVERY_MS = 5_000;
const MAX_JOBS = 200;
const SHOWN = 10;

type Jobs = ReadonlyMap<string, readonly JobSummary[]>;

/** The jobs that workers run now: loaded again and again, and kept current by the event stream in between. */
function useActiveJobs(): { value: Jobs } {
  const changed = useMemo(() => signal<ReadonlyMap<string, JobSummary>>(new Map()), []);
  const list = useResource(
    "active jobs",
    async () => {
      const before = changed.peek();
      const { jobs } = await api.jobs.list({ state: ["running", "claimed"], limit: MAX_JOBS });
      // What changed while they were loaded is newer.
      changed.value = new Map([...changed.peek()].filter(([id, job]) => before.get(id) !== job));
      return jobs;
    },
    { every: EVERY_MS },
  );
  useEffect(
    () =>
      onJobs((jobs) => (changed.value = new Map([...changed.peek(), ...jobs.map((job) => [job.id, job] as const)]))),
    [changed],
  );
  const all = new Map(list.data.value?.map((job) => [job.id, job]));
  for (const [id, job] of changed.value) all.set(id, job);
  return { value: jobsByWorker([...all.values()].filter(isActive)) };
}

export default function Workers(): JSX.Element {
  const list = useResource("workers", () => api.workers.list(), { every: EVERY_MS });
  const jobs = useActiveJobs();
  const { value: data } = list.data;
  if (data === undefined) return <Pending of={list} />;
  const groups = { live: [] as WorkerResult[], missing: [] as WorkerResult[], stopped: [] as WorkerResult[] };
  for (const worker of data.workers) groups[livenessOf(worker, now.value)].push(worker);
  const { live, missing, stopped } = groups;
  return (
    <>
      {missing.slice(0, 3).map((worker) => (
        <Missing key={worker.id} worker={worker} live={live} jobs={jobs.value.get(worker.id) ?? []} />
      ))}
      <Live workers={live} jobs={jobs.value} reload={() => list.reload()} />
      {missing.length + stopped.length > 0 && <Stopped workers={[...missing, ...stopped]} />}
    </>
  );
}

function Missing({
  worker,
  live,
  jobs,
}: {
  worker: WorkerResult;
  live: readonly WorkerResult[];
  jobs: readonly JobSummary[];
}): JSX.Element {
  const { id, seenAt, queues, types } = worker;
  const alone = types.filter((type) => !live.some((other) => other.types.includes(type)));
  return (
    <div class="note big s-dead">
      <Icon name="dead" />
      <span class="grow">
        <b class="strong">{id} is missing.</b> Its last heartbeat was at {seconds(Date.parse(seenAt))},{" "}
        {coarse(now.value - Date.parse(seenAt))} ago.{" "}
        {jobs.length > 0 && `${plural(jobs.length, "job")} that it ran will run again when the leases expire. `}
        {alone.length > 0 ? `No other worker takes ${some(alone)}. Start it again.` : "Other workers take its jobs."}
      </span>
      {queues !== null && queues.length === 1 && (
        <a class="btn sm" href={jobsHref({ queue: queues[0] ?? "" })}>
          Show jobs
        </a>
      )}
    </div>
  );
}

function some(names: readonly string[]): string {
  return names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more types` : names.join(", ");
}

interface LiveProps {
  workers: readonly WorkerResult[];
  jobs: Jobs;
  reload: () => Promise<void>;
}

function Live({ workers, jobs, reload }: LiveProps): JSX.Element {
  const running = workers.reduce((sum, worker) => sum + runningOf(worker, jobs), 0);
  const capacity = workers.reduce((sum, { concurrency }) => sum + concurrency, 0);
  return (
    <section class="card">
      <header class="card-h">
        <h2>{number(workers.length)} live</h2>
        {workers.length > 0 && (
          <>
            <span class="meta">
              {number(running)} of {number(capacity)} in use
            </span>
            <ul class="legend push wide-only">
              <li class="s-running">
                <span class="sq" />
                running
              </li>
              <li class="s-claimed">
                <span class="sq" />
                claimed
              </li>
            </ul>
          </>
        )}
      </header>
      {workers.length === 0 ? (
        <Empty icon="workers" title="No worker is running">
          <p>Jobs wait until a program calls hf.work(), or until you run holdfast worker.</p>
        </Empty>
      ) : (
        <div class="table-wrap">
          <table class="table roomy workers-t">
            <thead class="hide-narrow">
              <tr>
                <th>Worker</th>
                <th class="p2">Queues and types</th>
                <th class="fill wide-only">Capacity</th>
                <th class="num">In use</th>
                <th class="num p2">Up for</th>
                <th class="num p3">Heartbeat</th>
                {may("operator") && (
                  <th class="acts">
                    <span class="sr">Actions</span>
                  </th>
                )}
              </tr>
            </thead>
            <tbody>
              {workers.map((worker) => (
                <WorkerRows
                  key={worker.id}
                  worker={worker}
                  jobs={jobs.get(worker.id) ?? []}
                  running={runningOf(worker, jobs)}
                  reload={reload}
                />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** Heartbeats are some seconds old. Of many jobs only some are loaded. */
function runningOf({ id, running, concurrency }: WorkerResult, jobs: Jobs): number {
  const loaded = [...jobs.values()].reduce((sum, group) => sum + group.length, 0);
  const own = jobs.get(id)?.filter(({ state }) => state === "running").length ?? 0;
  return Math.min(concurrency, loaded >= MAX_JOBS ? running : own);
}

interface WorkerRowsProps {
  worker: WorkerResult;
  jobs: readonly JobSummary[];
  running: number;
  reload: () => Promise<void>;
}

function WorkerRows({ worker, jobs, running, reload }: WorkerRowsProps): JSX.Element {
  const { id, queues, types, concurrency, host, pid, startedAt, seenAt, draining, version } = worker;
  const isOpen = route.value.query.get("open") === id;
  const names = queues?.join(", ") ?? "all queues";
  return (
    <>
      <tr class={isOpen ? "cursor" : ""}>
        <td class="two two-n name">
          <button
            type="button"
            class="row expand"
            aria-expanded={isOpen}
            onClick={() => setQuery({ open: isOpen ? null : id })}
          >
            <Icon name={isOpen ? "down" : "chev"} />
            <span class={`dot s-${draining ? "failed" : "completed"}`} />
            <b class="strong cut" title={id}>
              {id}
            </b>
          </button>
          <small class="ind">
            {draining && <b class="drains">draining · </b>}
            pid {pid} · <bdi>{host}</bdi>
            {version !== null && ` · ${version.slice(0, 40)}`}
          </small>
        </td>
        <td class="two p2 takes">
          <span class="cut" title={names} dir="auto">
            {names}
          </span>
          <small title={types.join(", ")} dir="auto">
            {types.join(", ")}
          </small>
        </td>
        <td class="fill wide-only">
          <Cells jobs={jobs} running={running} concurrency={concurrency} />
        </td>
        <td class="num">
          {number(running)} <span class="t3">of {number(concurrency)}</span>
        </td>
        <td class="num p2 t2" title={startedAt}>
          {duration(Math.max(0, now.value - Date.parse(startedAt)))}
        </td>
        <td class="num p3 t2">
          <Time at={seenAt} />
        </td>
        {may("operator") && (
          <td class="acts">
            <Button
              small
              onClick={() => setDraining(worker, !draining, reload)}
              label={`${draining ? "Resume" : "Drain"} ${id}`}
            >
              {draining ? "Resume" : "Drain"}
            </Button>
          </td>
        )}
      </tr>
      {isOpen && (
        <tr class="nest">
          <td colSpan={may("operator") ? 7 : 6}>
            <Running jobs={jobs} atHeartbeat={worker.jobs} />
          </td>
        </tr>
      )}
    </>
  );
}

/** The worker learns of it with its next heartbeat. */
async function setDraining(worker: WorkerResult, draining: boolean, reload: () => Promise<void>): Promise<void> {
  const { id } = worker;
  const change = (on: boolean) => (on ? api.workers.drain({ id }) : api.workers.resume({ id }));
  await act(
    () => change(draining),
    draining ? `${id} claims no more jobs. Its running jobs finish.` : `${id} claims jobs again.`,
    () => void setDraining(worker, !draining, reload),
  );
  await reload();
}

const MAX_CELLS = 32;
const CELL = 14;

/** A cell for each job that the worker can run at a time. */
function Cells({
  jobs,
  running,
  concurrency,
}: {
  jobs: readonly JobSummary[];
  running: number;
  concurrency: number;
}): JSX.Element {
  if (concurrency > MAX_CELLS)
    return (
      <Meter
        max={concurrency}
        parts={[{ state: "running", value: running }]}
        label={`${running} of ${concurrency} in use`}
      />
    );
  const claimed = jobs.filter(({ state }) => state === "claimed").length;
  return (
    <svg
      class="cells"
      viewBox={`0 0 ${concurrency * CELL} 12`}
      preserveAspectRatio="xMinYMid meet"
      aria-hidden="true"
      style={{ maxWidth: `${concurrency * CELL}px` }}
    >
      {Array.from({ length: concurrency }, (_, at) => (
        <rect
          key={at}
          class={at < running ? "on" : at < running + claimed ? "cl" : ""}
          x={at * CELL}
          width="12"
          height="12"
          rx="2"
        />
      ))}
    </svg>
  );
}

interface RunningProps {
  jobs: readonly JobSummary[];
  /** Known even if the list of active jobs is too long to have all of this worker. */
  atHeartbeat: WorkerResult["jobs"];
}

function Running({ jobs, atHeartbeat }: RunningProps): JSX.Element {
  if (jobs.length === 0 && atHeartbeat.length > 0) return <AtHeartbeat jobs={atHeartbeat} />;
  if (jobs.length === 0) return <p class="t3 idle">It runs no job now.</p>;
  return (
    <table class="table in">
      <thead class="sr">
        <tr>
          <th>State</th>
          <th>Type</th>
          <th>Id</th>
          <th>User</th>
          <th>Progress</th>
          <th>Attempt</th>
          <th>For</th>
        </tr>
      </thead>
      <tbody>
        {jobs.slice(0, SHOWN).map((job) => (
          <tr key={job.id}>
            <td>
              <StateLabel state={job.state} />
            </td>
            <td>
              <a class="strong cut type" dir="auto" title={job.type} href={jobHref(job.id)}>
                {job.type}
              </a>
            </td>
            <td class="p2">
              <span class="mono t3" title={job.id}>
                {shortId(job.id)}
              </span>
            </td>
            <td class="t2 p2">
              <bdi>{job.user?.slice(0, 60)}</bdi>
            </td>
            <td class="fill t2 wide-only" dir="auto">
              {progressOf(job)}
            </td>
            <td class="num t2 p2">attempt {job.attempt}</td>
            <td class="num t2">{duration(Math.max(0, now.value - startOf(job)))}</td>
          </tr>
        ))}
        {jobs.length > SHOWN && (
          <tr>
            <td colSpan={7} class="t3">
              and {number(jobs.length - SHOWN)} more ·{" "}
              <a class="link" href={jobsHref({ state: "running,claimed" })}>
                all running jobs
              </a>
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

function AtHeartbeat({ jobs }: { jobs: WorkerResult["jobs"] }): JSX.Element {
  return (
    <div class="idle">
      <p class="t3">At its last heartbeat it ran:</p>
      <ul>
        {jobs.slice(0, SHOWN).map(({ id, type }) => (
          <li key={id}>
            <a class="strong" dir="auto" title={id} href={jobHref(id)}>
              {type.slice(0, 200)}
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}

function progressOf({ progress }: JobSummary): string {
  if (progress === null) return "";
  const note = progress.note === null ? "" : ` · ${progress.note.slice(0, 200)}`;
  return `${Math.round(progress.fraction * 100)}%${note}`;
}

function Stopped({ workers }: { workers: readonly WorkerResult[] }): JSX.Element {
  return (
    <section class="card">
      <header class="card-h lined">
        <h2>Ended in the last hour</h2>
      </header>
      <div class="table-wrap">
        <table class="table">
          <thead class="sr">
            <tr>
              <th>Worker</th>
              <th>Queues</th>
              <th>How</th>
              <th>Last heartbeat</th>
            </tr>
          </thead>
          <tbody>
            {workers.map(({ id, queues, left, seenAt }) => (
              <tr key={id}>
                <td>
                  <span class="row">
                    <span class={`dot s-${left ? "cancelled" : "dead"}`} />
                    <b class="strong">{id}</b>
                  </span>
                </td>
                <td class="t2 p2">{queues?.join(", ") ?? "all queues"}</td>
                <td class={`fill ${left ? "t2" : "bad strong"}`}>{left ? "stopped" : "missing"}</td>
                <td class="num t2">
                  <Time at={seenAt} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
