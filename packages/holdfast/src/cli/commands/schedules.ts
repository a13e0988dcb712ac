import type { ScheduleResult, ScheduleBody, ScheduleSummary, TimingBody } from "../../admin/contract/api-types.js";
import { showValue } from "../../config/index.js";
import { DEFAULTS, LIMITS } from "../../defaults.js";
import { command, group, YES, type Argument, type Command, type Flag, type GivenFlags } from "../parse/command.js";
import { UsageError } from "../errors.js";
import { readTime } from "../parse/instant.js";
import type { TextWriter } from "../ui/output.js";
import { knownJobs, MODULE_FLAG, warnAboutDefaults, warnIfNoWorker } from "../module/known-jobs.js";
import { readPayload } from "../parse/payload.js";
import { CONNECTION_FLAGS, withAdmin } from "../store/admin-connection.js";
import { connectionFlags } from "../store/open.js";
import { agoOf, clockIn, clockOf, lengthOf } from "../ui/format.js";
import { paint, type Part } from "../ui/style.js";

const NAME = { kind: "text", description: "Name of the schedule." } as const satisfies Argument;

const TIMING = {
  cron: { kind: "text", description: 'Cron pattern, e.g. "0 8 * * MON-FRI".' },
  timezone: { kind: "text", description: "Time zone of the pattern, e.g. Europe/Berlin. New schedules: UTC." },
  every: { kind: "duration", description: "Interval instead of a pattern, e.g. 15m." },
  start: {
    kind: "text",
    form: "future",
    placeholder: "time",
    description: "First possible run: an ISO time or a duration from now.",
  },
  end: {
    kind: "text",
    form: "future",
    placeholder: "time",
    description: "No runs from this time on: an ISO time or a duration from now.",
  },
} as const satisfies Record<string, Flag>;
const SETTINGS = {
  ...TIMING,
  input: { kind: "json", stdin: true, description: "Input of the jobs as JSON, or - to read it from stdin." },
  queue: { kind: "text", description: "Queue of the jobs." },
  priority: { kind: "count", min: -LIMITS.priority, max: LIMITS.priority, description: "Priority of the jobs." },
  attempts: {
    kind: "count",
    min: 1,
    max: LIMITS.maxAttempts,
    description: "Maximum number of attempts of each job.",
  },
  user: { kind: "text", description: "User that the jobs belong to." },
  tag: { kind: "text", repeated: true, description: "Tag of the jobs. Replaces all other tags." },
  jitter: { kind: "duration", max: "1d", description: "Delay each run by a random time up to this, to spread load." },
  overlap: {
    kind: "choice",
    choices: ["allow", "skip"],
    description: `Whether a run may start while the previous one is unfinished. New schedules: ${DEFAULTS.schedule.overlap}.`,
  },
  "catch-up": {
    kind: "text",
    placeholder: "what",
    complete: ["skip", "latest", "all"],
    description: `What to do with slots missed during downtime: skip, latest, all (the newest ${LIMITS.catchUp}), or all:20 (the newest 20). New schedules: ${DEFAULTS.schedule.catchUp}.`,
  },
  enabled: {
    kind: "choice",
    choices: ["true", "false"],
    description: "Whether the schedule runs. New schedules: true.",
  },
} as const satisfies Record<string, Flag>;

/** The change that removes each optional setting. */
const UNSET = {
  start: { startAt: null },
  end: { endAt: null },
  user: { user: null },
  tags: { tags: [] },
} as const;

/** The timing of the given flags. */
function timingOf({ cron, timezone, every, start, end }: GivenFlags<typeof TIMING>): TimingBody {
  return {
    ...(cron !== undefined && { cron }),
    ...(timezone !== undefined && { timezone }),
    ...(every !== undefined && { every }),
    ...(start !== undefined && { startAt: readTime(start, "future") }),
    ...(end !== undefined && { endAt: readTime(end, "future") }),
  };
}

