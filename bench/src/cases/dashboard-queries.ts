import { setTimeout as sleep } from "node:timers/promises";
import type { Bench, Case, Row, Trial } from "../case.js";
import { inWindow, withChromium } from "../dashboard/browser.js";
import { settleMs, startDashboard, startSteadyJobs, TRANSITIONS, type DashboardServer } from "../dashboard/server.js";
import type { Sent } from "../dashboard/sent.js";
import { figure, plainRow } from "../figures.js";
import type { Steady } from "../roles/steady.js";

const MAX_CALLS = 3;
/** Without a page there should be none, so a part of the time is enough. */
const CLOSED_PART = 1 / 6;

interface Watched {
  /** Before a page is open. */
  closed: Sent;
  /** While the Overview is open and jobs run, and after that. */
  busy: Sent;
  idle: Sent;
  steady: Steady;
}

/** What an open Overview costs the store. The server has no worker, so that it sends nothing else. */
export function dashboardQueries({ bed, scale: { listed, openMs } }: Bench): Case {
  const trial: Trial<Watched> = {
    name: "dashboard-queries",
    about: `queries of an open Overview among ${listed} jobs`,
    rounds: 1,
    async run() {
      const place = await bed.place([{ kind: bed.limits.shown, count: listed }]);
      const server = await startDashboard(place);
      const closed = await sentPerSecond(server, openMs * CLOSED_PART);
      const open = await withChromium(async (browser) => {
        const stopJobs = await startSteadyJobs(place);
        await inWindow(browser, `${server.origin}/`, "main h2");
        await sleep(settleMs(openMs));
        const busy = await sentPerSecond(server, openMs);
        const steady = await stopJobs();
        await sleep(settleMs(openMs));
        return { busy, steady, idle: await sentPerSecond(server, openMs) };
      });
      await server.stop();
      await place.remove();
      return { closed, ...open };
    },
  };
  return {
    name: "dashboard-queries",
    trials: [trial],
    read(samples) {
      const watched = samples.of(trial);
      const rows = (name: "busy" | "idle" | "closed", label: string, isLimited: boolean): Row[] => {
        const rates = watched.map((each) => each[name]);
        const calls = figure(
          "calls/s",
          rates.map((each) => each.calls),
        );
        const queries = figure(
          "queries/s",
          rates.map((each) => each.queries),
        );
        const { openQueries } = bed.limits;
        return [
          plainRow({ name: `${name}Calls`, label, figure: calls }, isLimited ? { atMost: MAX_CALLS } : {}),
          plainRow(
            { name: `${name}Queries`, label: "what the store made of them", figure: queries },
            isLimited && openQueries !== null ? { atMost: openQueries } : {},
          ),
        ];
      };
      const open = `open Overview, ${listed.toLocaleString("en")} jobs`;
      const rates = watched.map(({ steady: { transitions, seconds } }) => transitions / seconds);
      return [
        ...rows("busy", `${open}, ${TRANSITIONS} transitions a second`, true),
        plainRow({ name: "transitions", label: "changes of state meanwhile", figure: figure("transitions/s", rates) }),
        ...rows("idle", `${open}, no transitions`, true),
        ...rows("closed", "no page is open", false),
      ];
    },
  };
}

async function sentPerSecond(server: DashboardServer, ms: number): Promise<Sent> {
  const before = await server.sent();
  const begun = performance.now();
  await sleep(ms);
  const after = await server.sent();
  const seconds = (performance.now() - begun) / 1_000;
  return { calls: (after.calls - before.calls) / seconds, queries: (after.queries - before.queries) / seconds };
}
