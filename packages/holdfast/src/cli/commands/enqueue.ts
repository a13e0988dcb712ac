import { LIMITS } from "../../defaults.js";
import type { Calls } from "../../admin/contract/api-types.js";
import { InvalidOptionError } from "../../errors.js";
import { CALENDAR_UNITS } from "../../schedule/calendar.js";
import { readZone } from "../../schedule/zone.js";
import { parseValue, showValue } from "../../config/index.js";
import { command, type Command } from "../parse/command.js";
import { UsageError } from "../errors.js";
import { readTime } from "../parse/instant.js";
import { knownJobs, MODULE_FLAG, warnAboutDefaults, warnIfNoWorker } from "../module/known-jobs.js";
import { readPayload } from "../parse/payload.js";
import { CONNECTION_FLAGS, withAdmin } from "../store/admin-connection.js";

const SCOPES = ["waiting", "live", "forever"] as const;
const CALENDAR_SCOPE = /^([a-z]+)(?:@(.+))?$/;

export const enqueueCommand: Command = command({
  name: "enqueue",
  summary: "Enqueue a job.",
  about:
    "If the job type is known (from --module, jobs.module or the server), the input is validated, and queue, priority and attempts default to those of the type. Otherwise global defaults apply, and the worker validates the input.",
  arguments: {
    type: { kind: "text", description: "The job type." },
    input: { kind: "json", stdin: true, optional: true, description: "Input as JSON, or - to read it from stdin." },
  },
  flags: {
    queue: { kind: "text", description: "Queue of the job." },
    priority: {
      kind: "count",
      min: -LIMITS.priority,
      max: LIMITS.priority,
      description: "Jobs with a higher priority run first.",
    },
    delay: { kind: "duration", description: "Run after this duration, e.g. 10m." },
    at: { kind: "text", form: "instant", placeholder: "time", description: "Run at this ISO time." },
    expires: {
      kind: "text",
      form: "future",
      placeholder: "time",
      description: "Expire the job if it has not started by this time: an ISO time or a duration, e.g. 2h.",
    },
    unique: { kind: "text", placeholder: "key", description: "Unique key: only one job can hold it." },
    "unique-for": {
      kind: "text",
      placeholder: "scope",
      complete: [...SCOPES, ...CALENDAR_UNITS],
      description:
        "How long the job holds the key: waiting, live, forever, a duration, or a calendar period such as day or day@Europe/Berlin. Default: live.",
    },
    "on-conflict": {
      kind: "choice",
      placeholder: "action",
      choices: ["keep", "replace", "reject"],
      description: "What to do if another job holds the key. Default: keep.",
    },
    user: { kind: "text", description: "User that the job belongs to." },
    tag: { kind: "text", repeated: true, description: "Tag, for filters." },
    attempts: { kind: "count", min: 1, max: LIMITS.maxAttempts, description: "Maximum number of attempts." },
    timeout: {
      kind: "text",
      placeholder: "duration",
      complete: ["none"],
      description: "Maximum duration of an attempt, e.g. 10m, or none. Default: the timeout of the type.",
    },
    ...MODULE_FLAG,
    id: { kind: "text", placeholder: "uuid", description: "Job id. Enqueueing the same id again has no effect." },
    ...CONNECTION_FLAGS,
  },
  examples: [
    { line: `enqueue email.welcome '{"to":"ada@example.com"}'`, description: "Run as soon as possible." },
    { line: "enqueue report --module jobs.ts", description: "Use the queue and attempts of the type in jobs.ts." },
    {
      line: "enqueue report --delay 1h --unique report:today",
      description: "Run in an hour, unless such a job is already waiting or running.",
    },
    { line: "enqueue sync --unique ada --unique-for 10m", description: "At most once in ten minutes per key." },
    {
      line: "enqueue digest --unique ada --unique-for day@Europe/Berlin",
      description: "At most once per day in Berlin.",
    },
  ],
  async run(context, { flags, args }) {
    const input = await readPayload(context, args.input);
    const { queue, priority, delay, at, expires, user, tag: tags, attempts: maxAttempts, id } = flags;
    if (delay !== undefined && at !== undefined) throw new UsageError("--delay and --at cannot be combined");
    const runAt = at === undefined ? undefined : readTime(at, "instant");
    const expiresAt = expires === undefined ? undefined : readTime(expires, "future");
    const timeout = timeoutOf(flags.timeout);
    const unique = uniqueOf(flags.unique, flags["unique-for"], flags["on-conflict"]);
    const jobs = await knownJobs(context, flags.url);
    await withAdmin(context, { ...flags, jobs: jobs ?? [], createsStore: true, names: NAMES }, async (client) => {
      const enqueued = await client.jobs.enqueue({
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
        ...(timeout !== undefined && { timeout }),
        ...(id !== undefined && { id }),
      });
      context.output.result(enqueued, (writer) => writer.line(enqueued.id));
      if (enqueued.replaced) context.output.note("replaced the existing job");
      else if (enqueued.duplicate) context.output.note("duplicate: a job with this key or id already exists");
      if (jobs !== null) warnAboutDefaults(context, args.type, jobs, flags);
      await warnIfNoWorker(context, client, args.type);
    });
  },
});

/** The flags and arguments, by the fields of the API. */
const NAMES: Readonly<Record<string, string>> = {
  type: "<type>",
  queue: "--queue",
  priority: "--priority",
  delay: "--delay",
  runAt: "--at",
  expiresAt: "--expires",
  unique: "--unique",
  "unique.key": "--unique",
  user: "--user",
  tags: "--tag",
  maxAttempts: "--attempts",
  timeout: "--timeout",
  id: "--id",
};

function timeoutOf(text: string | undefined): string | false | undefined {
  if (text === undefined) return undefined;
  if (text === "none" || text === "false") return false;
  if ("value" in parseValue({ kind: "duration" }, text)) return text;
  throw new UsageError(`--timeout: ${showValue(text)} is neither a duration such as 10m, nor none`);
}

type Unique = Exclude<Calls["jobs.enqueue"]["input"]["unique"], string | undefined>;

/** The `unique` option of the flags. */
function uniqueOf(
  key: string | undefined,
  scope: string | undefined,
  onConflict: Unique["onConflict"],
): Unique | undefined {
  if (key === undefined) {
    if (scope === undefined && onConflict === undefined) return undefined;
    throw new UsageError(`${scope === undefined ? "--on-conflict" : "--unique-for"} requires --unique`);
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
  const read = parseValue({ kind: "duration" }, text);
  if ("value" in read) return { period: text };
  const [, word, zone] = CALENDAR_SCOPE.exec(text) ?? [];
  const calendar = CALENDAR_UNITS.find((unit) => unit === word);
  if (calendar !== undefined) return { calendar, ...(zone !== undefined && { zone: zoneOf(zone) }) };
  throw new UsageError(
    `--unique-for: ${showValue(text)} is not ${SCOPES.join(", ")}, a duration or a calendar period`,
    "examples: 10m, day, day@Europe/Berlin",
  );
}

function zoneOf(name: string): string {
  try {
    return readZone(name, "--unique-for").name;
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    throw new UsageError(error.message);
  }
}
