import type { StatsResult } from "../../admin/contract/api-types.js";
import type { AdminClient } from "../../admin/contract/client.js";
import { didYouMean } from "../../config/index.js";
import { isCut } from "../../observe/names.js";
import { command, group, type Argument, type Command } from "../parse/command.js";
import { UsageError } from "../errors.js";
import { CONNECTION_FLAGS, withAdmin } from "../store/admin-connection.js";
import { connectionFlags } from "../store/open.js";
import { paint, type Part } from "../ui/style.js";

type Counts = StatsResult["states"];
const QUEUE = { kind: "text", optional: true, description: "Name of the queue." } as const satisfies Argument;

const list = command({
  name: "list",
  summary: "List queues with their job counts.",
  flags: CONNECTION_FLAGS,
  run: (context, { flags }) =>
    withAdmin(context, flags, async (client) => {
      const [{ queues, paused: allPaused }, stats] = await Promise.all([client.queues.list(), client.jobs.stats()]);
      const rows = queues.map((each) => ({
        ...each,
        counts: Object.hasOwn(stats.queues, each.queue) ? stats.queues[each.queue] : null,
      }));
      // A queue without counts has no jobs, or is part of the combined counts of further queues.
      const none = isCut(stats.queues) ? "?" : "0";
      const shown = (counts: Counts | null | undefined, count: (of: Counts) => number): string =>
        counts === null || counts === undefined ? none : String(count(counts));
      context.output.result({ queues: rows, paused: allPaused }, (writer) => {
        if (allPaused) writer.line(paint("All queues are paused.", "yellow"));
        if (rows.length === 0) return writer.line("No queues.");
        writer.table(
          [
            { title: "Queue", whole: true },
            { title: "Waiting", align: "right" },
            { title: "Running", align: "right" },
            { title: "Dead", align: "right" },
            { title: "Priorities" },
            { title: "State" },
          ],
          rows.map(({ queue, counts, priorities, paused }): Part[] => [
            queue,
            shown(counts, (of) => of.pending + of.failed),
            shown(counts, (of) => of.claimed + of.running),
            shown(counts, (of) => of.dead),
            priorities.join(", "),
            stateOf(paused, allPaused),
          ]),
        );
      });
    }),
});

function stateOf(paused: boolean, allPaused: boolean): Part {
  const states = [...(paused ? ["paused"] : []), ...(allPaused ? ["all paused"] : [])];
  return states.length === 0 ? "active" : paint(states.join(", "), "yellow");
}

/** Queues of jobs, of pauses and of live workers. */
async function knownQueues(client: AdminClient): Promise<{ known: string[]; allPaused: boolean }> {
  const [{ queues, paused: allPaused }, { workers }] = await Promise.all([client.queues.list(), client.workers.list()]);
  const live = workers.filter(({ left }) => !left).flatMap((worker) => worker.queues ?? []);
  return { known: [...new Set([...queues.map(({ queue }) => queue), ...live])], allPaused };
}

const pauseOrResume = (name: "pause" | "resume", summary: string, verb: string, done: string): Command =>
  command({
    name,
    summary,
    arguments: { queue: QUEUE },
    flags: { all: { kind: "switch", description: `${verb} all queues.` }, ...CONNECTION_FLAGS },
    run(context, { flags, args }) {
      const { queue } = args;
      if (queue === "*") throw new UsageError('"*" is not a queue name', "for all queues, use --all");
      if (queue !== undefined && flags.all) throw new UsageError("a queue and --all cannot be combined");
      if (queue === undefined && !flags.all) throw new UsageError("no queue given", "name a queue, or use --all");
      return withAdmin(context, { ...flags, names: { queue: "<queue>" } }, async (client) => {
        if (queue === undefined) {
          const result = await client.queues[`${name}All`]();
          return context.output.result(result, (writer) => writer.line(`${done} all queues`));
        }
        const { known, allPaused } = await knownQueues(client);
        const result = await client.queues[name]({ queue });
        if (!known.includes(queue)) {
          context.output.warn(`no job or worker uses the queue ${queue}${didYouMean(queue, known)}`);
        }
        context.output.result(result, (writer) => writer.line(`${done} ${result.queue}`));
        if (name === "resume" && allPaused) {
          const on = connectionFlags(context.config, flags.url);
          const advice = `to resume all, run: holdfast queues resume --all${on}`;
          context.output.warn(`all queues are paused, so ${queue} stays paused; ${advice}`);
        }
      });
    },
  });

export const queuesCommand: Command = group({
  name: "queues",
  summary: "List, pause and resume queues.",
  commands: [
    list,
    pauseOrResume("pause", "Pause a queue, or all, in every process. Running jobs continue.", "Pause", "Paused"),
    pauseOrResume("resume", "Resume a paused queue, or undo a pause of all.", "Resume", "Resumed"),
  ],
});
