import { setTimeout as sleep } from "node:timers/promises";
import type { Bench, Case, Row, Trial } from "../case.js";
import { inWindow, withChromium } from "../dashboard/browser.js";
import { watchMainThreads, type MainThread } from "../dashboard/main-thread.js";
import { settleMs, startDashboard, startSteadyJobs, TRANSITIONS } from "../dashboard/server.js";
import { figure, percentiles, plainRow } from "../figures.js";
import type { Steady } from "../roles/steady.js";

const MAX_TASK_MS = 50;

interface Watched {
  overview: MainThread;
  jobs: MainThread;
  steady: Steady;
}

/** The main threads of an open Overview and an open list of jobs, in two windows, while jobs run. */
export function dashboardTasks({ bed, scale: { listed, openMs } }: Bench): Case {
  const trial: Trial<Watched> = {
    name: "dashboard-tasks",
    about: `open pages of the dashboard at ${TRANSITIONS} transitions a second`,
    rounds: 1,
    async run() {
      const place = await bed.place([{ kind: bed.limits.shown, count: listed }]);
      const server = await startDashboard(place);
      const stopJobs = await startSteadyJobs(place);
      const threads = await withChromium(async (browser) => {
        const pages = {
          overview: await inWindow(browser, `${server.origin}/`, "main h2"),
          jobs: await inWindow(browser, `${server.origin}/jobs`, "tr.job"),
        };
        await sleep(settleMs(openMs));
        return watchMainThreads(browser, pages, openMs);
      });
      const steady = await stopJobs();
      await server.stop();
      await place.remove();
      return { ...threads, steady };
    },
  };
  return {
    name: "dashboard-tasks",
    trials: [trial],
    read(samples) {
      const watched = samples.of(trial);
      const rows = (page: "overview" | "jobs", label: string): Row[] => {
        const threads = watched.map((each) => each[page]);
        const longest = threads.map((thread) => thread.longest);
        const count = threads.map((thread) => thread.longTasks);
        const frames = threads.map((thread) => thread.frames);
        return [
          plainRow(
            { name: page, label: `longest task of the main thread, ${label}`, figure: figure("ms", longest) },
            { atMost: MAX_TASK_MS },
          ),
          plainRow({
            name: `${page}Long`,
            label: `tasks of more than ${MAX_TASK_MS} ms`,
            figure: figure("tasks", count),
          }),
          plainRow({ name: `${page}Frames`, label: "between two frames, p99", figure: percentiles(frames, 0.99) }),
        ];
      };
      const rates = watched.map(({ steady: { transitions, seconds } }) => transitions / seconds);
      return [
        ...rows("overview", "Overview"),
        ...rows("jobs", "Jobs"),
        plainRow({ name: "transitions", label: "changes of state meanwhile", figure: figure("transitions/s", rates) }),
      ];
    },
  };
}
