import { setTimeout as sleep } from "node:timers/promises";
import type { AdminClient } from "../../admin/contract/client.js";
import type { JobConditions, JobDetail, JobSummary, OperationResult } from "../../admin/contract/api-types.js";
import type { AttemptError } from "../../job/job.js";
import { STATE_NAMES, type FinishedState, type State } from "../../job/state.js";
import { command, group, YES, type Argument, type Command, type Context, type Flag } from "../parse/command.js";
import { UsageError, CommandError } from "../errors.js";
import { readTime } from "../parse/instant.js";
import type { Output, TextWriter } from "../ui/output.js";
import { knownJobs, MODULE_FLAG } from "../module/known-jobs.js";
import { readPayload } from "../parse/payload.js";
import { CONNECTION_FLAGS, withAdmin } from "../store/admin-connection.js";
import { agoOf, clockOf, countOf, errorOf, jobs as jobsText, stateOf, timeOf } from "../ui/format.js";
import { paint, type Part } from "../ui/style.js";

const ID = { kind: "text", description: "Job id." } as const satisfies Argument;
const IDS = {
  kind: "text",
  repeated: true,
  optional: true,
  description: "Job ids. Without ids, flags select the jobs.",
} as const satisfies Argument;

const FILTER = {
  state: { kind: "choice", choices: STATE_NAMES, repeated: true, description: "Only jobs in this state." },
  type: { kind: "text", repeated: true, description: "Only jobs of this type." },
  queue: { kind: "text", repeated: true, description: "Only jobs in this queue." },
  user: { kind: "text", description: "Only jobs of this user." },
  tag: { kind: "text", description: "Only jobs with this tag." },
  schedule: { kind: "text", description: "Only jobs of this schedule." },
  after: {
    kind: "text",
    form: "past",
    placeholder: "time",
    description: "Only jobs created after this time: an ISO time or an age, e.g. 2h.",
  },
  before: { kind: "text", form: "past", placeholder: "time", description: "Only jobs created before this time." },
} as const satisfies Record<string, Flag>;

interface GivenFilter {
  readonly state: readonly string[];
  readonly type: readonly string[];
  readonly queue: readonly string[];
  readonly user: string | undefined;
  readonly tag: string | undefined;
  readonly schedule: string | undefined;
  readonly after: string | undefined;
  readonly before: string | undefined;
}

/** The filter of the given flags. */
function conditionsOf({ state, type, queue, user, tag, schedule, after, before }: GivenFilter): JobConditions {
  return {
    ...(state.length > 0 && { state: state as readonly State[] }),
    ...(type.length > 0 && { type }),
    ...(queue.length > 0 && { queue }),
    ...(user !== undefined && { user }),
    ...(tag !== undefined && { tag }),
    ...(schedule !== undefined && { schedule }),
    ...(after !== undefined && { createdAfter: readTime(after, "past") }),
    ...(before !== undefined && { createdBefore: readTime(before, "past") }),
  };
}

const list = command({
  name: "list",
  summary: "List jobs, newest first.",
  flags: {
    ...FILTER,
    limit: { kind: "count", min: 1, max: 200, default: 50, description: "Maximum number of jobs." },
    offset: { kind: "count", min: 0, max: 10_000, description: "Skip this many jobs." },
    cursor: { kind: "text", description: "Continue after the previous page." },
    ...CONNECTION_FLAGS,
  },
  examples: [
    { line: "jobs list --state dead --type email.welcome", description: "Dead jobs of a type." },
    { line: "jobs list --after 1h --json", description: "Jobs of the last hour, for a script." },
  ],
  run(context, { flags }) {
    const conditions = conditionsOf(flags);
    return withAdmin(context, flags, async (client) => {
      const { limit, offset, cursor } = flags;
      const page = await client.jobs.list({
        ...conditions,
        limit,
        ...(offset !== undefined && { offset }),
        ...(cursor !== undefined && { cursor }),
      });
      // If few of very many jobs match, a page may be short without being the last.
      while (page.cursor !== null && page.jobs.length < limit) {
        const more = await client.jobs.list({ ...conditions, limit: limit - page.jobs.length, cursor: page.cursor });
        page.jobs.push(...more.jobs);
        page.cursor = more.cursor;
      }
      context.output.result(page, (writer) => {
        if (page.jobs.length === 0) return writer.line("No matching jobs.");
        const now = Date.now();
        writer.table(
          [
            { title: "Id", whole: true, below: true },
            { title: "Type", minWidth: 16 },
            { title: "State", whole: true },
            { title: "Time", whole: true },
            { title: "Attempt", align: "right", whole: true },
            { title: "Error", minWidth: 20 },
          ],
          page.jobs.map((job): Part[] => [
            job.id,
            job.type,
            stateOf(job.state),
            timeOf(job, now),
            attemptOf(job),
            errorOf(job),
          ]),
        );
      });
      if (page.cursor !== null) context.output.note(paint(`More jobs: --cursor ${page.cursor}`, "gray"));
    });
  },
});