function bodyOf(given: GivenFlags<typeof SETTINGS>): ScheduleBody {
  const { input, queue, priority, attempts, user, tag: tags, jitter, overlap, enabled } = given;
  const catchUp = given["catch-up"];
  return {
    ...timingOf(given),
    ...(input !== undefined && { input }),
    ...(queue !== undefined && { queue }),
    ...(priority !== undefined && { priority }),
    ...(attempts !== undefined && { maxAttempts: attempts }),
    ...(user !== undefined && { user }),
    ...(tags.length > 0 && { tags }),
    ...(jitter !== undefined && { jitter }),
    ...(overlap !== undefined && { overlap }),
    ...(catchUp !== undefined && { catchUp: readCatchUp(catchUp) }),
    ...(enabled !== undefined && { enabled: enabled === "true" }),
  };
}

function readCatchUp(text: string): NonNullable<ScheduleBody["catchUp"]> {
  if (text === "skip" || text === "latest") return text;
  const newest = /^all(?::(?<count>\d{1,6}))?$/.exec(text)?.groups;
  const count = newest === undefined ? 0 : Number(newest["count"] ?? LIMITS.catchUp);
  if (count >= 1 && count <= LIMITS.catchUp) return { all: count };
  throw new UsageError(
    `--catch-up: ${showValue(text)} is not skip, latest, all or all:<count>`,
    `the count must be 1 to ${LIMITS.catchUp}, e.g. all:20`,
  );
}

const list = command({
  name: "list",
  summary: "List schedules by name.",
  flags: {
    type: { kind: "text", description: "Only schedules of this job type." },
    user: { kind: "text", description: "Only schedules of this user." },
    origin: {
      kind: "choice",
      choices: ["code", "runtime"],
      description: "Only schedules defined in code, or at run time.",
    },
    enabled: { kind: "choice", choices: ["true", "false"], description: "Only enabled, or only disabled schedules." },
    limit: { kind: "count", min: 1, max: 200, default: 200, description: "Maximum number of schedules." },
    cursor: { kind: "text", description: "Continue after the previous page." },
    ...CONNECTION_FLAGS,
  },
  run: (context, { flags }) =>
    withAdmin(context, flags, async (client) => {
      const { type, user, origin, enabled, limit, cursor } = flags;
      const page = await client.schedules.list({
        limit,
        ...(type !== undefined && { type }),
        ...(user !== undefined && { user }),
        ...(origin !== undefined && { origin }),
        ...(enabled !== undefined && { enabled: enabled === "true" }),
        ...(cursor !== undefined && { cursor }),
      });
      context.output.result(page, (writer) => {
        if (page.schedules.length === 0) return writer.line("No schedules.");
        const now = Date.now();
        writer.table(
          [
            { title: "Name", whole: true },
            { title: "Job" },
            { title: "Timing" },
            { title: "Next run" },
            { title: "Last slot" },
            { title: "Defined" },
          ],
          page.schedules.map((each): Part[] => [
            each.name,
            each.type,
            timingText(each),
            nextOf(each, now),
            agoOf(each.lastSlot, now),
            definedOf(each),
          ]),
        );
      });
      if (page.cursor !== null) context.output.note(paint(`More schedules: --cursor ${page.cursor}`, "gray"));
    }),
});

function definedOf({ origin, changed }: ScheduleSummary): string {
  if (origin === "runtime") return "at run time";
  return changed.length === 0 ? "in code" : "in code, changed";
}
function timingText({ cron, timezone, everyMs }: ScheduleSummary): string {
  if (everyMs !== null) return `every ${lengthOf(everyMs)}`;
  return `${cron ?? ""}${timezone === null || timezone === "UTC" ? "" : ` ${timezone}`}`;
}
function nextOf({ enabled, nextRunAt }: ScheduleSummary, now: number): Part {
  return enabled ? agoOf(nextRunAt, now) : paint("disabled", "yellow");
}

