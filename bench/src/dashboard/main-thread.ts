import { setTimeout as sleep } from "node:timers/promises";
import type { Browser, Page } from "playwright-core";

/** The main thread of a page for some time, in milliseconds. */
export interface MainThread {
  longest: number;
  /** Those of more than 50 ms, as browsers count them. */
  longTasks: number;
  /** The times between frames. */
  frames: number[];
}

interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  /** Microseconds. */
  dur?: number;
}

interface Measured {
  frames: number[];
}

const LONG_MS = 50;
const TASK = "ThreadControllerImpl::RunTask";
// Tasks, and a mark on the thread of each page.
const CATEGORIES = ["toplevel", "blink.user_timing"];

/** Watches the main threads of pages. Each page must be in a window of its own: others have no frames. */
export async function watchMainThreads<Name extends string>(
  browser: Browser,
  pages: Readonly<Record<Name, Page>>,
  ms: number,
): Promise<Record<Name, MainThread>> {
  const named = Object.entries(pages) as [Name, Page][];
  for (const [, page] of named) await page.evaluate(collectFrames);
  await browser.startTracing(undefined, { categories: CATEGORIES });
  for (const [name, page] of named) await page.evaluate((mark) => void performance.mark(mark), markOf(name));
  await sleep(ms);
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
  const read = named.map(async ([name, page]) => {
    const tasks = tasksOf(traceEvents, markOf(name));
    const frames = await page.evaluate(() => (window as unknown as Measured).frames);
    const longTasks = tasks.filter((task) => task > LONG_MS).length;
    return [name, { longest: Math.max(...tasks), longTasks, frames }] as const;
  });
  return Object.fromEntries(await Promise.all(read)) as Record<Name, MainThread>;
}

function markOf(name: string): string {
  return `bench ${name}`;
}

/** The milliseconds of the tasks of the thread that set a mark. */
function tasksOf(events: readonly TraceEvent[], mark: string): number[] {
  const thread = events.find(({ name }) => name === mark);
  const tasks = events
    .filter(({ name, ph, pid, tid }) => name === TASK && ph === "X" && pid === thread?.pid && tid === thread.tid)
    .map(({ dur = 0 }) => dur / 1_000);
  if (tasks.length === 0) throw new Error(`the trace of Chromium has no task of ${mark}`);
  return tasks;
}

/** Runs in the page. */
function collectFrames(): void {
  const frames: number[] = [];
  (window as unknown as Measured).frames = frames;
  let last = performance.now();
  const onFrame = (): void => {
    const now = performance.now();
    frames.push(now - last);
    last = now;
    requestAnimationFrame(onFrame);
  };
  requestAnimationFrame(onFrame);
}
