import { setTimeout as sleep } from "node:timers/promises";
import type { StatsResult } from "../../admin/contract/api-types.js";
import { durationMs } from "../../duration.js";
import { isFinished, STATE_NAMES } from "../../job/state.js";
import { command, type Command } from "../parse/command.js";
import { BadUsage } from "../errors.js";
import type { Page } from "../ui/output.js";
import { REACH, reach } from "../store/admin-connection.js";
import { clockOf, countOf, lengthOf, stateOf } from "../ui/format.js";
import { paint, type Part } from "../ui/style.js";

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
      const look = async (): Promise<{ stats: StatsResult; paused: readonly string[] }> => {
        const [stats, { queues }] = await Promise.all([client.jobs.stats(), client.queues.list()]);
        return { stats, paused: queues.filter(({ paused }) => paused).map(({ queue }) => queue) };
      };
      if (!flags.watch) {
        const { stats, paused } = await look();
        return output.answer(stats, (page) => showStats(page, stats, paused));
      }
      const stop = AbortSignal.any([signal, output.gone]);
      const frames = output.frames();
      try {
        while (!stop.aborted) {
          const { stats, paused } = await look();
          const at = clockOf(new Date().toISOString());
          frames.show(stats, (page, rows) => {
            page.line(paint(at, "bold"));
            showStats(page, stats, paused, rows === null ? Infinity : rows - AROUND_QUEUES);
            if (rows === null) page.line("");
          });
          await sleep(everyMs, null, { signal: stop }).catch(() => {});
        }
      } finally {
        frames.end();
      }
    });
  },
});

/** Lines of a frame beside its queues: the time, the titles, how many queues are left out, their sum, and what follows. */
const AROUND_QUEUES = 7;

function showStats(page: Page, stats: StatsResult, paused: readonly string[], mostQueues = Infinity): void {
  const queues = busiest(Object.entries(stats.queues), mostQueues);
  const left = Object.keys(stats.queues).length - queues.length;
  page.table(
    [{ title: "Queue", whole: true }, ...STATE_NAMES.map((title) => ({ title, align: "right" as const }))],
    [
      ...queues.map(([queue, counts]): Part[] => [
        paused.includes(queue) ? `${queue} (paused)` : queue,
        ...STATE_NAMES.map((state) => countOf(counts[state])),
      ]),
      ...(left > 0 ? [[paint(`… ${countOf(left)} more`, "gray")]] : []),
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

type Queue = readonly [name: string, counts: StatsResult["states"]];

/** So many queues, in their order: where not all have room, those with the most jobs that are not finished. */
function busiest(queues: readonly Queue[], most: number): readonly Queue[] {
  if (queues.length <= most + 1) return queues;
  const live = ([, counts]: Queue): number =>
    STATE_NAMES.filter((state) => !isFinished(state)).reduce((sum, state) => sum + counts[state], 0);
  const kept = new Set(queues.toSorted((a, b) => live(b) - live(a)).slice(0, Math.max(0, most)));
  return queues.filter((queue) => kept.has(queue));
}
