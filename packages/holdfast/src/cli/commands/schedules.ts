import type { ScheduleResult, ScheduleBody, ScheduleSummary, TimingBody } from "../../admin/contract/api-types.js";
import { showValue } from "../../config/index.js";
import { LIMITS } from "../../defaults.js";
import { command, group, YES, type Argument, type Command, type Flag, type GivenFlags } from "../parse/command.js";
import { BadUsage } from "../errors.js";
import { readTime } from "../parse/instant.js";
import type { Page } from "../ui/output.js";
import { knownJobs, TYPES_FROM, warnOfDefaults, warnOfUnknown } from "../module/known-jobs.js";
import { readPayload } from "../parse/payload.js";
import { REACH, reach } from "../store/admin-connection.js";
import { agoOf, clockIn, clockOf, lengthOf } from "../ui/format.js";
import { paint, type Part } from "../ui/style.js";

const NAME = { kind: "text", says: "The schedule's name." } as const satisfies Argument;

const TIMING = {
  cron: { kind: "text", says: 'A cron pattern, such as "0 8 * * MON-FRI".' },
  timezone: { kind: "text", says: "The pattern's zone, such as Europe/Berlin. Default UTC." },
  every: { kind: "duration", says: "An interval instead of a pattern, such as 15m." },
  start: {
    kind: "text",
    form: "future",
    placeholder: "time",
    says: "No run before then: an ISO time, or how long from now.",
  },
  end: { kind: "text", form: "future", placeholder: "time", says: "No run from then on." },
} as const satisfies Record<string, Flag>;
const SETTINGS = {
  ...TIMING,
  input: { kind: "json", stdin: true, says: "The input of its jobs, as JSON, or - for stdin." },
  queue: { kind: "text", says: "The queue of its jobs." },
  priority: { kind: "count", least: -LIMITS.priority, most: LIMITS.priority, says: "The priority of its jobs." },
  attempts: { kind: "count", least: 1, most: LIMITS.maxAttempts, says: "Attempts of each job." },
  user: { kind: "text", says: "The user that its jobs belong to." },
  tag: { kind: "text", repeated: true, says: "A tag of its jobs; all that are given count, and no others." },
  jitter: { kind: "duration", most: "1d", says: "Each run begins up to this much later, to spread load." },
  overlap: { kind: "choice", choices: ["allow", "skip"], says: "Whether a run begins while the one before is live." },
  "catch-up": {
    kind: "text",
    placeholder: "what",
    complete: ["skip", "latest", "all"],
    says: `What becomes of slots that were missed: skip, latest, all (the newest ${LIMITS.catchUp}), or all:20 (the newest 20).`,
  },
  enabled: { kind: "choice", choices: ["true", "false"], says: "Whether it runs." },
} as const satisfies Record<string, Flag>;

/** What a schedule can be without. */
const TAKEN_AWAY = {
  start: { startAt: null },
  end: { endAt: null },
  user: { user: null },
  tags: { tags: [] },
} as const;

/** When it runs, of what was given. */
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
  throw new BadUsage(
    `--catch-up: ${showValue(text)} is none of skip, latest, all and all:<count>`,
    `a count is from 1 to ${LIMITS.catchUp}: all:20`,
  );
}

const list = command({
  name: "list",
  summary: "Shows schedules by name.",
  flags: {
    type: { kind: "text", says: "Only those that make jobs of this type." },
    user: { kind: "text", says: "Only those whose jobs belong to this user." },
    origin: { kind: "choice", choices: ["code", "runtime"], says: "Only those defined in code, or at run time." },
    enabled: { kind: "choice", choices: ["true", "false"], says: "Only those that run, or that rest." },
    limit: { kind: "count", least: 1, most: 200, default: 200, says: "At most this many." },
    cursor: { kind: "text", says: "Go on where the page before ended." },
    ...REACH,
  },
  run: (context, { flags }) =>
    reach(context, flags, async (client) => {
      const { type, user, origin, enabled, limit, cursor } = flags;
      const page = await client.schedules.list({
        limit,
        ...(type !== undefined && { type }),
        ...(user !== undefined && { user }),
        ...(origin !== undefined && { origin }),
        ...(enabled !== undefined && { enabled: enabled === "true" }),
        ...(cursor !== undefined && { cursor }),
      });
      context.output.answer(page, (out) => {
        if (page.schedules.length === 0) return out.line("There are no schedules.");
        const now = Date.now();
        out.table(
          [
            { title: "Name", whole: true },
            { title: "Job" },
            { title: "When" },
            { title: "Next run" },
            { title: "Last slot" },
            { title: "Defined" },
          ],
          page.schedules.map((each): Part[] => [
            each.name,
            each.type,
            whenOf(each),
            nextOf(each, now),
            agoOf(each.lastSlot, now),
            definedOf(each),
          ]),
        );
      });
      if (page.cursor !== null) context.output.note(paint(`There are more: --cursor ${page.cursor}`, "gray"));
    }),
});