function attemptOf({ attempt, maxAttempts }: JobSummary): string {
  return `${attempt} of ${maxAttempts}`;
}

const show = command({
  name: "show",
  summary: "Show a job with its input, output, errors and log.",
  arguments: { id: ID },
  flags: CONNECTION_FLAGS,
  run: (context, { flags, args }) =>
    withAdmin(context, flags, async (client) => {
      const job = await client.jobs.get({ id: args.id });
      context.output.result(job, (writer) => showJob(writer, job));
    }),
});

function showJob(writer: TextWriter, job: JobDetail): void {
  const now = Date.now();
  const times = (
    ["createdAt", "runAt", "dueAt", "claimedAt", "startedAt", "finishedAt", "expiresAt", "cancelRequestedAt"] as const
  ).filter((name) => job[name] !== null);
  writer.fields([
    ["id", job.id],
    ["type", job.type],
    ["state", stateOf(job.state)],
    ["queue", `${job.queue}, priority ${job.priority}`],
    ["attempt", attemptOf(job)],
    ...(job.user === null ? [] : [["user", job.user] as const]),
    ...(job.key === null ? [] : [["key", job.key] as const]),
    ...(job.tags.length === 0 ? [] : [["tags", job.tags.join(", ")] as const]),
    ...(job.schedule === null
      ? []
      : [["schedule", `${job.schedule.name}, slot ${clockOf(job.schedule.slot)}`] as const]),
    ...(job.worker === null ? [] : [["worker", job.worker] as const]),
    ...(job.trace?.["traceparent"] === undefined ? [] : [["trace", job.trace["traceparent"]] as const]),
    ...(job.progress === null
      ? []
      : [
          [
            "progress",
            `${Math.round(job.progress.fraction * 100)} %${job.progress.note === null ? "" : `, ${job.progress.note}`}`,
          ] as const,
        ]),
    ...times.map((name) => [name, `${clockOf(job[name])} (`, agoOf(job[name], now), ")"] as const),
    ...(errorOf(job) === "" ? [] : [["error", paint(errorOf(job), "red")] as const]),
  ]);
  const part = (title: string, text: string): void => {
    writer.line("");
    writer.line(paint(title, "bold"));
    writer.block(text);
  };
  part("Input", JSON.stringify(job.input, null, 2) ?? "");
  if (job.state === "completed") part("Output", JSON.stringify(job.output, null, 2) ?? "");
  for (const { attempt, endedAt, error } of job.attempts) {
    part(`Attempt ${attempt} failed ${clockOf(endedAt)}`, errorLines(error).join("\n"));
  }
  if (job.log.length > 0) part("Log", job.log.map(({ at, line }) => `${clockOf(at)}  ${line}`).join("\n"));
}

/** An error with its data and causes, as Node prints an uncaught one. */
function errorLines({ stack, message, data, cause }: AttemptError): string[] {
  return [
    stack ?? message,
    ...(data === null ? [] : [`data: ${JSON.stringify(data, null, 2)}`]),
    ...(cause === null ? [] : errorLines(cause).map((line, index) => (index === 0 ? `caused by: ${line}` : line))),
  ];
}

type Single = (client: AdminClient, id: string) => Promise<{ status: string }>;
type Many = (
  client: AdminClient,
  target: { ids: readonly string[] } | { filter: JobConditions },
) => Promise<OperationResult>;

/** A command that changes one job, several, or all that match a filter. */
function bulkCommand(
  name: string,
  summary: string,
  {
    one,
    many,
    done,
    manyDone = done,
    skipped,
    confirmation,
    examples,
  }: {
    one: Single;
    many: Many;
    /** What happened to one job, and to several if that may differ. */
    done: string;
    manyDone?: string;
    /** Why some of the jobs may not have been changed. */
    skipped: string;
    confirmation?: string;
    examples: Command["examples"];
  },
): Command {
  return command({
    name,
    summary,
    about: "Takes one or more job ids, or flags that select jobs.",
    arguments: { id: IDS },
    flags: { ...FILTER, ...(confirmation !== undefined && { yes: YES }), ...CONNECTION_FLAGS },
    examples,
    async run(context, { flags, args }) {
      const filter = conditionsOf(flags as unknown as GivenFilter);
      const ids = args.id;
      const isFilter = Object.keys(filter).length > 0;
      if (ids.length === 0 && !isFilter)
        throw new UsageError("no jobs selected", "give job ids, or flags such as --state dead");
      if (ids.length > 0 && isFilter)
        throw new UsageError("job ids and filter flags cannot be combined", "give one of them");
      if (confirmation !== undefined) {
        const what = isFilter ? "all matching jobs" : jobsText(ids.length);
        await context.confirm(`${confirmation} ${what}?`, (flags as { yes?: boolean }).yes === true);
      }
      await withAdmin(context, flags as { url: string | undefined; token: string | undefined }, async (client) => {
        const [id] = ids;
        if (ids.length === 1 && id !== undefined) {
          const { status } = await one(client, id);
          const what = status === "requested" ? "cancellation requested" : done;
          context.output.result({ id, status }, (writer) => writer.line(`${id} ${what}`));
          return;
        }
        const started = await many(client, isFilter ? { filter } : { ids });
        await follow(context, client, started, { done: manyDone, skipped });
      });
    },
  });
}

