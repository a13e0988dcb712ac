import { setTimeout as sleep } from "node:timers/promises";
import type { HistoryResult, StatsResult } from "../../admin/contract/api-types.js";
import { durationMs } from "../../duration.js";
import { isFinished, STATE_NAMES } from "../../job/state.js";
import { command, type Command } from "../parse/command.js";
import { UsageError } from "../errors.js";
import type { TextWriter } from "../ui/output.js";
import { CONNECTION_FLAGS, withAdmin } from "../store/admin-connection.js";
import { clockOf, countOf, lengthOf, stateOf } from "../ui/format.js";
import { sparkline } from "../ui/sparkline.js";
import { paint, type Part } from "../ui/style.js";

export const statsCommand: Command = command({
  name: "stats",
  summary: "Show the number of jobs by queue and state, and the last hour.",
  about:
    "Each bar of the last hour is a minute. Processes write their counts once a minute, so the newest bar may be low.",
  flags: {
    watch: { kind: "switch", short: "w", description: "Refresh until Ctrl-C." },
    interval: {
      kind: "duration",
      min: "100ms",
      bareMs: true,
      description: "Interval of --watch, e.g. 5s or 500 (milliseconds). Default: 2s.",
    },
    ...CONNECTION_FLAGS,
  },
  run(context, { flags }) {
    if (flags.interval !== undefined && !flags.watch) throw new UsageError("--interval requires --watch");
    const everyMs = durationMs(flags.interval ?? "2s", "interval");
    return withAdmin(context, flags, async (client) => {
      const { output, signal } = context;
      const fetchShown = async (): Promise<Shown> => {
        const [stats, { queues }, history] = await Promise.all([
          client.jobs.stats(),
          client.queues.list(),
          output.json ? null : client.history.get({}),
        ]);
        return { stats, history, paused: queues.filter(({ paused }) => paused).map(({ queue }) => queue) };
      };
      if (!flags.watch) {
        const shown = await fetchShown();
        return output.result(shown.stats, (writer) => showStats(writer, shown));
      }
      const stop = AbortSignal.any([signal, output.stdoutClosed]);
      const frames = output.frames();
      try {
        while (!stop.aborted) {
          const shown = await fetchShown();
          const at = clockOf(new Date().toISOString());
          frames.show(shown.stats, (writer, rows) => {
            writer.line(paint(at, "bold"));
            const others = OTHER_LINES + (shown.stats.paused ? 1 : 0) + hourOf(shown.history).length;
            showStats(writer, shown, rows === null ? Infinity : rows - others);
            if (rows === null) writer.line("");
          });
          await sleep(everyMs, null, { signal: stop }).catch(() => {});
        }
      } finally {
        frames.end();
      }
    });
  },
});

/** The lines of a frame that are not queues: time, titles, the number of omitted queues, the totals and the fields below. */
const OTHER_LINES = 7;

interface Shown {
  stats: StatsResult;
  /** Null with `--json`. */
  history: HistoryResult | null;
  paused: readonly string[];
}

function showStats(writer: TextWriter, { stats, history, paused }: Shown, maxQueues = Infinity): void {
  const queues = busiest(Object.entries(stats.queues), maxQueues);
  const left = Object.keys(stats.queues).length - queues.length;
  writer.table(
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
  writer.line("");
  const { oldestDueMs, lastMinute, completedPerSecond } = stats;
  writer.fields([
    ...(stats.paused ? [["paused", paint("all queues", "yellow")] as const] : []),
    [
      "oldest due job",
      `${oldestDueMs === null ? "none" : `${lengthOf(oldestDueMs)} ago`}${stats.paused ? " (jobs in paused queues are not counted)" : ""}`,
    ],
    [
      "last minute",
      `${countOf(lastMinute.completed)} completed (${completedPerSecond.toFixed(1)} a second), ${countOf(lastMinute.dead)} dead, ${countOf(lastMinute.cancelled)} cancelled`,
    ],
    ...hourOf(history),
  ]);
}

const BARS = 60;

/** What happened in the last hour, a line of bars each; nothing if nothing happened. */
function hourOf(history: HistoryResult | null): (readonly [name: string, ...value: readonly Part[]])[] {
  const points = history?.series[0]?.points ?? [];
  const lines = (["completed", "failed"] as const).flatMap((counter) => {
    const counts = points.map((point) => point[counter]);
    const total = counts.reduce((sum, count) => sum + count, 0);
    if (total === 0) return [];
    const name = counter === "completed" ? "last hour" : "failed attempts";
    const bars = paint(sparkline(counts, BARS), counter === "completed" ? "green" : "red");
    return [[name, bars, `  ${countOf(total)}`] as const];
  });
  const waits = points.flatMap(({ wait }) => (wait === null ? [] : [wait.p95]));
  if (waits.length === 0) return lines;
  return [...lines, ["longest wait", `${lengthOf(Math.max(...waits))} (95 % of the jobs of a minute waited less)`]];
}

type Queue = readonly [name: string, counts: StatsResult["states"]];

/** At most `max` queues, in order. If not all fit, those with the most unfinished jobs. */
function busiest(queues: readonly Queue[], max: number): readonly Queue[] {
  if (queues.length <= max + 1) return queues;
  const live = ([, counts]: Queue): number =>
    STATE_NAMES.filter((state) => !isFinished(state)).reduce((sum, state) => sum + counts[state], 0);
  const shown = new Set(queues.toSorted((a, b) => live(b) - live(a)).slice(0, Math.max(0, max)));
  return queues.filter((queue) => shown.has(queue));
}
