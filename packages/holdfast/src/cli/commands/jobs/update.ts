import { LIMITS } from "../../../defaults.js";
import type { JobChanges } from "../../../admin/contract/api-types.js";
import type { AdminClient } from "../../../admin/contract/client.js";
import { command, YES, type Command } from "../../parse/command.js";
import { UsageError } from "../../errors.js";
import { readTime } from "../../parse/instant.js";
import { knownJobs, MODULE_FLAG, warnAboutUnchecked } from "../../module/known-jobs.js";
import { readPayload } from "../../parse/payload.js";
import { CONNECTION_FLAGS, withAdmin } from "../../store/admin-connection.js";
import { bulkCommand, changeJobs, IDS, targetOf, type Target } from "./bulk.js";
import { FILTER, type GivenFilter } from "./filter.js";
import { ID_NAMES } from "./filter-hints.js";

const SKIPPED = "only pending and failed jobs can be changed";
const UNSET: Readonly<Record<"expires" | "tags", JobChanges>> = { expires: { expiresAt: null }, tags: { tags: [] } };

export const update: Command = command({
  name: "update",
  summary: "Change pending and failed jobs.",
  about:
    "Takes one or more job ids, or flags that select jobs. The flags that begin with --set are the changes. The input is validated if the job type is known (from --module, jobs.module or the server).",
  arguments: { id: IDS },
  flags: {
    "set-delay": { kind: "duration", placeholder: "duration", description: "Run after this duration, e.g. 10m." },
    "set-at": { kind: "text", form: "instant", placeholder: "time", description: "Run at this ISO time." },
    "set-priority": {
      kind: "count",
      min: -LIMITS.priority,
      max: LIMITS.priority,
      description: "Jobs with a higher priority run first.",
    },
    "set-queue": { kind: "text", placeholder: "queue", description: "Move the jobs to this queue." },
    "set-input": {
      kind: "json",
      stdin: true,
      description: "New input as JSON, or - to read it from stdin.",
    },
    "set-tag": { kind: "text", placeholder: "tag", repeated: true, description: "New tag; replaces all tags." },
    "set-attempts": {
      kind: "count",
      min: 1,
      max: LIMITS.maxAttempts,
      description: "Maximum number of attempts. More than the job has used.",
    },
    "set-expires": {
      kind: "text",
      form: "future",
      placeholder: "time",
      description: "Expire the jobs that have not started by this time: an ISO time or a duration, e.g. 2h.",
    },
    unset: { kind: "choice", choices: ["expires", "tags"], repeated: true, description: "Remove this setting." },
    ...FILTER,
    yes: YES,
    ...MODULE_FLAG,
    ...CONNECTION_FLAGS,
  },
  examples: [
    { line: "jobs update 01a1e0d0-d1c0-79bf-a2c2-8d02453060e6 --set-priority 10", description: "One job." },
    { line: "jobs update --queue slow --state pending --set-queue fast", description: "Move all pending jobs." },
  ],
  async run(context, { flags, args }) {
    const input = await readPayload(context, flags["set-input"]);
    const changes = changesOf({ ...flags, input });
    const hasChanges = Object.keys(changes).length > 0;
    refuseSelecting(flags, args.id.length > 0 || !hasChanges);
    const target = targetOf(args.id, flags);
    if (!hasChanges) throw new UsageError("no changes given", "give a flag such as --set-priority");
    if (input !== undefined && "filter" in target)
      await context.confirm("Replace the input of all matching jobs?", flags.yes);
    const jobs = await knownJobs(context, flags.url);
    await withAdmin(context, { ...flags, jobs: jobs ?? [], names: UPDATE_NAMES }, async (client) => {
      if (input !== undefined && jobs !== null) warnAboutUnchecked(context, await typesOf(client, target), jobs);
      await changeJobs(context, client, target, {
        one: (to, id) => to.jobs.update({ id, ...changes }),
        many: (to, selected) => to.jobs.updateMany({ ...selected, ...changes }),
        done: "updated",
        skipped: SKIPPED,
        flags,
      });
    });
  },
});

/** Names of changes come first: a filter is refused with the same names in a command line before it is sent. */
const UPDATE_NAMES: Readonly<Record<string, string>> = {
  ...ID_NAMES,
  delay: "--set-delay",
  runAt: "--set-at",
  priority: "--set-priority",
  queue: "--set-queue",
  input: "--set-input",
  tags: "--set-tag",
  maxAttempts: "--set-attempts",
  expiresAt: "--set-expires",
};

/** `--priority 5` selects jobs. With ids, or without any change, `--set-priority 5` was meant. */
function refuseSelecting(flags: GivenFilter, isMistake: boolean): void {
  if (!isMistake) return;
  for (const name of ["priority", "queue", "tag"] as const) {
    const value = [flags[name]].flat()[0];
    if (value !== undefined) throw new UsageError(`--${name} selects jobs; to change it, use --set-${name} ${value}`);
  }
}

const MAX_LISTED = 200;

/** The types of the jobs, as far as one page shows them. */
async function typesOf(client: AdminClient, target: Target): Promise<readonly string[]> {
  const conditions = "ids" in target ? { id: target.ids.slice(0, MAX_LISTED) } : target.filter;
  const { jobs } = await client.jobs.list({ ...conditions, limit: MAX_LISTED });
  return [...new Set(jobs.map(({ type }) => type))];
}

interface GivenChanges {
  readonly "set-delay": string | undefined;
  readonly "set-at": string | undefined;
  readonly "set-priority": number | undefined;
  readonly "set-queue": string | undefined;
  readonly "set-tag": readonly string[];
  readonly "set-attempts": number | undefined;
  readonly "set-expires": string | undefined;
  readonly unset: readonly ("expires" | "tags")[];
  readonly input: unknown;
}

function changesOf(given: GivenChanges): JobChanges {
  const { "set-delay": delay, "set-at": at, "set-expires": expires, "set-tag": tags, input } = given;
  const { "set-priority": priority, "set-queue": queue, "set-attempts": maxAttempts } = given;
  if (delay !== undefined && at !== undefined) throw new UsageError("--set-delay and --set-at cannot be combined");
  const set: JobChanges = {
    ...(delay !== undefined && { delay }),
    ...(at !== undefined && { runAt: readTime(at, "instant") }),
    ...(priority !== undefined && { priority }),
    ...(queue !== undefined && { queue }),
    ...(input !== undefined && { input }),
    ...(tags.length > 0 && { tags }),
    ...(maxAttempts !== undefined && { maxAttempts }),
    ...(expires !== undefined && { expiresAt: readTime(expires, "future") }),
  };
  const removed = Object.assign({}, ...given.unset.map((name) => UNSET[name])) as JobChanges;
  const both = Object.keys(removed).find((field) => field in set);
  if (both !== undefined) {
    const unset = both === "tags" ? "tags" : "expires";
    throw new UsageError(`${UPDATE_NAMES[both]} and --unset ${unset} cannot be combined`, "give one of them");
  }
  return { ...set, ...removed };
}

export const promote: Command = bulkCommand("promote", "Make pending and failed jobs due now.", {
  one: (client, id) => client.jobs.promote({ id }),
  many: (client, target) => client.jobs.promoteMany(target),
  done: "promoted",
  skipped: SKIPPED,
  examples: [
    { line: "jobs promote 01a1e0d0-d1c0-79bf-a2c2-8d02453060e6", description: "One job." },
    { line: "jobs promote --state failed --type crm.sync", description: "Retry all failed jobs of a type now." },
  ],
});
