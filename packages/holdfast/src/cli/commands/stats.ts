import { setTimeout as sleep } from "node:timers/promises";
import type { StatsAnswer } from "../../admin/calls.js";
import { durationMs } from "../../duration.js";
import { STATE_NAMES } from "../../state.js";
import { command, type Command } from "../command.js";
import { BadUsage } from "../failure.js";
import type { Page } from "../output.js";
import { REACH, reach } from "../reach.js";
import { clockOf, countOf, lengthOf, stateOf } from "../shown.js";
import { paint, type Part } from "../style.js";

export const statsCommand: Command = command({
  name: "stats",
  summary: "Shows how many jobs there are, by state and queue.",
  flags: {
    watch: { kind: "switch", short: "w", says: "Again every interval, until Ctrl-C." },
    interval: {
      kind: "duration",
      least: "100ms",
      bareMs: true,
      says: "How often with --watch: 5s, or milliseconds such as 500. Default 2s.",
    },
    ...REACH,
  },
  run(context, { flags }) {
    if (flags.interval !== undefined && !flags.watch) throw new BadUsage("--interval goes with --watch");
    const everyMs = durationMs(flags.interval ?? "2s", "interval");
    return reach(context, flags, async (client) => {
      const { output, signal } = context;
      const look = async (): Promise<{ stats: StatsAnswer; paused: readonly string[] }> => {
        const [stats, { queues }] = await Promise.all([client.jobs.stats(), client.queues.list()]);
        return { stats, paused: queues.filter(({ paused }) => paused).map(({ queue }) => queue) };
      };
      if (!flags.watch) {
        const { stats, paused } = await look();
        return output.answer(stats, (page) => showStats(page, stats, paused));
      }
      const stop = AbortSignal.any([signal, output.gone]);
      while (!stop.aborted) {
        const { stats, paused } = await look();
        output.event(stats, (page) => {
          page.line(paint(clockOf(new Date().toISOString()), "bold"));
          showStats(page, stats, paused);
          page.line("");
        });
        await sleep(everyMs, null, { signal: stop }).catch(() => {});
      }
    });
  },
});

function showStats(page: Page, stats: StatsAnswer, paused: readonly string[]): void {
  page.table(
    [{ title: "Queue", whole: true }, ...STATE_NAMES.map((title) => ({ title, align: "right" as const }))],
    [
      ...Object.entries(stats.queues).map(([queue, counts]): Part[] => [
        paused.includes(queue) ? `${queue} (paused)` : queue,
        ...STATE_NAMES.map((state) => countOf(counts[state])),
      ]),
      [paint("all", "bold"), ...STATE_NAMES.map((state) => stateOf(state, countOf(stats.states[state])))],
    ],
  );
  page.line("");
  const { oldestDueMs, lastMinute, completedPerSecond } = stats;
  page.fields([
    ["oldest due job", oldestDueMs === null ? "none waits" : `${lengthOf(oldestDueMs)} ago`],
    [
      "last minute",
      `${countOf(lastMinute.completed)} completed (${completedPerSecond.toFixed(1)} a second), ${countOf(lastMinute.dead)} dead, ${countOf(lastMinute.cancelled)} cancelled`,
    ],
  ]);
}