const POLL_MS = 200;

interface Summary {
  readonly done: string;
  readonly skipped: string;
}

/** Shows the progress of an operation until it ends. */
async function follow(
  context: Context,
  client: AdminClient,
  started: OperationResult,
  summary: Summary,
): Promise<void> {
  const { output, signal } = context;
  const { id } = started;
  const progress = output.progress(summary.done, started.total);
  let operation = started;
  while (operation.state === "running") {
    await sleep(POLL_MS, null, { signal }).catch(() => {});
    const current = signal.aborted ? null : await client.operations.get({ id }).catch(unlessAborted(signal));
    // After Ctrl-C: jobs that were changed stay changed, the others are left as they are.
    operation = current ?? (await client.operations.stop({ id }));
    progress.update(operation.examined, operation.total ?? undefined);
  }
  progress.hide();
  if (operation.state === "failed")
    throw new CommandError(`stopped after ${jobsText(operation.changed)}: ${operation.error}`);
  printSummary(output, operation, summary);
}

function printSummary(output: Output, operation: OperationResult, { done, skipped }: Summary): void {
  const { changed, examined, state } = operation;
  const [count, why] =
    changed < examined ? [`${countOf(changed)} of ${jobsText(examined)}`, `; ${skipped}`] : [jobsText(changed), ""];
  output.result(operation, (writer) =>
    writer.line(`${count} ${done}${state === "stopped" ? ", then stopped" : ""}${why}`),
  );
}

/** A request in flight at Ctrl-C has no response. */
function unlessAborted(signal: AbortSignal): (error: unknown) => null {
  return (error) => {
    if (!signal.aborted) throw error;
    return null;
  };
}

const RETRY_SKIPPED = "only failed, dead and cancelled jobs can be retried";
const retry = bulkCommand("retry", "Retry failed, dead or cancelled jobs now.", {
  one: (client, id) => client.jobs.retry({ id }),
  many: (client, target) => client.jobs.retryMany(target),
  done: "retried",
  skipped: RETRY_SKIPPED,
  examples: [
    { line: "jobs retry 01a1e0d0-d1c0-79bf-a2c2-8d02453060e6", description: "One job." },
    { line: "jobs retry --state dead --type email.welcome", description: "All dead jobs of a type." },
  ],
});
const cancel = bulkCommand("cancel", "Cancel waiting jobs, and ask running ones to stop.", {
  one: (client, id) => client.jobs.cancel({ id }),
  many: (client, target) => client.jobs.cancelMany(target),
  done: "cancelled",
  manyDone: "cancelled or asked to stop",
  skipped: "the others had finished",
  examples: [{ line: "jobs cancel --queue mail --state pending", description: "All pending jobs of a queue." }],
});
const remove = bulkCommand("delete", "Delete jobs permanently. Running jobs are skipped.", {
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

const retryDead = command({
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
      await follow(context, client, await client.jobs.retryMany({ filter }), {
        done: "retried",
        skipped: RETRY_SKIPPED,
      });
    }),
});

const BEFORE = {
  kind: "text",
  form: "past",
  placeholder: "time",
  required: true,
  description: "Only jobs that finished before this time: an ISO time or an age, e.g. 7d.",
} as const satisfies Flag;

const purge = command({
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

const purgeCompleted = command({
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

const rerun = command({
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
    const jobs = (await knownJobs(context, flags.url)) ?? [];
    await withAdmin(context, { ...flags, jobs }, async (client) => {
      const enqueued = await client.jobs.rerun({ id: args.id, ...(input !== undefined && { input }) });
      context.output.result(enqueued, (writer) => writer.line(enqueued.id));
    });
  },
});

export const jobsCommand: Command = group({
  name: "jobs",
  summary: "List, show, retry, cancel and delete jobs.",
  commands: [list, show, retry, cancel, remove, retryDead, purge, purgeCompleted, rerun],
});
