import type { AdminClient } from "../../../admin/contract/client.js";
import type { JobListResult, JobQuery } from "../../../admin/contract/api-types.js";
import { command, type Command } from "../../parse/command.js";
import { CONNECTION_FLAGS, withAdmin } from "../../store/admin-connection.js";
import { attemptOf, countOf, errorOf, jobs as jobsText, stateOf, timeOf } from "../../ui/format.js";
import type { TextWriter } from "../../ui/output.js";
import { paint, type Part } from "../../ui/style.js";
import { conditionsOf, isSearch, FILTER, ID_FLAG } from "./filter.js";
import { FILTER_NAMES, hintIfNothingMatched } from "./filter-hints.js";

// Each call of a search by input examines a limited number of jobs. The command goes on for this long.
const SEARCH_MS = 3_000;

export const list: Command = command({
  name: "list",
  summary: "List jobs, newest first.",
  flags: {
    ...ID_FLAG,
    ...FILTER,
    order: { kind: "choice", choices: ["newest", "oldest"], description: "Which jobs come first. Default: newest." },
    limit: { kind: "count", min: 1, max: 200, default: 50, description: "Maximum number of jobs." },
    offset: { kind: "count", min: 0, max: 10_000, description: "Skip this many jobs." },
    cursor: { kind: "text", description: "Continue after the previous page." },
    ...CONNECTION_FLAGS,
  },
  examples: [
    { line: "jobs list --state dead --type email.welcome", description: "Dead jobs of a type." },
    { line: "jobs list --after 1h --json", description: "Jobs of the last hour, for a script." },
    { line: "jobs list --input-path order.id --equals o-17", description: "Jobs with a value in their input." },
  ],
  run(context, { flags }) {
    const conditions = conditionsOf(flags);
    const searches = isSearch(conditions);
    return withAdmin(context, { ...flags, names: FILTER_NAMES }, async (client) => {
      const { limit, offset, cursor, order } = flags;
      const page = await listPages(client, {
        ...conditions,
        limit,
        ...(offset !== undefined && { offset }),
        ...(cursor !== undefined && { cursor }),
        ...(order !== undefined && { order }),
      });
      context.output.result(page, (writer) => {
        if (page.jobs.length > 0) showJobs(writer, page);
        else if (searches && page.cursor !== null) writer.line("No matching jobs so far.");
        else writer.line("No matching jobs.");
      });
      if (page.cursor === null) return hintIfNothingMatched(context, flags, page.jobs.length);
      const more = searches ? `${jobsText(page.examined)} examined. To continue` : "More jobs";
      context.output.note(paint(`${more}: --cursor ${page.cursor}`, "gray"));
    });
  },
});

/** If few of very many jobs match, a page may be short without being the last: reads on until `limit` jobs are found. */
async function listPages(client: AdminClient, query: JobQuery & { limit: number }): Promise<JobListResult> {
  const { limit, offset: _offset, ...others } = query;
  const until = isSearch(query) ? performance.now() + SEARCH_MS : Infinity;
  const page = await client.jobs.list(query);
  while (page.cursor !== null && page.jobs.length < limit && performance.now() < until) {
    const more = await client.jobs.list({ ...others, limit: limit - page.jobs.length, cursor: page.cursor });
    page.jobs.push(...more.jobs);
    page.cursor = more.cursor;
    page.examined += more.examined;
  }
  return page;
}

function showJobs(writer: TextWriter, page: JobListResult): void {
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
}

export const count: Command = command({
  name: "count",
  summary: "Count jobs.",
  about: "Stops at --at-most jobs, and after a limited time. The result then begins with: at least.",
  flags: {
    ...ID_FLAG,
    ...FILTER,
    "at-most": { kind: "count", min: 1, max: 1_000_000_000, description: "Stop counting here. Default: 10000." },
    ...CONNECTION_FLAGS,
  },
  examples: [{ line: "jobs count --state pending --tag import", description: "Pending jobs with a tag." }],
  run(context, { flags }) {
    const conditions = conditionsOf(flags);
    const atMost = flags["at-most"];
    return withAdmin(context, { ...flags, names: FILTER_NAMES }, async (client) => {
      const found = await client.jobs.count({ ...conditions, ...(atMost !== undefined && { atMost }) });
      context.output.result(found, (writer) => writer.line(`${found.exact ? "" : "at least "}${countOf(found.count)}`));
      hintIfNothingMatched(context, flags, found.count);
    });
  },
});