function showSchedule(writer: TextWriter, schedule: ScheduleResult, on: string): void {
  const now = Date.now();
  writer.fields([
    ["name", schedule.name],
    ["job", schedule.type],
    ["timing", timingText(schedule)],
    ["next run", `${clockOf(schedule.nextRunAt)} (`, nextOf(schedule, now), ")"],
    ["last slot", clockOf(schedule.lastSlot)],
    ...(schedule.startAt === null ? [] : [["start", clockOf(schedule.startAt)] as const]),
    ...(schedule.endAt === null ? [] : [["end", clockOf(schedule.endAt)] as const]),
    ...(schedule.jitterMs === 0 ? [] : [["jitter", `up to ${lengthOf(schedule.jitterMs)}`] as const]),
    ["queue", `${schedule.queue}, priority ${schedule.priority}`],
    ["attempts", String(schedule.maxAttempts)],
    ...(schedule.user === null ? [] : [["user", schedule.user] as const]),
    ...(schedule.tags.length === 0 ? [] : [["tags", schedule.tags.join(", ")] as const]),
    ["overlap", schedule.overlap],
    ["catch-up", typeof schedule.catchUp === "string" ? schedule.catchUp : `all, up to ${schedule.catchUp.all}`],
    ["defined", definedOf(schedule)],
    ...(schedule.changed.length === 0
      ? []
      : [
          [
            "changed",
            `${schedule.changed.join(", ")} (to undo, run: holdfast schedules reset ${schedule.name}${on})`,
          ] as const,
        ]),
    ["input", JSON.stringify(schedule.input)],
  ]);
  if (schedule.slots.length === 0) return;
  writer.line("");
  writer.table(
    [{ title: "Slot" }, { title: "Job", whole: true }, { title: "Note" }],
    schedule.slots.map((slot): Part[] => [clockOf(slot.slot), slot.job ?? paint("none", "gray"), slot.reason ?? ""]),
  );
}

const show = command({
  name: "show",
  summary: "Show a schedule and its last slots.",
  arguments: { name: NAME },
  flags: CONNECTION_FLAGS,
  run: (context, { flags, args }) =>
    withAdmin(context, flags, async (client) => {
      const schedule = await client.schedules.get({ name: args.name });
      context.output.result(schedule, (writer) =>
        showSchedule(writer, schedule, connectionFlags(context.config, flags.url)),
      );
    }),
});

const create = command({
  name: "create",
  summary: "Create a schedule.",
  arguments: { name: NAME, job: { kind: "text", description: "Type of the jobs." } },
  flags: { ...SETTINGS, ...MODULE_FLAG, ...CONNECTION_FLAGS },
  examples: [
    {
      line: "schedules create digest email.digest --every 1h",
      description: "Run every hour.",
    },
    {
      line: "schedules create report report.daily --cron @daily --catch-up all:7",
      description: "Run daily, and catch up on the last 7 missed days.",
    },
  ],
  async run(context, { flags, args }) {
    if ((flags.cron === undefined) === (flags.every === undefined))
      throw new UsageError("give either --cron or --every");
    const body = bodyOf({ ...flags, input: await readPayload(context, flags.input) });
    const jobs = await knownJobs(context, flags.url);
    await withAdmin(context, { ...flags, jobs: jobs ?? [], createsStore: true }, async (client) => {
      const schedule = await client.schedules.create({ name: args.name, ...body, job: args.job });
      context.output.result(schedule, (writer) =>
        writer.line(`Created ${schedule.name}; next run ${clockOf(schedule.nextRunAt)}`),
      );
      if (jobs !== null) warnAboutDefaults(context, args.job, jobs, flags, "schedule");
      await warnIfNoWorker(context, client, args.job);
    });
  },
});

const update = command({
  name: "update",
  summary: "Change the given settings of a schedule.",
  arguments: { name: NAME },
  flags: {
    job: { kind: "text", description: "Type of the jobs." },
    ...SETTINGS,
    unset: {
      kind: "choice",
      choices: ["start", "end", "user", "tags"],
      repeated: true,
      description: "Remove this setting.",
    },
    ...MODULE_FLAG,
    ...CONNECTION_FLAGS,
  },
  examples: [
    { line: "schedules update digest --every 30m --jitter 1m", description: "Run every 30 minutes, with jitter." },
    { line: "schedules update digest --unset end", description: "Run without an end." },
  ],
  async run(context, { flags, args }) {
    const given = bodyOf({ ...flags, input: await readPayload(context, flags.input) });
    const removed = Object.assign({}, ...flags.unset.map((name) => UNSET[name])) as ScheduleBody;
    const both = Object.keys(removed).find((field) => field in given);
    if (both !== undefined) throw new UsageError(`${both} is both set and unset`, "give one of them");
    const body = { ...(flags.job !== undefined && { job: flags.job }), ...given, ...removed };
    if (Object.keys(body).length === 0) throw new UsageError("no changes given", "give a flag such as --cron");
    const jobs = (await knownJobs(context, flags.url)) ?? [];
    await withAdmin(context, { ...flags, jobs }, async (client) => {
      const schedule = await client.schedules.update({ name: args.name, ...body });
      context.output.result(schedule, (writer) =>
        showSchedule(writer, schedule, connectionFlags(context.config, flags.url)),
      );
      if (flags.job !== undefined) await warnIfNoWorker(context, client, flags.job);
    });
  },
});

