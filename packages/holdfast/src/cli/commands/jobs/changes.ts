import type { FinishedState } from "../../../job/state.js";
import { command, YES, type Command, type Context, type Flag } from "../../parse/command.js";
import { UsageError } from "../../errors.js";
import { readTime } from "../../parse/instant.js";
import { knownJobs, MODULE_FLAG, warnAboutUnchecked } from "../../module/known-jobs.js";
import { readPayload } from "../../parse/payload.js";
import { CONNECTION_FLAGS, withAdmin } from "../../store/admin-connection.js";
import { clockOf } from "../../ui/format.js";
import { bulkCommand, follow } from "./bulk.js";
import { hintIfNothingMatched, ID_NAMES } from "./filter-hints.js";
import { ID } from "./show.js";

const RETRY_SKIPPED = "only failed, dead and cancelled jobs can be retried";
export const retry: Command = bulkCommand("retry", "Retry failed, dead or cancelled jobs now.", {
  one: (client, id) => client.jobs.retry({ id }),
  many: (client, target) => client.jobs.retryMany(target),
  done: "retried",
  skipped: RETRY_SKIPPED,
  examples: [
    { line: "jobs retry 01a1e0d0-d1c0-79bf-a2c2-8d02453060e6", description: "One job." },
    { line: "jobs retry --state dead --type email.welcome", description: "All dead jobs of a type." },
  ],
});
export const cancel: Command = bulkCommand("cancel", "Cancel waiting jobs, and ask running ones to stop.", {
  one: (client, id) => client.jobs.cancel({ id }),
  many: (client, target) => client.jobs.cancelMany(target),
  done: "cancelled",
  skipped: "the others had finished",
  examples: [{ line: "jobs cancel --queue mail --state pending", description: "All pending jobs of a queue." }],
});
export const remove: Command = bulkCommand("delete", "Delete jobs permanently. Running jobs are skipped.", {
  one: (client, id) => client.jobs.remove({ id }),
  many: (client, target) => client.jobs.removeMany(target),
  done: "deleted",
  skipped: "running jobs were skipped",
  confirmation: "Delete",
  examples: [
    {
      line: "jobs delete --state cancelled --before 1d --yes",
      description: "Cancelled jobs that are older than a day.",
    },
  ],
});

export const retryDead: Command = command({
  name: "retry-dead",
  summary: "Retry all dead jobs.",
  flags: {
    type: { kind: "text", repeated: true, description: "Only jobs of this type." },
    queue: { kind: "text", repeated: true, description: "Only jobs in this queue." },
    ...CONNECTION_FLAGS,
  },
  run: (context, { flags }) =>
    withAdmin(context, flags, async (client) => {
      const { type, queue } = flags;
      const filter = { state: ["dead"] as const, ...(type.length > 0 && { type }), ...(queue.length > 0 && { queue }) };
      const { examined } = await follow(context, client, await client.jobs.retryMany({ filter }), {
        done: "retried",
        skipped: RETRY_SKIPPED,
      });
      hintIfNothingMatched(context, flags, examined);
    }),
});

const BEFORE = {
  kind: "text",
  form: "past",
  placeholder: "time",
  required: true,
  description: "Only jobs that finished before this time: an ISO time or an age, e.g. 7d.",
} as const satisfies Flag;

export const purge: Command = command({
  name: "purge",
  summary: "Delete finished jobs by age.",
  flags: {
    state: {
      kind: "choice",
      choices: ["completed", "dead", "cancelled"],
      default: "completed",
      description: "State of the jobs.",
    },
    before: BEFORE,
    yes: YES,
    ...CONNECTION_FLAGS,
  },
  examples: [
    { line: "jobs purge --before 7d --yes", description: "Delete completed jobs that are older than a week." },
  ],
  run: (context, { flags }) => purgeJobs(context, flags.state, flags),
});

export const purgeCompleted: Command = command({
  name: "purge-completed",
  summary: "Delete completed jobs by age. Same as jobs purge --state completed.",
  flags: { before: BEFORE, yes: YES, ...CONNECTION_FLAGS },
  examples: [
    {
      line: "jobs purge-completed --before 7d --yes",
      description: "Delete completed jobs that are older than a week.",
    },
  ],
  run: (context, { flags }) => purgeJobs(context, "completed", flags),
});

async function purgeJobs(
  context: Context,
  state: FinishedState,
  flags: { before: string; yes: boolean; url: string | undefined; token: string | undefined },
): Promise<void> {
  const before = readTime(flags.before, "past");
  const olderThan = Date.now() - Date.parse(before);
  if (olderThan < 0) throw new UsageError("--before must be in the past");
  await context.confirm(`Delete all ${state} jobs that finished before ${clockOf(before)}?`, flags.yes);
  await withAdmin(context, flags, async (client) => {
    await follow(context, client, await client.jobs.purge({ state, olderThan }), {
      done: "deleted",
      skipped: "the others were changed meanwhile",
    });
  });
}

export const rerun: Command = command({
  name: "rerun",
  summary: "Enqueue a copy of a job, optionally with another input.",
  about: "The input is validated if the job type is known (from --module, jobs.module or the server).",
  arguments: {
    id: ID,
    input: {
      kind: "json",
      stdin: true,
      optional: true,
      description: "Input as JSON, or - to read it from stdin. Default: the input of the original job.",
    },
  },
  flags: { ...MODULE_FLAG, ...CONNECTION_FLAGS },
  async run(context, { flags, args }) {
    const input = await readPayload(context, args.input);
    const jobs = await knownJobs(context, flags.url);
    await withAdmin(context, { ...flags, jobs: jobs ?? [], names: ID_NAMES }, async (client) => {
      if (input !== undefined && jobs !== null)
        warnAboutUnchecked(context, [(await client.jobs.get({ id: args.id })).type], jobs);
      const enqueued = await client.jobs.rerun({ id: args.id, ...(input !== undefined && { input }) });
      context.output.result(enqueued, (writer) => writer.line(enqueued.id));
    });
  },
});
