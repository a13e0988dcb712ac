import type { Bench, Case, Trial } from "../case.js";
import { withChromium } from "../dashboard/browser.js";
import { timeToFirstRow } from "../dashboard/first-row.js";
import { startDashboard } from "../dashboard/server.js";
import { percentiles, plainRow } from "../figures.js";

const MAX_MS = 300;

/** From the navigation to the list of jobs until its first row is painted, in a browser without a cache. */
export function dashboardList({ bed, scale: { listed, opens } }: Bench): Case {
  const trial: Trial<number[]> = {
    name: "dashboard-list",
    about: `the dashboard's list of ${listed} jobs`,
    async run(progress) {
      const place = await bed.place([{ kind: bed.limits.shown, count: listed }]);
      const server = await startDashboard(place);
      const taken = await withChromium(async (browser) => {
        // The first one warms up the server.
        await timeToFirstRow(browser, server.origin);
        const times: number[] = [];
        while (times.length < opens) {
          times.push(await timeToFirstRow(browser, server.origin));
          progress(times.length / opens);
        }
        return times;
      });
      await server.stop();
      await place.remove();
      return taken;
    },
  };
  return {
    name: "dashboard-list",
    trials: [trial],
    read(samples) {
      const taken = samples.of(trial);
      const label = `first row of ${listed.toLocaleString("en")} jobs in Chromium, p95`;
      return [
        plainRow({ name: "p95", label, figure: percentiles(taken, 0.95) }, { below: MAX_MS }),
        plainRow({ name: "p50", label: "the same, p50", figure: percentiles(taken, 0.5) }),
      ];
    },
  };
}