const simpleChange = (name: "enable" | "disable" | "reset", summary: string, done: string): Command =>
  command({
    name,
    summary,
    arguments: { name: NAME },
    flags: CONNECTION_FLAGS,
    run: (context, { flags, args }) =>
      withAdmin(context, flags, async (client) => {
        const schedule = await client.schedules[name]({ name: args.name });
        context.output.result(schedule, (writer) => writer.line(`${done} ${schedule.name}`));
      }),
  });

const remove = command({
  name: "delete",
  summary: "Delete a schedule. Its jobs stay.",
  arguments: { name: NAME },
  flags: { yes: YES, ...CONNECTION_FLAGS },
  async run(context, { flags, args }) {
    const { name } = args;
    await context.confirm(`Delete schedule ${name}?`, flags.yes);
    await withAdmin(context, flags, async (client) => {
      const { origin } = await client.schedules.get({ name });
      const { status } = await client.schedules.remove({ name });
      context.output.result({ name, status }, (writer) => writer.line(`Deleted ${name}`));
      if (origin === "code") {
        context.output.warn(
          `the schedule is defined in code and will be created again at the next start; to stop it, run: holdfast schedules disable ${name}${connectionFlags(context.config, flags.url)}`,
        );
      }
    });
  },
});

const preview = command({
  name: "preview",
  summary: "Show the next runs of a schedule, or of a cron pattern or interval.",
  arguments: { name: { ...NAME, optional: true } },
  flags: {
    ...TIMING,
    count: { kind: "count", min: 1, max: 100, default: 5, description: "Number of runs." },
    ...CONNECTION_FLAGS,
  },
  examples: [{ line: "schedules preview --every 90m --count 3", description: "The next three runs of an interval." }],
  async run(context, { flags, args }) {
    const { count } = flags;
    const timing = timingOf(flags);
    const hasTiming = Object.keys(timing).length > 0;
    if (args.name === undefined && timing.cron === undefined && timing.every === undefined) {
      throw new UsageError("give the name of a schedule, --cron or --every");
    }
    if (args.name !== undefined && hasTiming) {
      throw new UsageError("a schedule name and timing flags cannot be combined", "give one of them");
    }
    await withAdmin(context, flags, async (client) => {
      const { runs } =
        args.name === undefined
          ? await client.schedules.preview({ count, ...timing })
          : await client.schedules.next({ name: args.name, count });
      const zone =
        args.name === undefined ? flags.timezone : (await client.schedules.get({ name: args.name })).timezone;
      const now = Date.now();
      context.output.result({ runs }, (writer) => {
        if (runs.length === 0) return writer.line("No more runs.");
        // The time zone of the pattern comes first.
        const own = zone === undefined || zone === null || zone === "UTC" ? [] : [zone];
        writer.table(
          [...own, "UTC", "Local", ""].map((title) => ({ title })),
          runs.map((run): Part[] => [...own.map((each) => clockIn(run, each)), run, clockOf(run), agoOf(run, now)]),
        );
      });
    });
  },
});

const run = command({
  name: "run",
  summary: "Run a schedule now, in addition to its slots.",
  arguments: { name: NAME },
  flags: CONNECTION_FLAGS,
  run: (context, { flags, args }) =>
    withAdmin(context, flags, async (client) => {
      const enqueued = await client.schedules.run({ name: args.name });
      context.output.result(enqueued, (writer) => writer.line(enqueued.id));
      if (enqueued.duplicate) context.output.note("the schedule has an unfinished job; no new job was enqueued");
    }),
});

export const schedulesCommand: Command = group({
  name: "schedules",
  summary: "List, create, change and delete schedules.",
  commands: [
    list,
    show,
    create,
    update,
    simpleChange("enable", "Enable a schedule from now on.", "Enabled"),
    simpleChange("disable", "Disable a schedule.", "Disabled"),
    simpleChange("reset", "Discard changes to a schedule that is defined in code.", "Reset"),
    remove,
    preview,
    run,
  ],
});
