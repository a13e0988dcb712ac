import { setTimeout as sleep } from "node:timers/promises";
import type { AdminClient } from "../../admin/contract/client.js";
import type { JobConditions, JobDetail, JobSummary, OperationResult } from "../../admin/contract/api-types.js";
import type { AttemptError } from "../../job/job.js";
import { STATE_NAMES, type FinishedState, type State } from "../../job/state.js";
import { command, group, YES, type Argument, type Command, type Context, type Flag } from "../parse/command.js";
import { BadUsage, Failure } from "../errors.js";
import { readTime } from "../parse/instant.js";
import type { Output, Page } from "../ui/output.js";
import { knownJobs, TYPES_FROM } from "../module/known-jobs.js";
import { readPayload } from "../parse/payload.js";
import { REACH, reach } from "../store/admin-connection.js";
import { agoOf, clockOf, countOf, errorOf, jobs as jobsText, stateOf, timeOf } from "../ui/format.js";
import { paint, type Part } from "../ui/style.js";

const ID = { kind: "text", says: "The id of a job." } as const satisfies Argument;
const IDS = {
  kind: "text",
  repeated: true,
  optional: true,
  says: "The ids of jobs; or say which by the flags.",
} as const satisfies Argument;

const FILTER = {
  state: { kind: "choice", choices: STATE_NAMES, repeated: true, says: "Only jobs in this state." },
  type: { kind: "text", repeated: true, says: "Only jobs of this type." },
  queue: { kind: "text", repeated: true, says: "Only jobs of this queue." },
  user: { kind: "text", says: "Only this user's jobs." },
  tag: { kind: "text", says: "Only jobs with this tag." },
  schedule: { kind: "text", says: "Only jobs that this schedule made." },
  after: {
    kind: "text",
    form: "past",
    placeholder: "time",
    says: "Only jobs made since: an ISO time, or how long ago, such as 2h.",
  },
  before: { kind: "text", form: "past", placeholder: "time", says: "Only jobs made before." },
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

/** The conditions that were given; none of the others. */
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
  summary: "Shows jobs, newest first.",
  flags: {
    ...FILTER,
    limit: { kind: "count", least: 1, most: 200, default: 50, says: "At most this many." },
    offset: { kind: "count", least: 0, most: 10_000, says: "Pass over this many." },
    cursor: { kind: "text", says: "Go on where the page before ended." },
    ...REACH,
  },
  examples: [
    { line: "jobs list --state dead --type email.welcome", says: "Jobs of a type that were given up." },
    { line: "jobs list --after 1h --json", says: "Jobs of the last hour, for a script." },
  ],
  run(context, { flags }) {
    const conditions = conditionsOf(flags);
    return reach(context, flags, async (client) => {
      const { limit, offset, cursor } = flags;
      const page = await client.jobs.list({
        ...conditions,
        limit,
        ...(offset !== undefined && { offset }),
        ...(cursor !== undefined && { cursor }),
      });
      // Where few match among very many, a page may be short and not the last.
      while (page.cursor !== null && page.jobs.length < limit) {
        const rest = await client.jobs.list({ ...conditions, limit: limit - page.jobs.length, cursor: page.cursor });
        page.jobs.push(...rest.jobs);
        page.cursor = rest.cursor;
      }
      context.output.answer(page, (out) => {
        if (page.jobs.length === 0) return out.line("There are no such jobs.");
        const now = Date.now();
        out.table(
          [
            { title: "Id", whole: true, below: true },
            { title: "Type", least: 16 },
            { title: "State", whole: true },
            { title: "When", whole: true },
            { title: "Attempt", align: "right", whole: true },
            { title: "Error", least: 20 },
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
      if (page.cursor !== null) context.output.note(paint(`There are more: --cursor ${page.cursor}`, "gray"));
    });
  },
});

function attemptOf({ attempt, maxAttempts }: JobSummary): string {
  return `${attempt} of ${maxAttempts}`;
}

const show = command({
  name: "show",
  summary: "Shows all that is known of a job.",
  arguments: { id: ID },
  flags: REACH,
  run: (context, { flags, args }) =>
    reach(context, flags, async (client) => {
      const job = await client.jobs.get({ id: args.id });
      context.output.answer(job, (page) => showJob(page, job));
    }),
});

function showJob(page: Page, job: JobDetail): void {
  const now = Date.now();
  const times = (
    ["createdAt", "runAt", "dueAt", "claimedAt", "startedAt", "finishedAt", "expiresAt", "cancelRequestedAt"] as const
  ).filter((name) => job[name] !== null);
  page.fields([
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
    page.line("");
    page.line(paint(title, "bold"));
    page.block(text);
  };
  part("Input", JSON.stringify(job.input, null, 2) ?? "");
  if (job.state === "completed") part("Output", JSON.stringify(job.output, null, 2) ?? "");
  for (const { attempt, endedAt, error } of job.attempts) {
    part(`Attempt ${attempt} failed ${clockOf(endedAt)}`, errorLines(error).join("\n"));
  }
  if (job.log.length > 0) part("Log", job.log.map(({ at, line }) => `${clockOf(at)}  ${line}`).join("\n"));
}

/** An error with its data and its causes, as Node prints one that nobody caught. */
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

/** A command that changes one job, some, or all that match. */
function changing(
  name: string,
  summary: string,
  {
    one,
    many,
    done,
    manyDone = done,
    left,
    asks,
    examples,
  }: {
    one: Single;
    many: Many;
    /** What becomes of one, and of many where that can be one thing or another. */
    done: string;
    manyDone?: string;
    /** Why some that matched are as they were. */
    left: string;
    asks?: string;
    examples: Command["examples"];
  },
): Command {
  return command({
    name,
    summary,
    about: "One job by its id; several by their ids, or all that match the flags, with progress.",
    arguments: { id: IDS },
    flags: { ...FILTER, ...(asks !== undefined && { yes: YES }), ...REACH },
    examples,
    async run(context, { flags, args }) {
      const filter = conditionsOf(flags as unknown as GivenFilter);
      const ids = args.id;
      const isFilter = Object.keys(filter).length > 0;
      if (ids.length === 0 && !isFilter)
        throw new BadUsage("no job is named", "give ids, or flags such as --state dead");
      if (ids.length > 0 && isFilter) throw new BadUsage("ids and flags do not go together", "give one of them");
      if (asks !== undefined) {
        const what = isFilter ? "all jobs that match" : jobsText(ids.length);
        await context.confirm(`${asks} ${what}?`, (flags as { yes?: boolean }).yes === true);
      }
      await reach(context, flags as { url: string | undefined; token: string | undefined }, async (client) => {
        const [id] = ids;
        if (ids.length === 1 && id !== undefined) {
          const { status } = await one(client, id);
          const told = status === "requested" ? "is asked to stop" : done;
          context.output.answer({ id, status }, (page) => page.line(`${id} ${told}`));
          return;
        }
        const started = await many(client, isFilter ? { filter } : { ids });
        await follow(context, client, started, { done: manyDone, left });
      });
    },
  });
}

const LOOK_MS = 200;

interface Words {
  readonly done: string;
  readonly left: string;
}

/** Shows how far an operation is until it ends. */
async function follow(context: Context, client: AdminClient, started: OperationResult, words: Words): Promise<void> {
  const { output, signal } = context;
  const { id } = started;
  const progress = output.progress(words.done, started.total);
  let operation = started;
  while (operation.state === "running") {
    await sleep(LOOK_MS, null, { signal }).catch(() => {});
    const look = signal.aborted ? null : await client.operations.get({ id }).catch(unlessAborted(signal));
    // What has been changed stays so; the rest is left alone.
    operation = look ?? (await client.operations.stop({ id }));
    progress.update(operation.looked, operation.total ?? undefined);
  }
  progress.hide();
  if (operation.state === "failed")
    throw new Failure(`stopped after ${jobsText(operation.changed)}: ${operation.error}`);
  tell(output, operation, words);
}

function tell(output: Output, operation: OperationResult, { done, left }: Words): void {
  const { changed, looked, state } = operation;
  const [count, why] =
    changed < looked ? [`${countOf(changed)} of ${jobsText(looked)}`, `; ${left}`] : [jobsText(changed), ""];
  output.answer(operation, (page) => page.line(`${count} ${done}${state === "stopped" ? ", then stopped" : ""}${why}`));
}

/** A look that was under way at Ctrl-C has no answer. */
function unlessAborted(signal: AbortSignal): (error: unknown) => null {
  return (error) => {
    if (!signal.aborted) throw error;
    return null;
  };
}

const RETRY_LEFT = "only failed, dead and cancelled jobs can be retried";
const retry = changing("retry", "Runs dead or cancelled jobs again, and failed ones now.", {
  one: (client, id) => client.jobs.retry({ id }),
  many: (client, target) => client.jobs.retryMany(target),
  done: "waiting to run again",
  left: RETRY_LEFT,
  examples: [
    { line: "jobs retry 01a1e0d0-d1c0-79bf-a2c2-8d02453060e6", says: "One job." },
    { line: "jobs retry --state dead --type email.welcome", says: "All of a type that were given up." },
  ],
});
const cancel = changing("cancel", "Cancels jobs that wait, and asks running ones to stop.", {
  one: (client, id) => client.jobs.cancel({ id }),
  many: (client, target) => client.jobs.cancelMany(target),
  done: "cancelled",
  manyDone: "cancelled or asked to stop",
  left: "the others had ended",
  examples: [{ line: "jobs cancel --queue mail --state pending", says: "All that wait in a queue." }],
});
const remove = changing("delete", "Deletes jobs that are not running, for good.", {
  one: (client, id) => client.jobs.remove({ id }),
  many: (client, target) => client.jobs.removeMany(target),
  done: "deleted",
  left: "those that run are left",
  asks: "Delete",
  examples: [
    { line: "jobs delete --state cancelled --before 1d --yes", says: "Cancelled jobs of yesterday and before." },
  ],
});

const retryDead = command({
  name: "retry-dead",
  summary: "Runs all dead jobs again.",
  flags: {
    type: { kind: "text", repeated: true, says: "Only of this type." },
    queue: { kind: "text", repeated: true, says: "Only of this queue." },
    ...REACH,
  },
  run: (context, { flags }) =>
    reach(context, flags, async (client) => {
      const { type, queue } = flags;
      const filter = { state: ["dead"] as const, ...(type.length > 0 && { type }), ...(queue.length > 0 && { queue }) };
      await follow(context, client, await client.jobs.retryMany({ filter }), {
        done: "waiting to run again",
        left: RETRY_LEFT,
      });
    }),
});

const BEFORE = {
  kind: "text",
  form: "past",
  placeholder: "time",
  required: true,
  says: "Those that ended before: an ISO time, or how long ago, such as 7d.",
} as const satisfies Flag;

const purge = command({
  name: "purge",
  summary: "Deletes jobs that finished long ago.",
  flags: {
    state: {
      kind: "choice",
      choices: ["completed", "dead", "cancelled"],
      default: "completed",
      says: "Which of the finished jobs.",
    },
    before: BEFORE,
    yes: YES,
    ...REACH,
  },
  examples: [{ line: "jobs purge --before 7d --yes", says: "Completed jobs that ended a week ago or earlier." }],
  run: (context, { flags }) => purgeJobs(context, flags.state, flags),
});

const purgeCompleted = command({
  name: "purge-completed",
  summary: "Deletes completed jobs that ended long ago: jobs purge without --state.",
  flags: { before: BEFORE, yes: YES, ...REACH },
  examples: [{ line: "jobs purge-completed --before 7d --yes", says: "Those that ended a week ago or earlier." }],
  run: (context, { flags }) => purgeJobs(context, "completed", flags),
});

async function purgeJobs(
  context: Context,
  state: FinishedState,
  flags: { before: string; yes: boolean; url: string | undefined; token: string | undefined },
): Promise<void> {
  const before = readTime(flags.before, "past");
  const olderThan = Date.now() - Date.parse(before);
  if (olderThan < 0) throw new BadUsage("--before is not in the past", "no job can have ended after now");
  await context.confirm(`Delete all ${state} jobs that ended before ${clockOf(before)}?`, flags.yes);
  await reach(context, flags, async (client) => {
    await follow(context, client, await client.jobs.purge({ state, olderThan }), {
      done: "deleted",
      left: "the others are in another state now",
    });
  });
}

const rerun = command({
  name: "rerun",
  summary: "Adds a new job like an old one, with another input if one is given.",
  about: "Where the type is known, by jobs.module or to the server, the input is checked.",
  arguments: {
    id: ID,
    input: {
      kind: "json",
      stdin: true,
      optional: true,
      says: "The input as JSON, or - for stdin; the old job's if none.",
    },
  },
  flags: { ...TYPES_FROM, ...REACH },
  async run(context, { flags, args }) {
    const input = await readPayload(context, args.input);
    const jobs = (await knownJobs(context, flags.url)) ?? [];
    await reach(context, { ...flags, jobs }, async (client) => {
      const made = await client.jobs.rerun({ id: args.id, ...(input !== undefined && { input }) });
      context.output.answer(made, (page) => page.line(made.id));
    });
  },
});

export const jobsCommand: Command = group({
  name: "jobs",
  summary: "Looks at jobs and changes them.",
  commands: [list, show, retry, cancel, remove, retryDead, purge, purgeCompleted, rerun],
});