function definedOf({ origin, changed }: ScheduleSummary): string {
  if (origin === "runtime") return "at run time";
  return changed.length === 0 ? "in code" : "in code, changed";
}
function whenOf({ cron, timezone, everyMs }: ScheduleSummary): string {
  if (everyMs !== null) return `every ${lengthOf(everyMs)}`;
  return `${cron ?? ""}${timezone === null || timezone === "UTC" ? "" : ` ${timezone}`}`;
}
function nextOf({ enabled, nextRunAt }: ScheduleSummary, now: number): Part {
  return enabled ? agoOf(nextRunAt, now) : paint("disabled", "yellow");
}

function showSchedule(page: Page, schedule: ScheduleResult): void {
  const now = Date.now();
  page.fields([
    ["name", schedule.name],
    ["job", schedule.type],
    ["when", whenOf(schedule)],
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
      : [["changed", `${schedule.changed.join(", ")} (schedules reset undoes it)`] as const]),
    ["input", JSON.stringify(schedule.input)],
  ]);
  if (schedule.slots.length === 0) return;
  page.line("");
  page.table(
    [{ title: "Slot" }, { title: "Job", whole: true }, { title: "Note" }],
    schedule.slots.map((slot): Part[] => [clockOf(slot.slot), slot.job ?? paint("none", "gray"), slot.reason ?? ""]),
  );
}

const show = command({
  name: "show",
  summary: "Shows a schedule with what became of its last slots.",
  arguments: { name: NAME },
  flags: REACH,
  run: (context, { flags, args }) =>
    reach(context, flags, async (client) => {
      const schedule = await client.schedules.get({ name: args.name });
      context.output.answer(schedule, (page) => showSchedule(page, schedule));
    }),
});

const create = command({
  name: "create",
  summary: "Makes a schedule.",
  arguments: { name: NAME, job: { kind: "text", says: "The type of the jobs it makes." } },
  flags: { ...SETTINGS, ...TYPES_FROM, ...REACH },
  examples: [
    {
      line: "schedules create digest email.digest --every 1h",
      says: "Once an hour.",
    },
    {
      line: "schedules create report report.daily --cron @daily --catch-up all:7",
      says: "Every day; after a week's pause, seven times.",
    },
  ],
  async run(context, { flags, args }) {
    if ((flags.cron === undefined) === (flags.every === undefined)) throw new BadUsage("give either --cron or --every");
    const body = bodyOf({ ...flags, input: await readPayload(context, flags.input) });
    const jobs = await knownJobs(context, flags.url);
    await reach(context, { ...flags, jobs: jobs ?? [], makes: true }, async (client) => {
      const schedule = await client.schedules.create({ name: args.name, ...body, job: args.job });
      context.output.answer(schedule, (page) => page.line(`${schedule.name} runs next ${clockOf(schedule.nextRunAt)}`));
      if (jobs !== null) warnOfDefaults(context, args.job, jobs, flags, "schedule");
      await warnOfUnknown(context, client, args.job);
    });
  },
});

const update = command({
  name: "update",
  summary: "Changes what is given of a schedule and leaves the rest.",
  arguments: { name: NAME },
  flags: {
    job: { kind: "text", says: "The type of the jobs it makes." },
    ...SETTINGS,
    unset: { kind: "choice", choices: ["start", "end", "user", "tags"], repeated: true, says: "Takes this away." },
    ...TYPES_FROM,
    ...REACH,
  },
  examples: [
    { line: "schedules update digest --every 30m --jitter 1m", says: "More often, and spread." },
    { line: "schedules update digest --unset end", says: "For good." },
  ],
  async run(context, { flags, args }) {
    const given = bodyOf({ ...flags, input: await readPayload(context, flags.input) });
    const away = Object.assign({}, ...flags.unset.map((name) => TAKEN_AWAY[name])) as ScheduleBody;
    const both = Object.keys(away).find((field) => field in given);
    if (both !== undefined) throw new BadUsage(`${both} is both set and taken away`, "give one of them");
    const body = { ...(flags.job !== undefined && { job: flags.job }), ...given, ...away };
    if (Object.keys(body).length === 0) throw new BadUsage("nothing is to be changed", "give a flag such as --cron");
    const jobs = (await knownJobs(context, flags.url)) ?? [];
    await reach(context, { ...flags, jobs }, async (client) => {
      const schedule = await client.schedules.update({ name: args.name, ...body });
      context.output.answer(schedule, (page) => showSchedule(page, schedule));
      if (flags.job !== undefined) await warnOfUnknown(context, client, flags.job);
    });
  },
});

