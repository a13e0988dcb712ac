// What came of the last runs of a schedule.
import { signal, type Signal } from "../../app/signals.js";
import type { JobSummary } from "holdfast/admin";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { api } from "../../app/api.js";
import { jobHref } from "../../app/links.js";
import { onMissed } from "../../app/live.js";
import { StateLabel } from "../../ui/state.js";
import { Time } from "../../ui/time.js";

export type Run = Pick<JobSummary, "id" | "state" | "createdAt" | "finishedAt" | "startedAt" | "schedule">;
/** The newest first; undefined: not loaded. */
type Runs = Signal<readonly Run[] | undefined>;

const COUNT = 20;
const MAX_LOADS = 3;
const known = new Map<string, Runs>();
const waiting: (() => Promise<void>)[] = [];
let loads = 0;

/** The last 20 runs. They are loaded once; then the event stream keeps them current. */
export function runsOf(name: string): Runs {
  let runs = known.get(name);
  if (runs === undefined) known.set(name, (runs = signal(undefined)));
  return runs;
}

function load(name: string): void {
  waiting.push(async () => {
    const runs = runsOf(name);
    try {
      const { jobs } = await api.jobs.list({ schedule: name, limit: COUNT });
      runs.value = jobs;
    } catch {
      // The list shows the error; the next visit loads them.
    }
  });
  next();
}

/** A few at a time: a page may show many schedules. */
function next(): void {
  if (loads >= MAX_LOADS) return;
  const work = waiting.shift();
  if (work === undefined) return;
  loads++;
  void work().finally(() => {
    loads--;
    next();
  });
}

/** Keeps loaded runs current. Returns whether a schedule has a run that was not known. */
export function isNewRun(job: JobSummary): boolean {
  const runs = known.get(job.schedule?.name ?? "");
  const before = runs?.peek();
  if (runs === undefined || before === undefined) return false;
  const at = before.findIndex(({ id }) => id === job.id);
  if (at >= 0) runs.value = before.with(at, job);
  else if ((before[0]?.createdAt ?? "") <= job.createdAt) {
    runs.value = [job, ...before].slice(0, COUNT);
    return true;
  }
  return false;
}

/** Loads the runs when the element is first seen, and when it is seen after changes may have been missed. */
export function useRuns(name: string): { runs: Runs; ref: { current: HTMLElement | null } } {
  const ref = useRef<HTMLElement>(null);
  useEffect(() => {
    const element = ref.current;
    if (element === null) return;
    const watcher = new IntersectionObserver(([entry]) => {
      if (entry?.isIntersecting !== true) return;
      watcher.disconnect();
      load(name);
    });
    watcher.observe(element);
    const off = onMissed(() => {
      // It calls back anew, also if the element has been in view all the time.
      watcher.disconnect();
      watcher.observe(element);
    });
    return () => {
      off();
      watcher.disconnect();
    };
  }, [name]);
  return { runs: runsOf(name), ref };
}

const STEP = 6;

/** A bar per run, the newest at the end. */
export function RunBars({ runs }: { runs: readonly Run[] }): JSX.Element {
  const counts = new Map<string, number>();
  for (const { state } of runs) counts.set(state, (counts.get(state) ?? 0) + 1);
  const words = [...counts].map(([state, count]) => `${count} ${state}`).join(", ");
  return (
    <svg
      class="slotbar"
      viewBox={`0 0 ${COUNT * STEP} 14`}
      role="img"
      aria-label={`Last ${runs.length} runs: ${words}`}
    >
      <title>{words}</title>
      {runs.toReversed().map(({ id, state }, at) => {
        const isSmall = state === "cancelled" || state === "pending";
        return (
          <rect
            key={id}
            class={`s-${state}`}
            x={(COUNT - runs.length + at) * STEP}
            y={isSmall ? 5 : 0}
            width="4"
            height={isSmall ? 4 : 14}
            rx="1"
          />
        );
      })}
    </svg>
  );
}

export function LastRun({ run }: { run: Run }): JSX.Element {
  return (
    <>
      <a href={jobHref(run.id)} title={run.id}>
        <StateLabel state={run.state} />
      </a>
      <small>
        <Time at={run.finishedAt ?? run.startedAt ?? run.createdAt} />
      </small>
    </>
  );
}
