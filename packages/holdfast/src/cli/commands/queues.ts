import type { StatsResult } from "../../admin/contract/api-types.js";
import type { AdminClient } from "../../admin/contract/client.js";
import { didYouMean } from "../../config/index.js";
import { isLive } from "../../live-worker.js";
import { isCut } from "../../observe/names.js";
import { command, group, type Argument, type Command } from "../parse/command.js";
import { REACH, reach } from "../store/admin-connection.js";
import { agoOf } from "../ui/format.js";
import { paint, type Part } from "../ui/style.js";

type Counts = StatsResult["states"];
const QUEUE = { kind: "text", says: "The queue's name." } as const satisfies Argument;

const list = command({
  name: "list",
  summary: "Shows queues, and whether they are paused.",
  flags: REACH,
  run: (context, { flags }) =>
    reach(context, flags, async (client) => {
      const [{ queues }, stats] = await Promise.all([client.queues.list(), client.jobs.stats()]);
      const rows = queues.map((each) => ({
        ...each,
        counts: Object.hasOwn(stats.queues, each.queue) ? stats.queues[each.queue] : null,
      }));
      // Of one without counts: it has no jobs, or is among those that are told together.
      const none = isCut(stats.queues) ? "?" : "0";
      const shown = (counts: Counts | null | undefined, count: (of: Counts) => number): string =>
        counts === null || counts === undefined ? none : String(count(counts));
      context.output.answer({ queues: rows }, (page) => {
        if (rows.length === 0) return page.line("There are no queues yet.");
        page.table(
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
            paused ? paint("paused", "yellow") : "open",
          ]),
        );
      });
    }),
});

/** Queues that a job, a pause or a live worker names. */
async function knownQueues(client: AdminClient): Promise<string[]> {
  const [{ queues }, { workers }] = await Promise.all([client.queues.list(), client.workers.list()]);
  const live = workers.filter(({ left }) => !left).flatMap((worker) => worker.queues ?? []);
  return [...new Set([...queues.map(({ queue }) => queue), ...live])];
}

const turning = (name: "pause" | "resume", summary: string, done: string): Command =>
  command({
    name,
    summary,
    arguments: { queue: QUEUE },
    flags: REACH,
    run: (context, { flags, args }) =>
      reach(context, flags, async (client) => {
        const { queue } = args;
        const known = await knownQueues(client);
        const answer = await client.queues[name]({ queue });
        if (!known.includes(queue)) {
          context.output.warn(`no job and no worker names the queue ${queue}${didYouMean(queue, known)}`);
        }
        context.output.answer(answer, (page) => page.line(`${answer.queue} ${done}`));
      }),
  });

export const queuesCommand: Command = group({
  name: "queues",
  summary: "Looks at queues, pauses and resumes them.",
  commands: [
    list,
    turning("pause", "Stops the claiming from a queue, in every process; jobs under way go on.", "is paused"),
    turning("resume", "Lets workers claim from a queue again.", "is resumed"),
  ],
});

export const workersCommand: Command = command({
  name: "workers",
  summary: "Shows the workers of the last hour.",
  about:
    "The mark gone? is for those that did not say that they left, and were not heard of for a minute: killed, or cut off.",
  flags: REACH,
  run: (context, { flags }) =>
    reach(context, flags, async (client) => {
      const { workers } = await client.workers.list();
      context.output.answer({ workers }, (page) => {
        if (workers.length === 0) return page.line("No worker was heard of in the last hour.");
        const now = Date.now();
        page.table(
          [
            { title: "Worker", whole: true },
            { title: "Queues" },
            { title: "Running", align: "right" },
            { title: "Started" },
            { title: "Heard of" },
            { title: "State" },
          ],
          workers.map((worker): Part[] => [
            worker.id,
            worker.queues?.join(", ") ?? "all",
            isLive(worker, now) ? `${worker.running} of ${worker.concurrency}` : "–",
            agoOf(worker.startedAt, now),
            agoOf(worker.seenAt, now),
            worker.left ? paint("left", "gray") : isLive(worker, now) ? "live" : paint("gone?", "yellow"),
          ]),
        );
      });
    }),
});