const turning = (name: "enable" | "disable" | "reset", summary: string, done: string): Command =>
  command({
    name,
    summary,
    arguments: { name: NAME },
    flags: REACH,
    run: (context, { flags, args }) =>
      reach(context, flags, async (client) => {
        const schedule = await client.schedules[name]({ name: args.name });
        context.output.answer(schedule, (page) => page.line(`${schedule.name} ${done}`));
      }),
  });

const remove = command({
  name: "delete",
  summary: "Deletes a schedule; its jobs stay.",
  arguments: { name: NAME },
  flags: { yes: YES, ...REACH },
  async run(context, { flags, args }) {
    const { name } = args;
    await context.confirm(`Delete the schedule ${name}?`, flags.yes);
    await reach(context, flags, async (client) => {
      const { origin } = await client.schedules.get({ name });
      const { status } = await client.schedules.remove({ name });
      context.output.answer({ name, status }, (page) => page.line(`${name} is deleted`));
      if (origin === "code") {
        context.output.warn("its code makes it again at the next start; schedules disable lets it rest for good");
      }
    });
  },
});

const preview = command({
  name: "preview",
  summary: "Shows the next runs of a schedule, or of a timing that is only thought of.",
  arguments: { name: { ...NAME, optional: true } },
  flags: { ...TIMING, count: { kind: "count", least: 1, most: 100, default: 5, says: "How many." }, ...REACH },
  examples: [{ line: "schedules preview --every 90m --count 3", says: "When would that be?" }],
  async run(context, { flags, args }) {
    const { count } = flags;
    const timing = timingOf(flags);
    const isThoughtOf = Object.keys(timing).length > 0;
    if (args.name === undefined && timing.cron === undefined && timing.every === undefined) {
      throw new BadUsage("name a schedule, or give --cron or --every");
    }
    if (args.name !== undefined && isThoughtOf) {
      throw new BadUsage("a name and a timing do not go together", "give one of them");
    }
    await reach(context, flags, async (client) => {
      const { runs } =
        args.name === undefined
          ? await client.schedules.preview({ count, ...timing })
          : await client.schedules.next({ name: args.name, count });
      const zone =
        args.name === undefined ? flags.timezone : (await client.schedules.get({ name: args.name })).timezone;
      const now = Date.now();
      context.output.answer({ runs }, (page) => {
        if (runs.length === 0) return page.line("It does not run any more.");
        // The clock that the pattern is read by comes first.
        const own = zone === undefined || zone === null || zone === "UTC" ? [] : [zone];
        page.table(
          [...own, "UTC", "Here", ""].map((title) => ({ title })),
          runs.map((run): Part[] => [...own.map((each) => clockIn(run, each)), run, clockOf(run), agoOf(run, now)]),
        );
      });
    });
  },
});

const run = command({
  name: "run",
  summary: "Makes a job of a schedule now, besides its slots.",
  arguments: { name: NAME },
  flags: REACH,
  run: (context, { flags, args }) =>
    reach(context, flags, async (client) => {
      const made = await client.schedules.run({ name: args.name });
      context.output.answer(made, (page) => page.line(made.id));
      if (made.duplicate) context.output.note("a run of it is live already; this is its job");
    }),
});

export const schedulesCommand: Command = group({
  name: "schedules",
  summary: "Looks at schedules and changes them.",
  commands: [
    list,
    show,
    create,
    update,
    turning("enable", "Lets a schedule run again, from now on.", "is enabled"),
    turning("disable", "Lets a schedule rest.", "is disabled"),
    turning("reset", "Takes back what was changed over the definition in code.", "is as its code says"),
    remove,
    preview,
    run,
  ],
});
