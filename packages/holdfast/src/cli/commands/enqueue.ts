import { LIMITS } from "../../defaults.js";
import type { Calls } from "../../admin/contract/api-types.js";
import { InvalidOptionError } from "../../errors.js";
import { CALENDAR_UNITS } from "../../schedule/calendar.js";
import { readZone } from "../../schedule/zone.js";
import { readText, showValue } from "../../config/index.js";
import { command, type Command } from "../parse/command.js";
import { BadUsage } from "../errors.js";
import { readTime } from "../parse/instant.js";
import { knownJobs, TYPES_FROM, warnOfDefaults, warnOfUnknown } from "../module/known-jobs.js";
import { readPayload } from "../parse/payload.js";
import { REACH, reach } from "../store/admin-connection.js";

const SCOPES = ["waiting", "live", "forever"] as const;
const IN_ZONE = /^([a-z]+)(?:@(.+))?$/;

export const enqueueCommand: Command = command({
  name: "enqueue",
  summary: "Adds a job.",
  about:
    "The input is JSON; - reads it from stdin. Where the type is known, by --module or jobs.module or to the server, the input is checked, and queue, priority and attempts are the type's own; otherwise they are the defaults, and the worker checks the input.",
  arguments: {
    type: { kind: "text", says: "The job's type." },
    input: { kind: "json", stdin: true, optional: true, says: "The input as JSON, or - for stdin." },
  },
  flags: {
    queue: { kind: "text", says: "The queue." },
    priority: { kind: "count", least: -LIMITS.priority, most: LIMITS.priority, says: "Higher runs first." },
    delay: { kind: "duration", says: "Run no earlier than this long from now." },
    at: { kind: "text", form: "instant", placeholder: "time", says: "Run no earlier than this ISO time." },
    expires: {
      kind: "text",
      form: "future",
      placeholder: "time",
      says: "Not begun by then, it goes dead: an ISO time, or how long from now, such as 2h.",
    },
    unique: { kind: "text", placeholder: "key", says: "A key that only one job has." },
    "unique-for": {
      kind: "text",
      placeholder: "scope",
      complete: [...SCOPES, ...CALENDAR_UNITS],
      says: "How long it has the key: waiting, live, ever, a duration, or a calendar period such as day or day@Europe/Berlin. Default: live.",
    },
    "on-conflict": {
      kind: "choice",
      choices: ["keep", "replace", "reject"],
      says: "What becomes of it where another job has the key. Default: keep that one.",
    },
    user: { kind: "text", says: "The user that the job belongs to." },
    tag: { kind: "text", repeated: true, says: "A tag to find it by." },
    attempts: { kind: "count", least: 1, most: LIMITS.maxAttempts, says: "Attempts in all." },
    ...TYPES_FROM,
    id: { kind: "text", placeholder: "uuid", says: "An id of your own: repeated, it adds nothing twice." },
    ...REACH,
  },
  examples: [
    { line: `enqueue email.welcome '{"to":"ada@example.com"}'`, says: "A job for now." },
    { line: "enqueue report --module jobs.ts", says: "With the queue and attempts that the type has there." },
    { line: "enqueue report --delay 1h --unique report:today", says: "A job for later, once." },
    { line: "enqueue sync --unique ada --unique-for 10m", says: "At most once in ten minutes." },
    { line: "enqueue digest --unique ada --unique-for day@Europe/Berlin", says: "Once a day, as Berlin counts them." },
  ],
  async run(context, { flags, args }) {
    const input = await readPayload(context, args.input);
    const { queue, priority, delay, at, expires, user, tag: tags, attempts: maxAttempts, id } = flags;
    if (delay !== undefined && at !== undefined) throw new BadUsage("--delay and --at do not go together");
    const runAt = at === undefined ? undefined : readTime(at, "instant");
    const expiresAt = expires === undefined ? undefined : readTime(expires, "future");
    const unique = uniqueOf(flags.unique, flags["unique-for"], flags["on-conflict"]);
    const jobs = await knownJobs(context, flags.url);
    await reach(context, { ...flags, jobs: jobs ?? [], makes: true }, async (client) => {
      const made = await client.jobs.enqueue({
        type: args.type,
        ...(input !== undefined && { input }),
        ...(queue !== undefined && { queue }),
        ...(priority !== undefined && { priority }),
        ...(delay !== undefined && { delay }),
        ...(runAt !== undefined && { runAt }),
        ...(expiresAt !== undefined && { expiresAt }),
        ...(unique !== undefined && { unique }),
        ...(user !== undefined && { user }),
        ...(tags.length > 0 && { tags }),
        ...(maxAttempts !== undefined && { maxAttempts }),
        ...(id !== undefined && { id }),
      });
      context.output.answer(made, (page) => page.line(made.id));
      if (made.replaced) context.output.note("it was there already, and is as you say now");
      else if (made.duplicate) context.output.note("it was there already");
      if (jobs !== null) warnOfDefaults(context, args.type, jobs, flags);
      await warnOfUnknown(context, client, args.type);
    });
  },
});

type Unique = Exclude<Calls["jobs.enqueue"]["input"]["unique"], string | undefined>;

/** The key with how long it is held, and what becomes of those who come later. */
function uniqueOf(
  key: string | undefined,
  scope: string | undefined,
  onConflict: Unique["onConflict"],
): Unique | undefined {
  if (key === undefined) {
    if (scope === undefined && onConflict === undefined) return undefined;
    throw new BadUsage(`${scope === undefined ? "--on-conflict" : "--unique-for"} goes with --unique`);
  }
  return {
    key,
    ...(scope !== undefined && { scope: scopeOf(scope) }),
    ...(onConflict !== undefined && { onConflict }),
  };
}

function scopeOf(text: string): NonNullable<Unique["scope"]> {
  const named = SCOPES.find((scope) => scope === text);
  if (named !== undefined) return named;
  const read = readText({ kind: "duration" }, text);
  if ("value" in read) return { period: text };
  const [, word, zone] = IN_ZONE.exec(text) ?? [];
  const calendar = CALENDAR_UNITS.find((unit) => unit === word);
  if (calendar !== undefined) return { calendar, ...(zone !== undefined && { zone: zoneOf(zone) }) };
  throw new BadUsage(
    `--unique-for: ${showValue(text)} is neither ${SCOPES.join(", ")}, nor a duration, nor a calendar period`,
    "such as 10m, or day@Europe/Berlin",
  );
}

function zoneOf(name: string): string {
  try {
    return readZone(name, "--unique-for").name;
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    throw new BadUsage(error.message);
  }
}
